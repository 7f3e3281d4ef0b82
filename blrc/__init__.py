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
    from blrc import cifar, datasets, models, nn
    from blrc.api import export, verify
    from blrc.checkpoint import Checkpoint, load
    from blrc.compiling import compile
    from blrc.encode import InputEncoding, bits, int8_codes, pixels
    from blrc.ensembles import anytime
    from blrc.errors import BlrcError
    from blrc.saving import save

__version__ = version.VERSION

__all__ = [
    "BlrcError",
    "Checkpoint",
    "InputEncoding",
    "__version__",
    "anytime",
    "bits",
    "cifar",
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
    "Checkpoint": "checkpoint",
    "InputEncoding": "encode",
    "anytime": "ensembles",
    "bits": "encode",
    "compile": "compiling",
    "export": "api",
    "int8_codes": "encode",
    "load": "checkpoint",
    "pixels": "encode",
    "save": "saving",
    "verify": "api",
}

_OF_TORCH = ("models", "nn", "save")
_MODULES = ("cifar", "datasets", "models", "nn")


def __getattr__(name: str) -> Any:
    if name in _OF_TORCH:
        extras.require("torch", f"blrc.{name}")
    if name in _MODULES:
        return import_module(f"blrc.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'blrc' has no attribute {name!r}")
    value = getattr(import_module(f"blrc.{_HOME[name]}"), name)
    globals()[name] = value
    return value
