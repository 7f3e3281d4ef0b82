"""Hold the families of kernels for hosts: the records of kernels that have an inner loop for each level of x86-64 or
AArch64, dot products, lanes and tiles. Tasks come in, tables and arguments go out. Imports what other families do."""
