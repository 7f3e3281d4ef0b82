"""Measure how fast exports are and compare them with other ways to run the same network (`blrc bench`, `make bench`).

The input is an export or a checkpoint, the output a report with medians and ratios. `subject` prepares the network,
`host` and `devices` measure it, `ours` runs the generated C, `rivals` runs the alternatives, and `show` prints the
results. This package may import all others except `blrc.cli`.
"""
