"""Writing what outlives the process: single files, and the folder of an export.

`atomic` replaces one file, `replace` writes the folder of an export, `journal` recognises a folder whose export was
interrupted, `lock` keeps two processes apart, and `steps` holds the calls that change the disk. Nothing here knows what
an export or a checkpoint contains; of an export's files `listing` says which names they may have. May import:
`blrc.errors` and `blrc.reading.schema`.
"""
