"""Emit a program as portable C99 with constant tables, and compile, measure and run that C.

A program and options come in, files go out (`emit`). The way there leads through the rooms in this order: `kernels` say
which op they fit, `layout` chooses one for each op, `size` knows what that takes, `text` writes it. `build`, `native`
and `machines` compile and run an export; `packages` turn one into a library of an ecosystem. May import:
`blrc.program`, `blrc.net` and what lies directly in `blrc.targets`.
"""
