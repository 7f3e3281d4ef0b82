"""Runtimes other than the newest ONNX Runtime give the reference's bits: every output, of both forms.

`make consumers-ci` installs them; `make consumers` runs more of them on more inputs and writes docs/consumers.md.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from by_night import where
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[2] / "tools" / "pages"))
sys.path.insert(0, str(Path(__file__).parents[1] / "targets"))

import consumers
from consumers_run import CONSUMERS, Case, Consumer, Said, run
from onnx_heads import EDGE, head_model, spread_scores
from random_programs import gated, random_inputs, random_program

from blrc.app.export import build
from blrc.datasets import idx
from blrc.frontend import checkpoint
from blrc.frontend.members import parse_members
from blrc.program import head
from blrc.targets.onnx.head import OUTPUTS

ROOT = Path(__file__).parents[2]
IN_CI = ("ort117", "ort121", "ort131", "web", "openvino")
BY_DAY = ("ort117", "ort131")
"""The oldest ONNX Runtime that is promised, and the newest: `make nightly` runs the others."""
IMAGES = 60


@pytest.fixture(params=where(lambda each: each in BY_DAY, IN_CI))
def consumer(request: pytest.FixtureRequest) -> Consumer:
    request.getfixturevalue(f"{request.param}_consumer")
    return called(request.param)


def called(environment: str) -> Consumer:
    return next(each for each in CONSUMERS if each.environment == environment)


def head_case(name: str, scores: list[NDArray[np.int32]], score_scale: float, gate: int = 0) -> Case:
    """The head alone; the members' scores are its inputs."""
    scale = head.scale_of(score_scale)
    answer = head.ensemble(scores, scale, gate)
    model = head_model(len(scores), scores[0].shape[1], scale, gate)
    feeds = {f"m{k}": one for k, one in enumerate(scores)}
    return Case(name, model, feeds, {output: getattr(answer, output) for output in OUTPUTS})


def extreme_scores(members: int, classes: int, seed: int) -> list[NDArray[np.int32]]:
    """Scores at both ends of what is legal, and one below, so that differences have 31 bits."""
    edges = np.array([-EDGE, -EDGE + 1, -1, 0, 1, EDGE - 1, EDGE], dtype=np.int32)
    return [np.random.default_rng(seed + k).choice(edges, (60, classes)) for k in range(members)]


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    made = []
    for members in (1, 2, 5, 12, 300):
        scales = (0.0033,) if members == 300 else (head.SMALLEST_SCALE, 0.0033, 1e30)  # large files take long to load
        for place, scale in enumerate(scales):
            made.append(head_case(f"edges-{members}-{place}", extreme_scores(members, 10, 1), scale))
            made.append(head_case(f"spread-{members}-{place}", spread_scores(members, 10, scale, members), scale))
    made.append(head_case("gate", spread_scores(3, 10, 0.0123, 1), 0.0123, 30_000))
    made.append(head_case("classes", extreme_scores(2, 1000, 1), 1.0))
    for seed, kind in enumerate(("uint8", "int8", "bits", "uint8")):
        program = random_program(seed, kind, (9, 7, 3), members=1 + seed, binary=False)
        program = gated(program, 40_000) if seed == 3 else replace(program, score_scale=0.003)
        raw = random_inputs(program, IMAGES, seed)
        raw = raw.astype(np.uint8) if kind == "bits" else raw
        made += [consumers.case(f"{kind}{seed}", program, raw, form) for form in ("integer", "float")]  # type: ignore
    shipped, _ = build(checkpoint.load(ROOT / "examples" / "mnist" / "mnist.pt"), parse_members("map", 0))
    images = idx.mnist(ROOT / "examples" / "mnist" / "data", train=False).images.reshape(-1, 28, 28, 1)
    extreme = consumers.with_extreme_scores(consumers.randomised(shipped, 1), 2, head.SMALLEST_SCALE)
    made += [consumers.case("mnist", shipped, images[:IMAGES], form) for form in ("integer", "float")]  # type: ignore
    made.append(consumers.case("extreme", extreme, images[:IMAGES], "integer"))
    return made


def wrong(said: Mapping[str, Said]) -> dict[str, object]:
    return {name: each.refused or each.differs for name, each in said.items() if not each.equal}


def test_every_output_of_every_file(consumer: Consumer, cases: list[Case]) -> None:
    assert len(cases) > 35
    assert not wrong(run(consumer, cases, batch=25))


@pytest.mark.nightly
def test_labels_in_openvino(openvino_consumer: Path, cases: list[Case]) -> None:
    """One image at a time and all at once: 90 % of the labels were wrong, when the head was made of int64."""
    mnist = [case for case in cases if case.name == "mnist-integer"]
    assert len(np.unique(mnist[0].wanted["label"])) >= 8
    for batch in (1, IMAGES):
        assert not wrong(run(called("openvino"), mnist, batch))


def test_a_difference_is_seen_and_a_refusal_has_its_reason(ort117_consumer: Path, cases: list[Case]) -> None:
    case = next(case for case in cases if case.name == "mnist-integer")
    label = case.wanted["label"].copy()
    label[:3] += 1
    other = replace(case, name="other", wanted={**case.wanted, "label": label})
    damaged = replace(case, name="damaged", model=case.model[:1000])
    said = run(called("ort117"), [case, other, damaged])
    assert said["mnist-integer"].equal and said["mnist-integer"].version == "1.17.0"
    assert said["other"].differs["label"] == 3 and sum(said["other"].differs.values()) == 3
    assert said["damaged"].refused and not said["damaged"].equal
