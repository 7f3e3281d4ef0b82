"""``NAME.h`` of a stranger, whose code is trusted: the layout is read from it, or it is refused in one line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_programs import random_program

from blrc.errors import BlrcError
from blrc.targets.c.layout.layout import CPUS, HOSTS, lay_out
from blrc.targets.c.native.library import library_files
from blrc.targets.c.native.network import Native
from blrc.targets.c.size.choose import choose
from blrc.targets.c.text.header import header, read_layout
from blrc.targets.c.text.symbols import name_all

PROGRAM = random_program(3, "uint8", (6, 6, 3), layers=4)
OPS = len(PROGRAM.ops)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("optimize", ["size", "speed", "ram"])
def test_the_layout_of_a_header_is_the_one_it_was_written_from(cpu: str, optimize: str) -> None:
    layout = choose(PROGRAM, optimize, cpu=cpu) if optimize != "speed" or cpu not in HOSTS else lay_out(PROGRAM)
    text = header(name_all(layout, "net", "0" * 64), "0", 1)
    read = read_layout(PROGRAM, "net", text.encode())
    assert (read.sliced, read.rows, read.cpu, read.groups) == (layout.sliced, layout.rows, layout.cpu, layout.groups)
    assert [step.kernel for step in read.steps] == [step.kernel for step in layout.steps]


BAD = [
    b'#define NET_CPU "z80"',
    b'#define NET_CPU "\xff"',
    b'#define NET_CPU ""',
    b'#define NET_CPU "portable\xc3\xa9"',
    b'#define NET_SLICED "0"',
    b'#define NET_SLICED "%d"' % OPS,
    b'#define NET_SLICED "01"',
    b'#define NET_SLICED "' + b"9" * 5000 + b'"',
    b'#define NET_SLICED "18446744073709551616"',
    b'#define NET_SLICED "%s"' % b" ".join(b"%d" % i for i in range(OPS)),
    b'#define NET_CPU "x86-64"\n#define NET_SLICED "1"',
]


@pytest.mark.parametrize("text", BAD, ids=lambda text: text[:40])
def test_regression_a_header_that_tells_nonsense_is_one_line(text: bytes) -> None:
    """Huge indices, text that is not ASCII and unknown CPUs ended in tracebacks."""
    with pytest.raises(BlrcError, match=r"^net\.h: .*; export again$") as refused:
        read_layout(PROGRAM, "net", text)
    assert "\n" not in str(refused.value) and str(refused.value).isascii() and len(str(refused.value)) < 200
    with pytest.raises(BlrcError, match=r"^net\.h: "):
        Native({**library_files(PROGRAM, "net"), "net.h": text}, "net", PROGRAM)


@given(
    cpu=st.sampled_from([*CPUS, "", "avr", "\u202e"]) | st.text(max_size=5),
    sliced=st.lists(st.integers(0, OPS + 1) | st.integers(), max_size=4),
    noise=st.binary(max_size=8),
    strips=st.sampled_from(["", "1", "0", "-1", "x"]),
    seed=st.sampled_from([("bits", (5, 5, 32)), ("uint8", (6, 6, 3)), ("int8", (4, 9, 2))]),
)
def test_any_header_is_read_or_refused(
    cpu: str, sliced: list[int], noise: bytes, strips: str, seed: tuple[str, tuple[int, int, int]]
) -> None:
    program = random_program(1, *seed, layers=3)
    macros = (("CPU", f'"{cpu}"'), ("SLICED", f'"{" ".join(map(str, sliced))}"'), ("STRIPS", strips))
    lines = [f"#define NET_{macro} {value}".encode("utf-8", "replace") for macro, value in macros]
    try:
        layout = read_layout(program, "net", noise + b"\n" + b"\n".join(lines) + noise)
    except BlrcError as error:
        assert "\n" not in str(error)
        return
    assert layout.cpu in CPUS and layout.sliced <= {op.name for op in program.ops}
