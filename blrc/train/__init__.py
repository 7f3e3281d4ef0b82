"""Training: stages of epochs, resumable, and the recipes."""

from blrc.extras import missing

try:
    import torch  # noqa: F401
except ImportError:
    raise missing("torch", "blrc train") from None

from blrc.train.loop import OutOfTimeError
from blrc.train.mnist import train_mnist
from blrc.train.recipe import RECIPES, Recipe
from blrc.train.run import FinishedError, Trained, run
from blrc.train.stages import best_stage

__all__ = ["RECIPES", "FinishedError", "OutOfTimeError", "Recipe", "Trained", "best_stage", "run", "train_mnist"]
