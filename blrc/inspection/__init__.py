"""Show what a checkpoint becomes on a device, and what would help if it does not fit.

Checkpoints and programs come in. Tables and plain data go out. May import: `blrc.frontend`, `blrc.lowering`,
`blrc.targets.c` and what these may import.
"""
