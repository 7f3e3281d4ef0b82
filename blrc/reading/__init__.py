"""Read untrusted input: files, archives, arrays, plain data, and objects that were passed by mistake.

Paths, bytes and objects come in. Arrays, plain data or a `BlrcError` with a message of one line go out. Only regular
files of limited size are read, and they are inflated to limited sizes (docs/limits.md). Nothing here knows what a
checkpoint, a program or an export is, and nothing needs torch. May import: `blrc.errors` and `blrc.extras`.
"""
