"""Make networks smaller by dropping whole channels whose weights are close to their prior.

A checkpoint comes in; a smaller ordinary checkpoint and what it costs go out. May import: `blrc.frontend`,
`blrc.inspection`, `blrc.lowering`, `blrc.evaluation`, `blrc.datasets` and what these may import.
"""
