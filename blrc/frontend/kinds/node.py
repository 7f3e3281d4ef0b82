"""Describe a named layer of a network, as a checkpoint holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Node:
    """Describe a layer: its name (the module's path, like ``features.0``), kind, inputs by name, and plain options."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    options: Mapping[str, Any]
