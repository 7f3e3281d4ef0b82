"""What holds for the tests of `blrc.store`."""

from __future__ import annotations

import os

import pytest

from blrc.store import steps


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of steps is tested; that the disk has them would take minutes where it is busy."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """To put a function in the place of `steps.before`."""
    monkeypatch.setattr(steps, "before", steps.before)
    return monkeypatch
