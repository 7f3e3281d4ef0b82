"""Read from the driver's output what an ensemble in C answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.display import Brief
from blrc.program.program import Program

Int64s = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Answers(Brief):
    """Hold the answers for N inputs: the fields of `Answer` and `Sums` of `blrc.program.head`.

    All are int64 except `settled`. Unlike in `Sums`, the members are counted separately for each input.

    Attributes:
        label, mean, variance: ``(N,)``, or ``(N, heads)`` of several heads, Q16 and Q32, as in
            `blrc.program.head.Answer`.
        log_p, p, p_squared: ``(N, classes)``, as in `blrc.program.head.Sums`.
        members: ``(N,)``, the number of members that were used.
        settled: bool ``(N,)``, whether no remaining member can change the label of any head.

    Of a network of values, `label` and `p` are ``(N, 0)``, `log_p` and `p_squared` hold the sums of the values and of
    their squares, `mean` and `variance` are ``(N, values)``, and `settled` says whether all members were asked.
    """

    label: Int64s
    log_p: Int64s
    p: Int64s
    p_squared: Int64s
    mean: Int64s
    variance: Int64s
    members: Int64s
    settled: NDArray[np.bool_]


def record(program: Program, order: str) -> np.dtype[Any]:
    """Return the NumPy type of what the driver writes for one input; `order` is ``<`` or ``>``."""
    classes, heads = program.classes, len(program.heads)
    if program.values:
        fields = [("log_p", "i4", classes), ("p_squared", "u8", classes), ("members", "u4", ())]
        fields += [("mean", "i4", classes), ("variance", "u8", classes), ("settled", "i4", ())]
        return np.dtype([(name, f"{order}{kind}", size) for name, kind, size in fields])
    sums = [("log_p", f"{order}i4", classes), ("p", f"{order}u4", classes), ("p_squared", f"{order}u8", classes)]
    rest = [
        (name, f"{order}{kind}", heads if heads and name in _BY_HEAD else ())
        for name, kind in zip(_ANSWER, ("i4", "u4", "u4", "u4", "i4"), strict=True)
    ]
    return np.dtype([*sums, *rest])


_ANSWER = ("label", "members", "mean", "variance", "settled")
_BY_HEAD = ("label", "mean", "variance")


def read(data: NDArray[np.uint8], program: Program, order: str) -> Answers:
    """Decode the answers from bytes ``(N, record size)``."""
    fields = np.ascontiguousarray(data).view(record(program, order)).reshape(-1)
    none = np.empty((len(fields), 0), np.int64)
    found: dict[str, NDArray[Any]] = {"label": none, "p": none} if program.values else {}
    found |= {name: fields[name].astype(np.int64) for name in fields.dtype.names or ()}
    return Answers(**{**found, "settled": found["settled"] != 0})
