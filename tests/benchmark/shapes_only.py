"""Programs without constants, for what looks at shapes only."""

from __future__ import annotations

from blrc.program.program import Conv, Encode, Op, Program, Scores, Value, Window

SAME, HALF = Window((3, 3), padding=(1, 1, 1, 1)), Window((2, 2), (2, 2))


def network(*layers: tuple[int, Window | None, Window | None], shape: tuple[int, int, int]) -> Program:
    """Shapes only: outputs, window (None: dense) and pool of each layer."""
    x = Value("input", "uint8", shape)
    ops: list[Op] = [Encode("encode", x, at := Value("codes", "int8", shape), "table")]
    for i, (outputs, window, pool) in enumerate(layers):
        size = (window or Window(at.shape[:2])).output(*at.shape[:2])
        size = size if pool is None else pool.output(*size)
        y = Value(f"y{i}", "bits", (*size, outputs))
        ops.append(Conv(f"l{i}", at, y, "w", "t", window or Window(at.shape[:2]), 1, pool))
        at = y
    ops.append(Scores("scores", at, Value("scores", "int32", (1, 1, 10)), "w", "b"))
    return Program(x, tuple(ops), {}, ("map",), 1.0)
