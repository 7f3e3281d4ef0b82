"""The cache of compiled libraries: found, built again where anything differs or is damaged, never half there."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from random_programs import random_inputs, random_program

from blrc.errors import BlrcError
from blrc.program import program_file, reference
from blrc.program.program import Program
from blrc.targets.c.build import objects
from blrc.targets.c.native import library
from blrc.targets.c.native.cache import CHECKSUM, LIBRARY
from blrc.targets.c.native.library import Shared, in_library, library_files
from blrc.targets.c.native.network import Native

QUICK = ("-O0",)
OPTIMISED = library.OPTIMISED  # what users get: conftest.py asks for less


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of libraries, which is not there yet; that of objects stays the one that all tests share."""
    folder, shared = tmp_path / "cache", objects._folder()
    monkeypatch.setattr(objects, "_folder", lambda: shared)
    monkeypatch.setattr(library, "host_cpu", lambda: "portable")  # fewer kernels to compile
    monkeypatch.setenv("BLRC_CACHE", str(folder))
    return folder / "native"


@pytest.fixture(scope="module")
def program() -> Program:
    return random_program(0, "bits", (3, 3, 5), layers=2)


def made(program: Program, flags: tuple[str, ...] = QUICK, **options: Any) -> Shared:
    return Shared(library_files(program, "net"), "net", program, flags, **options)


def works(program: Program, **options: Any) -> bool:
    """A library is loaded (in a process of its own) and gives the reference's scores; whether it was compiled now."""
    raw = random_inputs(program, 5)
    with Native(library_files(program, "net"), "net", program, 1, QUICK, **options) as net:
        np.testing.assert_array_equal(net.scores(raw), reference.scores(program, raw))
        return net.built


def test_built_once_and_then_found(program: Program, cache: Path) -> None:
    first, again = made(program), made(program)
    assert (first.built, again.built) == (True, False)
    assert first.path == again.path
    assert first.path.parent.parent == cache
    assert sorted(file.name for file in cache.rglob("*")) == sorted([first.path.parent.name, LIBRARY, CHECKSUM])


@pytest.mark.slow("compiles a library in many ways")
def test_whatever_differs_is_another_entry(
    program: Program, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [made(program).path, made(program, ("-O1",)).path, made(program, (*QUICK, "-DTIER=2")).path]
    found.append(made(random_program(2, "bits", (3, 3, 5), layers=2)).path)
    compiler = tmp_path / "my-cc"
    compiler.write_text('#!/bin/sh\nexec cc "$@"\n', encoding="ascii")
    compiler.chmod(0o755)
    found.append(made(program, cc=str(compiler)).path)
    compiler.write_text('#!/bin/sh\nexec cc -DTHEIR_VERSION=2 "$@"\n', encoding="ascii")  # as after an upgrade
    found.append(made(program, cc=str(compiler)).path)
    files = library_files(program, "net")
    files["net.c"] += b"/* edited */\n"
    found.append(Shared(files, "net", program, QUICK).path)
    assert len(set(found)) == len(found)
    assert not made(program).built


@pytest.mark.parametrize("damage", ["cut", "flipped", "no library", "no checksum", "bad checksum", "empty"])
def test_a_damaged_entry_is_built_again(program: Program, cache: Path, damage: str) -> None:
    path = made(program).path
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[:-100])
    elif damage == "flipped":
        path.write_bytes(content[:4000] + bytes([content[4000] ^ 1]) + content[4001:])
    elif damage == "no library":
        path.unlink()
    elif damage == "no checksum":
        (path.parent / CHECKSUM).unlink()
    elif damage == "bad checksum":
        (path.parent / CHECKSUM).write_bytes(b"\xff\xfe")
    else:
        for file in list(path.parent.iterdir()):
            file.unlink()
    again = made(program)
    assert again.built
    assert again.path == path
    assert path.read_bytes() == content
    assert [folder.name for folder in cache.iterdir()] == [path.parent.name]  # nothing is left beside it


def test_a_file_in_the_place_of_an_entry(program: Program, cache: Path) -> None:
    path = made(program).path
    for file in list(path.parent.iterdir()):
        file.unlink()
    path.parent.rmdir()
    path.parent.write_text("not a folder", encoding="ascii")
    assert made(program).built
    assert path.is_file()


@pytest.mark.slow("compiles C")
def test_another_user_s_entry_is_not_loaded(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    made(program)
    mine = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: mine + 1)
    with_theirs = made(program)
    try:
        assert with_theirs.built
        assert with_theirs.path.is_file()
    finally:
        with_theirs.close()


def test_without_a_cache_that_can_be_written_it_still_works(program: Program, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way", encoding="ascii")
    assert works(program)
    assert works(program)  # compiled again: there is nowhere to keep it


def test_without_a_home_it_still_works(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> NoReturn:
        raise RuntimeError("Could not determine home directory.")

    for name in ("BLRC_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert works(program)


def test_a_full_disk_is_the_user_s_to_mend(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device", "/tmp/x")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(BlrcError, match=r"/tmp/x: No space left on device; free space there, or set TMPDIR"):
        Shared({"net.c": b""}, "net", program)


@pytest.mark.nightly
def test_two_processes_that_build_at_once_agree(program: Program, cache: Path, tmp_path: Path) -> None:
    program_file.save(program, tmp_path / "net.program.npz")
    script = """
        import sys
        from pathlib import Path
        from blrc.program import program_file
        from blrc.targets.c.native.cache import whole
        from blrc.targets.c.native import library
        from blrc.targets.c.native.library import Shared, library_files
        library.host_cpu = lambda: "portable"
        program = program_file.load(Path(sys.argv[1]))
        files = library_files(program, "net")
        print("ready", flush=True)
        sys.stdin.readline()
        for _ in range(3):
            made = Shared(files, "net", program, ("-O0",))
            assert whole(made.path.parent)
            print(made.path, flush=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "net.program.npz")]
    running = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    found = []
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in running:
        out, _ = process.communicate(timeout=300)
        assert process.returncode == 0
        found += out.split()
    assert len(found) == 12
    assert set(found) == {str(made(program).path)}
    assert len(list(cache.iterdir())) == 1


def test_another_process_may_be_faster(program: Program, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = library.compiler.link

    def slow(*arguments: Any) -> Path:
        with monkeypatch.context() as patch:
            patch.setattr(library.compiler, "link", link)
            assert made(program).built  # the other process, in the middle of ours
        return link(*arguments)

    monkeypatch.setattr(library.compiler, "link", slow)
    assert made(program).path.is_file()
    assert len(list(cache.iterdir())) == 1


def test_without_a_compiler(program: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BlrcError, match=r"no C compiler found .* install gcc or clang"):
        made(program)
    with pytest.raises(BlrcError, match="C compiler 'mycc' not found"):
        made(program, cc="mycc")


def test_code_that_does_not_compile_leaves_nothing_behind(program: Program, cache: Path) -> None:
    files = library_files(program, "net")
    files["net.c"] += b"#error broken\n"
    with pytest.raises(BlrcError, match="#error broken"):
        Shared(files, "net", program, QUICK)
    assert list(cache.iterdir()) == []


def test_what_belongs_to_a_library() -> None:
    names = ["net.c", "net.h", "net_weights_2.c", "net_blrc.c", "net_blrc_tile.h"]
    others = ["net_selftest.c", "cmake/net/src/net.c", "Makefile", "net.onnx"]
    assert [name for name in (*names, *others) if in_library(name, "net")] == names


@pytest.mark.parametrize(
    ("machine", "cpuinfo", "flags"),
    [
        ("x86_64", "flags\t\t: fpu sse4_2 popcnt avx\n", ("-O3", "-mpopcnt")),
        ("x86_64", "flags\t\t: fpu sse2 avx512_vpopcntdq\n", ("-O3",)),
        ("aarch64", "Features\t: fp asimd popcnt\n", ("-O3",)),
        ("x86_64", None, ("-O3",)),
    ],
)
def test_flags_are_those_of_the_machine(
    machine: str, cpuinfo: str | None, flags: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if cpuinfo is not None:
        (tmp_path / "cpuinfo").write_text(cpuinfo, encoding="ascii")
    monkeypatch.setattr(library, "OPTIMISED", OPTIMISED)
    monkeypatch.setattr(library, "CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(library.platform, "machine", lambda: machine)
    library._cpuinfo.cache_clear()
    assert library.host_flags() == flags
    library._cpuinfo.cache_clear()
