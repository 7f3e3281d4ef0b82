"""What ensembles cost and say, in the compiled C: accuracy, flash, members run, CPU time; full ones, cheap ones.

python benchmarks/ensembles.py [--model M.pt] [--data DIR] [--members 16] [--rounds 7] [--validation DIR] [--json FILE]

Every network classifies all test images with `NAME_predict`, which stops when the remaining members cannot change the
label; CPU time of the child process on 2,000 of them, in turns, medians over rounds, beside that of the MAP network in
the same round.
`saved` are the members that stopping early does not run, at labels that are proved equal here to those of all members.
Flash is as `blrc verify` says it (-Os), time at -O2. --validation DIR has MNIST's training files: on the 5,000 of its
images that training never sees it shows what each gate gives, and chooses the one that asks most often at a mean of 1.4
networks an image.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.datasets import idx, labelled
from blrc.evaluation.cheap import predict
from blrc.evaluation.metrics import accuracy
from blrc.frontend import checkpoint
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.members import parse_gate, parse_members
from blrc.frontend.sample import Member, parse_freeze, sample, sampled_layers
from blrc.lowering.calibrate import calibrate
from blrc.lowering.lower import lower
from blrc.net.encoding import device_layout
from blrc.net.net import Net
from blrc.program import head, program_file, vectors
from blrc.program.head import ONE
from blrc.store.atomic import write_atomically
from blrc.targets.c.build.host import HostBuild
from blrc.targets.options import EmitOptions
from blrc.targets.registry import TARGETS
from blrc.version import VERSION

EXAMPLE = Path(__file__).parents[1] / "examples" / "mnist"
CONFIDENCE = 0.99
VALIDATION = 5_000
GATES = ("0.8", "0.9", "0.95", "0.97", "0.98", "0.99", "0.995", "0.999", "1")
WORK = (
    1.4  # networks that the gate chosen on validation data may run: 1.5 is the goal, and sums of members take time too
)
TIMED = 2_000  # images of a round


@dataclass(frozen=True)
class Choice:
    """One export: its options, as `blrc export` takes them."""

    name: str
    members: str
    sample: str = "all"
    freeze: str = "0"
    gate: str | None = None


@dataclass(frozen=True)
class Gate:
    """What a gate gives on the validation images: per cent right, and mean networks run with early stopping."""

    probability: str
    accuracy: float
    networks: float


@dataclass(frozen=True)
class Row:
    """What was measured of one export.

    Attributes:
        networks: stored; MAP in front of a gate is one.
        accuracy: per cent, all members or where the gate says so the first alone.
        flash: bytes, and times MAP's.
        asked: mean networks run for an image without stopping early, and with.
        saved: per cent of the networks that stopping early does not run, of those it would else.
        most: networks run for the worst image.
        time: mean CPU microseconds an image, stopping early, and times MAP's.
        confident: mean networks run if a mean probability of 0.99 stops too, and how many labels that changes.
    """

    name: str
    networks: int
    accuracy: float
    flash: int
    flash_ratio: float
    asked: float
    asked_early: float
    saved: float
    most: int
    time: float
    time_ratio: float
    confident: float
    confident_changes: int


def timed(built: HostBuild, raw: NDArray[Any]) -> float:
    """CPU seconds of the compiled program for `NAME_predict` on every image."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    built.answers(raw, stop=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime


def exports(source: Checkpoint, choices: list[Choice], folder: Path) -> Iterator[tuple[Choice, Path]]:
    """The C of each choice; a member that several of them hold is calibrated once."""
    assert source.calibration is not None
    nets: dict[Member, Net] = {}
    for i, choice in enumerate(choices):
        print(f"exporting {choice.name}", file=sys.stderr)
        layers, freeze = sampled_layers(source, choice.sample), parse_freeze(choice.freeze)
        gate = parse_gate(choice.gate)
        members = parse_members(choice.members, 0, layers, freeze, gate)
        for member in members:
            if member not in nets:
                nets[member] = calibrate(sample(source, member), source.calibration)
        program = lower([nets[member] for member in members], gate)
        recorded = vectors.record(program, device_layout(source.calibration[:1]))
        files = TARGETS["c"](program, EmitOptions("net", recorded, VERSION)).files
        out = folder / str(i)
        out.mkdir()
        for name, content in {**files, "net.program.npz": program_file.to_bytes(program)}.items():
            (out / name).write_bytes(content)
        yield choice, out


def measure(source: Checkpoint, choices: list[Choice], data: Path, rounds: int, folder: Path) -> list[Row]:
    """A row for each choice; the first one is what the others are compared with."""
    with ExitStack() as open_builds:
        builds, flash = [], []
        for _, out in exports(source, choices, folder):
            builds.append(open_builds.enter_context(HostBuild(out, "net", ("-O2",))))
            with HostBuild(out, "net", ("-Os",)) as small:
                flash.append(small.flash)
        program = program_file.load(folder / "0" / "net.program.npz")
        test = labelled.load(data, program.input, program.classes)
        seconds: list[list[float]] = [[] for _ in builds]
        few = test.raw[:TIMED]
        for turn in range(rounds):
            print(f"timing, round {turn + 1} of {rounds}", file=sys.stderr)
            for built, taken in zip(builds, seconds, strict=True):
                taken.append(timed(built, few))
        stopped = [built.answers(test.raw, stop=True) for built in builds]
        rows = []
        for choice, built, size, taken, early in zip(choices, builds, flash, seconds, stopped, strict=True):
            print(f"all members of {choice.name}", file=sys.stderr)
            whole = built.answers(test.raw)
            sure = built.answers(test.raw, stop=True, confidence=round(CONFIDENCE * ONE))
            if not np.array_equal(whole.label, early.label):
                raise SystemExit(f"{choice.name}: stopping early changed a label")
            ratios = [mine / map_s for mine, map_s in zip(taken, seconds[0], strict=True)]
            rows.append(
                Row(
                    choice.name,
                    len(built.program.members),
                    accuracy(whole.label, test.labels),
                    size,
                    size / flash[0],
                    float(whole.members.mean()),
                    float(early.members.mean()),
                    100 * (1 - float(early.members.sum() / whole.members.sum())),
                    int(early.members.max()),
                    1e6 * statistics.median(taken) / len(few),
                    statistics.median(ratios),
                    float(sure.members.mean()),
                    int((sure.label != whole.label).sum()),
                )
            )
        return rows


def gates(folder: Path, validation: Path) -> list[Gate]:
    """Every gate of the export in `folder` (whose first member is MAP) on the validation images."""
    _, images = idx.split(idx.mnist(validation), VALIDATION)
    raw = device_layout(np.asarray(images.images))
    with HostBuild(folder, "net", ("-O2",)) as built:
        program = built.program
        scores = [built.run(raw, k)[program.output.name][:, 0, 0, :] for k in range(len(program.members))]
    scale = head.scale_of(program.score_scale)
    found = [Gate("MAP alone", accuracy(scores[0].argmax(1), images.labels), 1.0)]
    for probability in GATES:
        gate = head.gate_of(Fraction(probability))
        label, used = predict(scores, scale, gate)
        found.append(Gate(probability, accuracy(label, images.labels), float(used.mean())))
    return found


def chosen_gate(found: list[Gate]) -> str:
    """The choice on validation data: the gate that asks the members most often at a mean of `WORK` networks at most."""
    return [gate.probability for gate in found if gate.probability != "MAP alone" and gate.networks <= WORK][-1]


def table(rows: list[Row]) -> str:
    """For a terminal."""
    lines = [
        f"{'':<26}{'stored':>7}{'accuracy':>10}{'flash':>10}{'':>7}{'run':>8}{'early':>8}{'saved':>8}{'most':>6}"
        f"{'us':>9}{'':>8}   stop at {CONFIDENCE}: run, labels changed"
    ]
    for r in rows:
        lines.append(
            f"{r.name:<26}{r.networks:>7}{r.accuracy:>8.2f} %{r.flash:>10,}{r.flash_ratio:>6.2f}x{r.asked:>8.2f}"
            f"{r.asked_early:>8.2f}{r.saved:>6.1f} %{r.most:>6}{r.time:>9.1f}{r.time_ratio:>7.2f}x"
            f"{r.confident:>24.2f}{r.confident_changes:>8}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=EXAMPLE / "mnist.pt")
    parser.add_argument("--data", type=Path, default=EXAMPLE / "data", help="MNIST's test files, or an .npz.")
    parser.add_argument("--members", default="16")
    parser.add_argument("--freeze", default="0.1")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--validation", type=Path, help="MNIST's training files.")
    parser.add_argument("--json", type=Path, help="Write the figures there too.")
    given = parser.parse_args()
    n, source = given.members, checkpoint.load(given.model)
    with tempfile.TemporaryDirectory() as temporary:
        chosen, gate = [], "0.98"
        if given.validation is not None:
            ((_, always),) = exports(source, [Choice("gate 1", n, "conv", gate="1")], Path(temporary))
            chosen = gates(always, given.validation)
            gate = chosen_gate(chosen)
        shown = sorted({gate, "0.95", "0.98", "0.99"}, key=float)
        choices = [
            Choice("map", "map"),
            Choice(f"{n} of all", n),
            Choice(f"{n} of all, frozen {given.freeze}", n, freeze=given.freeze),
            Choice(f"{n} of conv", n, "conv"),
            Choice("4 of conv", "4", "conv"),
            *(Choice(f"{n} of conv, gate {each}", n, "conv", gate=each) for each in shown),
        ]
        (Path(temporary) / "measured").mkdir()
        rows = measure(source, choices, given.data, given.rounds, Path(temporary) / "measured")
    print(table(rows))
    if chosen:
        print(f"\n{'gate, on validation':<26}{'accuracy':>10}{'networks run':>14}")
        for each in chosen:
            print(f"{each.probability:<26}{each.accuracy:>8.2f} %{each.networks:>14.3f}")
    if given.json is not None:
        plain = {
            "model": given.model.name,
            "rounds": given.rounds,
            "rows": [asdict(row) for row in rows],
            "timed": TIMED,
            "gates": [asdict(each) for each in chosen],
            "chosen": gate if chosen else None,
            "work": WORK,
        }
        write_atomically(given.json, (json.dumps(plain, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
