"""The cache of compiled objects: the same text is compiled once, another never passes for it, nothing unsafe is used.

A compiler that counts its calls stands in for the host's, which it calls."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from blrc.errors import BlrcError
from blrc.targets.c.build import compiler, objects
from blrc.targets.c.build.callgraph import FLAG

pytestmark = pytest.mark.needs("gcc")

SOURCE = '#include "net.h"\nint answer(void) { return NUMBER; }\n'


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of entries; it is not there yet."""
    monkeypatch.setenv("BLRC_CACHE", str(tmp_path / "cache"))
    objects._say.cache_clear()
    yield tmp_path / "cache" / objects.FOLDER
    objects._say.cache_clear()


@pytest.fixture
def gcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A gcc that writes a line for each object that it compiles."""
    path = tmp_path / "bin" / "counting-gcc"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\ncase " $* " in *" -c "*) echo >> {tmp_path}/calls;; esac\nexec gcc "$@"\n')
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def calls(tmp_path: Path) -> Callable[[], int]:
    """How many objects were compiled since the last time that this was asked."""

    def count() -> int:
        file = tmp_path / "calls"
        found = len(file.read_text().splitlines()) if file.exists() else 0
        file.unlink(missing_ok=True)
        return found

    return count


def write(folder: Path, number: str = "42", source: str = SOURCE) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "net.h").write_text(f"#define NUMBER {number}\n")
    (folder / "net.c").write_text(source)
    return folder


def build(gcc: str, folder: Path, *flags: str, cplusplus: bool = False) -> Path:
    return compiler.compile_object((gcc,), flags, folder / "net.c", folder / "net.o", folder, cplusplus)


def answer(gcc: str, built: Path) -> int:
    """What the function in this object returns."""
    main = built.parent / "main.c"
    main.write_text("int answer(void);\nint main(void) { return answer(); }\n")
    subprocess.run(["gcc", str(main), str(built), "-o", str(built.parent / "main")], check=True)
    return subprocess.run([str(built.parent / "main")], check=False).returncode


@pytest.mark.usefixtures("cache")
def test_the_same_text_is_compiled_once(gcc: str, calls: Callable[[], int], tmp_path: Path) -> None:
    first, second = build(gcc, write(tmp_path / "a")), build(gcc, write(tmp_path / "b"))
    assert calls() == 1
    assert first.read_bytes() == second.read_bytes() and answer(gcc, second) == 42


@pytest.mark.usefixtures("cache")
def test_another_process_finds_it(gcc: str, calls: Callable[[], int], tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / name)
        code = (
            "import sys; from pathlib import Path; from blrc.targets.c.build.compiler import compile_object as c\n"
            f"f = Path({str(tmp_path / name)!r}); c(({gcc!r},), ('-O1',), f / 'net.c', f / 'net.o', f)"
        )
        subprocess.run([sys.executable, "-c", code], check=True)
    assert calls() == 1 and answer(gcc, tmp_path / "b" / "net.o") == 42


def test_another_text_is_compiled(gcc: str, calls: Callable[[], int], tmp_path: Path, cache: Path) -> None:
    """A header, the source, a header's header, a macro of the command line, the language: each changes the object."""
    folder = write(tmp_path / "a")

    def found(*flags: str, cplusplus: bool = False) -> tuple[int, int]:
        built = build(gcc, folder, *flags, cplusplus=cplusplus)
        return 0 if cplusplus else answer(gcc, built), calls()

    assert found() == (42, 1)
    write(folder, "43")
    assert found() == (43, 1)
    write(folder, "deep()", '#include "net.h"\n' + SOURCE)
    (folder / "net.h").write_text('#include "deep.h"\n#define NUMBER DEEP\n')
    (folder / "deep.h").write_text("#define DEEP 44\n")
    assert found() == (44, 1)
    (folder / "deep.h").write_text("#define DEEP 45\n")
    assert found() == (45, 1)
    write(folder, "MORE")
    assert found("-DMORE=46") == (46, 1)
    assert found("-DMORE=47") == (47, 1)
    assert found("-DMORE=46", "-O2")[1] == 1
    assert found("-DMORE=46", cplusplus=True)[1] == 1
    computed = "#include MORE\nint answer(void) { return 48; }\n"
    write(folder, "0", computed)
    (folder / "more.h").write_text("")
    assert found('-DMORE="more.h"') == (48, 1)
    (folder / "more.h").write_text("#define answer other\nint answer(void);\nint other(void);\n#undef answer\n")
    assert found('-DMORE="more.h"') == (48, 1)  # seen by the preprocessor alone
    assert found('-DMORE="more.h"') == (48, 0)
    assert len(list(cache.glob("[0-9a-f]*"))) == 10


@pytest.mark.usefixtures("cache")
def test_macros_that_no_text_uses_make_no_difference(gcc: str, calls: Callable[[], int], tmp_path: Path) -> None:
    build(gcc, write(tmp_path / "a"), "-DFIRST=1")
    build(gcc, write(tmp_path / "b"), "-DSECOND")
    assert calls() == 1


PAIRS: dict[str, tuple[str, str]] = {
    "bytes that are not UTF-8": (
        'int answer(void) { return "\xe9"[0] & 255; }',
        'int answer(void) { return "\xe8"[0] & 255; }',
    ),
    "lines": ("/*\n\n*/\nint answer(void) { return __LINE__; }", "/* */\nint answer(void) { return __LINE__; }"),
    "import": ('#import "v.h"\nint answer(void) { return V; }',) * 2,
    "a comment before": ('/**/ #include "v.h"\nint answer(void) { return V; }',) * 2,
    "a folded line": ('#inclu\\\nde "v.h"\nint answer(void) { return V; }',) * 2,
    "has include": (
        '#if __has_include("w.h")\n#define V 2\n#else\n#define V 1\n#endif\nint answer(void) { return V; }',
    )
    * 2,
    "what the system's headers read": ("#include <assert.h>\nint answer(void) { assert(1); return V; }\n",) * 2,
}


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())
def test_regression_a_stale_object(gcc: str, calls: Callable[[], int], tmp_path: Path, pair: tuple[str, str]) -> None:
    """Objects of another text were used: of another byte, line, or header that the preprocessor alone finds."""
    for number, text in enumerate(pair, 1):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "net.c").write_bytes(text.encode("latin-1"))
        (folder / "v.h").write_text(f"#define V {number}\n")
        if number == 2:
            (folder / "w.h").write_text("")
        built = build(gcc, folder, f"-DV={number}") if "assert" in text else build(gcc, folder)
        alone = folder / "alone.o"
        subprocess.run(
            [
                "gcc",
                *([f"-DV={number}"] if "assert" in text else []),
                f"-I{folder}",
                "-c",
                str(folder / "net.c"),
                "-o",
                str(alone),
            ],
            check=True,
        )
        assert answer(gcc, built) == answer(gcc, alone)
    assert calls() == 2


@pytest.mark.usefixtures("cache")
def test_regression_a_comment_that_silences_a_warning(gcc: str, tmp_path: Path) -> None:
    """Without its comment the same text was compiled without a word."""
    text = "int answer(int x);\nint answer(int x) { switch (x) { case 1: x = 2; %s case 2: return x; } return 0; }\n"
    flags = ("-Wextra", "-Werror")
    build(gcc, write(tmp_path / "a", source=text % "/* fall through */\n"), *flags)
    with pytest.raises(BlrcError, match="fall"):
        build(gcc, write(tmp_path / "b", source=text % "\n"), *flags)


@pytest.mark.usefixtures("cache")
def test_regression_assembler_that_includes_a_file_is_compiled_each_time(
    gcc: str, calls: Callable[[], int], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    folder = write(tmp_path / "a", source=f'__asm__(".section .rodata\\n.incbin \\"{data}\\"\\n.text");\n' + SOURCE)
    objects_of = []
    for content in (b"first content", b"other content"):
        data.write_bytes(content)
        objects_of.append(build(gcc, folder).read_bytes())
    assert calls() == 2 and b"other content" in objects_of[1]


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("variable", sorted(set(objects._VARIABLES) - {"GCC_EXEC_PREFIX"}))  # gcc finds nothing there
def test_variables_that_lead_a_compiler_elsewhere_are_respected(
    gcc: str, calls: Callable[[], int], tmp_path: Path, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "elsewhere"))
    for name in ("a", "b"):
        build(gcc, write(tmp_path / name))
    assert calls() == 2


@pytest.mark.usefixtures("cache")
def test_regression_a_file_that_changes_while_it_is_compiled_makes_no_entry(
    gcc: str, calls: Callable[[], int], tmp_path: Path
) -> None:
    """The object was kept under the name of the text before."""
    folder = write(tmp_path / "a")
    path = Path(gcc)
    text = path.read_text()
    path.write_text(text.replace("echo >>", f"echo '#define NUMBER 43' > {folder}/net.h; echo >>"))
    build(gcc, folder)
    path.write_text(text)
    assert answer(gcc, build(gcc, write(tmp_path / "b"))) == 42


@pytest.mark.usefixtures("cache")
def test_another_compiler_is_asked_itself(gcc: str, calls: Callable[[], int], tmp_path: Path) -> None:
    """One at another path, one that has been changed in its place, and one that predefines other things."""
    folder = write(tmp_path / "a")
    build(gcc, folder)
    other = Path(gcc).with_name("other-gcc")
    other.write_text(Path(gcc).read_text())
    other.chmod(0o755)
    build(str(other), folder)
    other.write_text(Path(gcc).read_text() + "# a newer version\n")
    build(str(other), folder)
    assert calls() == 3
    build(gcc, folder)
    assert calls() == 0


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("flag", ["--coverage", "-fprofile-arcs", "-save-temps", "-MD", "-Wl,-s", "@options"])
def test_what_writes_other_files_is_left_to_the_compiler(
    gcc: str, calls: Callable[[], int], tmp_path: Path, flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "options").write_text("-O1")
    for name in ("a", "b"):
        build(gcc, write(tmp_path / name), flag)
    assert calls() == 2


@pytest.mark.usefixtures("cache")
def test_what_is_known_of_stack_and_calls_comes_along(gcc: str, calls: Callable[[], int], tmp_path: Path) -> None:
    build(gcc, write(tmp_path / "a"), FLAG)
    build(gcc, write(tmp_path / "b"), FLAG)
    assert calls() == 1
    assert "answer" in (tmp_path / "b" / "net.ci").read_text()
    build(gcc, write(tmp_path / "c"), "-fstack-usage")
    build(gcc, write(tmp_path / "d"), "-fstack-usage")
    assert compiler.stack_usage(tmp_path / "d")["net"].keys() == {"answer"}


@pytest.mark.usefixtures("cache")
def test_a_complaint_is_never_kept(gcc: str, calls: Callable[[], int], tmp_path: Path) -> None:
    folder = write(tmp_path / "a", "undeclared")
    for _ in range(2):
        with pytest.raises(BlrcError, match=r"compiling net\.c failed[^$]*undeclared"):
            build(gcc, folder)
    assert calls() == 2
    with pytest.raises(BlrcError, match="no-such-gcc not found"):
        build("no-such-gcc", folder)


def only(cache: Path) -> Path:
    (entry,) = cache.glob("[0-9a-f]*")
    return entry


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a changed byte": lambda entry: entry.write_bytes(entry.read_bytes()[:-1] + b"\1"),
    "a changed size": lambda entry: entry.write_bytes(entry.read_bytes()[:33] + b"\7" + entry.read_bytes()[34:]),
    "cut short": lambda entry: os.truncate(entry, 100),
    "empty": lambda entry: os.truncate(entry, 0),
    "huge": lambda entry: os.truncate(entry, 2**43),
    "a FIFO": lambda entry: (entry.unlink(), os.mkfifo(entry)),
    "a link to nothing": lambda entry: (entry.unlink(), entry.symlink_to("nowhere")),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_damage_is_compiled_and_kept_again(
    gcc: str, calls: Callable[[], int], tmp_path: Path, cache: Path, damage: Callable[[Path], object]
) -> None:
    build(gcc, write(tmp_path / "a"))
    damage(only(cache))
    assert calls() == 1
    assert answer(gcc, build(gcc, write(tmp_path / "b"))) == 42
    assert answer(gcc, build(gcc, write(tmp_path / "c"))) == 42
    assert calls() == 1


def planted(gcc: str, tmp_path: Path, cache: Path) -> Path:
    """The entry of one text, which holds the whole and sound object of another."""
    build(gcc, write(tmp_path / "a", "66"))
    wrong = only(cache)
    content = wrong.read_bytes()
    wrong.unlink()
    build(gcc, write(tmp_path / "a"))
    entry = only(cache)
    entry.write_bytes(content)
    assert answer(gcc, build(gcc, write(tmp_path / "b"))) == 66  # what is safe is believed
    return entry


UNSAFE: dict[str, Callable[[Path, Path], object]] = {
    "others may write the entry": lambda entry, _: entry.chmod(0o666),
    "the entry is a link": lambda entry, away: (entry.rename(away), entry.symlink_to(away)),
    "others may write the folder": lambda entry, _: entry.parent.chmod(0o777),
    "others may write the cache": lambda entry, _: entry.parent.parent.chmod(0o770),
    "the folder is a link": lambda entry, away: (entry.parent.rename(away), entry.parent.symlink_to(away)),
}


@pytest.mark.parametrize("change", UNSAFE.values(), ids=UNSAFE.keys())
def test_what_others_may_have_made_is_not_used_and_it_is_said(
    gcc: str, tmp_path: Path, cache: Path, change: Callable[[Path, Path], object], caplog: pytest.LogCaptureFixture
) -> None:
    entry = planted(gcc, tmp_path, cache)
    change(entry, tmp_path / "away")
    for name in ("c", "d"):
        assert answer(gcc, build(gcc, write(tmp_path / name))) == 42
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith(str(tmp_path / "cache")) and said.endswith("until then objects are compiled anew")


@pytest.mark.parametrize("place", ["a file", "no home"])
def test_where_nothing_can_be_kept_it_is_compiled(
    gcc: str, calls: Callable[[], int], tmp_path: Path, cache: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if place == "a file":
        cache.parent.write_text("in the way")
    else:
        for name in ("BLRC_CACHE", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError))
    for name in ("a", "b"):
        assert answer(gcc, build(gcc, write(tmp_path / name))) == 42
    assert calls() == 2


def test_a_full_disk_costs_a_compilation_and_nothing_else(
    gcc: str, calls: Callable[[], int], tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    for name in ("a", "b"):
        assert answer(gcc, build(gcc, write(tmp_path / name))) == 42
    assert calls() == 2
    assert [path.name for path in cache.iterdir() if not path.name.startswith(".lock.")] == []


def test_the_folder_is_bounded_and_what_is_used_stays(
    gcc: str, calls: Callable[[], int], tmp_path: Path, cache: Path
) -> None:
    for age in range(8):
        build(gcc, write(tmp_path / "a", str(age)))
        for entry in cache.glob("[0-9a-f]*"):
            about = entry.stat()
            os.utime(entry, (about.st_atime, about.st_mtime - 1000))
    build(gcc, write(tmp_path / "b", "0"))  # the oldest is used
    (cache / ".new.killed").write_bytes(b"")
    os.utime(cache / ".new.killed", (0, 0))
    calls()
    entries = list(cache.glob("[0-9a-f]*"))
    size = max(entry.stat().st_size for entry in entries)
    objects.bound(cache, 8 * size)
    assert len(list(cache.glob("[0-9a-f]*"))) == 8 and not (cache / ".new.killed").exists()
    objects.bound(cache, 4 * size)
    assert len(list(cache.glob("[0-9a-f]*"))) == 3
    for number in ("0", "7", "6", "1"):
        build(gcc, write(tmp_path / "c", number))
    assert calls() == 1


@pytest.mark.usefixtures("cache")
def test_two_threads_that_want_the_same_object_compile_it_once(
    gcc: str, calls: Callable[[], int], tmp_path: Path
) -> None:
    slow = Path(gcc).with_name("slow-gcc")
    slow.write_text(Path(gcc).read_text().replace("echo >>", "sleep 0.3; echo >>"))
    slow.chmod(0o755)
    folders = [write(tmp_path / name) for name in "abcd"]
    threads = [threading.Thread(target=build, args=(str(slow), folder)) for folder in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls() == 1
    assert [answer(gcc, folder / "net.o") for folder in folders] == [42] * 4
