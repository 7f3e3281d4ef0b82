from __future__ import annotations

from pathlib import Path

import pytest

from blrc.errors import BlrcError
from blrc.targets.c import runtime_files


def make(folder: Path) -> None:
    (folder / "include").mkdir(parents=True)
    (folder / "include" / "blrc.h").touch()


def test_a_wheel_s_own_runtime_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_files, "__file__", str(tmp_path / "blrc" / "targets" / "c" / "runtime_files.py"))
    with pytest.raises(BlrcError, match="install blrc again"):
        runtime_files.runtime_dir()
    make(tmp_path / "runtime")
    assert runtime_files.runtime_dir() == tmp_path / "runtime"
    make(tmp_path / "blrc" / "_runtime")
    assert runtime_files.runtime_dir() == tmp_path / "blrc" / "_runtime"
