"""`examples/firmware` builds, and in QEMU says what the reference says."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from firmware_project import EMULATED, EXAMPLES, MEMORY, NUMBER, SHIPPED, SOURCE, Project, copied, predicted
from numpy.typing import NDArray
from random_networks import checkpoint_of
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.datasets import idx
from blrc.program.program import Program
from blrc.targets.c.build.compiler import STRICT

pytestmark = pytest.mark.needs("make", "arm-none-eabi-gcc", "qemu-system-arm")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """With the shipped network."""
    return copied(tmp_path_factory.mktemp("shipped") / "firmware")


def small_network() -> nn.Module:
    return nn.Sequential(
        bnn.BinaryConv2d(1, 8, 3, padding="same"),
        bnn.StochasticBatchNorm2d(8),
        bnn.StochasticMaxPool2d(4),
        bnn.StochasticSign(),
        nn.Flatten(),
        bnn.SoftmaxLinear(8 * 7 * 7, 10),
    )


@pytest.fixture(scope="module")
def small_export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small random network's export that takes the place of the shipped one."""
    folder = tmp_path_factory.mktemp("small") / "out"
    blrc.export(checkpoint_of(small_network(), "uint8", (1, 28, 28)), folder=folder, targets="c", name="mnist")
    return folder


@pytest.fixture
def small(tmp_path: Path, small_export: Path) -> Project:
    """A project that a test may break, with a small network that is exported already."""
    done = replace(copied(tmp_path / "firmware"), blrc="false")
    shutil.copytree(small_export, done.folder / "build" / "model-map")
    shutil.copy2(SHIPPED, done.folder / "build" / "model-map.pt")  # it is taken for what was exported
    return done


def recorded() -> tuple[NDArray[np.uint8], int]:
    test = idx.mnist(EXAMPLES / "mnist" / "data", train=False)
    return test.images[NUMBER, 0], int(test.labels[NUMBER])


def answer_lines(program: Program) -> list[str]:
    image, label = recorded()
    _, answer = predicted(program, image[None, :, :, None])
    hundredths = int(Fraction(int(answer.mean[0]), 65536) * 10000 + Fraction(1, 2))
    millionths = int(Fraction(int(answer.variance[0]), 2**32) * 10**6)
    said = "as recorded" if answer.label[0] == label else "NOT what was recorded"
    return [
        f"label: {answer.label[0]} ({said})",
        f"probability: {hundredths // 100}.{hundredths % 100:02} %, variance 0.{millionths:06}",
        f"members asked: {answer.members[0]} of {len(program.members)}",
    ]


def drawing() -> list[str]:
    return ["".join(" .:-=+#%@"[int(pixel) * 9 // 256] for pixel in row) for row in recorded()[0]]


def sections(elf: Path) -> Iterator[tuple[str, int, int]]:
    """Name, start and bytes of what lies on the device."""
    done = subprocess.run(["arm-none-eabi-size", "-A", str(elf)], capture_output=True, text=True, check=True)
    for name, size, start in re.findall(r"^(\.\S+) +(\d+) +(\d+)$", done.stdout, re.MULTILINE):
        if name in (".vectors", ".text", ".ARM.exidx", ".stack", ".data", ".bss"):
            yield name, int(start), int(size)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("board", "members"),
    [
        *((board, "map") for board in EMULATED),
        ("stm32f405", "5"),
        ("microbit", "5"),
    ],
)
def test_the_firmware_says_what_the_reference_says(project: Project, board: str, members: str) -> None:
    done = project.make("--silent", "run", f"BOARD={board}", f"MEMBERS={members}")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    used = {name: int(size) for name, size in re.findall(r"^ *(FLASH|RAM): +(\d+) B", done.stdout, re.MULTILINE)}
    used_at = max(i for i, line in enumerate(lines) if re.match(r" *RAM: +\d+ B", line))  # the linker's last line
    printed = lines[used_at + 1 :]
    expected = [*answer_lines(project.program(members)), "self-test: all equal"]
    assert printed == [*drawing(), *expected]
    assert "\n".join(f"    {line}" for line in expected) in (SOURCE / "README.md").read_text()

    places = list(sections(project.folder / "build" / f"{board}-{members}-semihosting" / "firmware.elf"))
    flash, ram = MEMORY[board]
    for region, (start, size) in (("FLASH", flash), ("RAM", ram)):
        inside = [bytes_ for _, at, bytes_ in places if start <= at and at + bytes_ <= start + size]
        assert sum(inside) == used[region] <= size
    assert used["FLASH"] + used["RAM"] == sum(size for _, _, size in places)


@pytest.mark.nightly
@pytest.mark.parametrize("board", ["stm32f405", "microbit"])
def test_the_fastest_kernels_say_the_same(project: Project, board: str) -> None:
    done = project.make("--silent", "run", f"BOARD={board}", "OPTIMIZE=speed")
    assert done.returncode == 0, done.stderr
    expected = [*answer_lines(project.program("map")), "self-test: all equal"]
    assert done.stdout.splitlines()[-len(expected) :] == expected
    assert "conv_slices" in (project.folder / "build" / "model-map-speed" / "mnist.c").read_text()


@pytest.mark.nightly
@pytest.mark.parametrize("board", ["stm32f405", "microbit"])
def test_half_of_the_stack_is_enough(project: Project, tmp_path: Path, board: str) -> None:
    half = copied(tmp_path / "firmware")
    assert project.make("build/model-map/mnist.h").returncode == 0
    shutil.copytree(project.folder / "build" / "model-map", half.folder / "build" / "model-map")
    half.edit("sections.ld", "stack_size = 2K;", "stack_size = 1K;")
    done = half.make("run", f"BOARD={board}")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "self-test: all equal"), done.stderr


def test_the_recorded_digit_is_of_the_test_set() -> None:
    done = subprocess.run(
        [sys.executable, str(SOURCE / "digit.py"), str(NUMBER)], capture_output=True, text=True, check=True
    )
    assert done.stdout == (SOURCE / "digit.h").read_text()
    numbers = re.findall(r"\d+", done.stdout.partition("= {")[2])
    assert list(map(int, numbers)) == recorded()[0].reshape(-1).tolist()


@pytest.mark.parametrize("board", MEMORY)
def test_every_board_links_with_its_vectors_first(small: Project, board: str) -> None:
    done = small.make("--silent", f"BOARD={board}")
    assert (done.returncode, done.stderr) == (0, "")
    build = small.folder / "build" / f"{board}-map-semihosting"
    (flash, flash_bytes), (ram, ram_bytes) = MEMORY[board]
    image = (build / "firmware.bin").read_bytes()
    stack, reset = np.frombuffer(image[:8], "<u4").tolist()
    assert stack == ram + 2048  # the stack is the first that lies in RAM, and grows down
    assert reset % 2 == 1  # Thumb
    assert flash < reset < flash + len(image) <= flash + flash_bytes
    in_ram = [(start, size) for name, start, size in sections(build / "firmware.elf") if name in (".stack", ".bss")]
    assert all(ram <= start and start + size <= ram + ram_bytes for start, size in in_ram)
    assert len(in_ram) == 2
    assert next(sections(build / "firmware.elf"))[:2] == (".vectors", flash)
    assert (build / "firmware.hex").read_text().endswith(":00000001FF\n")


def test_every_board_is_in_the_readme() -> None:
    boards = {path.stem for path in (SOURCE / "boards").iterdir()}
    assert boards == set(MEMORY)
    text = (SOURCE / "README.md").read_text()
    table = dict(re.findall(r"^\| `(\S+)` \|.*\| ([^|]+) \| \S+ \|$", text, re.MULTILINE))
    assert set(table) == boards
    for board, sizes in table.items():
        numbers = [int(count) * {"KB": 1024, "MB": 1024**2}[unit] for count, unit in re.findall(r"(\d+) (.B)", sizes)]
        assert numbers == [MEMORY[board][0][1], MEMORY[board][1][1]]


def test_another_label_is_status_1(small: Project) -> None:
    label = int(answer_lines(small.program("map"))[0].split()[1])
    digit = small.folder / "digit.h"
    digit.write_text(re.sub(r"LABEL \d", f"LABEL {label}", digit.read_text()))
    good = small.make("run")
    assert (good.returncode, f"label: {label} (as recorded)" in good.stdout) == (0, True)
    digit.write_text(re.sub(r"LABEL \d", f"LABEL {(label + 1) % 10}", digit.read_text()))
    bad = small.make("run")
    assert "Error 1\n" in bad.stderr
    assert f"label: {label} (NOT what was recorded)" in bad.stdout


def test_a_broken_table_is_status_2_and_the_step_is_named(small: Project) -> None:
    weights = small.folder / "build" / "model-map" / "mnist_weights.c"
    text = weights.read_text()
    broken = re.sub(r"(_table\[256\] = \{)[^}]*", r"\g<1>0", text)  # every pixel's code is 0
    assert broken != text
    weights.write_text(broken)
    done = small.make("run")
    assert "Error 2\n" in done.stderr, done.stderr
    assert done.stdout.endswith("self-test: 0 of member 0 differs\n")  # "0" is the first layer of nn.Sequential


@pytest.mark.parametrize("board", EMULATED)
def test_a_stack_that_is_too_small_is_a_fault_that_is_reported(small: Project, board: str) -> None:
    small.edit("sections.ld", "stack_size = 2K;", "stack_size = 256;")
    done = small.make("run", f"BOARD={board}")
    assert "Error 3\n" in done.stderr
    assert done.stdout.endswith("fault: stack too small, unaligned access, or no memory there\n")


def test_the_serial_line_says_the_same(small: Project) -> None:
    by_debugger = small.make("--silent", "run").stdout
    assert small.make("OUTPUT=uart").returncode == 0
    elf = small.folder / "build" / "stm32f405-map-uart" / "firmware.elf"
    command = small.make("--dry-run", "run", "OUTPUT=uart").stdout.splitlines()[-1]
    assert str(elf.relative_to(small.folder)) in command
    # The board does not end, so neither does QEMU.
    with subprocess.Popen(
        f"exec timeout 60 {command}",
        shell=True,
        cwd=small.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as running:
        assert running.stdout is not None
        got = b""
        for line in running.stdout:
            got += line
            if line.startswith(b"exit "):
                running.terminate()
                break
    *lines, last = got.decode("ascii").split("\r\n")[:-1]
    assert by_debugger.endswith("\n".join(lines) + "\n")
    assert len(lines) == 28 + 4
    assert last in ("exit 0", "exit 1")


def test_an_unknown_board_is_refused_with_those_there_are(small: Project) -> None:
    done = small.make("BOARD=arduino")
    assert done.returncode == 2
    assert "there is no board arduino: choose" in done.stderr
    assert all(board in done.stderr for board in MEMORY)


def test_the_uart_of_another_chip_is_refused(small: Project) -> None:
    done = small.make("BOARD=microbit", "OUTPUT=uart")
    assert done.returncode == 2
    assert "output_uart.c is for an STM32F4: write one for microbit" in done.stderr


def test_what_does_not_fit_is_refused(small: Project) -> None:
    small.edit("boards/microbit.ld", "LENGTH = 256K", "LENGTH = 8K")
    done = small.make("BOARD=microbit")
    assert done.returncode == 2
    assert "region `FLASH' overflowed by" in done.stderr
    assert not list((small.folder / "build").rglob("firmware.*"))


def test_qemu_has_not_every_board(small: Project) -> None:
    done = small.make("run", "BOARD=nrf52840")
    assert done.returncode == 2
    assert "QEMU has no nrf52840" in done.stdout


@pytest.mark.parametrize("optimise", ["-Os", "-O0", "-O3"])
def test_the_sources_compile_without_a_warning(small_export: Path, tmp_path: Path, optimise: str) -> None:
    for source in sorted(SOURCE.glob("*.c")):
        command = ["arm-none-eabi-gcc", "-mcpu=cortex-m0", "-mthumb", "-std=c99", "-ffreestanding", optimise, *STRICT,
                   f"-I{small_export}", f"-I{SOURCE}", "-c", str(source), "-o", str(tmp_path / "object.o")]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        if source.name == "memory.c":  # a compiler may see memcpy in memcpy's own loop
            undefined = subprocess.run(
                ["arm-none-eabi-nm", "-u", str(tmp_path / "object.o")], capture_output=True, text=True, check=True
            )
            assert undefined.stdout == ""
