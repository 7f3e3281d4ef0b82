"""Define what one stage of a training optimises: its losses, networks and augmentation.

`registry` builds the stages of a recipe. This package may import `blrc.nn`, `blrc.datasets`, `blrc.net`, and of
`blrc.training` the modules `machine`, `recipe` and `seeds`.
"""
