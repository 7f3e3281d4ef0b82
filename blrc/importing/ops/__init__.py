"""Hold one handler for each operator that an import takes, in `table`.

A node and the types of its inputs come in; the type of its output goes out, and layers are added to the checkpoint.
Each module handles one family of operators. May import: what `blrc.importing` may import, and its other modules except
`walk`.
"""
