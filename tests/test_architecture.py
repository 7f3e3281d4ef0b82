"""Which module may import which. Reads the sources; imports nothing of blrc."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAX_LINES = 320


@dataclass(frozen=True)
class Room:
    """Modules at one place of the order.

    Attributes:
        pattern: module name without ``blrc.``; ``x.*`` is a package with all that is in it.
        torch: ``no`` (neither the module nor anything of blrc that it imports may use torch), ``lazy`` (torch may be
            imported inside functions, but importing the module does without), or ``yes``.
        but: modules of a package that are ``yes``; the others import them inside functions.
    """

    pattern: str
    torch: str = "no"
    but: tuple[str, ...] = ()

    def torch_in(self, module: str) -> str:
        """The rule for a module of this room."""
        return "yes" if module in self.but else self.torch


# Data flows down this list (docs: design, "The path that data takes"). A module imports only from rooms above its own,
# and from its own room where that is a package. Put a new module below everything that it imports.
ROOMS = (
    Room("version"),
    Room("errors"),
    Room("workers"),
    Room("bounded.*"),
    Room("schema"),
    Room("store.*"),
    Room("extras"),
    Room("advice.*"),
    Room("files"),
    Room("npz"),
    Room("jpeg"),
    Room("runtime_files"),
    Room("encode"),
    Room("pack"),
    Room("window"),
    Room("head"),
    Room("logits"),
    Room("nn.*", torch="yes"),
    Room("models", torch="yes"),
    Room("datasets"),
    Room("cifar"),
    Room("whiten"),
    Room("net"),
    Room("kinds.*"),
    Room("graph", torch="yes"),
    Room("torchzip.*"),
    Room("sealed"),
    Room("checkpoint", torch="lazy"),
    Room("capture.*", torch="yes"),
    Room("saving", torch="yes"),
    Room("full_precision", torch="yes"),
    Room("train.*", torch="yes"),
    Room("sample", torch="lazy"),
    Room("members", torch="lazy"),
    Room("fold"),
    Room("affine"),
    Room("shapes"),
    Room("exact.*", but=("exact.by_torch",)),
    Room("forward", torch="lazy"),
    Room("calibrate", torch="lazy"),
    Room("program"),
    Room("legal"),
    Room("program_file"),
    Room("plan"),
    Room("lower"),
    Room("reference"),
    Room("metrics"),
    Room("quick", torch="yes"),
    Room("vectors"),
    Room("ensembles", torch="lazy"),
    Room("targets.*"),
    Room("exports.*"),
    Room("what_if"),
    Room("budget"),
    Room("labelled"),
    Room("verification.*", torch="lazy"),
    Room("settings", torch="lazy"),
    Room("choices", torch="lazy"),
    Room("inspection", torch="lazy"),
    Room("inspect_report", torch="lazy"),
    Room("baselines", torch="yes"),
    Room("eval_choice", torch="lazy"),
    Room("scoring", torch="yes"),
    Room("evaluation", torch="yes"),
    Room("cheap", torch="yes"),
    Room("eval_report", torch="yes"),
    Room("plots"),
    Room("exporting", torch="lazy"),
    Room("api", torch="lazy"),
    Room("compiling", torch="lazy"),
    Room("bench.*", torch="lazy", but=("bench.torch_twin",)),
    Room("", torch="lazy"),  # blrc/__init__.py
    Room("cli_ends"),
    Room("cli_paths"),
    Room("cli_progress"),
    Room("cli_train", torch="yes"),
    Room("cli_export", torch="lazy"),
    Room("cli", torch="lazy"),
    Room("__main__", torch="lazy"),
)

Imports = Mapping[str, frozenset[str]]
"""Module (without ``blrc.``) to what it imports: modules of blrc likewise, ``torch`` as ``!torch``."""


def place(module: str) -> int | None:
    """Index in ROOMS of the room that holds `module`."""
    for index, room in enumerate(ROOMS):
        if module == room.pattern or module == room.pattern.removesuffix(".*") or fnmatchcase(module, room.pattern):
            return index
    return None


def violations(imports: Imports, loaded: Imports | None = None) -> Iterator[str]:
    """One sentence for each module that is in no room, looks down, goes in a circle, or reaches torch where barred.

    Args:
        loaded: what is imported when a module is, outside of functions; by default all of `imports`.
    """
    loaded = imports if loaded is None else loaded
    for module, targets in sorted(imports.items()):
        here = place(module)
        if here is None:
            yield f"{named(module)} has no room: add it to ROOMS in {Path(__file__).name}, below all that it imports"
            continue
        for target in sorted(targets - {"!torch"}):
            there = place(target)
            if there is not None and (there > here or (there == here and not ROOMS[here].pattern.endswith(".*"))):
                yield f"{named(module)} imports {named(target)}, which stands below it in ROOMS: data flows down only"
        if circle := path(module, module, imports):
            yield f"{named(module)} imports itself: {' -> '.join(map(named, circle))}"
        rule = ROOMS[here].torch_in(module)
        seen = {"no": imports, "lazy": loaded, "yes": {}}[rule]
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
            # "from blrc import pack" names a module, "from blrc.pack import words" does not.
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
    assert {"", "errors", "encode", "pack"} <= set(sources())
    assert "errors" in read_imports()["encode"]


def test_modules_are_small() -> None:
    lengths = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in sources().values()}
    assert not {str(file.relative_to(ROOT)): n for file, n in lengths.items() if n > MAX_LINES}


def test_no_module_for_odds_and_ends() -> None:
    assert not [file for file in sources().values() if file.stem in ("utils", "util", "helpers", "misc", "common")]


def test_test_files_have_names_of_their_own() -> None:
    # Without packages, pytest imports test files by base name: two of the same name hide each other.
    names = [file.name for file in Path(__file__).parent.rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
    assert not list(Path(__file__).parent.rglob("__init__.py"))


@pytest.mark.parametrize(
    ("module", "targets", "complaint"),
    [
        ("pack", {"lower"}, "blrc.pack imports blrc.lower, which stands below"),
        ("pack", {"pack"}, "blrc.pack imports blrc.pack, which stands below"),
        ("pack", {""}, "blrc.pack imports blrc/__init__.py, which stands below"),
        ("lower", {"!torch"}, "blrc.lower imports torch"),
        (
            "lower",
            {"graph"},
            "blrc.lower reaches torch, which its room bars: blrc.lower -> blrc.graph -> torch",
        ),
        ("cli", {"!torch"}, "blrc.cli imports torch"),
        ("nn.layers", {"nn.pool"}, "blrc.nn.layers imports itself: blrc.nn.layers -> blrc.nn.pool -> blrc.nn.layers"),
        ("orphan", set(), "blrc.orphan has no room"),
        ("targets.c.emit", {"api"}, "blrc.targets.c.emit imports blrc.api"),
    ],
)
def test_each_rule_is_enforced(module: str, targets: set[str], complaint: str) -> None:
    world = {"graph": frozenset({"!torch"}), "nn.pool": frozenset({"nn.layers"}), module: frozenset(targets)}
    assert any(sentence.startswith(complaint) for sentence in violations(world))


def test_what_is_allowed_is_allowed() -> None:
    world = {
        "errors": frozenset[str](),
        "nn.weights": frozenset({"!torch", "errors"}),
        "nn": frozenset({"nn.weights"}),
        "saving": frozenset({"!torch", "nn"}),
        "targets.c.emit": frozenset({"targets.c.text", "pack"}),
        "exact.by_torch": frozenset({"!torch"}),
        "forward": frozenset({"exact.by_torch"}),
        "cli": frozenset({"", "checkpoint"}),
    }
    assert not list(violations(world, {**world, "forward": frozenset()}))
    assert list(violations(world)) == [
        "blrc.forward reaches torch, which its room bars: blrc.forward -> blrc.exact.by_torch -> torch"
    ]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("import blrc.pack", {"pack"}),
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
    modules = frozenset({"", "pack", "nn", "nn.layers", "nn.pool"})
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
