"""Probabilistic binary neural networks, from training to bit-exact ONNX and C.

    blrc.save(model, "model.pt", input=blrc.pixels(...), calibration=samples)
    blrc.export("model.pt", "out", targets=["c", "onnx"])
    blrc.verify("out")
    net = blrc.compile("out")    # the generated C: labels = net(images)

Layers are in `blrc.nn`. These names load what they need when they are first used, so that ``import blrc`` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from blrc import extras, version

if TYPE_CHECKING:
    from blrc import datasets, nn
    from blrc.app.anytime import anytime
    from blrc.app.api import export, verify
    from blrc.app.compile import compile
    from blrc.errors import BlrcError
    from blrc.frontend.checkpoint import Checkpoint, load
    from blrc.frontend.saving import save
    from blrc.net.encoding import InputEncoding, bits, int8_codes, pixels
    from blrc.nn import models

__version__ = version.VERSION

__all__ = [
    "BlrcError",
    "Checkpoint",
    "InputEncoding",
    "__version__",
    "anytime",
    "bits",
    "compile",
    "datasets",
    "export",
    "int8_codes",
    "load",
    "models",
    "nn",
    "pixels",
    "save",
    "verify",
]

_HOME = {
    "BlrcError": "errors",
    "Checkpoint": "frontend.checkpoint",
    "InputEncoding": "net.encoding",
    "anytime": "app.anytime",
    "bits": "net.encoding",
    "compile": "app.compile",
    "export": "app.export",
    "int8_codes": "net.encoding",
    "load": "frontend.checkpoint",
    "pixels": "net.encoding",
    "save": "frontend.saving",
    "verify": "app.api",
}

_OF_TORCH = ("models", "nn", "save")
_MODULES = {"datasets": "datasets", "models": "nn.models", "nn": "nn"}


def __getattr__(name: str) -> Any:
    if name in _OF_TORCH:
        extras.require("torch", f"blrc.{name}")
    if name in _MODULES:
        return import_module(f"blrc.{_MODULES[name]}")
    if name not in _HOME:
        raise AttributeError(f"module 'blrc' has no attribute {name!r}")
    value = getattr(import_module(f"blrc.{_HOME[name]}"), name)
    globals()[name] = value
    return value
