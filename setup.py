"""Everything is in pyproject.toml but one step: the C runtime lives at the top level and is shipped inside the package.

`blrc.targets.c.runtime_files.runtime_dir()` is the other half: it finds either place.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithRuntime(build_py):
    """Copy `runtime_dir()`'s folders to ``blrc/_runtime`` of what is being built (never into the source tree)."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:  # the source tree itself is on sys.path then
            return
        shipped = Path(self.build_lib) / "blrc" / "_runtime"
        shutil.rmtree(shipped, ignore_errors=True)  # a file that was deleted from runtime/ must not stay in a wheel
        for folder in ("include", "src", "machines"):
            shutil.copytree(Path("runtime") / folder, shipped / folder, ignore=_not_c)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        shipped = Path(self.build_lib) / "blrc" / "_runtime"
        return [*super().get_outputs(include_bytecode), *map(str, sorted(shipped.rglob("*.[ch]")))]


def _not_c(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if not name.endswith((".c", ".h")) and not (Path(folder) / name).is_dir()]


setup(cmdclass={"build_py": BuildWithRuntime})
