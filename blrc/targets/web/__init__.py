"""Emit a page that runs the generated C in a browser, as a WebAssembly module.

A program and options come in, a page and its module go out. `emit` writes the page, `wasm` compiles the C, and `node`
runs the module for a comparison. May import: `blrc.targets.c`, `blrc.program` and what lies directly in `blrc.targets`.
"""
