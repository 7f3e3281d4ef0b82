"""Define the options that every target receives besides the program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from blrc.errors import BlrcError
from blrc.program.vectors import Vectors
from blrc.targets.publication import Publication
from blrc.targets.requests import OnnxForm, OnnxOutputs, OnnxWeights


@dataclass(frozen=True, eq=False)
class EmitOptions:
    """Hold the options of an export.

    Attributes:
        name: prefix of every file, symbol and macro: a legal C identifier, checked by `blrc.export`.
        vectors: recorded inputs with the reference's values, for self-tests.
        version: version of blrc, for headers and metadata.
        packages: C target: the ecosystems for which it is also written as a library.
        optimize: C target: ``size``, ``speed`` or ``ram`` (`blrc.targets.c.size.choose.choose`).
        ram, flash: C target: bytes that kernels which are faster with more memory have to fit into, or None.
        input_scale: codes for one unit of a real value, for a network that takes int8 codes.
        cpu: C target: the CPU whose kernels are used (`blrc.targets.c.layout.layout.CPUS`).
        license, author, url, package_version: of the model, where they are known (`blrc.targets.publication`).
        onnx_weights: ONNX target: how the file holds binary weights (`blrc.targets.onnx.nodes.Graph.signs`).
        onnx_outputs: ONNX target: ``all``, or ``scores``, which leaves the head out.
        onnx_form: ONNX target: ``integer``, or ``float``: float32 and the scores only (`blrc.targets.onnx.float_form`).
    """

    name: str
    vectors: Vectors
    version: str
    packages: tuple[str, ...] = ()
    optimize: Literal["size", "speed", "ram"] = "size"
    ram: int | None = None
    cpu: str = "portable"
    onnx_weights: OnnxWeights = "bytes"
    flash: int | None = None
    license: str | None = None
    author: str | None = None
    url: str | None = None
    package_version: str | None = None
    input_scale: float | None = None
    onnx_outputs: OnnxOutputs = "all"
    onnx_form: OnnxForm = "integer"

    @property
    def publication(self) -> Publication:
        """Return what the model's publication says of it: licence, author, address and version."""
        return Publication(self.license, self.author, self.url, self.package_version)


@dataclass(frozen=True, eq=False)
class Emitted:
    """Hold what a target gives: ``files`` by relative path, and ``about``, plain data for the manifest."""

    files: Mapping[str, bytes]
    about: Mapping[str, object]


def check_heads(targets: Sequence[str], heads: Sequence[str], gives_values: bool = False) -> None:
    """Refuse targets that show one label, for a network with several heads or one that gives values.

    Args:
        heads: the names of the network's heads, if it has several.
        gives_values: whether it gives values and no labels.

    Raises:
        BlrcError: one of the targets takes no heads, or no values.
    """
    if gives_values and "web" in targets:
        raise BlrcError("target web: a page shows a label, and the network gives values; leave out --target web")
    if heads and "web" in targets:
        raise BlrcError(
            f"target web: a page shows one answer, and the network has the heads {', '.join(heads)}; leave out "
            "--target web"
        )
