"""docs/results.md says what its records say."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools" / "pages"))

import results  # noqa: E402
import results_page  # noqa: E402
import results_runs  # noqa: E402

RUNS = [run for runs in results_runs.RUNS.values() for run in runs]


def test_no_number_of_the_page_is_typed_by_hand() -> None:
    assert results_page.page(results_page.records()) == (ROOT / "docs" / "results.md").read_text(encoding="utf-8")


def test_every_run_has_a_record_of_its_command() -> None:
    for run in RUNS:
        record = results.record(run)
        assert record is not None, f"{run.name}: no record of {run.command!r}; run make results"
        assert record["history"] and record["validation"] and record["test"]


def test_every_figure_of_the_page_is_there() -> None:
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    names = re.findall(r"!\[[^]]+\]\((results/[a-z0-9/-]+\.svg)\)", page)
    assert len(names) >= 9 and all((ROOT / "docs" / name).is_file() for name in names)


def test_the_best_is_chosen_on_validation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RECORDS", tmp_path)
    runs = [run for run in RUNS if run.group == "bnn"]
    for run, (validation, test) in zip(runs, ((99.1, 99.9), (99.3, 99.0), (99.3, 99.5)), strict=True):
        content = {"command": run.command, "validation": {"map": validation}, "test": {"map": test}}
        (tmp_path / f"{run.name}.json").write_text(json.dumps(content), encoding="utf-8")
    assert results.best_of("bnn") == runs[1]


def test_an_evaluation_is_of_the_best_run_of_its_group() -> None:
    for name, evaluation in results.EVALUATIONS.items():
        assert results_page.records()[name]["run"] == results.best_of(evaluation.group).name


def test_an_evaluation_is_of_the_checkpoints_of_its_runs() -> None:
    """The Binarized NN of a figure once was another one than that of the tables."""
    known = results_page.records()
    for name, evaluation in results.EVALUATIONS.items():
        found, best = known[name], results.best_of(evaluation.group)
        assert found["model"] == known[best.name]["sha256"]
        assert found["eval"]["members"]["map"]["accuracy_mean"] == known[best.name]["test"]["map"]
        bnn = known[results.best_of(evaluation.baseline).name]
        assert found["baseline"] == bnn["sha256"]
        assert found["eval"]["baselines"]["Binarized NN"]["accuracy_mean"] == bnn["test"]["map"]


def test_what_is_shipped_is_the_best_and_what_was_measured() -> None:
    known, shipped = results_page.records(), results.sha256(results.SHIPPED["mnist"])
    assert shipped == known[results.best_of("distilled").name]["sha256"]
    assert shipped == known["ensembles"]["sha256"] == known["uncertain"]["sha256"]
    cifar10 = known["cifar10/shipped"]
    assert cifar10["sha256"] == results.sha256(results.SHIPPED["cifar10"])
    assert cifar10["source"] == known[results.best_of("cifar10").name]["sha256"]


def test_full_width_was_compared_in_full() -> None:
    for members, found in results_page.records()["cifar10/full-width"]["members"].items():
        assert found["equal"] and not found["skipped"], members


def test_a_record_that_is_missing_gets_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RECORDS", tmp_path)
    for group, command in (("bnn", "make results"), ("cifar10", "make results-cifar10")):
        with pytest.raises(SystemExit, match=f"no record of 'blrc train .*: run {command}$"):
            results.best_of(group)


def test_the_gate_is_chosen_on_validation_data() -> None:
    record = results_page.records()["ensembles"]
    within = [gate["probability"] for gate in record["gates"][1:] if gate["networks"] <= record["work"]]
    assert record["chosen"] == max(within, key=float)
    assert any(row["name"].endswith(f"gate {record['chosen']}") for row in record["rows"])


def test_a_record_is_made_once_and_again_for_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RECORDS", tmp_path)
    made = []
    for run in ("a", "a", "b"):
        results.once("eval-x", lambda run=run: made.append(run) or {"run": run}, run=run)
    assert made == ["a", "b"] and json.loads((tmp_path / "eval-x.json").read_text(encoding="utf-8"))["run"] == "b"


def test_a_record_of_another_command_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RECORDS", tmp_path)
    run = RUNS[0]
    assert results.record(run) is None
    (tmp_path / f"{run.name}.json").write_text(json.dumps({"command": "another"}), encoding="utf-8")
    assert results.record(run) is None
