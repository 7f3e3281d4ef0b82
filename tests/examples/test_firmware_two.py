"""Two exported networks in one firmware of a Cortex-M4, with the start and linker script of `examples/firmware`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from firmware_project import EXAMPLES, NUMBER, SOURCE, predicted
from numpy.typing import NDArray
from random_networks import checkpoint_of
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.datasets import idx
from blrc.net.encoding import device_layout
from blrc.program import program_file

TWO = """\
#include "mnist.h"
#include "other.h"
#include "output.h"

extern const uint8_t images[INPUTS][MNIST_INPUT_SIZE];
extern const int8_t samples[INPUTS][OTHER_INPUT_SIZE];

static uint32_t arena[(MNIST_ARENA_SIZE + OTHER_ARENA_SIZE + 3) / 4]; /* shared */
static mnist_ensemble mnist_sums;
static other_ensemble other_sums;
static volatile uint32_t initialised = 0x01020304u; /* start.c copies it from flash */

static void number(uint64_t value)
{
    char text[22];
    char *first = text + 21;

    *first = '\\0';
    *--first = ' ';
    do {
        *--first = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    put(first);
}

#define SAY(name, NAME, input) \\
    do { \\
        name##_answer answer; \\
        int c; \\
        if (name##_predict(input, arena, &name##_sums, 0, &answer) < 0) { \\
            return 1; \\
        } \\
        put(#name " "); \\
        number((uint64_t)answer.label); \\
        number(answer.members); \\
        number(answer.mean); \\
        number(answer.variance); \\
        for (c = 0; c < NAME##_CLASSES; ++c) { \\
            number((uint64_t)-(int64_t)name##_sums.log_p[c]); \\
        } \\
        put("\\n"); \\
    } while (0)

int main(void)
{
    int i;

    if (initialised != 0x01020304u) {
        return 4;
    }
    if (mnist_selftest(arena) != 0 || other_selftest(arena) != 0) {
        return 2;
    }
    for (i = 0; i < INPUTS; ++i) {
        SAY(mnist, MNIST, images[i]);
        SAY(other, OTHER, samples[i]);
    }
    return 0;
}
"""


def c_rows(name: str, c_type: str, rows: NDArray[np.generic]) -> str:
    """An array of inputs; in a file of its own, so that no compiler works the network out."""
    inner = ",\n".join("{" + ", ".join(map(str, row.reshape(-1).tolist())) + "}" for row in rows)
    size = f"[{len(rows)}][{rows[0].size}]"
    return f"#include <stdint.h>\nextern const {c_type} {name}{size};\nconst {c_type} {name}{size} = {{\n{inner}}};\n"


@pytest.mark.nightly
@pytest.mark.needs("arm-none-eabi-gcc", "qemu-system-arm")
def test_two_networks_in_one_firmware_give_their_own_answers(tmp_path: Path) -> None:
    """The shipped network, and an ensemble of another shape, input and number of classes, on the Cortex-M4 of an
    STM32F405: one after the other on every input, in the same arena."""
    count = 6
    digits = tmp_path / "digits"
    blrc.export(EXAMPLES / "mnist" / "mnist.pt", folder=digits, targets="c", name="mnist")
    model = nn.Sequential(
        bnn.BinaryConv2d(2, 32, 3, padding="same"),
        bnn.StochasticBatchNorm2d(32),
        bnn.StochasticSign(),
        nn.Flatten(),
        bnn.SoftmaxLinear(32 * 9 * 5, 4),
    )
    other = blrc.export(
        checkpoint_of(model, "int8", (2, 9, 5), seed=3),
        folder=tmp_path / "other",
        targets="c",
        members="3",
        name="other",
    )
    images = idx.mnist(EXAMPLES / "mnist" / "data", train=False).images[NUMBER : NUMBER + count]
    samples = np.random.default_rng(5).integers(-128, 128, (count, 2, 9, 5)).astype(np.int8)

    (tmp_path / "two.c").write_text(TWO)
    (tmp_path / "images.c").write_text(c_rows("images", "uint8_t", device_layout(images)))
    (tmp_path / "samples.c").write_text(c_rows("samples", "int8_t", device_layout(samples)))
    exported = [path for folder in (digits, tmp_path / "other") for path in sorted(folder.glob("*.c"))]
    sources = [
        *(tmp_path / name for name in ("two.c", "images.c", "samples.c")),
        *(SOURCE / name for name in ("start.c", "memory.c", "output_semihosting.c")),
        *exported,
    ]
    elf = tmp_path / "two.elf"
    folders = [f"-I{folder}" for folder in (digits, tmp_path / "other", SOURCE)]
    flags = ["-mcpu=cortex-m4", "-mthumb", "-Os", "-std=c99", "-ffreestanding", "-Wall", "-Wextra", f"-DINPUTS={count}"]
    link = ["-nostdlib", "-T", "boards/stm32f405.ld", "-lgcc", "-o", str(elf)]
    command = ["arm-none-eabi-gcc", *flags, *folders, *map(str, sources), *link]
    built = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, check=False)
    assert (built.returncode, built.stderr) == (0, "")
    done = subprocess.run(
        ["qemu-system-arm", "-M", "netduinoplus2", "-display", "none", "-monitor", "none", "-serial", "none",
         "-chardev", "stdio,id=out", "-semihosting-config", "enable=on,target=native,chardev=out", "-kernel", str(elf)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    expected = []
    mnist = program_file.load(digits / "mnist.program.npz")
    for image, sample in zip(device_layout(images), device_layout(samples), strict=True):
        for name, program, value in (("mnist", mnist, image), ("other", other.program, sample)):
            sums, answer = predicted(program, value[None])
            numbers = [answer.label[0], answer.members[0], answer.mean[0], answer.variance[0], *-sums.log_p[0]]
            expected.append(f"{name} {' '.join(map(str, numbers))} ")
    assert (done.returncode, done.stdout.splitlines()) == (0, expected), done.stderr
    assert len({line for line in expected if line.startswith("other")}) > 2
    assert len({line.split()[1] for line in expected}) > 2
