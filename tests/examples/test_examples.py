"""The examples run as their texts say. (`examples/onnx_runtime` is tested beside its target.)"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from random_networks import checkpoint_of
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.app.export import Exported
from blrc.datasets import idx as datasets
from blrc.program import reference
from blrc.targets.c.build.compiler import STRICT

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """A small random network in the place of the shipped one: same name, input and classes."""
    model = nn.Sequential(
        bnn.BinaryConv2d(1, 8, 3, padding="same"),
        bnn.StochasticBatchNorm2d(8),
        bnn.StochasticMaxPool2d(4),
        bnn.StochasticSign(),
        nn.Flatten(),
        bnn.SoftmaxLinear(8 * 7 * 7, 10),
    )
    return blrc.export(
        checkpoint_of(model, "uint8", (1, 28, 28)), folder=tmp_path_factory.mktemp("mnist") / "out", name="mnist"
    )


@pytest.fixture(scope="module")
def program(exported: Exported, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`examples/mnist/main.c`, built by its Makefile."""
    folder = tmp_path_factory.mktemp("example")
    for name in ("main.c", "Makefile"):
        shutil.copy(EXAMPLES / "mnist" / name, folder)
    subprocess.run(
        ["make", "-C", str(folder), f"EXPORT={exported.folder.resolve()}"], check=True, capture_output=True, text=True
    )
    return folder / "classify"


def expected(exported: Exported, images: NDArray[np.uint8]) -> list[str]:
    scores = reference.scores(exported.program, images.reshape(-1, 28, 28, 1))
    return [f"label {int(row.argmax())}, scores {' '.join(map(str, row))}" for row in scores]


def idx(images: NDArray[np.uint8]) -> bytes:
    return bytes([0, 0, 8, 3]) + b"".join(n.to_bytes(4, "big") for n in images.shape) + images.tobytes()


def run(program: Path, *files: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(program), *map(str, files)], capture_output=True, text=True, check=False)


@pytest.mark.needs("make", "cc")
def test_main_c_classifies_an_idx_file(exported: Exported, program: Path, tmp_path: Path) -> None:
    images = datasets.mnist(EXAMPLES / "mnist" / "data", train=False).images[:50, 0]
    (tmp_path / "images.idx").write_bytes(idx(images))
    done = run(program, tmp_path / "images.idx")
    assert done.returncode == 0
    assert done.stdout.splitlines() == expected(exported, images)
    assert len({line.split(",")[0] for line in done.stdout.splitlines()}) > 1


@pytest.mark.needs("make", "cc")
def test_main_c_classifies_a_pgm_file(exported: Exported, program: Path, tmp_path: Path) -> None:
    image = np.random.default_rng(0).integers(0, 256, (1, 28, 28)).astype(np.uint8)
    image[0, 0, :2] = (ord("\n"), ord(" "))  # only one white space ends the header
    (tmp_path / "image.pgm").write_bytes(b"P5\n28 28\n255\n" + image.tobytes())
    done = run(program, tmp_path / "image.pgm")
    assert (done.returncode, done.stdout.splitlines()) == (0, expected(exported, image))


@pytest.mark.needs("make", "cc")
def test_main_c_classifies_its_own_drawing(exported: Exported, program: Path) -> None:
    rows = re.findall(r'^    "(.{28})";?$', (EXAMPLES / "mnist" / "main.c").read_text(), re.MULTILINE)
    levels = {" ": 0, ".": 85, "+": 170, "#": 255}
    image = np.array([[levels[pixel] for pixel in row] for row in rows], dtype=np.uint8)
    assert image.shape == (28, 28)
    done = run(program)
    assert (done.returncode, done.stdout.splitlines()) == (0, expected(exported, image[None]))


@pytest.mark.needs("make", "cc")
@pytest.mark.parametrize(
    "content", [None, b"", b"P5\n27 28\n255\n", b"P6\n28 28\n255\n", idx(np.zeros((1, 28, 27), np.uint8)), b"\0\0\x08"]
)
def test_main_c_refuses_other_files(content: bytes | None, program: Path, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "images").write_bytes(content)
    done = run(program, tmp_path / "images")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"{tmp_path / 'images'}: no IDX or binary PGM file of 28 x 28 images\n"


@pytest.mark.needs("cc")
@pytest.mark.parametrize("language", [["-x", "c", "-std=c99"], ["-x", "c++", "-std=c++11"]])
def test_main_c_compiles_without_a_warning(language: list[str], exported: Exported, tmp_path: Path) -> None:
    main = EXAMPLES / "mnist" / "main.c"
    command = ["cc", *language, *STRICT, f"-I{exported.folder}", "-c", str(main), "-o", str(tmp_path / "main.o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_shipped_test_set_is_mnists() -> None:
    test = datasets.mnist(EXAMPLES / "mnist" / "data", train=False)
    assert test.images.shape == (10_000, 1, 28, 28)
    assert np.bincount(test.labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    shipped = [path for path in (EXAMPLES / "mnist").rglob("*") if path.is_file() and path.suffix in (".gz", ".pt")]
    assert sum(path.stat().st_size for path in shipped) < 5_000_000


@pytest.mark.nightly
@pytest.mark.needs("cc")
@pytest.mark.parametrize(
    ("example", "options", "least"),
    [
        ("own_network/own_network.py", (), 88),  # percent of unseen digits; 93 was measured
        ("levels/levels.py", (), 93),  # 97 was measured
        ("levels/levels.py", ("--weights", "ternary"), 93),  # 98 was measured
        ("stem/stem.py", (), 93),  # 97.75 was measured
        pytest.param("levels/levels.py", ("--average",), 93, marks=pytest.mark.nightly),  # 97 was measured
    ],
)
def test_an_example_trains_exports_and_verifies(
    example: str, options: tuple[str, ...], least: float, tmp_path: Path
) -> None:
    script = EXAMPLES / example
    # One thread: others' would wait for each other where tests share the cores.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), *options],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "bit-exact: yes"
    accuracy = next(float(line.split()[1]) for line in lines if line.startswith("accuracy: "))
    assert accuracy > least
    assert len(script.read_text().splitlines()) < 90


@pytest.mark.nightly
@pytest.mark.needs("cc")
def test_the_regression_learns_an_angle(tmp_path: Path) -> None:
    script = EXAMPLES / "regression" / "regression.py"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "bit-exact: yes"
    errors = next(line.split() for line in lines if line.startswith("map "))
    assert float(errors[1]) < 6 and float(errors[3]) > 0.7  # 3.6 degrees and 0.90 were measured
