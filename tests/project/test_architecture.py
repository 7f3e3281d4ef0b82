"""Which module may import which. Reads the sources; imports nothing of blrc."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAX_LINES = 320
MAX_ENTRIES = 12  # of a folder: what one can keep in mind
MAX_TOP = 8  # modules that lie directly in blrc/, besides __init__ and __main__


@dataclass(frozen=True)
class Room:
    """A module or package directly in ``blrc/``.

    Attributes:
        name: without ``blrc.``; empty for ``blrc/__init__.py``.
        torch: ``no`` (neither the room nor anything of blrc that it imports may use torch), ``lazy`` (torch may be
            imported inside functions, but importing a module does without), or ``yes``.
        but: patterns of modules in the room for which another rule holds.
    """

    name: str
    torch: str = "no"
    but: Mapping[str, str] = field(default_factory=dict)

    def torch_in(self, module: str) -> str:
        """Return the rule for a module of this room."""
        return next((rule for pattern, rule in self.but.items() if fnmatchcase(module, pattern)), self.torch)


# Data flows down this list: a room imports only rooms above it. Put a new room below everything that it imports.
ROOMS = (
    Room("version"),
    Room("errors"),
    Room("display"),
    Room("workers"),
    Room("extras"),
    Room("reading"),
    Room("store"),
    Room("net"),
    Room("nn", torch="yes"),
    Room("program"),
    Room("datasets"),
    Room(
        "frontend",
        torch="lazy",
        but={"frontend.kinds*": "no", "frontend.weights*": "no"}
        | dict.fromkeys(("frontend.graph", "frontend.capture*", "frontend.saving", "frontend.full_precision"), "yes"),
    ),
    Room("importing", torch="lazy"),
    Room(
        "lowering",
        but={"lowering.exact.by_torch": "yes", "lowering.preactivations": "lazy", "lowering.calibrate": "lazy"}
        | dict.fromkeys(("lowering.statistics", "lowering.translate", "lowering.lower"), "lazy"),
    ),
    Room("training", torch="yes", but={"training": "no", "training.recipe": "no", "training.prior": "no"}),
    Room("targets"),
    Room("exports"),
    Room("verification", torch="lazy"),
    Room(
        "evaluation",
        torch="yes",
        but={"evaluation.metrics": "no", "evaluation.figures": "no", "evaluation.choice": "lazy", "evaluation": "no"},
    ),
    Room("inspection", torch="lazy", but={"inspection.what_if": "no", "inspection.budget": "no"}),
    Room("pruning", torch="lazy", but={"pruning.constants": "yes", "pruning.search": "yes"}),
    Room("app", torch="lazy"),
    Room("benchmark", torch="lazy", but={"benchmark.rivals.torch_twin": "yes"}),
    Room("", torch="lazy"),  # blrc/__init__.py
    Room("cli", torch="lazy", but={"cli.ends": "no", "cli.progress": "no"}),
    Room("__main__", torch="lazy"),
)

INSIDE = {
    "program": "head heads ops values program legal reference vectors program_file",
    "program.ops": "op windows encode binarize conv pool flatten end scores binary_scores registry",
    "targets": "publication runtime_licence requests options naming onnx c web registry",
    "targets.c": "runtime_files kernels options layout size text build packages emit native machines",
}
"""The same order inside of rooms that hold rooms."""

C_ROOMS = {
    "core": "",
    "count": "core",
    "words": "core count",
    "codes": "core count",
    "levels": "core count codes",
    "ternary": "core count codes levels",
    "whole": "core levels",
    "sliced": "core count",
    "scores": "core count",
    "host": "core count",
}
"""Of the runtime: a room of ``runtime/src/`` to the rooms whose headers its files may include."""


Imports = Mapping[str, frozenset[str]]
"""Module (without ``blrc.``) to what it imports: modules of blrc likewise, ``torch`` as ``!torch``."""


def room_of(module: str) -> Room | None:
    """Return the room that holds `module`."""
    return next((room for room in ROOMS if room.name == module.partition(".")[0]), None)


def places(module: str) -> Iterator[tuple[str, int]]:
    """Yield in which ordered folder `module` lies, and where in its order; the outermost first."""
    names = [room.name for room in ROOMS]
    top = module.partition(".")[0]
    if top in names:
        yield "", names.index(top)
    for folder, order in INSIDE.items():
        if module.startswith(f"{folder}."):
            inner = module.removeprefix(f"{folder}.").partition(".")[0]
            yield folder, order.split().index(inner) if inner in order.split() else -1


def violations(imports: Imports, loaded: Imports | None = None) -> Iterator[str]:
    """Yield a sentence for each module that is in no room, looks down, goes in a circle, or reaches torch where barred.

    Args:
        loaded: what is imported when a module is, outside of functions; by default all of `imports`.
    """
    loaded = imports if loaded is None else loaded
    for module, targets in sorted(imports.items()):
        room, here = room_of(module), dict(places(module))
        if room is None or -1 in here.values():
            yield f"{named(module)} has no room: add it to ROOMS in {Path(__file__).name}, below all that it imports"
            continue
        for target in sorted(targets - {"!torch"}):
            there = dict(places(target))
            if any(there[folder] > here[folder] for folder in there.keys() & here.keys()):
                yield f"{named(module)} imports {named(target)}, which stands below it in ROOMS: data flows down only"
        if circle := path(module, module, imports):
            yield f"{named(module)} imports itself: {' -> '.join(map(named, circle))}"
        seen = {"no": imports, "lazy": loaded, "yes": {}}[room.torch_in(module)]
        if "!torch" in seen.get(module, ()):
            yield f"{named(module)} imports torch, which its room bars"
        elif chain := path(module, "!torch", seen):
            yield f"{named(module)} reaches torch, which its room bars: {' -> '.join(map(named, chain))}"


def named(module: str) -> str:
    return "torch" if module == "!torch" else f"blrc.{module}" if module else "blrc/__init__.py"


def path(start: str, goal: str, imports: Imports) -> list[str] | None:
    """A shortest chain of one or more imports from `start` to `goal`."""
    frontier, seen = [[start]], set()
    while frontier:
        chain = frontier.pop(0)
        for target in sorted(imports.get(chain[-1], frozenset())):
            if target == goal:
                return [*chain, target]
            if target not in seen:
                seen.add(target)
                frontier.append([*chain, target])
    return None


def imported(
    source: str, module: str, is_package: bool, modules: frozenset[str], everywhere: bool = True
) -> frozenset[str]:
    """What `source` imports, also inside functions and under TYPE_CHECKING; or, not `everywhere`, when it is loaded."""
    package = module if is_package else module.rpartition(".")[0]
    found = set()
    for node in ast.walk(ast.parse(source)) if everywhere else at_once(ast.parse(source).body):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = f"blrc.{package}".strip(".").split(".")
            start = ".".join(above[: len(above) - node.level + 1]) if node.level else ""
            base = ".".join(filter(None, [start, node.module or ""]))
            # "from blrc import pack" names a module, "from blrc.net.bits import words" does not.
            names = [
                f"{base}.{alias.name}" if f"{base}.{alias.name}".removeprefix("blrc.") in modules else base
                for alias in node.names
            ]
        else:
            continue
        for name in names:
            top, _, rest = name.partition(".")
            if top == "blrc":
                found.add(rest)
            elif top in ("torch", "torchvision"):
                found.add("!torch")
    return frozenset(found)


def at_once(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """The statements that run when a module is loaded: not those of functions, nor under TYPE_CHECKING."""
    for node in body:
        yield node
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield from at_once(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for part in ("body", "orelse", "finalbody"):
                yield from at_once(getattr(node, part, []))
            yield from (each for handler in getattr(node, "handlers", []) for each in at_once(handler.body))


def sources() -> dict[str, Path]:
    """Module name (without ``blrc.``) to file."""
    found = {}
    for file in sorted((ROOT / "blrc").rglob("*.py")):
        parts = file.relative_to(ROOT / "blrc").with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def read_imports(everywhere: bool = True) -> Imports:
    files = sources()
    modules = frozenset(files)
    return {
        module: imported(file.read_text(encoding="utf-8"), module, file.name == "__init__.py", modules, everywhere)
        for module, file in files.items()
    }


def test_data_flows_down_the_rooms() -> None:
    assert not list(violations(read_imports(), read_imports(everywhere=False)))


def test_sources_are_found() -> None:
    assert {"", "errors", "net.encoding", "net.bits"} <= set(sources())
    assert "errors" in read_imports()["net.encoding"]


def test_modules_are_small() -> None:
    lengths = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in sources().values()}
    assert not {str(file.relative_to(ROOT)): n for file, n in lengths.items() if n > MAX_LINES}


def test_no_module_for_odds_and_ends() -> None:
    assert not [file for file in sources().values() if file.stem in ("utils", "util", "helpers", "misc", "common")]


def test_test_files_have_names_of_their_own() -> None:
    # Without packages, pytest imports test files by base name: two of the same name hide each other.
    names = [file.name for file in Path(__file__).parents[1].rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
    assert not list(Path(__file__).parents[1].rglob("__init__.py"))


@pytest.mark.parametrize(
    ("module", "targets", "complaint"),
    [
        ("net.bits", {"lowering.lower"}, "blrc.net.bits imports blrc.lowering.lower, which stands below"),
        ("net.bits", {"net.bits"}, "blrc.net.bits imports itself"),
        ("net.bits", {""}, "blrc.net.bits imports blrc/__init__.py, which stands below"),
        ("lowering.lower", {"!torch"}, "blrc.lowering.lower imports torch"),
        (
            "lowering.lower",
            {"frontend.graph"},
            "blrc.lowering.lower reaches torch, which its room bars: blrc.lowering.lower -> blrc.frontend.graph",
        ),
        ("cli.main", {"!torch"}, "blrc.cli.main imports torch"),
        (
            "nn.layers.binary",
            {"nn.pool"},
            "blrc.nn.layers.binary imports itself: blrc.nn.layers.binary -> blrc.nn.pool",
        ),
        ("orphan", set(), "blrc.orphan has no room"),
        ("targets.c.orphan", set(), "blrc.targets.c.orphan has no room"),
        ("targets.c.emit", {"app.export"}, "blrc.targets.c.emit imports blrc.app.export"),
        ("targets.c.layout.arena", {"targets.c.text.text"}, "blrc.targets.c.layout.arena imports blrc.targets.c.text"),
    ],
)
def test_each_rule_is_enforced(module: str, targets: set[str], complaint: str) -> None:
    world = {
        "frontend.graph": frozenset({"!torch"}),
        "nn.pool": frozenset({"nn.layers.binary"}),
        module: frozenset(targets),
    }
    assert any(sentence.startswith(complaint) for sentence in violations(world))


def test_what_is_allowed_is_allowed() -> None:
    world = {
        "errors": frozenset[str](),
        "nn.weights": frozenset({"!torch", "errors"}),
        "nn": frozenset({"nn.weights"}),
        "frontend.saving": frozenset({"!torch", "nn"}),
        "targets.c.emit": frozenset({"targets.c.text.text", "net.bits"}),
        "lowering.exact.by_torch": frozenset({"!torch"}),
        "lowering.preactivations": frozenset({"lowering.exact.by_torch"}),
        "cli.main": frozenset({"", "frontend.checkpoint"}),
    }
    assert not list(violations(world, {**world, "lowering.preactivations": frozenset()}))
    assert list(violations(world)) == [
        "blrc.lowering.preactivations reaches torch, which its room bars: "
        "blrc.lowering.preactivations -> blrc.lowering.exact.by_torch -> torch"
    ]


def entries(folder: Path) -> list[str]:
    """Return what lies in a folder, build outputs excepted."""
    return [entry.name for entry in folder.iterdir() if entry.name != "__pycache__" and entry.suffix != ".pyc"]


def test_folders_can_be_kept_in_mind() -> None:
    top = [name for name in entries(ROOT / "blrc") if name.endswith(".py")]
    assert len(set(top) - {"__init__.py", "__main__.py"}) <= MAX_TOP
    folders = [path for path in (ROOT / "blrc").glob("**/") if "__pycache__" not in path.parts]
    folders += list((ROOT / "runtime" / "src").glob("**/"))
    crowded = {str(path.relative_to(ROOT)): len(entries(path)) for path in folders if path != ROOT / "blrc"}
    assert not {name: count for name, count in crowded.items() if count > MAX_ENTRIES}


def test_a_c_file_includes_what_its_room_may() -> None:
    files = {path.name: path for path in (ROOT / "runtime" / "src").rglob("*.[ch]")}
    rooms = {name: path.relative_to(ROOT / "runtime" / "src").parts[0] for name, path in files.items()}
    assert set(rooms.values()) == set(C_ROOMS)
    wrong = []
    for name, path in files.items():
        allowed = {rooms[name], *C_ROOMS[rooms[name]].split()}
        for header in re.findall(r'^#include "(.*)"$', path.read_text(encoding="ascii"), re.MULTILINE):
            if rooms.get(header, "core") not in allowed:
                wrong.append(f"{name} in {rooms[name]} includes {header} of {rooms[header]}")
    assert not wrong


def test_every_room_says_what_it_is_for() -> None:
    """What comes in, what goes out, what it may import: in a paragraph, for the newcomer."""
    silent = []
    for folder in sorted({path.parent for path in (ROOT / "blrc").rglob("*.py")}):
        file = folder / "__init__.py"
        words = (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").split()
        if len(words) < 15:
            silent.append(str(file.relative_to(ROOT)))
    assert not silent


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("import blrc.net.bits", {"net.bits"}),
        ("import blrc", {""}),
        ("from blrc import pack, save", {"pack", ""}),
        ("from blrc.pack import words", {"pack"}),
        ("from blrc.nn import layers", {"nn.layers"}),
        ("from . import layers", {"nn.layers"}),
        ("from .layers import BinaryLinear", {"nn.layers"}),
        ("from .. import pack", {"pack"}),
        ("from ..pack import words", {"pack"}),
        ("def f():\n    import torch.nn.functional as F", {"!torch"}),
        ("from torch import nn", {"!torch"}),
        ("import torchmetrics, numpy", set()),
    ],
)
def test_every_form_of_import_is_seen(line: str, found: set[str]) -> None:
    modules = frozenset({"", "pack", "net.bits", "nn", "nn.layers", "nn.pool"})
    assert imported(line, "nn.pool", False, modules) == found


def test_imports_of_functions_and_types_are_not_loaded() -> None:
    source = (
        "import a\nif TYPE_CHECKING:\n    import blrc.b\n"
        "try:\n    import blrc.c\nexcept ImportError:\n    import blrc.d\n"
        "def f():\n    import torch\nclass K:\n    import blrc.e\n    def g(self):\n        import torch\n"
    )
    assert imported(source, "x", False, frozenset(), everywhere=False) == {"c", "d", "e"}
    assert imported(source, "x", False, frozenset()) == {"b", "c", "d", "e", "!torch"}


def test_relative_imports_of_a_package_start_at_itself() -> None:
    assert imported("from .layers import x", "nn", True, frozenset({"nn", "nn.layers"})) == {"nn.layers"}
