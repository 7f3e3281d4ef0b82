"""Hold one module for each family of kernels, with its records and the layout of the tables that they read.

An op and its constants come in. Flat arrays go out, in the order in which the kernel's C reads them. May import:
`kernel`, `tables`, `thresholds` and `cpus` of the folder above, and what these may import. A family may use the tables
of another one. Those of hosts stand in `host`.
"""
