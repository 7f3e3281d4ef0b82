"""Describe the CPUs that C can be made for and the kernels that compute ops on them, and choose among the kernels.

An op comes in, and the cheapest kernel that fits goes out as a `Step` with its tables (`registry`). `KERNELS` lists all
kernels: each is a record (`kernel.Kernel`) in the module of its family. `cpus` is the table of CPUs, and `tiers` says
which levels of an instruction set a user allows. May import: `blrc.program`, `blrc.net`, `blrc.errors` and
`blrc.targets.c.runtime_files`.
"""
