"""The web target: a page that runs the generated C in a browser."""

from blrc.targets.web.emit import emit
from blrc.targets.web.wasm import find_tools

__all__ = ["emit", "find_tools"]
