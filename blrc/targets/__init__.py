"""Targets: what a program can be emitted to. One file or folder a target, one line in `registry.TARGETS`."""
