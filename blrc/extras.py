"""Import optional packages, and say which extra of blrc installs one that is missing."""

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
    """Try to import an optional package, and return how to install it, or None if the import works."""
    try:
        import_module(package)
    except ImportError:
        return _remedy(package)
    except Exception as error:  # it is there, and refuses to load: its versions do not go together, say
        reason = " ".join(str(error).split())[:200]
        return f"{package}, which does not load ({reason}): pip install --force-reinstall 'blrc[{EXTRAS[package]}]'"
    return None


def missing(package: str, what: str) -> BlrcError:
    """Return the error which says that `what` needs an optional package that cannot be imported."""
    return BlrcError(f"{what} needs {_remedy(package)}")


def require(package: str, what: str) -> None:
    """Import an optional package.

    Args:
        package: the name that is imported.
        what: what needs the package, for the message, such as ``target onnx``.

    Raises:
        BlrcError: the package is not installed or does not load; the message says how to install it.
    """
    reason = lacking(package)
    if reason is not None:
        raise BlrcError(f"{what} needs {reason}")


def _remedy(package: str) -> str:
    return f"{_NAMES.get(package, package)}, which is not installed: pip install 'blrc[{EXTRAS[package]}]'"
