"""Every reader of the ONNX file that we know of: docs/consumers.md.

python tools/pages/consumers.py [--data DIR] [--inputs 1000] [--only TITLE] [--no-page] [--record FILE.json]

--record writes what each runtime said after it ended, and goes on where a run of the same files was stopped.

Runs both forms of the file, of the shipped MNIST network on test images and of networks with random weights and with
extreme scores, in every runtime that `make consumers` installs, and compares every output with the reference. Ends with
status 1 unless every output of every file is equal, or the runtime is known to lack the operators and refuses the file.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
from consumers_run import BATCH, CONSUMERS, ROOT, Case, Consumer, Said, run
from numpy.typing import NDArray
from template import fill

from blrc.app.export import build
from blrc.datasets import idx
from blrc.errors import BlrcError
from blrc.frontend import checkpoint
from blrc.frontend.members import parse_members
from blrc.net.bits import pack_signs, unpack_signs
from blrc.program import head, legal, reference
from blrc.program.program import Constant, Conv, Program, Scores
from blrc.program.vectors import Vectors
from blrc.store.places import write_atomically
from blrc.targets.onnx.emit import emit
from blrc.targets.onnx.head import OUTPUTS
from blrc.targets.options import EmitOptions
from blrc.targets.requests import OnnxForm

PAGE = ROOT / "docs" / "consumers.md"
MNIST = ROOT / "examples" / "mnist"
LONGEST_REASON = 90  # characters of a runtime's message on the page
NETWORKS = {
    "map": "the shipped MNIST network, its likeliest weights, on test images",
    "ensemble": "five members of it",
    "gate": "the likeliest weights and, behind a gate of 0.9, two members",
    "random": "its layers with random weights and thresholds, on random images",
    "extreme": "the same with int16 score weights and biases that fill int32, at the smallest score scale",
    "large": "the same at a score scale of 1000",
}


def programs() -> dict[str, Program]:
    source = checkpoint.load(MNIST / "mnist.pt")
    shipped, _ = build(source, parse_members("map", 0))
    ensemble, _ = build(source, parse_members("5", 0))
    gate = head.ONE * 9 // 10
    gated, _ = build(source, parse_members("2", 0, gate=gate), gate)
    scrambled = randomised(shipped, 1)
    return {
        "map": shipped,
        "ensemble": ensemble,
        "gate": gated,
        "random": scrambled,
        "extreme": with_extreme_scores(scrambled, 2, head.SMALLEST_SCALE),
        "large": with_extreme_scores(scrambled, 3, 1000.0),
    }


def randomised(program: Program, seed: int) -> Program:
    """The program with random signs, thresholds that random inputs reach, and random score weights."""
    rng = np.random.default_rng(seed)
    tables: dict[str, NDArray] = {}
    for op in program.ops:
        if isinstance(op, Conv):
            signs = unpack_signs(program.constant(op.weights), op.group_channels)
            tables[op.weights] = pack_signs(rng.choice(np.array([-1, 1], dtype=np.int8), signs.shape))
            spread = int(np.sqrt(op.fan_in))
            tables[op.thresholds] = rng.integers(-spread, spread + 1, op.y.shape[2]).astype(np.int32)
        elif isinstance(op, Scores):
            shape = program.constant(op.weights).shape
            tables[op.weights] = rng.integers(-127, 128, shape).astype(np.int8)
            tables[op.bias] = rng.integers(-1000, 1001, shape[0]).astype(np.int32)
    return _with(program, tables)


def with_extreme_scores(program: Program, seed: int, score_scale: float) -> Program:
    """The program with scores that reach both ends of what is legal, and classes that tie or nearly tie there."""
    rng = np.random.default_rng(seed)
    op = program.ops[-1]
    assert isinstance(op, Scores)
    shape = program.constant(op.weights).shape
    weights = rng.integers(-32767, 32768, shape).astype(np.int16)
    weights[1] = weights[0]
    peak = np.abs(weights.astype(np.int64)).reshape(shape[0], -1).sum(axis=1)
    room = 2**30 - 1 - peak
    biases = np.where(np.arange(shape[0]) < shape[0] // 2, room, rng.integers(-room, room + 1))
    biases[1] = biases[0]
    tables = {op.weights: weights, op.bias: biases.astype(np.int32)}
    return replace(_with(program, tables), score_scale=score_scale)


def _with(program: Program, tables: dict[str, NDArray]) -> Program:
    constants = {name: Constant((table,), (0,)) for name, table in tables.items()}
    return legal.check(replace(program, constants={**program.constants, **constants}))


def case(name: str, program: Program, raw: NDArray, form: OnnxForm) -> Case:
    """One file of a program, and what its outputs have to be by the reference, for inputs (N, H, W, C)."""
    options = EmitOptions(name, Vectors(np.zeros(0), ()), "0", onnx_form=form)
    model = emit(program, options).files[f"{name}.onnx"]
    scores = np.stack([reference.scores(program, raw, k) for k in range(len(program.members))], axis=1)
    wanted: dict[str, NDArray] = {"scores": scores[:, 0] if len(program.members) == 1 else scores}
    fed = np.ascontiguousarray(raw.transpose(0, 3, 1, 2))
    if form == "float":
        wanted["scores"] = wanted["scores"].astype(np.float32)
        fed = fed.astype(np.float32)
    else:
        answer = reference.answer(program, raw)
        wanted = {**{output: getattr(answer, output) for output in OUTPUTS}, **wanted}
    return Case(f"{name}-{form}", model, {"input": fed}, wanted)


def cases(images: NDArray, count: int) -> tuple[list[Case], list[str]]:
    """All files, and a line for each that a form refuses."""
    made, refused = [], []
    noise = np.random.default_rng(0).integers(0, 256, (count, *images.shape[1:])).astype(np.uint8)
    forms: tuple[OnnxForm, ...] = ("integer", "float")
    for name, program in programs().items():
        raw = images[:count] if name in ("map", "ensemble", "gate") else noise
        for form in forms:
            try:
                made.append(case(name, program, raw, form))
            except BlrcError as error:
                refused.append(f"`{name}`, {form} form: {error}")
    return made, refused


def verdict(consumer: Consumer, name: str, said: Said) -> tuple[str, bool]:
    """What the page says, and whether that is what has to be."""
    if said.refused is not None:
        expected = name.endswith("-integer") and not consumer.reads_integers
        return "refuses the file", expected
    if said.equal:
        return "equal", True
    return "differs: " + ", ".join(f"{output} {count}" for output, count in said.differs.items() if count), False


def page(
    names: Sequence[str], rows: Sequence[tuple[Consumer, dict[str, Said]]], refused: Sequence[str], count: int
) -> str:
    """Return the whole page."""

    def of_form(form: str) -> list[str]:
        return [name for name in names if name.endswith(f"-{form}")]

    told = {"NETWORKS": NETWORKS, "BATCH": BATCH, "verdict": verdict, "of_form": of_form}
    return fill("consumers.md.j2", rows=rows, refused=refused, count=count, **told)


def recorded(file: Path | None, consumer: Consumer, files: str) -> dict[str, Said]:
    """What an earlier run of the same files has from that consumer; empty if there is none."""
    if file is None or not file.is_file():
        return {}
    found = json.loads(file.read_text())
    own = found["runtimes"].get(key(consumer), {}) if found["files"] == files else {}
    return {name: Said(**said) for name, said in own.items()}


def record(file: Path, files: str, rows: Sequence[tuple[Consumer, dict[str, Said]]]) -> None:
    runtimes = {key(consumer): {name: asdict(each) for name, each in said.items()} for consumer, said in rows}
    write_atomically(file, json.dumps({"files": files, "runtimes": runtimes}).encode())


def key(consumer: Consumer) -> str:
    return f"{consumer.title}, {consumer.environment}"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=MNIST / "data")
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--only", help="consumers whose title contains this; no page is written")
    parser.add_argument("--no-page", action="store_true")
    parser.add_argument("--record", type=Path)
    options = parser.parse_args(arguments)
    images = np.asarray(idx.mnist(options.data, train=False).images).reshape(-1, 28, 28, 1)
    chosen = [consumer for consumer in CONSUMERS if (options.only or "") in consumer.title]
    if missing := [consumer.title for consumer in chosen if not consumer.installed]:
        print(f"not installed: {', '.join(missing)}; run make consumers", file=sys.stderr)
        return 2
    made, refused = cases(images, options.inputs)
    rows, good = [], True
    files = sha256(b"".join(each.model for each in made) + str(options.inputs).encode()).hexdigest()
    for consumer in chosen:
        said = recorded(options.record, consumer, files) or run(consumer, made)
        rows.append((consumer, said))
        if options.record:
            record(options.record, files, rows)
        for name, each in said.items():
            text, expected = verdict(consumer, name, each)
            good = good and expected
            reason = f" ({(each.refused or '')[:LONGEST_REASON]})" if each.refused else ""
            print(f"{consumer.title} {each.version}: {name}: {text}{reason}", flush=True)
    if not options.only and not options.no_page:
        write_atomically(PAGE, page([case.name for case in made], rows, refused, options.inputs).encode())
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
