"""Hold one module for each family of kernels: which ops fit, and the tables that the kernel reads.

An op and its constants come in, a `Step` with its tables goes out. `cpus` lists the CPUs and `tiers` the levels of
their instruction sets. May import: `blrc.program`, `blrc.net` and `blrc.errors`.
"""
