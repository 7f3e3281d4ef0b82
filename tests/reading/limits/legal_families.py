"""Small program files that are legal, or nearly, and ask for much: many pools, convolutions, members, much padding."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from blrc.net.bits import words
from blrc.reading import npz

Plain = dict[str, Any]
ONE = {"kernel": [1, 1], "stride": [1, 1], "padding": [0, 0, 0, 0], "dilation": [1, 1]}
CLASSES = 2


def value(name: str, dtype: str, *shape: int) -> Plain:
    return {"name": name, "dtype": dtype, "shape": list(shape)}


def file_of(ops: list[Plain], members: int, tables: dict[str, list[np.ndarray[Any, Any]]]) -> bytes:
    """A program file of these ops, and of scores of a map of one pixel behind them."""
    last = ops[-1]["y"]
    scores = {
        "op": "scores",
        "name": "s",
        "x": last,
        "y": value("z", "int32", 1, 1, CLASSES),
        "weights": "sw",
        "bias": "sb",
    }
    tables = {**tables, "sw": [np.ones((CLASSES, *last["shape"]), np.int8)], "sb": [np.zeros(CLASSES, np.int32)]}
    structure = {
        "format": 1, "input": ops[0]["x"], "ops": [*ops, scores], "score_scale": "0x1p-4",
        "members": [f"sample 0:{i}" for i in range(members)],
        "constants": {name: [min(i, len(held) - 1) for i in range(members)] for name, held in tables.items()},
    }  # fmt: skip
    text = np.frombuffer(json.dumps(structure).encode(), np.uint8)
    arrays = {f"{name}/{i}": table for name, held in tables.items() for i, table in enumerate(held)}
    return npz.to_bytes({"program": text, **arrays})


def conv(name: str, x: Plain, y: Plain, window: Plain, tables: dict[str, Any], pool: Plain | None = None) -> Plain:
    """A convolution whose weights are all -1; `tables` gets its constants."""
    kernel = window["kernel"]
    tables[f"{name}w"] = [np.zeros((y["shape"][2], *kernel, words(x["shape"][2])), np.uint32)]
    tables[f"{name}t"] = [np.zeros(y["shape"][2], np.int32)]
    return {"op": "conv", "name": name, "x": x, "y": y, "weights": f"{name}w", "thresholds": f"{name}t",
            "window": window, "groups": 1, "pool": pool}  # fmt: skip


def many_pools(count: int, size: int, members: int = 1) -> bytes:
    """Pools that keep their map, and one that takes all of it."""
    maps = [value(f"v{i}", "bits", size, size, 1) for i in range(count + 1)]
    ops = [{"op": "pool", "name": f"p{i}", "x": maps[i], "y": maps[i + 1], "window": ONE} for i in range(count)]
    whole = {"kernel": [size, size], "stride": [1, 1], "padding": [0] * 4, "dilation": [1, 1]}
    ops.append({"op": "pool", "name": "whole", "x": maps[-1], "y": value("y", "bits", 1, 1, 1), "window": whole})
    return file_of(ops, members, {})


def many_convs(count: int, size: int, members: int = 1) -> bytes:
    """Convolutions of one tap that keep their map; members share all of their tables."""
    tables: dict[str, Any] = {}
    maps = [value(f"v{i}", "bits", size, size, 1) for i in range(count + 1)]
    ops = [conv(f"c{i}", maps[i], maps[i + 1], ONE, tables) for i in range(count)]
    whole = {"kernel": [size, size], "stride": [1, 1], "padding": [0] * 4, "dilation": [1, 1]}
    ops.append({"op": "pool", "name": "whole", "x": maps[-1], "y": value("y", "bits", 1, 1, 1), "window": whole})
    return file_of(ops, members, tables)


def much_padding(side: int) -> bytes:
    """A map of one pixel that is almost wholly padding to the convolution that reads it."""
    tables: dict[str, Any] = {}
    window = {"kernel": [1, 1], "stride": [side, side], "padding": [side - 1] * 4, "dilation": [1, 1]}
    out = (2 * side - 2) // side + 1
    y = value("y", "bits", out, out, 1)
    return file_of([conv("c", value("i", "bits", 1, 1, 1), y, window, tables)], 1, tables)


def wide_pooling(size: int, channels: int) -> bytes:
    """A convolution whose pool takes the whole map: every sum of it decides."""
    tables: dict[str, Any] = {}
    whole = {"kernel": [size, size], "stride": [1, 1], "padding": [0] * 4, "dilation": [1, 1]}
    x, y = value("i", "bits", size, size, 1), value("y", "bits", 1, 1, channels)
    return file_of([conv("c", x, y, ONE, tables, whole)], 1, tables)


def large_encode(size: int) -> bytes:
    """Raw pixels that are encoded, and pooled away after one convolution."""
    raw, codes = value("i", "uint8", size, size, 1), value("e", "int8", size, size, 1)
    tables: dict[str, Any] = {"t": [np.arange(-128, 128).astype(np.int8).reshape(1, 256)]}
    whole = {"kernel": [size, size], "stride": [1, 1], "padding": [0] * 4, "dilation": [1, 1]}
    first = {"op": "encode", "name": "e", "x": raw, "y": codes, "table": "t"}
    return file_of([first, conv("c", codes, value("y", "bits", 1, 1, 1), ONE, tables, whole)], 1, tables)


FAMILY: dict[str, Callable[[], bytes]] = {
    "400 pools on 2048 x 2048": lambda: many_pools(400, 2048),
    "6 pools on 2048 x 2048": lambda: many_pools(6, 2048),
    "900 pools on 180 x 180": lambda: many_pools(900, 180),
    "5000 pools on one pixel": lambda: many_pools(5000, 1),
    "1300 members of 50 pools on 100 x 100": lambda: many_pools(50, 100, 1300),
    "1300 members of 100 convolutions": lambda: many_convs(100, 30, 1300),
    "30 convolutions on 1000 x 1000": lambda: many_convs(30, 1000),
    "padding of 2047 around a pixel": lambda: much_padding(2048),
    "a pool over 1500 x 1500 sums": lambda: wide_pooling(1500, 6),
    "3000 x 3000 pixels encoded": lambda: large_encode(3000),
}
