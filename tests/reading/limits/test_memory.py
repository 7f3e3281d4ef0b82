"""No small file makes a reader take much memory: measured on a process of its own, which is limited, too."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

LIMIT = 1 << 30  # bytes that a command may take: its own 100 to 300 million included

SCRIPT = """
import re, resource, sys
from pathlib import Path
from blrc.datasets import labelled
from blrc.program import program_file
from blrc.errors import BlrcError
from blrc.program.program import Value
resource.setrlimit(resource.RLIMIT_DATA, ({limit}, {limit}))
try:
    {call}
except BlrcError as error:
    print(str(error).replace(chr(10), " "))
# Of this program alone: ru_maxrss is also that of the process which started it.
print(int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024)
"""


def idx_bomb(folder: Path) -> str:
    """1.5 MB of gzip that say 28 x 28 images, and inflate to 1.5 GB."""
    header = b"\0\0\x08\x03" + (2_000_000).to_bytes(4, "big") + b"\0\0\0\x1c" * 2
    with gzip.open(folder / "t10k-images-idx3-ubyte.gz", "wb", 1) as file:
        file.write(header)
        for _ in range(1496):
            file.write(bytes(1 << 20))
    (folder / "t10k-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01\0\0\0\x01\0")
    return f'labelled.load(Path({str(folder)!r}), Value("x", "uint8", (28, 28, 1)), 10)'


def npz_bomb(folder: Path) -> str:
    """An npz file whose images inflate to 1.5 GB."""
    with zipfile.ZipFile(folder / "d.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        head = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            head, {"descr": "|u1", "fortran_order": False, "shape": (1500, 1, 1024, 1024)}
        )
        with archive.open("images.npy", "w") as member:
            member.write(head.getvalue())
            for _ in range(1500):
                member.write(bytes(1 << 20))
    return f'labelled.load(Path({str(folder / "d.npz")!r}), Value("x", "uint8", (1024, 1024, 1)), 10)'


def jpeg_bomb(folder: Path) -> str:
    """Fifty JPEG images of one colour, 4,000 x 4,000 pixels each."""
    buffer = io.BytesIO()
    Image.new("RGB", (4000, 4000)).save(buffer, "jpeg")
    one = np.frombuffer(buffer.getvalue(), np.uint8)
    np.savez(folder / "j.npz", jpeg=np.tile(one, 50), offsets=np.arange(51) * len(one), labels=np.zeros(50, int))
    return f'labelled.load(Path({str(folder / "j.npz")!r}), Value("x", "uint8", (4000, 4000, 3)), 10)'


def large_jpeg(folder: Path) -> str:
    """A flat image of 9,400 x 9,400 pixels for a network of 32 x 32, which took 1.25 GB."""
    buffer = io.BytesIO()
    Image.new("RGB", (9400, 9400)).save(buffer, "jpeg")
    one = np.frombuffer(buffer.getvalue(), np.uint8)
    np.savez(folder / "j.npz", jpeg=one, offsets=np.array([0, len(one)]), labels=np.zeros(1, int))
    return f'labelled.load(Path({str(folder / "j.npz")!r}), Value("x", "uint8", (32, 32, 3)), 10)'


def equal_offsets(folder: Path) -> str:
    """Thirty million offsets that are all equal, in a few kilobytes: as Python's numbers they take a gigabyte."""
    np.savez_compressed(folder / "j.npz", jpeg=np.zeros(2000, np.uint8), offsets=np.full(30_000_000, 1000),
                        labels=np.zeros(1, int))  # fmt: skip
    return f'labelled.load(Path({str(folder / "j.npz")!r}), Value("x", "uint8", (32, 32, 3)), 10)'


def many_labels(folder: Path) -> str:
    """A hundred million images of one pixel, whose labels would take eight bytes each."""
    np.savez_compressed(
        folder / "j.npz", images=np.zeros((100_000_000, 1), np.uint8), labels=np.zeros(100_000_000, np.uint8)
    )
    return f'labelled.load(Path({str(folder / "j.npz")!r}), Value("x", "uint8", (1, 1, 1)), 10)'


def pickle_bomb(folder: Path) -> str:
    """A batch of CIFAR-10 that remembers something at place 2^31 - 1, for which Python's reader takes 32 GB."""
    (folder / "test_batch").write_bytes(b"\x80\x02}r\xff\xff\xff\x7f.")
    return f'labelled.load(Path({str(folder)!r}), Value("x", "uint8", (32, 32, 3)), 10)'


def pickle_of_lists(folder: Path) -> str:
    """Fifty million empty lists in as many bytes."""
    (folder / "test_batch").write_bytes(b"\x80\x02(" + b"]" * 50_000_000 + b"l.")
    return f'labelled.load(Path({str(folder)!r}), Value("x", "uint8", (32, 32, 3)), 10)'


def program_of_a_huge_map(folder: Path) -> str:
    """A program of a kilobyte whose padded map has four billion values."""
    from blrc.reading import npz

    def value(name: str, dtype: str, *shape: int) -> dict[str, object]:
        return {"name": name, "dtype": dtype, "shape": shape}

    window = {"kernel": [1, 1], "stride": [1, 1], "padding": [20_000] * 4, "dilation": [1, 1]}
    conv = {"op": "conv", "name": "c", "x": value("i", "bits", 1, 1, 1), "y": value("y", "bits", 40_001, 40_001, 1),
            "weights": "w", "thresholds": "t", "window": window, "groups": 1, "pool": None}  # fmt: skip
    scores = {
        "op": "scores",
        "name": "s",
        "x": conv["y"],
        "y": value("z", "int32", 1, 1, 2),
        "weights": "v",
        "bias": "b",
    }
    structure = {"format": 1, "input": conv["x"], "ops": [conv, scores], "members": ["map"], "score_scale": "0x1p-4",
                 "constants": {name: [0] for name in "wtvb"}}  # fmt: skip
    tables = {"w/0": np.zeros((1, 1, 1, 1), np.uint32), "t/0": np.zeros(1, np.int32),
              "v/0": np.zeros((2, 1, 1, 1), np.int8), "b/0": np.zeros(2, np.int32)}  # fmt: skip
    text = np.frombuffer(json.dumps(structure).encode(), np.uint8)
    (folder / "p.npz").write_bytes(npz.to_bytes({"program": text, **tables}))
    return f"program_file.load(Path({str(folder / 'p.npz')!r}))"


@pytest.mark.parametrize(
    ("bomb", "says"),
    [
        (idx_bomb, "at most 268,435,456 are read"),
        (npz_bomb, "at most 268,435,456 are read"),
        (jpeg_bomb, "bytes that are decoded"),
        (large_jpeg, "image 0 is (9400, 9400, 3) (H, W, C), but this network takes (32, 32, 3)"),
        (equal_offsets, "image 0 is no whole JPEG"),
        (many_labels, "holds 100,000,000 samples; at most 16,777,216"),
        (pickle_bomb, "at a place far away"),
        (pickle_of_lists, "more steps than such a batch needs"),
        (program_of_a_huge_map, "has over 16,777,216 values"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_bombs_are_refused_within_a_gigabyte(bomb: object, says: str, tmp_path: Path) -> None:
    assert callable(bomb)
    script = SCRIPT.format(limit=LIMIT, call=bomb(tmp_path))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    said, peak = done.stdout.splitlines()
    assert says in said
    assert int(peak) < LIMIT
