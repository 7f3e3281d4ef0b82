"""Augment raw training images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from blrc.net.encoding import InputEncoding
from blrc.net.window import sliding
from blrc.training.recipe import Recipe

Augment = Callable[[NDArray[Any], np.random.Generator], NDArray[Any]]
"""Images ``(N, C, H, W)`` to altered ones of the same shape and type."""


def shifted(images: NDArray[Any], reach: int, rng: np.random.Generator) -> NDArray[Any]:
    """Move each image by its own random (dy, dx), uniform over |dy| + |dx| <= reach, and fill the gap with 0.

    Args:
        images: ``(N, C, H, W)``.
        reach: largest shift, in pixels.
        rng: source of the random numbers.
    """
    if reach == 0:
        return images
    height, width = images.shape[2:]
    padded = np.pad(images, ((0, 0), (0, 0), (reach, reach), (reach, reach)))
    places = np.argwhere(np.abs(np.arange(-reach, reach + 1))[:, None] + np.abs(np.arange(-reach, reach + 1)) <= reach)
    top, left = places[rng.integers(0, len(places), len(images))].T
    windows = sliding(padded, (height, width), (2, 3))
    return np.ascontiguousarray(windows[np.arange(len(images)), :, top, left])


def translated(images: NDArray[Any], reach: int, fill: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """Move each image by its own random (dy, dx), both uniform over [-reach, reach].

    Args:
        images: ``(N, C, H, W)``.
        reach: largest shift in each direction, in pixels.
        fill: value ``(C,)`` of the pixels that fill the gap.
        rng: source of the random numbers.
    """
    if reach == 0:
        return images
    count, channels, height, width = images.shape
    padded = np.empty((count, channels, height + 2 * reach, width + 2 * reach), images.dtype)
    padded[:] = fill[:, None, None]
    padded[:, :, reach:-reach, reach:-reach] = images
    top, left = rng.integers(0, 2 * reach + 1, (2, count))
    windows = sliding(padded, (height, width), (2, 3))
    return np.ascontiguousarray(windows[np.arange(count), :, top, left])


def flipped(images: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """Mirror each image of ``(N, C, H, W)`` left to right with probability 1/2."""
    turn = rng.integers(0, 2, len(images)).astype(bool)
    return np.where(turn[:, None, None, None], images[..., ::-1], images)


def distorted(images: NDArray[Any], degrees: float, zoom: float, rng: np.random.Generator) -> NDArray[Any]:
    """Turn and stretch each image about its centre at random, with bilinear interpolation and 0 outside the image.

    Args:
        images: ``(N, C, H, W)`` of uint8.
        degrees: largest angle; angles are uniform over [-degrees, degrees].
        zoom: share below 1; the factors of height and width are independent and uniform over [1 - zoom, 1 + zoom].
        rng: source of the random numbers.
    """
    if degrees == 0 and zoom == 0:
        return images
    count, (height, width) = len(images), images.shape[2:]
    angle = np.radians(rng.uniform(-degrees, degrees, count))
    tall, wide = 1.0 / rng.uniform(1.0 - zoom, 1.0 + zoom, (2, count))
    # The matrix maps an output pixel (x, y) to its place in the source, both in pixels from the centre.
    turn = np.array([[np.cos(angle) * wide, -np.sin(angle) * wide], [np.sin(angle) * tall, np.cos(angle) * tall]])
    matrix = np.zeros((count, 2, 3), np.float32)
    matrix[:, :, :2] = turn.transpose(2, 0, 1)
    matrix[:, 0, 1] *= height / width  # affine_grid measures in half widths and half heights
    matrix[:, 1, 0] *= width / height
    grid = F.affine_grid(torch.from_numpy(matrix), list(images.shape), align_corners=False)
    out = F.grid_sample(torch.from_numpy(images.astype(np.float32)), grid, align_corners=False)
    return out.round_().clamp_(0, 255).numpy().astype(np.uint8)


def augmentation(recipe: Recipe, encoding: InputEncoding) -> Augment:
    """Return the function that augments raw images as a recipe says.

    It applies `distorted`, `shifted`, `translated` (which fills with the values nearest to code 0) and `flipped`.
    """
    fill = zero(encoding)

    def augment(images: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        images = shifted(distorted(images, recipe.rotation, recipe.zoom, rng), recipe.shifts, rng)
        images = translated(images, recipe.translate, fill, rng)
        return flipped(images, rng) if recipe.flip else images

    return augment


def zero(encoding: InputEncoding) -> NDArray[Any]:
    """Return the raw value of each channel whose code is nearest to 0, in the encoding's type.

    Code 0 is what 'same' padding inserts.
    """
    if encoding.kind != "uint8":
        return np.zeros(encoding.shape[0], encoding.dtype)
    return np.array([round(255 * mean) for mean in encoding.mean], np.uint8)
