"""Import binary networks that other tools wrote as ONNX files: QONNX, FINN and plain ONNX.

A file comes in, and an ordinary checkpoint in memory goes out, with a report on every node. `file` reads the file into
plain records, `walk` follows its graph with a type for every tensor (`flow`), `ops` holds one record for each operator,
`folding` computes what depends on constants only, and `build` collects the checkpoint's layers. Nothing in a file is
executed. May import: `blrc.frontend`, `blrc.net`, `blrc.reading` and what these may import; of other packages, `onnx`,
only to parse the file.
"""
