"""Show measurements as text and as a figure.

The input is a report, the output text or an SVG file. This package may import `blrc.benchmark` and
`blrc.evaluation.figures`.
"""
