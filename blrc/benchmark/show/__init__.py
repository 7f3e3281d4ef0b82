"""Show measurements as text and as a figure.

A report comes in, lines or an SVG file go out. May import: `blrc.benchmark` and `blrc.evaluation.figures`.
"""
