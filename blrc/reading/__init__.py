"""Read what a stranger may have made: files, archives, arrays, plain data, and objects that were passed by mistake.

Paths, bytes and objects come in; arrays, plain data or a `BlrcError` of one line go out. Only regular files are read,
of limited size, and they are inflated to limited sizes (docs/limits.md). Nothing here knows what a checkpoint, a
program or an export is. May import: `blrc.errors` and `blrc.extras`; nothing here needs torch.
"""
