"""Write what outlives the process: single files, and the folder of an export.

`atomic` replaces one file, `claim` and `replace` write the folder of an export, `journal` recognises a folder whose
export was interrupted, `lock` keeps two processes apart, and `steps` holds the calls that change the disk. Nothing here
knows what an export or a checkpoint contains; `listing` only says which names an export's files may have. May import:
`blrc.errors` and `blrc.reading`.
"""
