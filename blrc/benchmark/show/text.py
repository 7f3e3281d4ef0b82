"""Format the measurements of `blrc bench` as tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from blrc.benchmark.host import NETWORK
from blrc.benchmark.report import RATIOS
from blrc.benchmark.rivals.registry import FLOAT32, INT8
from blrc.display import NO_TERMINAL, table

Plain = Mapping[str, Any]


def to_text(plain: Plain, width: int = NO_TERMINAL) -> str:
    """Format a report as tables for a terminal of this `width`."""
    members = "" if plain["members"] == 1 else f", {plain['members']} members"
    parts = [f"{plain['name']}: C for {plain['cpu']} CPUs, --optimize {plain['optimize']}{members}"]
    if "host" in plain:
        parts += _host(plain["host"], plain["members"], width)
    for device in plain.get("devices", ()):
        parts.append(_device(device, width))
    if any(_int8(device) is not None for device in plain.get("devices", ())):
        parts.append(f"int8: {plain['int8_source']}")
    return "\n\n".join(parts)


def _host(host: Plain, members: int, width: int) -> list[str]:
    who = list(dict.fromkeys(name for row in host["rows"] for name in row["us"]))
    versions = ", ".join(f"{name} {version}" for name, version in host["versions"].items())
    parts = [
        f"us of CPU time, one thread, batch 1, medians of {host['rounds']} interleaved rounds; "
        f"behind those of the C,\nhow many times faster than {FLOAT32} it is ({versions})",
    ]
    layers = [("", "kernel", "million MACs", *who)]
    for row in host["rows"]:
        cells = [f"{row['us'][name]:,.1f}{_behind(row, name)}" if name in row["us"] else "-" for name in who]
        layers.append((row["what"], row["kernel"], f"{row['macs'] / 1e6:.3f}", *cells))
    parts.append(_columns(width, layers, left=2))
    network = next(row for row in host["rows"] if row["what"] == NETWORK and not row["kernel"])
    head = (
        "one network" if members > 1 else NETWORK,
        "CPU us",
        "wall us",
        f"x {FLOAT32}",
        f"x {INT8}",
        "GMAC/s",
        "of peak",
    )
    whole = [head]
    for name, cpu in network["us"].items():
        ratios = [network["us"][rival] / cpu if rival in network["us"] else None for rival in RATIOS.values()]
        fraction = network["peak_fraction"].get(name)
        whole.append(
            (
                name,
                f"{cpu:,.1f}",
                f"{network['wall_us'][name]:,.1f}",
                *("-" if ratio is None else f"{ratio:.2f}" for ratio in ratios),
                f"{network['macs'] / cpu / 1e3:,.1f}",
                "-" if fraction is None else f"{100 * fraction:.0f} %",
            )
        )
    parts.append(_columns(width, whole))
    fractions = [("of the popcount peak", *host["levels"])]
    fractions += [
        (row["what"], *(f"{100 * row['peak_fraction'][level]:.0f} %" for level in host["levels"]))
        for row in host["rows"]
        if row["binary"] and set(host["levels"]) <= row["peak_fraction"].keys()
    ]
    peaks = [
        f"{host['peak_gmacs'][level]:,.0f} GMAC/s" if level in host["peak_gmacs"] else "-" for level in host["levels"]
    ]
    parts.append(_columns(width, [*fractions, ("peak, operands in registers", *peaks)]))
    if host["others"]:
        others = [("other choices of blrc export", "level", "CPU us", "wall us", "arena", "tables")]
        others += [
            (
                o["options"],
                o["level"],
                f"{o['us']:,.1f}",
                f"{o['wall_us']:,.1f}",
                f"{o['arena']:,}",
                f"{o['tables']:,}",
            )
            for o in host["others"]
        ]
        parts.append(_columns(width, others, left=2))
    if host["left_out"]:
        parts.append("\n".join(f"{name}: {reason}" for name, reason in host["left_out"].items()))
    return parts


def _behind(row: Plain, name: str) -> str:
    ratio = row.get("ratio_vs_ort_fp32", {}).get(name)
    return "" if ratio is None else f" ({ratio:.1f})"


def _device(device: Plain, width: int) -> str:
    title = f"{device['title']}: instructions ({device['compiler'] or 'not compiled'})"
    lines = [title]
    int8 = device["int8"]
    whole = _int8(device)
    rows: list[tuple[str, ...]]
    if device["steps"]:
        rows = [("", "kernel", "million MACs", "instructions", "a MAC", "int8", "int8 / ours")]
        rows += [
            (s["what"], s["kernel"], f"{s['macs'] / 1e6:.3f}", *_costs(s["instructions"], s["macs"], s["int8"]))
            for s in device["steps"]
        ]
        total = device["choices"][0]["instructions"] if device["choices"] else None
        if total is not None:
            rows.append((NETWORK, "", f"{device['macs'] / 1e6:.3f}", *_costs(total, device["macs"], whole)))
        lines += ["", _columns(width, rows, left=2)]
    if device["choices"]:
        rows = [("choice of blrc export", "instructions", "flash", "arena", "RAM in all")]
        rows += [
            (c["options"] or "this one", *(_number(c[key]) for key in ("instructions", "flash", "arena", "ram")))
            for c in device["choices"]
        ]
        if whole is not None:
            rows.append(("int8 network", _number(whole), _number(int8["flash"]), "-", _number(int8["ram"])))
        lines += ["", _columns(width, rows)]
        lines += [f"{c['options'] or 'this one'}: {c['detail']}" for c in device["choices"] if c["detail"]]
    lines += [device["detail"]] if device["detail"] else []
    return "\n".join(lines)


def _int8(device: Plain) -> int | None:
    """Return the instructions of the int8 network on a device, or None if they were never counted."""
    found: int | None = None if device["int8"] is None else device["int8"]["whole"].get(device["name"])
    return found


def _costs(instructions: int, macs: int, int8: int | None) -> tuple[str, ...]:
    each = f"{instructions / macs:.3f}" if macs else "-"
    beside = ("-", "-") if int8 is None else (f"{int8:,}", f"{int8 / instructions:.1f}")
    return (f"{instructions:,}", each, *beside)


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _columns(width: int, rows: Sequence[Sequence[str]], left: int = 1) -> str:
    return "\n".join(table(rows, left, width))
