"""Networks of other people, imported and compared with their originals: docs/imported.md.

python tools/pages/imported.py [--data DIR] [--cifar10 DIR] [--files DIR]

Takes each network's file from --files, or downloads it, or trains it as its tutorial does, which needs MNIST's
training images in --data, and for Larq's networks the environment of `make larq`; without it they are left out. Ends
with status 1 if a label or an unexplained bit differs.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imported_integers import integer_rows
from template import fill

import blrc
from blrc.store.places import write_atomically

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "imported.md"
MACHINE = "cortex-m4"
RANDOM = 10_000
RANDOM_GIVEN = 1_000
ZOO = "https://github.com/fastmachinelearning/qonnx_model_zoo"
EXAMPLES = ROOT / "examples" / "imported"
LARQ = ROOT / ".venv-larq" / "bin" / "python"
LARQ_SOURCE = "[examples/imported/larq_tutorial.py](../examples/imported/larq_tutorial.py)"
MNIST_TUTORIAL = "[Larq's tutorial](https://docs.larq.dev/larq/tutorials/mnist/)"


@dataclass(frozen=True)
class Original:
    """A network of somebody else.

    Attributes:
        name: of its file, without ending.
        about, source: for the page.
        url: where its file lies; empty for a network that is trained here.
        sha256: of the file, where it is downloaded.
        options: of `blrc import`.
        trained: the script that trains it, with its options.
        python: the interpreter of that script.
    """

    name: str
    title: str
    about: str
    source: str
    url: str
    sha256: str
    options: dict[str, Any]
    trained: Sequence[str] = ()
    python: str = sys.executable

    @property
    def written(self) -> str:
        """The options as the command line takes them."""
        return " ".join(
            f"--{key} {value[0] if isinstance(value, list) else value}" for key, value in self.options.items()
        )


ORIGINALS = (
    Original(
        "TFC_1W1A",
        "TFC_1W1A (QONNX model zoo)",
        "A dense network 784-64-64-64-10 with binary weights and activations, trained with Brevitas for FINN. Its "
        "input is the sign of 2 x/255 - 1, which becomes one threshold for all pixels.",
        f"[QONNX model zoo]({ZOO}), models/MNIST/Brevitas_FINN_TFC (BSD-3-Clause)",
        f"{ZOO}/raw/main/models/MNIST/Brevitas_FINN_TFC/TFC/TFC_1W1A.onnx",
        "e875070d9b8af1ff55923ab03c7ed9dd8787d387cb3274872fe5fc6a2905b2db",
        {"input": "pixels"},
    ),
    Original(
        "tutorial",
        "Larq's MNIST tutorial, in PyTorch",
        "Three binary convolutions and two binary dense layers, trained for six epochs as the tutorial says, in plain "
        "PyTorch, and written by torch.onnx. Pooling comes before the norm. The first layer takes 8-bit pixels.",
        f"[examples/imported/tutorial.py](../examples/imported/tutorial.py), after {MNIST_TUTORIAL}",
        "",
        "",
        {"input": "pixels", "mean": [0.5], "std": [0.5]},
        ["tutorial.py"],
    ),
    Original(
        "larq_tutorial",
        "Larq's MNIST tutorial, in Larq",
        "The same network, trained by Larq itself for the tutorial's six epochs, and written by tf2onnx. Its images "
        "have channels last. The file is that after the last epoch; at the tutorial's constant learning rate, accuracy "
        "varies from epoch to epoch.",
        f"{LARQ_SOURCE}, after {MNIST_TUTORIAL}",
        "",
        "",
        {"input": "pixels", "mean": [0.5], "std": [0.5]},
        ["larq_tutorial.py"],
        str(LARQ),
    ),
    Original(
        "larq_strided",
        "Larq, with strides",
        "Two binary convolutions with stride 2, a pool and two binary dense layers, trained by Larq for one epoch "
        'and written by tf2onnx. TensorFlow pads them by "same", here at the bottom and the right alone. The network '
        "takes pixels as uint8.",
        LARQ_SOURCE,
        "",
        "",
        {"input": "pixels"},
        ["larq_tutorial.py", "--network", "strided", "--epochs", "1"],
        str(LARQ),
    ),
)


def file_of(original: Original, files: Path, data: Path) -> Path | None:
    """The original's file, which is downloaded or trained where it is not there; None if what trains it is missing."""
    path = files / f"{original.name}.onnx"
    if not path.exists():
        if original.url:
            print(f"downloading {original.url}", flush=True)
            with urllib.request.urlopen(original.url) as answer:  # an address of this file, by https
                write_atomically(path, answer.read())
        elif not Path(original.python).exists():
            print(f"{original.title}: left out, since {original.python} is missing (make larq)", flush=True)
            return None
        else:
            script, *rest = original.trained
            subprocess.run([original.python, EXAMPLES / script, *rest, "--data", data, "-o", path], check=True)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if original.sha256 not in ("", found):
        raise SystemExit(f"{path}: SHA-256 {found}, expected {original.sha256}; delete the file")
    return path


def row_of(original: Original, path: Path, data: Path, work: Path) -> dict[str, Any]:
    """What the page says of a network."""
    folder = work / original.name
    blrc.export(blrc.import_onnx(path, **original.options), folder=folder, name=original.name.lower())
    report = blrc.verify(folder, original=path, data=data, random=RANDOM, on=MACHINE)
    print(report, flush=True)
    against, device = report.original, report.devices[0]
    assert against is not None and against.accuracy is not None and report.accuracy is not None
    return {
        "title": original.title,
        "about": original.about,
        "source": original.source,
        "sha256": against.sha256,
        "original": against.accuracy,
        "ours": report.accuracy,
        "labels": against.labels - against.same_labels,
        "bits": sum(layer.differ for layer in against.layers.values()),
        "compared": sum(layer.bits for layer in against.layers.values()),
        "layers": len(against.layers),
        "decisions": against.decisions,
        "channels": sum(each.explained for each in against.channels),
        "flash": device.flash,
        "ram": device.ram,
        "stack": device.stack,
        "instructions": device.instructions,
        "commands": f"blrc import {path.name} -o {original.name}.pt {original.written}\n"
        f"blrc export {original.name}.pt --target c --target onnx -o out\n"
        f"blrc verify out --original {path.name} --data DATA --on {MACHINE}",
        "passed": report.verdict == "yes" and not against.problems,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=ROOT / "examples" / "mnist" / "data", help="Folder of MNIST.")
    parser.add_argument("--cifar10", type=Path, help="Folder of CIFAR-10's batches; CNV is left out without it.")
    parser.add_argument("--files", type=Path, help="Folder that has the files, or gets them.")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as work:
        files = options.files or Path(work)
        files.mkdir(parents=True, exist_ok=True)
        rows = [
            row_of(original, path, options.data, Path(work))
            for original in ORIGINALS
            if (path := file_of(original, files, options.data)) is not None
        ]
        data = {"mnist": options.data} | ({"cifar10": options.cifar10} if options.cifar10 else {})
        given = integer_rows(files, data, Path(work), MACHINE, RANDOM_GIVEN)
    page = fill("imported.md.j2", rows=rows, random=RANDOM, given=given, random_given=RANDOM_GIVEN)
    write_atomically(PAGE, page.encode())
    return 0 if all(row["passed"] for row in rows + given) else 1


if __name__ == "__main__":
    sys.exit(main())
