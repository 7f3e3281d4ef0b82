"""Compare an export with the ONNX file that it was imported from, run in ONNX Runtime.

`standard` rewrites the file's quantisers to standard operators and cuts parts out of it, and `runs` runs them. `places`
says which tensor of the file is which value of the program, `thresholds` evaluates the file's chains on every sum that
can occur, `tally` compares layer by layer on inputs, and `compare` does all of it. May import: `blrc.importing`,
`blrc.lowering`, `blrc.program` and what these may import; onnx and onnxruntime inside functions.
"""
