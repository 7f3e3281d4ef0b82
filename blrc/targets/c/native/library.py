"""Build exports as shared libraries of this machine, once, and keep them in a cache.

An entry of the cache is a folder with the library and its SHA-256. It is written beside its place and renamed, so that
two processes that build at once leave one whole entry. A damaged entry is built again. An entry's name is a hash of all
that the library depends on: the generated files, the compiler with all that it predefines under these flags (version,
ABI, instruction set), and the command. Deleting the cache, or any entry, is always safe.
"""

from __future__ import annotations

import hashlib
import logging
import platform
import re
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType

import numpy as np

from blrc.errors import BlrcError
from blrc.program import program_file
from blrc.program.program import Program
from blrc.program.vectors import unknown
from blrc.store.places import cache_folder
from blrc.store.private import UnsafeError
from blrc.targets.c.build import compiler, objects
from blrc.targets.c.build.compiled import temporary_files
from blrc.targets.c.emit import emit_library
from blrc.targets.c.kernels.tiers import host_cpu, tier_flags
from blrc.targets.c.native import cache as library_cache
from blrc.targets.c.native.cache import LIBRARY
from blrc.targets.c.native.wrapper import FILE, host_wrapper
from blrc.targets.c.text.header import read_layout
from blrc.targets.c.text.symbols import name_all
from blrc.targets.options import EmitOptions
from blrc.targets.requests import Optimize
from blrc.version import VERSION
from blrc.workers import thread_pool

_LOG = logging.getLogger("blrc")
OPTIMISED = ("-O3",)
CPUINFO = Path("/proc/cpuinfo")
_ALWAYS = ("-fPIC", "-fvisibility=hidden")


def host_flags() -> tuple[str, ...]:
    """Return compiler flags that give a fast library for this machine, which no other machine need be able to run.

    Every x86-64 processor of the last fifteen years counts bits in one instruction, but compilers use it on request
    only.
    """
    try:
        popcnt = platform.machine() == "x86_64" and re.search(r"^flags\b.*\bpopcnt\b", _cpuinfo(), re.MULTILINE)
    except OSError:
        popcnt = None
    return (*OPTIMISED, "-mpopcnt") if popcnt else OPTIMISED


@cache
def _cpuinfo() -> str:
    return CPUINFO.read_text(encoding="utf-8", errors="replace")


def library_files(program: Program, name: str, cpu: str | None = None, optimize: Optimize = "size") -> dict[str, bytes]:
    """Return the C of a library of `program`, as `blrc export` writes it, by file name.

    Args:
        cpu, optimize: as for `blrc export`; by default, this machine's CPU.

    Raises:
        BlrcError: the name cannot be used in C.
    """
    nothing = np.zeros((1, *program.input.shape), bool if program.input.dtype == "bits" else program.input.dtype)
    options = EmitOptions(name, unknown(program, nothing), VERSION, optimize=optimize, cpu=cpu or host_cpu())
    return emit_library(program, options)


def in_library(file: str, name: str) -> bool:
    """Return whether a file of an export of model `name` belongs to its library: C, but no self-test and no package."""
    return "/" not in file and file.endswith((".c", ".h")) and file != f"{name}_selftest.c"


class Shared:
    """Build a shared library of an export's C with the entry points of `host_wrapper`, or find it in the cache.

    Attributes:
        path: path of the library; it has been checked, and the file exists until this object is closed.
        built: whether the library was compiled now; otherwise it was in the cache.

    Args:
        files: the C, as `library_files` gives it or as it lies in an export.
        name, program: the model's name and program.
        flags: flags for the compiler, besides those that make a shared library; by default `host_flags`.
        cc: the compiler; by default the one that `blrc.targets.c.build.compiler.find_compiler` finds.

    Raises:
        BlrcError: there is no compiler, or it refuses the code.
    """

    def __init__(
        self,
        files: Mapping[str, bytes],
        name: str,
        program: Program,
        flags: Sequence[str] | None = None,
        cc: str | None = None,
    ) -> None:
        self.name = name
        self._compiler = compiler.find_compiler(cc)
        layout = read_layout(program, name, files.get(f"{name}.h", b""))
        self._flags = (*(host_flags() if flags is None else flags), *tier_flags(name, layout.cpu), *_ALWAYS)
        wrapper = host_wrapper(name_all(layout, name, program_file.digest(program)))
        self._files = {**files, FILE: wrapper.encode("ascii")}
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self.built = False
        self.path = self._cached()

    def close(self) -> None:
        """Remove a library that the cache does not keep; what has been loaded keeps working without its file."""
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self) -> Shared:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _cached(self) -> Path:
        key = self._key()
        if (cache := _cache()) is not None:
            try:
                if (found := library_cache.library(cache, key, self._build)) is not None:
                    return found
            except UnsafeError as error:
                _say(str(error))
        # No cache, none that can be written, or one that is not this user's alone: a library for this process alone.
        with temporary_files():
            self._temporary = tempfile.TemporaryDirectory(prefix="blrc-native-")
            try:
                return self._build(Path(self._temporary.name))
            except BaseException:
                self.close()
                raise

    def _key(self) -> str:
        command = (*self._compiler, *self._flags)
        identity = objects.identity(command, lambda tool: compiler.run_tool(tool, "asking the compiler what it is"))
        parts = [b"2", identity]
        for name, content in sorted(self._files.items()):
            parts += [name.encode(), content]
        # Hashes of the parts, so that no part can pass for two.
        return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()

    def _build(self, folder: Path) -> Path:
        """Compile all files in `folder` and return the path of the library.

        ``<name>.c`` is not compiled by itself, because the wrapper includes it.
        """
        for name, content in self._files.items():
            (folder / name).write_bytes(content)

        def compile_one(file: str) -> Path:
            source = folder / file
            return compiler.compile_object(self._compiler, self._flags, source, source.with_suffix(".o"), folder)

        sources = sorted(file for file in self._files if file.endswith(".c") and file != f"{self.name}.c")
        with thread_pool() as pool:
            objects = list(pool.map(compile_one, sources))
        self.built = True
        return compiler.link(self._compiler, (*self._flags, "-shared"), objects, folder / LIBRARY)


def _cache() -> Path | None:
    try:
        return cache_folder("native")
    except BlrcError:  # a user without a home folder, as in some containers
        return None


@cache
def _say(what: str) -> None:
    """Warn once in a process that libraries are not kept, and why.

    The warning is a line on standard error unless logging is set up otherwise.
    """
    _LOG.warning("%s; until then libraries are compiled anew in a private folder", what)
