"""Exported folders, which may be a stranger's: what their manifest may say, and the one door by which they are read.

`manifest` writes and parses the manifest, `door` opens a folder and reads every file that the manifest lists, and
`again` emits an export again from its program and options, so that only code that blrc would have written is run.
"""
