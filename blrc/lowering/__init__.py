"""Lower nets to a program: norm statistics are re-estimated, folded into integer thresholds, and checked.

Nets and calibration samples come in, one program goes out. `calibrate` re-estimates, `fold` makes the thresholds,
`affine` makes the integer scores, and `lower` runs the passes. May import: `blrc.program`, `blrc.net` and what these
may import; torch is used by `exact.by_torch` alone, and only where it is loaded already.
"""
