"""Train networks: stages of epochs that can be interrupted and resumed, and the recipes of the paper.

A recipe and data come in, a checkpoint and a log go out. `recipe` lists what can be trained, `run` goes from stage to
stage, `loop` trains one, and `state` keeps it on disk. May import: `blrc.frontend`, `blrc.nn`, `blrc.datasets`,
`blrc.net`, `blrc.store` and what these may import. Everything here needs torch.
"""

from blrc.extras import missing

try:
    import torch  # noqa: F401
except ImportError:
    raise missing("torch", "blrc train") from None

from blrc.training.loop import OutOfTimeError
from blrc.training.mnist import train_mnist
from blrc.training.recipe import RECIPES, Recipe
from blrc.training.run import FinishedError, Trained, run
from blrc.training.stages.registry import best_stage

__all__ = ["RECIPES", "FinishedError", "OutOfTimeError", "Recipe", "Trained", "best_stage", "run", "train_mnist"]
