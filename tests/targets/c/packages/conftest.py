"""The exports that the tests of packages share."""

from __future__ import annotations

import pytest
from package_exports import Package, export_package


@pytest.fixture(scope="session")
def first(tmp_path_factory: pytest.TempPathFactory) -> Package:
    """One network on pixels, of 5 classes."""
    return export_package(tmp_path_factory.mktemp("first") / "out", "first")


@pytest.fixture(scope="session")
def second(tmp_path_factory: pytest.TempPathFactory) -> Package:
    """An ensemble on other pixels, of 4 classes."""
    return export_package(tmp_path_factory.mktemp("second") / "out", "second", members="3", classes=4, seed=1)
