"""What holds for the tests of `blrc.store`."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of steps is tested; that the disk has them would take minutes where it is busy."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
