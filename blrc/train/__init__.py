"""Training: stages of epochs, resumable, and the recipe of the paper."""

from blrc.train.mnist import Trained, best_stage, train_mnist
from blrc.train.recipe import RECIPES, Recipe

__all__ = ["RECIPES", "Recipe", "Trained", "best_stage", "train_mnist"]
