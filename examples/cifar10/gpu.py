"""Train CIFAR-10's network at full width in pieces of ten minutes, on a GPU where there is one.

    python examples/cifar10/gpu.py --data DIR|FILE.npz --work FOLDER --out FOLDER [options of blrc train cifar10]

A piece goes on where the last one ended, and stops by itself in time; it returns 75 while there is more to do, 0 at the
end. `--work` stays on that machine between pieces (the run's state and the images). `--out` is what to bring
back: the log after each piece, the checkpoint with 8-bit logits (13 MB and the calibration images) at the end. See
gpu.md.
"""

from __future__ import annotations

import argparse
import io
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

BINARY = "cifar-10-batches-bin"
FILES = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True, help="CIFAR-10's folder, or an .npz of JPEG images")
    parser.add_argument("--work", type=Path, required=True, help="a folder that stays between pieces")
    parser.add_argument("--out", type=Path, required=True, help="a folder for what is brought back")
    parser.add_argument("--name", default="cifar10")
    parser.add_argument("--minutes", type=float, default=9.0, help="of a piece")
    options, passed = parser.parse_known_args()
    for folder in (options.work, options.out):
        folder.mkdir(parents=True, exist_ok=True)
    data = options.data
    if data.suffix == ".npz":
        data = options.work / BINARY
        if not (data / FILES[-1]).exists():
            unpack(options.data, data)
    model, log = options.work / f"{options.name}.pt", options.work / f"{options.name}.csv"
    command = [sys.executable, "-m", "blrc", "train", "cifar10", "-o", model, "--data", data, "--log", log, "--resume"]
    command += ["--device", "auto", "--minutes", options.minutes]
    if not {"fp", "--model=fp"} & set(passed):  # full precision keeps no images
        command += ["--calibration", 640]
    command += passed
    status = subprocess.run(list(map(str, command))).returncode
    for file in (model, log):
        if file.exists():
            shutil.copy(file, options.out)
    return status


def unpack(source: Path, folder: Path) -> None:
    """Images of an .npz (`jpeg`: all streams end to end, `offsets`, `labels`, `is_test`) as the binary version; needs
    Pillow."""
    from PIL import Image

    with np.load(source) as arrays:
        jpeg, offsets, labels, test = (arrays[name] for name in ("jpeg", "offsets", "labels", "is_test"))
    records = np.empty((len(labels), 3073), np.uint8)
    records[:, 0] = labels
    for record, start, end in zip(records, offsets, offsets[1:], strict=False):
        pixels = np.asarray(Image.open(io.BytesIO(jpeg[start:end].tobytes())).convert("RGB"))
        record[1:] = pixels.transpose(2, 0, 1).reshape(-1)
    folder.mkdir(parents=True, exist_ok=True)
    parts = [*np.array_split(records[test == 0], len(FILES) - 1), records[test == 1]]
    for name, part in zip(FILES, parts, strict=True):  # the test batch last: it says that all are there
        part.tofile(folder / name)


if __name__ == "__main__":
    sys.exit(main())
