"""Evaluate networks and ensembles on labelled data: accuracy, likelihood, calibration and certainty.

A checkpoint and labelled data come in. Plain data, tables and figures go out. May import: `blrc.frontend`,
`blrc.lowering`, `blrc.targets.c`, `blrc.datasets` and what these may import.
"""
