"""Lower nets to a program: re-estimate norm statistics, fold them into integer thresholds, and check the result.

Nets and calibration samples come in, one program goes out. `calibrate` re-estimates the statistics, `fold` makes the
thresholds, `affine` makes the integer scores, and `lower` runs the passes. May import: `blrc.program`, `blrc.net` and
what these may import. Only `exact.by_torch` uses torch, where it is loaded already or saves more time than loading it
takes.
"""
