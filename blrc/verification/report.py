"""The result of a verification, as a report and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from blrc.display import Preformatted
from blrc.verification.devices import Device, to_table
from blrc.verification.oracles.agreement import Agreement


@dataclass(frozen=True, repr=False)
class Report(Preformatted):
    """What was compared, and whether all of it was equal.

    Attributes:
        equal: all compared values were equal, the program's digest is that of the artefacts and, where a checkpoint was
            given, that of the checkpoint; and nothing that had to be compared was left out (`unchecked`).
        differs: something was found that is not as it should be; false where things were only left out.
        name, digest: of the exported network.
        engines: names, in order.
        inputs: for each set of inputs, how many each engine ran.
        layers: for each op, values compared over all engines.
        edges: for each op, threshold edges (below, at, above) reached and wanted.
        values_compared: in all.
        accuracy: per cent of labelled inputs that the compiled C classified correctly (else the engine there is), or
        None. difference: the first one, in words, or None.
        problems: what else is wrong (digests that do not match, files changed since the export).
        skipped: what could not be done on this machine, and why.
        agreement: with the torch network, where a checkpoint was given.
        devices: what was found on other machines (``--on``).
        unchecked: what had to be compared and was not: a compiler failed, a machine's program did not end, or a page's
            module cannot be compiled here to the same bytes; with ``--strict``, a machine's tools are missing, or it
            has no room for the test.
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

    def __repr__(self) -> str:
        """Name the verdict; ``print`` shows all of it."""
        return f"Report({self.name!r}: bit-exact: {self.verdict}; {self.values_compared:,} values compared)"

    def __str__(self) -> str:
        return to_text(self)

    @property
    def verdict(self) -> str:
        """Say in words whether all is equal."""
        if self.equal:
            return "yes"
        return "NO" if self.differs else "what was compared is, but not everything was checked"


def to_plain(report: Report) -> dict[str, Any]:
    """The report as plain data for JSON."""
    plain = asdict(report)
    plain["targets"] = plain.pop("devices")
    plain["layers"] = [{"name": name, "values_compared": count} for name, count in report.layers.items()]
    plain["edges"] = {name: {"reached": r, "wanted": w} for name, (r, w) in report.edges.items()}
    return plain


def to_text(report: Report) -> str:
    """The report for a person; ends with accuracy, flash, RAM and the verdict, each on a line of its own."""
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
        lines.append(
            f"torch network (float64 norms): {a.same_labels:,} of {a.labels:,} labels agree; of {a.decisions:,} "
            f"decisions {a.ties} differ on an exact tie, {a.differences} elsewhere"
        )
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
