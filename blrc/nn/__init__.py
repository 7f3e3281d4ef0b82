"""Provide layers over random variables for `torch.nn.Sequential`.

The layers follow Peters & Welling (2018), "Probabilistic Binary Neural Networks". A network has this form:

    linear map -> norm -> pool -> sign, repeated; then a softmax layer

A linear layer takes a tensor (real data, or +-1) and returns a `Gaussian`. Norms and pools map Gaussians to Gaussians.
`StochasticSign` and `StochasticLevels` sample a tensor from a Gaussian.

A network of real activations that are rounded to a few bits (LR-net) samples before the norm, and has torch's own norms
and pools: linear map -> `GaussianSample` -> norm -> pool -> `SteLevels`.

The Binarized NN, a baseline, consists of `SteLinear`, `SteConv2d`, `SteSign` and torch's own norms and pools, in the
same order. All of its layers map tensors to tensors.
"""

from blrc.extras import missing

try:
    import torch  # noqa: F401
except ImportError:
    raise missing("torch", "blrc.nn") from None

from blrc.nn.convert.deterministic import Sign, deterministic, reestimate
from blrc.nn.convert.transfer import choose_steps_, transfer_, xavier_
from blrc.nn.gaussian import Gaussian
from blrc.nn.layers.activation import StochasticSign, probability_minus
from blrc.nn.layers.binary import BinaryConv1d, BinaryConv2d, BinaryLinear, SoftmaxLinear
from blrc.nn.layers.geometry import multiply_signs_in
from blrc.nn.layers.given import ChannelScale, ChannelShift, StrictSign, Threshold
from blrc.nn.layers.levels import EvenLevels, GaussianSample, SteLevels, StochasticLevels
from blrc.nn.layers.norm import StochasticBatchNorm1d, StochasticBatchNorm2d, join_norms
from blrc.nn.layers.pool import MaxPool1d, MaxPool2d, StochasticMaxPool1d, StochasticMaxPool2d
from blrc.nn.layers.ste import SteConv1d, SteConv2d, SteLinear, SteSign, clip_, glorot_scale, squared_hinge
from blrc.nn.layers.whole import Int8Conv1d, Int8Conv2d, Int8Linear, WholeConv1d, WholeConv2d, WholeLinear
from blrc.nn.noise import reuse_noise
from blrc.nn.prior import divergence
from blrc.nn.weights.bernoulli import Bernoulli
from blrc.nn.weights.distribution import WeightDistribution
from blrc.nn.weights.network import distributions, entropy, restrain, shared_moments, variance_regulariser
from blrc.nn.weights.ternary import Ternary

__all__ = [
    "Bernoulli",
    "BinaryConv1d",
    "BinaryConv2d",
    "BinaryLinear",
    "ChannelScale",
    "ChannelShift",
    "EvenLevels",
    "Gaussian",
    "GaussianSample",
    "Int8Conv1d",
    "Int8Conv2d",
    "Int8Linear",
    "MaxPool1d",
    "MaxPool2d",
    "Sign",
    "SoftmaxLinear",
    "SteConv1d",
    "SteConv2d",
    "SteLevels",
    "SteLinear",
    "SteSign",
    "StochasticBatchNorm1d",
    "StochasticBatchNorm2d",
    "StochasticLevels",
    "StochasticMaxPool1d",
    "StochasticMaxPool2d",
    "StochasticSign",
    "StrictSign",
    "Ternary",
    "Threshold",
    "WeightDistribution",
    "WholeConv1d",
    "WholeConv2d",
    "WholeLinear",
    "choose_steps_",
    "clip_",
    "deterministic",
    "distributions",
    "divergence",
    "entropy",
    "glorot_scale",
    "join_norms",
    "multiply_signs_in",
    "probability_minus",
    "reestimate",
    "restrain",
    "reuse_noise",
    "shared_moments",
    "squared_hinge",
    "transfer_",
    "variance_regulariser",
    "xavier_",
]
