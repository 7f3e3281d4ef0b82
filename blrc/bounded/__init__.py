"""Reading files that a stranger may have made: regular files only, of limited size, inflated to limited sizes.

Paths and bytes come in, bytes and arrays go out. Nothing of blrc but `blrc.errors` is imported. What is refused is an
`OSError` or a `ValueError` with a reason in words; whoever reads knows the file's purpose and makes it a `BlrcError`.
The limits stand in ``docs/limits.md``.
"""
