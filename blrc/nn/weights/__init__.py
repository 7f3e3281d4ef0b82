"""Define distributions over discrete weights (Peters & Welling 2018, sections 3 and 4).

`distribution` holds the interface that layers, training and capture use, `bernoulli` and `ternary` the distributions,
`table` their names, and `network` what is summed over a whole network. This package may import `blrc.errors`.
"""
