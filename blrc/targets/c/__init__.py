"""Emit a program as portable C99 with constant tables, and compile, measure and run that C.

A program and options come in, and files go out (`emit`). The rooms take part in this order: `kernels` says which
kernels fit an op, `layout` chooses one for each op, `size` computes what that takes, and `text` writes it. `build`,
`native` and `machines` compile and run an export. `packages` turns one into a library of an ecosystem. May import:
`blrc.program`, `blrc.net` and what lies directly in `blrc.targets`.
"""
