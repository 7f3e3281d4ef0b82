"""Read and check exported folders, which may come from a stranger.

`manifest` writes and parses the manifest, `door` opens a folder and reads every file that the manifest lists, and
`again` emits an export again from its program and options, so that only code that blrc would have written is run.
"""
