"""Measure what pruning by KL gives, against dropping as many random channels: accuracy without any training.

python benchmarks/pruning.py DATA [--checkpoint FILE] [-o RECORD]

DATA is a folder of MNIST's files. Of the convolutions and of the dense layer 25, 50 and 75 % of the channels go, by the
divergence of the weights that compute a channel, that read it, or both, and at random (seeds 0, 1, 2). Norms are
re-estimated; accuracies are of the likeliest network, as it is exported. The record is written after each network, and
networks in it are not measured again, so the command can be stopped at any time. docs/results.md shows it.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from blrc.datasets import labelled
from blrc.frontend import checkpoint
from blrc.frontend.sample import MAP, binary_layers, sample
from blrc.lowering.lower import lower
from blrc.pruning.channels import Channels, channels_of
from blrc.pruning.choices import BY
from blrc.pruning.constants import means_of
from blrc.pruning.ranking import order_of, scores_of
from blrc.pruning.removal import read_without_norm
from blrc.pruning.search import Pruning, accuracy_of
from blrc.store.places import write_atomically

ROOT = Path(__file__).parents[1]
SHARES = (0.25, 0.5, 0.75)
SEEDS = (0, 1, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder of MNIST's files")
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "examples" / "mnist" / "mnist.pt")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "docs" / "results" / "pruning.json")
    options = parser.parse_args()
    source = checkpoint.load(options.checkpoint)
    digest = hashlib.sha256(options.checkpoint.read_bytes()).hexdigest()
    record = json.loads(options.output.read_text(encoding="utf-8")) if options.output.exists() else {}
    if record.get("sha256", digest) != digest:
        raise SystemExit(f"{options.output}: is about another checkpoint; delete it to measure anew")
    rows = record.get("rows", [])
    program = lower([sample(source, MAP, running=True)])
    images = {
        part: labelled.load(options.data, program.input, program.classes, part == "validation", source.whitening)
        for part in ("validation", "test")
    }
    channels, means = channels_of(source), means_of(source, read_without_norm(source))
    for layers, ranking, share, orders in settings(source, channels):
        key = {"layers": layers, "ranking": ranking, "share": share}
        if any(key.items() <= row.items() for row in rows):
            continue
        pruning = Pruning(source, channels, orders, means)
        smaller = pruning.smaller(pruning.at_share(share))
        rows.append({**key, **{part: accuracy_of(smaller, held) for part, held in images.items()}})
        print(rows[-1], flush=True)
        date = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
        whole = {"date": date, "checkpoint": options.checkpoint.name, "sha256": digest, "rows": rows}
        write_atomically(options.output, (json.dumps(whole, indent=1) + "\n").encode())


def settings(source: checkpoint.Checkpoint, channels: Channels) -> Iterator[tuple[str, str, float, dict[str, Any]]]:
    """Yield what to measure: the layers, how their channels are ranked, the share to drop, and the order of each."""
    kinds = binary_layers(source)
    scores = {by: scores_of(source, channels, by) for by in BY}
    of = {"convolutions": [], "dense": []}
    for name in scores["both"]:
        of["convolutions" if kinds[name].startswith("binary_conv") else "dense"].append(name)
    yield "none", "none", 0.0, {}
    for share in SHARES:
        for layers, names in of.items():
            orders = {by: {name: order_of(scores[by][name]) for name in names} for by in BY}
            if layers == "dense":  # only real weights read these channels
                orders = {"outputs": orders["outputs"]}
            for seed in SEEDS:
                rng = np.random.default_rng(seed)
                orders[f"random {seed}"] = {name: rng.permutation(len(scores["both"][name])) for name in names}
            for ranking, order in orders.items():
                yield layers, ranking, share, order


if __name__ == "__main__":
    main()
