"""Present the result of a verification as a report and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from blrc.display import Preformatted
from blrc.lowering.statistics import Moved
from blrc.verification.devices import Device, to_table
from blrc.verification.oracles.agreement import Agreement
from blrc.verification.original.report import Against, to_lines


@dataclass(frozen=True, repr=False)
class Report(Preformatted):
    """Hold what was compared, and whether all of it was equal.

    Attributes:
        equal: whether all compared values were equal, the program's digest is that of the artefacts and, if a
            checkpoint was given, that of the checkpoint, and nothing that had to be compared was left out
            (`unchecked`).
        differs: whether something was found that is not as it should be; false if things were only left out.
        name, digest: the name and the digest of the exported network.
        engines: the names of the engines, in order.
        inputs: for each set of inputs, how many each engine ran.
        layers: for each op, the number of values compared over all engines.
        edges: for each op, the numbers of threshold edges (below, at, above) that were reached and wanted.
        values_compared: the number of values compared in all.
        accuracy: per cent of labelled inputs that the compiled C (or else the first engine) classified correctly, or
            None.
        difference: the first difference, in words, or None.
        problems: what else is wrong (digests that do not match, files changed since the export).
        skipped: what could not be done on this machine, and why.
        agreement: the agreement with the torch network, if a checkpoint was given.
        devices: what was found on other machines (``--on``).
        unchecked: what had to be compared and was not: a compiler failed, a machine's program did not end, or a page's
            module cannot be compiled here to the same bytes; with ``--strict``, also that a machine's tools are
            missing, or that it has no room for the test.
        moved: how far estimating the norms anew moved thresholds, if a checkpoint was given that tells.
        saved_labels: where norms were estimated anew, how many of the inputs of `agreement` get the same label from the
            network as it was saved.
        original: the comparison with the original network, if one was given.
        flash, ram: bytes of the C (code as compiled here, and tables; arena), or None without C.
    """

    equal: bool
    differs: bool
    name: str
    digest: str
    engines: tuple[str, ...]
    inputs: Mapping[str, Mapping[str, int]]
    layers: Mapping[str, int]
    edges: Mapping[str, tuple[int, int]]
    values_compared: int
    accuracy: float | None
    difference: str | None
    problems: tuple[str, ...]
    agreement: Agreement | None
    flash: int | None
    ram: int | None
    skipped: tuple[str, ...] = ()
    devices: tuple[Device, ...] = ()
    unchecked: tuple[str, ...] = ()
    moved: Moved | None = None
    saved_labels: int | None = None
    original: Against | None = None

    def __repr__(self) -> str:
        """Return the verdict on one line; ``print`` shows the whole report."""
        return f"Report({self.name!r}: bit-exact: {self.verdict}; {self.values_compared:,} values compared)"

    def __str__(self) -> str:
        return to_text(self)

    @property
    def verdict(self) -> str:
        """Return in words whether all is equal."""
        if self.equal:
            return "yes"
        return "NO" if self.differs else "what was compared is, but not everything was checked"


def to_plain(report: Report) -> dict[str, Any]:
    """Return the report as plain data for JSON."""
    plain = asdict(report)
    plain["targets"] = plain.pop("devices")
    plain["layers"] = [{"name": name, "values_compared": count} for name, count in report.layers.items()]
    plain["edges"] = {name: {"reached": r, "wanted": w} for name, (r, w) in report.edges.items()}
    return plain


def to_text(report: Report) -> str:
    """Return the report as text, which ends with accuracy, flash, RAM and the verdict, each on a line of its own."""
    lines = [f"program {report.digest}"]
    for inputs, counts in report.inputs.items():
        lines.append(f"  {inputs}: " + ", ".join(f"{count:,} on {engine}" for engine, count in counts.items()))
    lines.append("values compared with the reference")
    for layer, count in report.layers.items():
        edges = report.edges.get(layer)
        reached = f"   {edges[0]:,} of {edges[1]:,} threshold edges reached" if edges else ""
        lines.append(f"  {layer:<20}{count:>16,}{reached}")
    lines.append(f"  {'in all':<20}{report.values_compared:>16,}")
    if report.agreement is not None:
        a = report.agreement
        labels = f"{a.same_labels:,} of {a.labels:,} labels agree; " if a.labels else ""
        lines.append(
            f"torch network (float64 norms): {labels}of {a.decisions:,} "
            f"decisions {a.ties} differ on an exact tie, {a.differences} elsewhere"
        )
    if report.moved is not None:
        lines.append(f"{report.moved}{_labels_changed(report)}")
    if report.original is not None:
        lines += to_lines(report.original)
    if report.devices:
        lines += ["on other machines", to_table(report.devices)]
    lines += [f"NOT DONE: {what}" for what in report.skipped]
    lines += [f"NOT CHECKED: {what}" for what in report.unchecked]
    lines += [f"PROBLEM: {problem}" for problem in report.problems]
    if report.difference is not None:
        lines.append(f"FIRST DIFFERENCE: {report.difference}")
    if report.accuracy is not None:
        lines.append(f"accuracy: {report.accuracy:.2f} %")
    if report.flash is not None:
        lines.append(f"flash: {report.flash} bytes")
    if report.ram is not None:
        lines.append(f"ram: {report.ram} bytes")
    lines.append(f"bit-exact: {report.verdict}")
    return "\n".join(lines)


def _labels_changed(report: Report) -> str:
    if report.saved_labels is None or report.agreement is None:
        return ""
    inputs = report.agreement.labels
    return f", and changed {inputs - report.saved_labels:,} of {inputs:,} labels"
