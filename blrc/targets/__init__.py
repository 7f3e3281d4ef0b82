"""Emit a program to a target: C, ONNX, or a page that runs it in a browser.

A program and options come in, the files of an export go out. `registry` lists the targets, one line each, and `options`
holds what a target is told besides the program. May import: `blrc.program`, `blrc.net`, `blrc.store` and what these may
import.
"""
