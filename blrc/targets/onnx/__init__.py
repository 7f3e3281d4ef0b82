"""Emit a program as an ONNX graph, and run one in ONNX Runtime.

A program comes in, a file's bytes go out. `emit` writes the integer form, `float_form` the float one, and `session`
runs either in a process of its own. May import: `blrc.program`, `blrc.net` and what lies directly in `blrc.targets`.
"""
