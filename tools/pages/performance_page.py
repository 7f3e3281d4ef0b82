"""docs/performance.md from its record (`performance.py`), with the template beside this file."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from bench import rivals_of
from goals import BUDGETS, best_choice, goals

from blrc.benchmark.rivals.lce import LCE
from blrc.benchmark.rivals.registry import FLOAT32, INT8, OURS, TORCH

TEMPLATE = Path(__file__).with_name("performance.md.tmpl")
TITLES = {
    "avx2": "AVX2",
    "avx512": "AVX-512",
    OURS: "our ONNX",
    FLOAT32: "ONNX Runtime float32",
    INT8: "ONNX Runtime int8",
    TORCH: "PyTorch float32",
    LCE: "Larq Compute Engine",
}
SPEED = "--optimize speed"
Record = Mapping[str, Any]


def page(known: Record) -> str:
    """The whole page."""
    shapes, host = known["shapes"]["shapes"], known["mnist"]["host"]
    levels = known["shapes"]["levels"]
    machines = {device["name"]: device for device in known["devices"]["devices"]}
    m4, cifar = machines["cortex-m4"], known["cifar10"]["devices"][0]
    waits = sorted(_waits(known))
    peaks = {level: statistics.median(row["peak_gmacs"][level] for row in shapes.values()) for level in levels}
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        date=known["date"],
        counted=known["counted"],
        goals=_goals(shapes, tuple(levels)),
        another=_another(known),
        budgets=_budgets(known),
        cpu=known["cpu"],
        versions=", ".join(f"{name} {version}" for name, version in known["shapes"]["versions"].items()),
        rounds=known["shapes"]["rounds"],
        wall_median=f"{statistics.median(waits):.2f}",
        wall_most=f"{waits[-1]:.2f}",
        shapes=_shapes(shapes, levels, "ratio_vs_ort_fp32", FLOAT32),
        shapes_int8=_shapes(shapes, levels, "ratio_vs_ort_int8", INT8),
        peaks=table(["", *map(title, levels)], [["GMAC/s", *(f"{peaks[level]:,.0f}" for level in levels)]]),
        clock=f"{peaks['avx512'] / (512 * 2 / 3):.2f}" if "avx512" in peaks else "(not measured)",
        fractions=table(
            ["", "", *map(title, levels)],
            [
                [name, row["title"], *(_percent(row["peak_fraction"][level]) for level in levels)]
                for name, row in shapes.items()
            ],
        ),
        mnist=_layers(host),
        mnist_wall=_wall(host),
        mnist_others=table(
            ["", "level", "CPU us", "arena (bytes)", "tables (bytes)"],
            [
                [f"`{o['options']}`", o["level"], f"{o['us']:,.1f}", f"{o['arena']:,}", f"{o['tables']:,}"]
                for o in host["others"]
            ],
        ),
        machines=",".join(machines),
        compiler=m4["compiler"],
        int8_source=known["devices"]["int8_source"],
        m4=_steps(m4),
        m4_speed=_steps(m4, SPEED),
        m55_speed=_steps(machines["cortex-m55"], f"--cpu cortex-m55 {SPEED}"),
        m4_choices=_choices(m4),
        m55_choices=_choices(machines["cortex-m55"]),
        others=table(
            ["", "instructions", "a multiply-add", "flash (bytes)", "int8"],
            [
                [
                    d["title"],
                    f"{d['choices'][0]['instructions']:,}",
                    f"{d['choices'][0]['instructions'] / d['macs']:.2f}",
                    f"{d['choices'][0]['flash']:,}",
                    _number(_int8(d)),
                ]
                for d in machines.values()
            ],
        ),
        beyond_signs=_beyond_signs(known["levels"], machines),
        cifar=_steps(cifar),
        cifar_speed=_steps(cifar, SPEED),
        cifar_choices=_choices(cifar),
        plain=_each(m4, 1),
        sliced=_each(m4, 1, SPEED),
        plain_dense=_each(m4, 2),
        columns=_each(m4, 2, SPEED),
        most_shared=_each(cifar, 5, SPEED),
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; all columns but the first are numbers."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _goals(shapes: Record, levels: tuple[str, ...]) -> str:
    rows = [
        [
            f"{goal.shape}, {title(goal.level)}",
            title(goal.rival),
            f"{goal.goal:g}",
            f"{goal.found:.1f}",
            "reached" if goal.reached else f"missed: {goal.why}",
        ]
        for goal in goals(shapes, levels)
    ]
    return table(["", "than", "goal", "here", ""], rows)


def _another(known: Record) -> str:
    """The same on a machine that has other levels, or was measured later."""
    if "another" not in known:
        return ""
    there = known["another"]
    shapes, levels = there["shapes"]["shapes"], tuple(there["shapes"]["levels"])
    about = (
        f"`make bench` on {there['date']}: {there['cpu']}, of the levels {', '.join(map(title, levels))}; medians of "
        f"{there['shapes']['rounds']} rounds. How many times faster than ONNX Runtime in float32, and what share "
        f"of that CPU's popcount peak (bit-sliced kernels count nothing, and may pass it). {there['note']}"
    )
    rows = [
        [
            name,
            row["title"],
            *(
                f"{row['us'][FLOAT32] / row['us'][level]:.1f}"
                + (f" ({row['peak_fraction'][level]:.0%})" if level in row["peak_fraction"] else "")
                for level in levels
            ),
            f"{row['us'][FLOAT32]:,.1f}",
        ]
        for name, row in shapes.items()
    ]
    found = table(["", "", *map(title, levels), f"{title(FLOAT32)}, us"], rows)
    return f"### On another machine\n\n{textwrap.fill(about, 120)}\n\n{found}\n\n{_goals(shapes, levels)}\n"


def _budgets(known: Record) -> str:
    rows = []
    for budget in BUDGETS:
        devices = known["devices" if budget.network == "mnist" else "cifar10"]["devices"]
        choice = best_choice(budget, devices)
        name = next(device["title"] for device in devices if device["name"] == budget.machine)
        ram = "any" if budget.ram is None else f"{budget.ram // 1024} KB"
        row = [f"{budget.network} on {name}", ram, f"{budget.instructions:,}"]
        if choice is None:
            rows.append([*row, "-", "-", "missed: nothing fits"])
            continue
        done = choice["instructions"] <= budget.instructions
        more = choice["instructions"] / budget.instructions - 1
        options = f"`{choice['options']}`" if choice["options"] else "`--optimize size`"
        rows.append([*row, f"{choice['instructions']:,}", options, "reached" if done else f"missed by {more:.0%}"])
    return table(["", "RAM", "goal", "here", "by", ""], rows)


def title(contestant: str) -> str:
    return TITLES.get(contestant, contestant)


def _waits(known: Record) -> Iterator[float]:
    """Wall time as a multiple of CPU time of all that was timed."""
    for row in (*known["shapes"]["shapes"].values(), *known["mnist"]["host"]["rows"]):
        for name, cpu_us in row["us"].items():
            yield row["wall_us"][name] / cpu_us


def _shapes(shapes: Record, levels: Sequence[str], key: str, base: str) -> str:
    shown = [level for level in levels if level != "popcnt"]  # "portable" is the better of the two
    rivals = [name for name in rivals_of(shapes) if name not in (base, FLOAT32)]
    head = ["", "", *map(title, shown), *map(title, rivals), f"{title(base)}, us"]
    rows = []
    for name, row in shapes.items():
        others = [f"{row['us'][base] / row['us'][rival]:.1f}" if rival in row["us"] else "-" for rival in rivals]
        ours = [f"**{row[key][level]:.1f}**" for level in shown]
        rows.append([name, row["title"], *ours, *others, f"{row['us'][base]:,.1f}"])
    return table(head, rows)


def _layers(host: Record) -> str:
    names = list(dict.fromkeys(name for row in host["rows"] for name in row["us"]))
    rows = []
    for row in host["rows"]:
        cells = []
        for name in names:
            if name not in row["us"]:
                cells.append("-")
                continue
            ratio = row["ratio_vs_ort_fp32"].get(name)
            cells.append(f"{row['us'][name]:,.1f}" + ("" if ratio is None else f" ({ratio:.1f})"))
        rows.append([row["what"], f"`{row['kernel']}`" if row["kernel"] else "", f"{row['macs'] / 1e6:.3f}", *cells])
    return table(["", "kernel", "million multiply-adds", *map(title, names)], rows)


def _wall(host: Record) -> str:
    row = next(row for row in host["rows"] if not row["kernel"])
    rows = [
        [
            title(name),
            f"{us:,.1f}",
            f"{row['wall_us'][name]:,.1f}",
            *(f"{row['us'][base] / us:.2f}" for base in (FLOAT32, INT8)),
        ]
        for name, us in row["us"].items()
    ]
    return table(["", "CPU us", "wall us", f"times faster than {title(FLOAT32)}", f"than {title(INT8)}"], rows)


def _steps_of(device: Record, options: str = "") -> list[Record]:
    """Steps of the export, or with other options."""
    found: list[Record] = next(c for c in device["choices"] if c["options"] == options)["steps"] or device["steps"]
    return found


def _steps(device: Record, options: str = "") -> str:
    rows = [
        [
            s["what"],
            f"`{s['kernel']}`",
            f"{s['macs'] / 1e6:,.2f}",
            f"{s['instructions']:,}",
            f"{s['instructions'] / s['macs']:.2f}" if s["macs"] else "-",
            _number(s["int8"]),
        ]
        for s in _steps_of(device, options)
    ]
    whole = next(choice["instructions"] for choice in device["choices"] if choice["options"] == options)
    rows.append(
        [
            "network",
            "",
            f"{device['macs'] / 1e6:,.2f}",
            f"{whole:,}",
            f"{whole / device['macs']:.2f}",
            _number(_int8(device)),
        ]
    )
    return table(["", "kernel", "million multiply-adds", "instructions", "a multiply-add", "int8"], rows)


def _choices(device: Record) -> str:
    rows = [
        [
            f"`{c['options'] or '--optimize size'}`",
            *(_number(c[key]) for key in ("instructions", "flash", "arena", "ram")),
        ]
        for c in device["choices"]
    ]
    int8 = device["int8"]
    if int8 is not None:
        rows.append(["int8", _number(_int8(device)), _number(int8["flash"]), "-", _number(int8["ram"])])
    return table(["", "instructions", "flash (bytes)", "arena (bytes)", "RAM in all (bytes)"], rows)


def _beyond_signs(rows: Sequence[Record], machines: Mapping[str, Record]) -> str:
    """A row for each network: instructions on each machine, then flash and arena on the first one."""
    names = list(rows[0]["devices"])
    first = machines[names[0]]
    lines = [
        [
            row["title"],
            *(f"{row['devices'][name]['instructions']:,}" for name in names),
            *(_number(row["devices"][names[0]][key]) for key in ("flash", "arena")),
        ]
        for row in rows
    ]
    int8 = first["int8"]
    lines.append(["int8", *(_number(_int8(machines[name])) for name in names), _number(int8["flash"]), "-"])
    head = [*(machines[name]["title"] for name in names), "flash (bytes)", "arena (bytes)"]
    return table(["", *head], lines)


def _int8(device: Record) -> int | None:
    found: int | None = None if device["int8"] is None else device["int8"]["whole"].get(device["name"])
    return found


def _each(device: Record, i: int, options: str = "") -> str:
    """Instructions of a multiply-add of step i."""
    step = _steps_of(device, options)[i]
    return f"{step['instructions'] / step['macs']:.3f}"


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.0f} %"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
