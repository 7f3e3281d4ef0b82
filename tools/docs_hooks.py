"""Add the generated pages to the site that `make docs` builds.

mkdocs calls the functions whose names begin with `on_`. Needs the extra ``docs``.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
TINY = ROOT / "tests" / "golden" / "tiny.pt"
BEFORE_COMPILING = ("train", "save", "load", "Checkpoint", "pixels", "int8_codes", "bits", "InputEncoding")
COMPILED = "blrc.targets.c.native.network.Native"
MEMBERS = "2"  # so that the header says what an ensemble's does
REPOSITORY = re.search(r'^Repository = "(.+)"$', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Drop entries of the navigation whose page does not exist, such as kernels.md before somebody writes it."""
    assert REPOSITORY is not None
    config.repo_url = config.site_url = REPOSITORY[1]
    generated = set(pages())
    docs = Path(config.docs_dir)

    def kept(entries: list) -> list:
        found = []
        for entry in entries:
            ((title, to),) = entry.items() if isinstance(entry, dict) else [(None, entry)]
            if isinstance(to, list):
                found.append({title: kept(to)})
            elif to in generated or (docs / to).is_file():
                found.append(entry)
        return found

    config.nav = kept(config.nav or [])
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add every generated page."""
    for name, make in pages().items():
        files.append(File.generated(config, name, content=make()))
    return files


def pages() -> dict:
    """Return the function that makes each generated page, by the page's path."""
    return {
        "index.md": home,
        "reference/python.md": python_api,
        "reference/c.md": c_api,
        "reference/cli.md": command_line,
        "decisions/index.md": decisions,
    }


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: object) -> str:
    """Lead links to files outside of docs/, which work in a checkout, to the repository."""
    folder = (ROOT / "docs" / page.file.src_uri).parent

    def led(link: re.Match[str]) -> str:
        path = Path(os.path.normpath(folder / link[1]))
        outside = path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / "docs")
        return f"]({config.repo_url}/blob/main/{path.relative_to(ROOT).as_posix()}" if outside else link[0]

    return re.sub(r"\]\(((?:\.\./)+[^)#]+)", led, markdown)


def home() -> str:
    """Return README.md as a page of docs/."""
    return re.sub(r"\]\((?!https?:|docs/)", "](../", (ROOT / "README.md").read_text("utf-8")).replace("](docs/", "](")


def decisions() -> str:
    """Return the list of decision records with their titles."""
    lines = ["# Decisions", "", "Each record says what was decided, why, and what would break.", ""]
    for path in sorted((ROOT / "docs" / "decisions").glob("0*.md")):
        title = path.read_text("utf-8").partition("\n")[0].removeprefix("# ")
        lines.append(f"- [{title}]({path.name})")
    return "\n".join(lines) + "\n"


def python_api() -> str:
    """Return a page with the docstring of every public name of `blrc` and `blrc.nn`."""
    public = public_names("blrc/__init__.py") - {"__version__", "datasets", "models", "nn"}
    first = [f"::: blrc.{name}" for name in BEFORE_COMPILING if name in public]
    then = [f"::: blrc.{name}" for name in sorted(public - set(BEFORE_COMPILING), key=str.lower)]
    layers = [f"::: blrc.nn.{name}" for name in sorted(public_names("blrc/nn/__init__.py"), key=str.lower)]
    parts = ["# Python API", "These names come with `import blrc`. What a name needs is loaded when it is first used."]
    parts += ["## Networks and their inputs", *first, "## Compiling, checking and running", *then]
    parts += ["### What `blrc.compile` gives", f"::: {COMPILED}", "## Layers: `blrc.nn`", *layers]
    return "\n\n".join(parts) + "\n"


def public_names(path: str) -> set[str]:
    """Return `__all__` of a module, without importing it: `blrc.nn` needs torch."""
    for statement in ast.parse((ROOT / path).read_text("utf-8")).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            return set(ast.literal_eval(statement.value))
    raise SystemExit(f"{path} has no __all__")


def command_line() -> str:
    """Return what `--help` says of every command."""
    import click

    from blrc.cli.main import main

    def walk(command: click.Command, names: tuple[str, ...]) -> Iterator[str]:
        context = click.Context(command, info_name=" ".join(names), max_content_width=100, terminal_width=100)
        yield f"## `{' '.join(names)}`\n\n```text\n{command.get_help(context)}\n```\n"
        for name, each in sorted(getattr(command, "commands", {}).items()):
            yield from walk(each, (*names, name))

    return "# Command line\n\n" + "\n".join(walk(main, ("blrc",)))


def c_api() -> str:
    """Return what the header of an exported ensemble says, and what a single network's says besides."""
    import blrc

    headers = []
    with tempfile.TemporaryDirectory() as folder:
        for members in (MEMBERS, "map"):
            blrc.export(TINY, folder=f"{folder}/{members}", targets=["c"], members=members, name="net")
            headers.append(Path(folder, members, "net.h").read_text("utf-8"))
    return c_page(*headers)


def c_page(ensemble: str, single: str) -> str:
    """Return the page for two headers: macros, types and functions, each with its comment as text."""
    macros = [line for line in ensemble.splitlines() if re.match(r"#define NET_[A-Z_]+ .+\*/$", line)]
    shared = blocks(ensemble)
    parts = [
        "# C API",
        "This page is made from the header of an export whose name is `net`. In yours, `net` is your model's name.",
        "## Sizes and errors",
        "The values are those of a small network with two members.",
        _table(macros),
        "## Of every network",
        *map(_section, shared),
        "## Of a single network besides",
        *(_section(block) for block in blocks(single) if block not in shared),
    ]
    return "\n\n".join(parts) + "\n"


def blocks(header: str) -> list[str]:
    """Return the parts of a header between `extern "C"` and its end: each a comment, a declaration, or both."""
    body = header.partition('extern "C" {\n#endif\n')[2].partition("#ifdef __cplusplus")[0]
    return re.split(r"\n\n+(?=/\*|typedef|int |void )", body.strip())


def _section(block: str) -> str:
    comment = re.match(r"/\*(.*?)\*/\s*", block, re.DOTALL)
    code = (block[comment.end() :] if comment else block).strip()
    name = re.search(r"^(?:int|void) (\w+)\(|\} (\w+);|\(\*(\w+)\)", code, re.MULTILINE)
    parts = [f"### `{next(filter(None, name.groups()))}`"] if name else []
    if comment:
        parts.append("\n".join(line.strip().removeprefix("*").strip() for line in comment[1].strip().splitlines()))
    return "\n\n".join([*parts, *([f"```c\n{code}\n```"] if code else [])])


def _table(macros: list[str]) -> str:
    rows = ["| macro | here | what it is |", "|---|---|---|"]
    for line in macros:
        name, _, rest = line.removeprefix("#define ").partition(" ")
        value, _, comment = rest.partition(" /* ")
        rows.append(f"| `{name}` | `{value[:20]}` | {comment.removesuffix(' */')} |")
    return "\n".join(rows)
