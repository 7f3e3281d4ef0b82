"""Train probabilistic binary neural networks and compile them to bit-exact ONNX and C.

    blrc.save(model, path="model.pt", input=blrc.pixels(...), calibration=samples)
    blrc.export("model.pt", folder="out", targets=["c", "onnx"])
    blrc.verify("out")
    net = blrc.compile("out")    # the generated C: labels = net(images)

Layers are in `blrc.nn`. Every public name loads the modules that it needs when it is first used, so that
``import blrc`` is quick.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from blrc import version

if TYPE_CHECKING:
    from blrc import datasets, nn
    from blrc.app.anytime import anytime
    from blrc.app.compile import compile
    from blrc.app.evaluate import evaluate
    from blrc.app.export import export
    from blrc.app.import_onnx import import_onnx
    from blrc.app.inspect import inspect
    from blrc.app.prune import prune
    from blrc.app.train import train
    from blrc.app.verify import verify
    from blrc.benchmark.run import bench
    from blrc.errors import BlrcError
    from blrc.frontend.checkpoint import Checkpoint, load
    from blrc.frontend.saving import save
    from blrc.net.encoding import InputEncoding, bits, int8_codes, pixel_bits, pixel_codes, pixels
    from blrc.net.heads import values
    from blrc.nn import models

__version__ = version.VERSION

__all__ = [
    "BlrcError",
    "Checkpoint",
    "InputEncoding",
    "__version__",
    "anytime",
    "bench",
    "bits",
    "compile",
    "datasets",
    "evaluate",
    "export",
    "import_onnx",
    "inspect",
    "int8_codes",
    "load",
    "models",
    "nn",
    "pixel_bits",
    "pixel_codes",
    "pixels",
    "prune",
    "save",
    "train",
    "values",
    "verify",
]

if not TYPE_CHECKING:  # for type checkers, a name that is not imported above is a mistake
    _HOMES = {
        "BlrcError": "errors",
        "Checkpoint": "frontend.checkpoint",
        "InputEncoding": "net.encoding",
        "anytime": "app.anytime",
        "bench": "benchmark.run",
        "bits": "net.encoding",
        "compile": "app.compile",
        "evaluate": "app.evaluate",
        "export": "app.export",
        "import_onnx": "app.import_onnx",
        "inspect": "app.inspect",
        "int8_codes": "net.encoding",
        "load": "frontend.checkpoint",
        "pixel_bits": "net.encoding",
        "pixel_codes": "net.encoding",
        "pixels": "net.encoding",
        "prune": "app.prune",
        "save": "frontend.saving",
        "train": "app.train",
        "values": "net.heads",
        "verify": "app.verify",
    }
    _MODULES = {"datasets": "datasets", "models": "nn.models", "nn": "nn"}
    _OF_TORCH = ("models", "nn", "save")

    def __getattr__(name):
        if name in _OF_TORCH:
            from blrc.extras import require

            require("torch", f"blrc.{name}")
        if name in _MODULES:
            return import_module(f"blrc.{_MODULES[name]}")
        if name not in _HOMES:
            raise AttributeError(f"module 'blrc' has no attribute {name!r}")
        value = getattr(import_module(f"blrc.{_HOMES[name]}"), name)
        globals()[name] = value
        return value

    def __dir__():
        """List the public names.

        Tools such as `help` load every name that they find here, so the names that need torch are left out where torch
        is missing.
        """
        missing = _OF_TORCH if find_spec("torch") is None else ()
        return sorted({*(name for name in globals() if name.startswith("__")), *__all__} - {*missing})
