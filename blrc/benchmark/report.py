"""Turn the measurements of `blrc bench` into plain data, from which JSON, tables and figures are made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from blrc.benchmark.clock import Time
from blrc.benchmark.devices import Device
from blrc.benchmark.host import Host, Row
from blrc.benchmark.rivals.published import SOURCE
from blrc.benchmark.rivals.registry import FLOAT32, INT8
from blrc.benchmark.subject import Subject

RATIOS = {"ratio_vs_ort_fp32": FLOAT32, "ratio_vs_ort_int8": INT8}
"""Key of ratios in JSON: to whom."""


def to_plain(subject: Subject, host: Host | None, devices: Sequence[Device]) -> dict[str, Any]:
    """Return everything that was measured as plain data.

    ``host`` is there if this machine was timed:

    - ``rows`` (layers, network, ensemble) have ``us`` and ``wall_us`` by contestant; ``ratio_vs_ort_fp32`` and
      ``ratio_vs_ort_int8`` by level, which say how many times faster the C is in CPU time; and ``peak_fraction`` by
      level.
    - ``peak_gmacs`` is the popcount peak by level.
    - ``others`` is what other options would have given.

    ``devices`` is there if instructions were counted in emulators, and holds those of ``steps`` and ``choices``.
    """
    plain: dict[str, Any] = {
        "name": subject.name,
        "members": len(subject.program.members),
        "cpu": subject.layout.cpu,
        "optimize": subject.optimize,
    }
    if host is not None:
        plain["host"] = {
            "versions": dict(host.versions),
            "rounds": host.rounds,
            "levels": list(host.levels),
            "peak_gmacs": {level: round(peak / 1e9, 1) for level, peak in host.peaks.items()},
            "rows": [_row(row, host) for row in host.rows],
            "others": [
                {
                    "options": other.options,
                    "level": other.level,
                    "us": us(other.time.cpu),
                    "wall_us": us(other.time.wall),
                    "arena": other.arena,
                    "tables": other.tables,
                }
                for other in host.others
            ],
            "left_out": dict(host.left_out),
        }
    if devices:
        plain["int8_source"] = SOURCE
        plain["devices"] = [asdict(device) for device in devices]
    return plain


def times(found: Mapping[str, Time], levels: Iterable[str]) -> dict[str, Any]:
    """Return times in microseconds, and how many times faster than its rivals each level of the C is in CPU time."""
    ratios = {
        key: {level: round(found[rival].cpu / found[level].cpu, 2) for level in levels if level in found}
        for key, rival in RATIOS.items()
        if rival in found
    }
    return {
        "us": {name: us(time.cpu) for name, time in found.items()},
        "wall_us": {name: us(time.wall) for name, time in found.items()},
        **ratios,
    }


def peak_fraction(found: Mapping[str, Time], macs: int, peaks: Mapping[str, float]) -> dict[str, float]:
    """Return the fraction of each level's popcount peak that `macs` multiply-adds in the measured time reach."""
    return {level: round(macs / found[level].cpu / peak, 3) for level, peak in peaks.items() if level in found}


def us(seconds: float) -> float:
    return round(1e6 * seconds, 2)


def _row(row: Row, host: Host) -> dict[str, Any]:
    counted = row.binary or not row.kernel  # counting bits is not the limit of layers with 8-bit operands
    return {
        "what": row.what,
        "kernel": row.kernel,
        "macs": row.macs,
        "binary": row.binary,
        **times(row.times, host.levels),
        "peak_fraction": peak_fraction(row.times, row.macs, host.peaks) if counted else {},
    }
