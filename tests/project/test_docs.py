"""What README and the pages of docs/ tell a reader to do can be done: their blocks of Python, shell and C are run.

A comment before a block says otherwise, with the reason:

    <!-- not run: needs the board -->         is never run
    <!-- fails: the budget is too small -->   has to end in status 1
    <!-- model: mnist --members 2 -->         the export for which a block of C is compiled
    <!-- model: heads digit and parity -->    likewise, of a network with these heads
    <!-- model: values --members 2 -->        likewise, of a network that gives a value

The blocks of a page run one after the other in a folder that has the repository's examples. Pages that a script has
made are left out: what they show, that script has run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from head_networks import saved, stochastic

import blrc

ROOT = Path(__file__).parents[2]
MADE = re.compile(r"<!-- (?:Made|Written) by |^`make \w+` wrote this page", re.MULTILINE)
BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>not run|fails|model): (?P<reason>.+?) -->\n)?^```(?P<language>\w*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
README = ROOT / "README.md"
LONGEST_README = 6 * 1024
TEXTS = {path: path.read_text("utf-8") for path in sorted((ROOT / "docs").rglob("*.md"))}
PAGES = [path for path, text in TEXTS.items() if "```" in text and not MADE.search(text)]


@dataclass(frozen=True)
class Block:
    """A fenced block of a page, and what the comment before it says."""

    language: str
    code: str
    mark: str
    reason: str


def blocks(page: Path) -> list[Block]:
    return [
        Block(each["language"], each["code"], each["mark"] or "", each["reason"] or "")
        for each in BLOCK.finditer(page.read_text("utf-8"))
    ]


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def checkout(folder: Path) -> dict[str, str]:
    """Make `folder` look like a checkout whose environment is active; return the environment."""
    (folder / "bin").mkdir()
    (folder / "bin" / "blrc").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m blrc "$@"\n')
    (folder / "bin" / "python").symlink_to(sys.executable)
    (folder / "bin" / "blrc").chmod(0o755)
    subprocess.run(["cp", "-R", ROOT / "examples", folder], check=True)  # make writes there
    ours = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return {**os.environ, **ours}


BY_DAY = ("README.md", "docs/boards/avr.md")


@pytest.mark.slow("exports the shipped networks")
@pytest.mark.needs("make", "cc", "bash")
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[] if named(page) in BY_DAY else [pytest.mark.nightly]) for page in (README, *PAGES)],
    ids=named,
)
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path) -> None:
    environment = checkout(tmp_path)
    for block in blocks(page):
        if block.mark == "not run":
            continue
        if block.language == "sh":
            command = ["bash", "-e", "-o", "pipefail", "-c", block.code]
        elif block.language == "python":
            command = [sys.executable, "-c", block.code]
        else:
            continue
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == (1 if block.mark == "fails" else 0), f"{block.code}\n{done.stdout}\n{done.stderr}"


@pytest.mark.needs("cc")
@pytest.mark.parametrize("page", [page for page in (README, *PAGES) if "```c\n" in page.read_text("utf-8")], ids=named)
def test_the_c_of_a_page_compiles(page: Path, tmp_path: Path) -> None:
    """Against the header of an export that has the name in the block's first line."""
    found = [block for block in blocks(page) if block.language == "c"]
    assert found
    for number, block in enumerate(found):
        name = re.match(r'#include "(\w+)\.h"', block.code)
        assert name, "the first line includes the network's header"
        folder = tmp_path / str(number)
        members = block.reason.partition("--members ")[2] or "map"
        model = ROOT / "tests" / "golden" / "tiny.pt"
        if block.reason == "heads digit and parity":
            model = saved(stochastic())
        elif block.reason.startswith("values "):
            model = replace(saved(stochastic()).of_head("parity"), values=(blrc.values(),))
        blrc.export(model, folder=folder, targets=["c"], name=name[1], members=members)
        (folder / "page.c").write_text(block.code)
        command = ["cc", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "page.c"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", [README, *PAGES], ids=named)
def test_a_mark_has_a_reason_and_a_language_is_known(page: Path) -> None:
    for block in blocks(page):
        assert block.language in ("sh", "python", "c", "text", "yaml"), block.code
        assert not block.mark or len(block.reason.split()) > 1


def test_every_block_is_seen() -> None:
    """A fence that the pattern misses would never run."""
    for page in (README, *PAGES):
        assert 2 * len(blocks(page)) == len(re.findall(r"^ *```", page.read_text("utf-8"), re.MULTILINE)), page


def test_readme_is_short_and_its_links_lead_somewhere() -> None:
    text = README.read_text("utf-8")
    assert len(text.encode()) <= LONGEST_README
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if not link.startswith("http")]
    assert len(links) > 10
    assert not [link for link in links if not (ROOT / link).exists()]


def test_links_of_pages_lead_somewhere() -> None:
    """Those to files outside of docs/, too, which the site leads to the repository."""
    links = [
        (page.parent / link, named(page))
        for page, text in TEXTS.items()
        for link in re.findall(r"\]\((?!https?:)([^)#\s]+)", text)
    ]
    generated = {"c.md", "cli.md", "python.md"}
    assert len(links) > 50
    assert not [(str(to), page) for to, page in links if not to.exists() and to.name not in generated]


def test_files_that_pages_name_are_there() -> None:
    """Decisions speak of the files of their day."""
    pages = [README, ROOT / "CONTRIBUTING.md", *(path for path in TEXTS if path.parent.name != "decisions")]
    pattern = re.compile(r"`((?:blrc|runtime|tests|tools|benchmarks|examples|docs)/[\w./-]+)`")
    found = {name: page for page in pages for name in pattern.findall(page.read_text("utf-8"))}
    assert len(found) > 20
    missing = {name: named(page) for name, page in found.items() if not (ROOT / name).exists()}
    assert not missing


def test_the_site_has_every_page() -> None:
    """What mkdocs.yml leaves out nobody finds. (`make docs` checks the links.)"""
    listed = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[2]))
    there = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert {page for page in there if not page.startswith("decisions/")} <= listed
