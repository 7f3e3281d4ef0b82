"""Packages that only some commands need, and the one line that says which extra brings what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from blrc.errors import BlrcError

EXTRAS: Mapping[str, str] = {
    "torch": "train",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "PIL": "jpeg",
    "matplotlib": "plots",
    "wasmtime": "wasm",
}
"""Optional packages by the name that is imported, and the extra of blrc that brings each (pyproject.toml)."""
_NAMES = {"PIL": "Pillow"}  # what a package is called where it is not as it is imported


def lacking(package: str) -> str | None:
    """Say how to install an optional package; None where it can be imported, which this does."""
    try:
        import_module(package)
    except ImportError:
        return _remedy(package)
    except Exception as error:  # it is there, and refuses to load: its versions do not go together, say
        reason = " ".join(str(error).split())[:200]
        return f"{package}, which does not load ({reason}): pip install --force-reinstall 'blrc[{EXTRAS[package]}]'"
    return None


def missing(package: str, what: str) -> BlrcError:
    """Return the error that `what` needs an optional package that cannot be imported."""
    return BlrcError(f"{what} needs {_remedy(package)}")


def require(package: str, what: str) -> None:
    """Import an optional package.

    Args:
        what: needs it, for the message: ``target onnx``, say.

    Raises:
        BlrcError: it is not installed; the message names the extra to install.
    """
    reason = lacking(package)
    if reason is not None:
        raise BlrcError(f"{what} needs {reason}")


def _remedy(package: str) -> str:
    return f"{_NAMES.get(package, package)}, which is not installed: pip install 'blrc[{EXTRAS[package]}]'"
