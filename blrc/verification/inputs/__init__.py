"""Choose inputs for a comparison: random ones, and ones at the edges of thresholds.

May import: `blrc.program`, `blrc.net` and `blrc.errors`.
"""
