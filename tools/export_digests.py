"""Write the SHA-256 of every file that exports of many networks with every option consist of.

    PYTHONPATH=.:tests:tests/farm python tools/export_digests.py before.json
    PYTHONPATH=.:tests:tests/farm python tools/export_digests.py after.json --against before.json

Run it before a change that must not alter exports and after it. The networks are the shipped ones and random ones of
the tests. The second form lists what differs and ends with status 1 where anything does.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from farm_networks import network
from random_networks import deep_network, encoding_of, randomise, raw_samples

import blrc
from blrc.errors import BlrcError
from blrc.targets.c.kernels.cpus import CPUS, HOSTS
from blrc.targets.c.options import OPTIMIZE, PACKAGES

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = {"mnist": "examples/mnist/mnist.pt", "cifar10": "examples/cifar10/cifar10-quarter.pt"}
MEMBERS: tuple[dict[str, Any], ...] = (
    {},
    {"members": "3", "seed": 5},
    {"members": "2", "sample": "conv", "freeze": 0.25},
    {"members": "3", "gate": 0.9},
)
SHARE = 4  # each network takes one of so many exports in turn
MODEL = {"license": "MIT", "author": "A. Author", "url": "https://example.org", "package_version": "1.2.3"}
ONNX: tuple[dict[str, Any], ...] = (
    {},
    {"onnx_weights": "bits"},
    {"onnx_outputs": "scores"},
    {"onnx_form": "float"},
)


def cases() -> Iterator[tuple[str, str | None, dict[str, Any]]]:
    """Yield the target, the package and the options of every export of a network."""
    for members in MEMBERS:
        for cpu, optimize in itertools.product(CPUS, OPTIMIZE):
            if optimize == "size" or cpu not in HOSTS:
                yield "c", None, {**members, "cpu": cpu, "optimize": optimize}
        for onnx in ONNX:
            yield "onnx", None, {**members, **onnx}
    yield "c", None, {"ram": 64 * 1024, "optimize": "speed"}
    yield "c", None, {"flash": 256 * 1024, "optimize": "speed", **MODEL}
    for package in PACKAGES:
        yield "c", package, {**MODEL, "members": "2"}
    yield "web", None, {}


def networks(folder: Path, seeds: int) -> Iterator[tuple[str, Path]]:
    """Yield names and checkpoints of the shipped networks and of random ones."""
    for name, path in SHIPPED.items():
        yield name, ROOT / path
    for seed in range(seeds):
        grown = network(seed)
        path = folder / f"farm{seed}.pt"
        try:
            blrc.save(grown.model, path=path, input=grown.encoding, calibration=grown.calibration)
        except BlrcError:
            continue
        yield path.stem, path
    for seed in range(seeds // 4):
        torch.manual_seed(seed)
        model, shape = deep_network(seed)
        path, encoding = folder / f"deep{seed}.pt", encoding_of("uint8", shape)
        blrc.save(randomise(model, seed), path=path, input=encoding, calibration=raw_samples(encoding, 40, seed))
        yield path.stem, path


def digests(seeds: int) -> dict[str, dict[str, str]]:
    """Return the digests of all files by case, or the message of the refusal."""
    found: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory(prefix="blrc-digests-") as temporary:
        folder = Path(temporary)
        for name, path in networks(folder, seeds):
            found[name] = {"model.pt": _digest(path)}
            for index, (target, package, options) in enumerate(cases()):
                if target == "web" and name not in SHIPPED:
                    continue
                if (index + len(found)) % SHARE and target != "web":
                    continue
                case = f"{name} {target} {package or ''} {json.dumps(options, sort_keys=True)}"
                made = folder / "made"
                given = {"packages": package} if package else {}
                try:
                    blrc.export(path, folder=made, targets=target, name="net", force=True, **given, **options)
                    found[case] = {
                        str(file.relative_to(made)): _digest(file) for file in sorted(made.rglob("*")) if file.is_file()
                    }
                except BlrcError as error:
                    found[case] = {"refused": str(error).replace(str(folder), "")}
            print(name, len(found), file=sys.stderr, flush=True)
    return found


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--seeds", type=int, default=40)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = digests(options.seeds)
    options.out.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    if options.against is None:
        return 0
    before = json.loads(options.against.read_text(encoding="utf-8"))
    different = 0
    for case in sorted(before.keys() | found.keys()):
        old, new = before.get(case, {}), found.get(case, {})
        names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
        if names:
            different += 1
            print(f"{case}: {', '.join(names)}")
    print(f"{len(found)} exports, {different} differ")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
