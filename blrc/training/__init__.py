"""Train networks: stages of epochs that can be interrupted and resumed, and the recipes of the paper.

The input is a recipe and data, the output a checkpoint and a log. `recipe` holds the options, `run` does a whole run,
`loop` trains its stages one after the other, and `state` keeps an unfinished run on disk. This package may import
`blrc.frontend`, `blrc.nn`, `blrc.datasets`, `blrc.net`, `blrc.store` and what these may import. Everything here except
`recipe` needs torch.
"""
