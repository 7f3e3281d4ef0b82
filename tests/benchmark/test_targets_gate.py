"""CI's gate over all machines: it fails unless each was verified, on enough images."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools" / "pages"))

import targets

from blrc.verification.devices import parse_machines


def good(subject: targets.Subject) -> dict[str, Any]:
    """What `blrc verify` reports where all is well."""
    fit = {"status": "equal", "detail": "", "title": "x", "compiler": "cc", "inputs": 208, "flash": 1, "ram": 1}
    rows = [
        {**fit, "name": name, "stack": 1, "instructions": 1, "sets": {"recorded vectors": 8, "test set": 200}}
        for name in parse_machines(subject.on)
    ]
    for row in rows:
        if row["name"] in subject.too_large_for:
            row.update(status="does not fit", detail="its numbers", inputs=0, sets={})
        elif row["name"] == "avr":
            row.update(inputs=28, sets={"recorded vectors": 8, "test set": 20})
    layers = {"conv": {"reached": 5, "wanted": 6}, "dense": {"reached": 10, "wanted": 10}}
    return {"targets": rows, "difference": None, "problems": [], "unchecked": [], "edges": layers}


def gate(monkeypatch: pytest.MonkeyPatch, report: dict[str, Any], ok: bool = True) -> None:
    """The whole script, with a report in place of the first network's and good ones for the others."""

    def run(command: Sequence[str], work: str, check: bool = True) -> tuple[str, bool]:
        if "verify" not in command:
            return "", True
        subject = next(s for s in targets.SUBJECTS if f"WORK/{s.folder}" in command)
        first = subject is targets.SUBJECTS[0]
        return json.dumps(report if first else good(subject)), ok or not first

    monkeypatch.setattr(targets, "run", run)
    monkeypatch.setattr(sys, "argv", ["targets.py", "--no-page"])
    targets.main()


@pytest.fixture
def report() -> dict[str, Any]:
    return good(targets.SUBJECTS[0])


def test_all_verified(monkeypatch: pytest.MonkeyPatch, report: dict[str, Any]) -> None:
    gate(monkeypatch, report)
    page = targets.page([(subject, good(subject)) for subject in targets.SUBJECTS])
    assert "blrc verify out/map --data examples/mnist/data --on all --random 1000 --strict" in page
    assert "15 of 16 reached" in page and "cortex-m0: its numbers" in page


@pytest.mark.parametrize(
    ("machine", "change", "complaint"),
    [
        ("cortex-m4", {"status": "does not fit", "sets": {}}, "cortex-m4: does not fit, expected equal"),
        ("avr", {"status": "does not fit", "sets": {}}, "avr: does not fit, expected equal"),
        ("rv64", {"status": "skipped", "detail": "install qemu-user"}, "rv64: skipped, expected equal install qemu"),
        ("s390x", {"status": "no room to test"}, "s390x: no room to test, expected equal"),
        ("wasm", {"sets": {"recorded vectors": 8, "test set": 199}}, "wasm: compared on 199 test images"),
        ("wasm", {"sets": {"recorded vectors": 300}}, "wasm: compared on 0 test images, expected 200"),
        ("avr", {"sets": {"recorded vectors": 8, "test set": 19}}, "avr: compared on 19 test images, expected 20"),
        ("host", None, "host: nothing was reported"),
    ],
)
def test_what_is_not_verified_fails(
    monkeypatch: pytest.MonkeyPatch,
    report: dict[str, Any],
    machine: str,
    change: dict[str, Any] | None,
    complaint: str,
) -> None:
    broken = deepcopy(report)
    broken["targets"] = [
        {**row, **(change or {})} if row["name"] == machine else row
        for row in report["targets"]
        if row["name"] != machine or change is not None
    ]
    with pytest.raises(SystemExit, match=complaint):
        gate(monkeypatch, broken)


def test_nothing_verified_fails(monkeypatch: pytest.MonkeyPatch, report: dict[str, Any]) -> None:
    with pytest.raises(SystemExit, match="nothing was reported"):
        gate(monkeypatch, {**report, "targets": []})


def test_a_difference_elsewhere_fails(monkeypatch: pytest.MonkeyPatch, report: dict[str, Any]) -> None:
    with pytest.raises(SystemExit, match="layer conv differs"):
        gate(monkeypatch, {**report, "difference": "layer conv differs"}, ok=False)


def test_a_model_that_suddenly_fits_is_noticed() -> None:
    subject = next(s for s in targets.SUBJECTS if s.too_large_for)
    report = good(subject)
    for row in report["targets"]:
        row.update(status="equal", detail="", sets={"test set": 200})
    assert targets.complaints(subject, report, True) == ["cortex-m0: equal, expected does not fit"]
