"""Train networks: stages of epochs that can be interrupted and resumed, and the recipes of the paper.

A recipe and data come in, a checkpoint and a log go out. `recipe` lists what can be trained, `run` goes from stage to
stage, `loop` trains one, and `state` keeps it on disk. May import: `blrc.frontend`, `blrc.nn`, `blrc.datasets`,
`blrc.net`, `blrc.store` and what these may import. Everything here but `recipe` needs torch.
"""
