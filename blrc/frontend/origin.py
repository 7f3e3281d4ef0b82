"""Record of which ONNX file a checkpoint was imported, and what was said about its input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from blrc.frontend.fields import expect, expect_only, field, invalid, number
from blrc.reading.schema import MisfitError
from blrc.store.listing import check_sha256


@dataclass(frozen=True)
class Origin:
    """Name the file that a network was imported from.

    Attributes:
        sha256: of the file.
        input: what the raw input was said to be (``pixels``, ``int8`` or ``bits``), or empty where nobody said it.
        mean, std, scale: what was said of it besides.
    """

    sha256: str
    input: str = ""
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    scale: float = 1.0

    def to_plain(self) -> dict[str, Any]:
        """Return the record as plain data, for checkpoints and manifests."""
        return {**vars(self), "mean": list(self.mean), "std": list(self.std)}


def origin_of(held: Mapping[str, Any]) -> Origin:
    """Return the record that a checkpoint or manifest holds.

    Raises:
        BlrcError: it holds something else.
    """
    expect_only("the original", held, tuple(vars(Origin(""))))
    sha256 = field(str, held, "sha256")
    try:
        check_sha256(sha256, "sha256")
    except MisfitError as error:
        invalid(str(error))
    mean, std = (
        tuple(number(value, f"the original's {key}") for value in expect(list, held.get(key), f"the original's {key}"))
        for key in ("mean", "std")
    )
    return Origin(sha256, field(str, held, "input"), mean, std, number(held.get("scale"), "the original's scale"))
