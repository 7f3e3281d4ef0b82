"""Compile an export: choose a compiler, build its commands, and measure the objects."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from blrc.errors import BlrcError
from blrc.targets.c.build import objects
from blrc.targets.c.text.runtime import parts, with_headers

COMPILE_TIMEOUT = 600.0

STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror")
"""What generated code and runtime compile under without a warning, in gcc and clang."""


CERTAINTY = ("init", "add", "result", "is_final", "gated", "predict")
"""The functions of a model that say how certain it is; they alone call the runtime's head."""


class ToolError(BlrcError):
    """Report that a compiler or another tool is missing, cannot be started, fails, or takes too long."""


def find_compiler(cc: str | None = None, environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return the command of the host's C compiler: `cc`, ``$CC``, or the first of cc, gcc and clang that exists.

    Raises:
        BlrcError: there is none, or the one that was asked for does not exist.
    """
    environment = os.environ if environment is None else environment
    path = environment.get("PATH")
    wanted = cc or environment.get("CC")
    if wanted:
        try:
            command = tuple(shlex.split(wanted))
        except ValueError as error:  # a quote that is not closed
            raise BlrcError(f"C compiler {wanted!r}: {error}; set CC to a command") from None
        if not command or shutil.which(command[0], path=path) is None:
            raise BlrcError(f"C compiler {wanted!r} not found; install it, or set CC to another")
        return command
    for candidate in ("cc", "gcc", "clang"):
        if shutil.which(candidate, path=path) is not None:
            return (candidate,)
    raise BlrcError("no C compiler found (looked for cc, gcc, clang); install gcc or clang, or set CC")


def compile_command(
    compiler: Sequence[str], flags: Sequence[str], source: Path, out: Path, include: Path, cplusplus: bool = False
) -> list[str]:
    """Return the command that compiles `source` to the object `out`, as C99 or as C++11."""
    language = ["-x", "c++", "-std=c++11"] if cplusplus else ["-x", "c", "-std=c99"]
    return [*compiler, *language, *flags, f"-I{include}", "-c", str(source), "-o", str(out)]


def compile_object(
    compiler: Sequence[str], flags: Sequence[str], source: Path, out: Path, include: Path, cplusplus: bool = False
) -> Path:
    """Compile one file, unless the cache has the object of the same text and command (`blrc.targets.c.build.objects`).

    Raises:
        BlrcError: the compiler complains (its first lines are in the message), hangs, or does not exist.
    """
    command = compile_command(compiler, flags, source, out, include, cplusplus)
    objects.compiled(command, source, out, lambda tool: run_tool(tool, f"compiling {source.name}"))
    return out


def link(compiler: Sequence[str], flags: Sequence[str], objects: Sequence[Path], out: Path) -> Path:
    """Link objects into a program.

    Raises:
        BlrcError: the linker complains.
    """
    run_tool([*compiler, *flags, *map(str, objects), "-o", str(out)], f"linking {out.name}")
    return out


def run_tool(command: Sequence[str], what: str, timeout: float = COMPILE_TIMEOUT) -> str:
    """Run a tool and return its standard output, in which surrogates stand for bytes that are not UTF-8.

    Raises:
        ToolError: it does not exist, cannot be started, fails or takes too long; the message starts with `what`.
    """
    try:
        done = subprocess.run(command, capture_output=True, timeout=timeout, check=False)
    except FileNotFoundError:
        raise ToolError(f"{what}: {command[0]} not found; install it") from None
    except OSError as error:
        raise ToolError(f"{what}: cannot start {command[0]}: {error.strerror or error}") from None
    except subprocess.TimeoutExpired:
        raise ToolError(f"{what}: {command[0]} did not finish in {timeout:.0f} s") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).decode("utf-8", "replace")
        raise ToolError(f"{what} failed (status {done.returncode}): {first_lines(said)}")
    return done.stdout.decode("utf-8", "surrogateescape")


def first_lines(text: str, lines: int = 12) -> str:
    """Return the first lines of a tool's error message, without empty lines."""
    return "\n".join([line for line in text.splitlines() if line.strip()][:lines])


def sources(folder: Path, name: str) -> list[Path]:
    """Return the C files of model `name`'s library in an export, in order, without the self-test.

    Raises:
        BlrcError: the folder holds no C of that model.
    """
    if not (folder / f"{name}.c").is_file():
        raise BlrcError(f"{folder}: has no {name}.c; export with --target c first")
    return [folder / f"{name}.c", *sorted({*folder.glob(f"{name}_*.c")} - {folder / f"{name}_selftest.c"})]


@dataclass(frozen=True)
class Sizes:
    """Hold an object's bytes: code and constants (`text`), initialised data (`data`) and zeroed data (`bss`)."""

    text: int
    data: int
    bss: int


def measure(objects: Sequence[Path], size: str = "size") -> dict[str, Sizes]:
    """Return what ``size`` says of each object, by file name. `text` includes constants (rodata).

    Raises:
        BlrcError: the tool is missing or its output is not understood.
    """
    if shutil.which(size) is None:
        raise BlrcError(f"measuring objects: {size} not found; install binutils")
    output = run_tool([size, "-B", *map(str, objects)], "measuring objects")
    result = {}
    for line in output.splitlines()[1:]:
        fields = line.split()
        result[Path(fields[5]).name] = Sizes(int(fields[0]), int(fields[1]), int(fields[2]))
    if len(result) != len(objects):
        raise BlrcError(f"measuring objects: {size} printed {len(result)} lines for {len(objects)} objects")
    return result


def certainty_bytes(objects: Sequence[Path], name: str, nm: str = "nm") -> int:
    """Return how many bytes of the objects are the functions of model `name` that say how certain it is, and their
    tables: what linkers leave out of a program that only classifies.

    Raises:
        BlrcError: the tool is missing or fails.
    """
    if shutil.which(nm) is None:
        raise BlrcError(f"measuring objects: {nm} not found; install binutils")
    output = run_tool([nm, "-S", "-P", *map(str, objects)], "measuring objects")
    functions = "|".join(CERTAINTY)
    sizes = re.findall(rf"^{name}_(?:{functions}|blrc_(?:head|values)_\w+)\S* [tTrR] \w+ (\w+)", output, re.MULTILINE)
    return sum(int(nbytes, 16) for nbytes in sizes)


def stack_usage(folder: Path) -> dict[str, dict[str, int]]:
    """Return the stack bytes of every function by file stem, from the ``.su`` files in `folder`.

    The compiler leaves these files with ``-fstack-usage``.

    Raises:
        BlrcError: a function has no static bound.
    """
    result: dict[str, dict[str, int]] = {}
    for file in sorted(folder.glob("*.su")):
        functions = result.setdefault(file.stem, {})
        for line in file.read_text(encoding="utf-8").splitlines():
            where, nbytes, kind = line.split("\t")
            if kind not in ("static", "dynamic,bounded"):  # bounded: arguments are pushed; the number includes them
                raise BlrcError(f"{where}: its stack is not bounded ({kind})")
            functions[re.split(r"[: ]", where)[-1]] = int(nbytes)
    return result


def stack_bound(usage: Mapping[str, Mapping[str, int]], model: str, runtime: str) -> int:
    """Return a bound on the stack of one call of the model, in bytes.

    It adds up the model's own file, the kernel that needs most, and what kernels call. Within a part of the runtime no
    chain of calls can cost more than all functions of the part and of what it includes together. Only ``run`` and
    ``run_real`` are called by other kernels, and they do not call each other. The model's steps are called one at a
    time, so only the largest of them counts. The same holds for the functions that ``predict`` calls. Where gcc
    compiles, `callgraph.deepest` gives a tighter bound.

    Args:
        usage: the stack of every function, as `stack_usage` gives it.
        runtime: the text of ``<name>_blrc.c``.
    """
    own = dict(usage[model])
    called = [own.pop(f"{model}_{call}", 0) for call in CERTAINTY if call != "predict"]
    steps = [own.pop(name) for name in list(own) if name.startswith(f"{model}_op_")]
    frames = _of_parts(usage[f"{model}_blrc"], parts(runtime))
    kernels = {file: sum(frames.get(part, 0) for part in with_headers(file)) for file in frames if file.endswith(".c")}
    shared = max(kernels.pop(f"blrc_{file}.c", 0) for file in ("run", "run_real"))
    apart = [sum(found.values()) for stem, found in usage.items() if stem.startswith(f"{model}_blrc_")]
    return sum(own.values()) + max(called) + max(steps, default=0) + max([*kernels.values(), *apart]) + shared


def _of_parts(functions: Mapping[str, int], texts: Mapping[str, str]) -> dict[str, int]:
    """Return the stack of all functions of each part of the runtime together."""
    found = dict.fromkeys(texts, 0)
    for function, nbytes in functions.items():
        name = function.partition(".")[0]  # compilers name clones function.part.0
        defined = re.compile(rf"^\w.*\b{re.escape(name)}\([^;]*\n\{{", re.MULTILINE)
        found[next(part for part, content in texts.items() if defined.search(content))] += nbytes
    return found
