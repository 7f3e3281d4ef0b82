"""Define what one stage of a training optimises: its losses, networks and augmentation.

A recipe names a stage, and `registry` finds it. May import: `blrc.nn`, `blrc.datasets` and `blrc.training.recipe`.
"""
