"""Compare an export with its original network, run by others: an ONNX file by ONNX Runtime, a module by torch.

`original` says what a comparison asks of one. `file` is an ONNX file: `standard` rewrites its quantisers to standard
operators and cuts parts out of it, and `runs` runs them. `module` is a module of torch, whose own code is run. `places`
says which value of the original is which value of the program, `thresholds` evaluates the original's chains on every
sum that can occur, `rounding` says where float32 may decide otherwise than exact rationals, `tally` compares layer by
layer on inputs, and `compare` does all of it. May import: `blrc.importing`, `blrc.frontend`, `blrc.lowering`,
`blrc.program` and what these may import; torch, onnx and onnxruntime inside functions.
"""
