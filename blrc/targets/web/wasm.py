"""Compile the generated C into a WebAssembly module that imports nothing, with clang and wasm-ld."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from blrc.errors import BlrcError
from blrc.targets.c.build import compiler
from blrc.workers import thread_pool

# The first instruction set of WebAssembly, which every browser that has any can run. Without -O3's unrolling the
# module is smaller, and measured no slower.
COMPILE = ("--target=wasm32", "-mcpu=mvp", "-O2", "-ffreestanding", "-g0")
LINK = ("--no-entry", "--gc-sections", "--strip-all", "--stack-first")
VERSIONS = ("-19", "", "-22", "-21", "-20", "-18", "-17", "-16", "-15", "-14")
"""Suffixes of the programs' names: first the version that is tested."""


@dataclass(frozen=True)
class Tools:
    """Hold the commands of a clang and a wasm-ld of the same version, and the versions that they print."""

    clang: str
    linker: str
    compiler_version: str
    linker_version: str


def find_tools(environment: Mapping[str, str] | None = None) -> Tools:
    """Return the first clang on the path that has a wasm-ld of the same version.

    Raises:
        BlrcError: there is none.
    """
    path = (os.environ if environment is None else environment).get("PATH")
    for version in VERSIONS:
        clang, linker = (shutil.which(f"{program}{version}", path=path) for program in ("clang", "wasm-ld"))
        if clang is not None and linker is not None:
            return Tools(clang, linker, _version(clang), _version(linker))
    raise BlrcError(
        "target web: clang and wasm-ld, which compile the C for the browser, were not found; install clang-19 "
        "and lld-19: apt-get install clang-19 lld-19"
    )


def compile_wasm(sources: Mapping[str, bytes], name: str, tools: Tools) -> bytes:
    """Compile the C export of model `name`, with the functions that the page calls, into one module.

    Args:
        sources: the C target's files by name.
        name: the model's name.
        tools: the compiler and the linker.

    Raises:
        BlrcError: a tool complains.
    """
    with tempfile.TemporaryDirectory(prefix="blrc-wasm-") as temporary:
        folder = Path(temporary)
        for file, content in sources.items():
            (folder / file).write_bytes(content)
        (folder / f"{name}_web.c").write_text(_glue(name), encoding="ascii")

        def compile_one(source: Path) -> Path:
            return compiler.compile_object((tools.clang,), COMPILE, source, folder / f"{source.stem}.o", folder)

        with thread_pool() as pool:
            objects = list(pool.map(compile_one, compiler.sources(folder, name)))
        module = folder / "model.wasm"
        compiler.run_tool(
            [tools.linker, *LINK, *map(str, objects), "-o", str(module)], "linking the WebAssembly module"
        )
        return module.read_bytes()


def _glue(name: str) -> str:
    parts = {"name_.h": f"{name}.h", "name_": f"{name}_", "NAME_": f"{name.upper()}_"}
    text = (Path(__file__).parent / "glue.c").read_text(encoding="ascii")
    return re.sub(r"\bname_\.h|\bname_|\bNAME_", lambda found: parts[found[0]], text)


def _version(program: str) -> str:
    return compiler.run_tool([program, "--version"], f"asking {program} for its version").partition("\n")[0].strip()
