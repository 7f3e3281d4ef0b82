"""Training: stages of epochs, resumable, and the recipe of the paper."""

from blrc.train.mnist import Trained, train_mnist
from blrc.train.recipe import Recipe

__all__ = ["Recipe", "Trained", "train_mnist"]
