"""Measure how fast exports are, beside what else could run the same network: `blrc bench` and `make bench`.

An export or a checkpoint comes in, a report with medians and ratios goes out. `subject` prepares the network, `host`
and `devices` measure it, `ours` holds the C and `rivals` the others, and `show` prints. May import every room but
`blrc.cli`.
"""
