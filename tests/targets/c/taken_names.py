"""Lists the names that toolchains have taken, so that no model may have one of them.

Write `blrc/targets/c/taken_names.txt` again, on Debian with the packages of `.ci/run`, for newer toolchains or after a
change of the names that an export defines:

    python tests/targets/c/taken_names.py

Debian packages that are not installed are downloaded with apt-get and only looked into; repositories are cloned without
their files. ``--repository OWNER/NAME=PLACE`` takes a repository from a git directory, or its paths from a text file.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# What a compiler looks for beside a header that is asked for in angle brackets: folders that are on its path.
COMPILERS = {
    "gcc": ("gcc", "aarch64-linux-gnu-gcc", "arm-none-eabi-gcc", "riscv64-unknown-elf-gcc", "avr-gcc"),
    "clang": ("clang-14", "clang-19"),
}
INSTALLED = {
    "glibc": ("libc6-dev", "libc6-dev-arm64-cross", "libc6-dev-armhf-cross", "libc6-dev-s390x-cross"),
    "avr-libc": ("avr-libc",),
    "the Arduino core for AVR": ("arduino-core-avr",),
    "C++": ("libstdc++-12-dev",),
}
DOWNLOADED = {
    "musl": ("musl-dev",),
    "newlib": ("libnewlib-dev",),
    "picolibc": ("picolibc-arm-none-eabi", "picolibc-riscv64-unknown-elf"),
}
REPOSITORIES = {
    # Owner of the names: repository, and which of its paths are headers that others include.
    "the Arduino core API": ("arduino/ArduinoCore-API", r"api/"),
    "the Arduino core for ESP32": ("espressif/arduino-esp32", r"cores/esp32/"),
    "the Arduino core for ESP8266": ("esp8266/Arduino", r"(cores/esp8266|libraries/[^/]+/src|tools/sdk/include)/"),
    "ESP-IDF": (
        "espressif/esp-idf",
        r"components/(?!.*(test|private|/bt/)).*/(include|platform_include)/(esp32\w*/)?(?=[^/]+$)",
    ),
    "FreeRTOS": ("FreeRTOS/FreeRTOS-Kernel", r"include/"),
    "CMSIS": ("ARM-software/CMSIS_5", r"CMSIS/(Core|Core_A|DSP|NN|RTOS2?|Driver)/.*[iI]nclude/(?=[^/]+$)"),
    "the Pico SDK": ("raspberrypi/pico-sdk", r"src/.*/include/(?=[^/]+$)"),
}
# Headers that a build writes, or that a user writes for the library that includes them: no package lists them.
CONFIGURED = {
    "Autoconf": ("config",),
    "CMSIS-Pack": ("RTE_Components", "pre_include_global"),
    "ESP-IDF's build": ("sdkconfig", "esp_idf_version_info"),
    "FreeRTOS's configuration": ("FreeRTOSConfig",),
    "lwIP's configuration": ("lwipopts",),
    "Mbed TLS's configuration": ("mbedtls_config",),
    "the Arduino core for ESP32, as built": ("build_opt",),
    "the Pico SDK's build": ("config_autogen",),
    "TinyUSB's configuration": ("tusb_config",),
    "Zephyr's build": ("app_version", "autoconf", "devicetree_generated", "offsets", "syscall_list"),
}
# Folders of the packages above whose headers nobody includes without the folder's name.
NAMESPACED = re.compile(r"/(c\+\+/[\d.]+/(?!backward/)[^/]+|linux|asm|asm-generic)/")


@dataclass
class Taken:
    """What one owner has.

    Attributes:
        paths: of its files.
        text: of its headers, as far as they were read.
        components: that ESP-IDF finds by their name.
    """

    paths: set[str] = field(default_factory=set)
    components: set[str] = field(default_factory=set)
    text: list[str] = field(default_factory=list)


def output(command: Sequence[str | Path], where: Path | None = None) -> str:
    return subprocess.run(command, cwd=where, capture_output=True, text=True, check=True).stdout


def include_folders(compiler: str) -> list[Path]:
    """Folders of the compiler's own on its include path for C: not those that all packages put headers into."""
    command = [compiler, "-xc", "-E", "-Wp,-v", "/dev/null"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    folders = [Path(line.strip()).resolve() for line in listed.splitlines() if line.startswith(" ")]
    return [folder for folder in folders if re.search(r"/(gcc|gcc-cross|clang)/", f"{folder}/")]


def package_files(packages: Iterable[str]) -> list[str]:
    """Paths of all files of packages that are installed."""
    return output(["dpkg", "-L", *packages]).splitlines()


def header_names(paths: Iterable[str]) -> Iterator[str]:
    """Names of headers without ``.h``, and those of C++ that have no ending."""
    for path in paths:
        folder, _, name = path.rpartition("/")
        if NAMESPACED.search(path):
            continue
        if name.endswith(".h") or ("." not in name and re.search(r"/c\+\+/[\d.]+$", folder)):
            yield name.removesuffix(".h")


def legal(names: Iterable[str]) -> set[str]:
    """Those that could be a model's name, in lower case."""
    return {name.lower() for name in names if re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII) and len(name) <= 48}


def defined_by_an_export() -> tuple[set[str], set[str]]:
    """What follows the model's name in what its headers define: functions and types, and macros."""
    import numpy as np
    from every_kernel import PROGRAMS
    from random_programs import random_inputs, random_program

    from blrc.program.vectors import record
    from blrc.targets.c.emit import emit
    from blrc.targets.options import EmitOptions

    texts = []
    for program in [*(make() for make in PROGRAMS.values()), random_program(3, members=1)]:
        options = EmitOptions("qqq", record(program, np.asarray(random_inputs(program, 1))), "0", packages=("cmake",))
        files = emit(program, options).files
        texts += [content.decode() for name, content in files.items() if name.endswith(("qqq.h", "_image.h"))]
    found = "\n".join(texts)
    functions = set(re.findall(r"\bqqq_(\w+)", found))
    macros = {word for word in re.findall(r"\bQQQ_(\w+)", found) if not word.startswith("OP_")}
    return functions, macros


def prefixes(texts: Iterable[str], functions: Collection[str], macros: Collection[str]) -> set[str]:
    """Names with which a function, type or macro of an export is one of these headers."""
    tails = "|".join(sorted({*functions, *macros}))
    pattern = re.compile(rf"\b([A-Za-z]\w*)_({tails})\b")
    found = set()
    for text in texts:
        for name, tail in pattern.findall(text):
            if tail in functions or name == name.upper():
                found.add(name)
    return found


def predefined() -> set[str]:
    """Macros without a leading underscore that compilers and ``<stdint.h>`` define."""
    found = set()
    for compiler in (*COMPILERS["gcc"], *COMPILERS["clang"]):
        command = [compiler, "-ffreestanding", "-include", "stdint.h", "-xc", "-dM", "-E", "/dev/null"]
        found |= set(re.findall(r"^#define ([A-Za-z]\w*)", output(command), re.MULTILINE))
    return found


def repository_paths(repository: str, place: str | None, work: Path) -> list[str]:
    """Paths of all files of a repository."""
    if place is not None and Path(place).is_file():
        return Path(place).read_text(encoding="utf-8").splitlines()
    folder = Path(place) if place is not None else work / repository.replace("/", "+")
    if place is None:
        url = f"https://github.com/{repository}"
        output(["git", "clone", "--quiet", "--bare", "--depth", "1", "--filter=blob:none", url, folder])
    return output(["git", f"--git-dir={folder}", "ls-tree", "-r", "--name-only", "HEAD"]).splitlines()


def collect(places: dict[str, str], work: Path) -> dict[str, Taken]:
    found: dict[str, Taken] = {}
    for owner, compilers in COMPILERS.items():
        taken = found.setdefault(owner, Taken())
        for compiler in compilers:
            for folder in include_folders(compiler):
                taken.paths |= {str(path) for path in folder.rglob("*.h")}
            taken.paths |= {
                str(path) for folder in include_folders(compiler)[:1] for path in folder.parent.rglob("lib*.a")
            }
    for owner, packages in INSTALLED.items():
        taken = found.setdefault(owner, Taken())
        taken.paths |= set(package_files(packages))
        headers = [Path(path) for path in taken.paths if path.endswith(".h") and Path(path).is_file()]
        taken.text += [path.read_text(encoding="latin-1") for path in sorted(headers)]
    for owner, packages in DOWNLOADED.items():
        taken = found.setdefault(owner, Taken())
        for package in packages:
            folder = work / package
            folder.mkdir()
            output(["apt-get", "download", package], folder)
            archive = next(folder.glob("*.deb"))
            output(["dpkg-deb", "-x", archive, folder])
            taken.paths |= {str(path) for path in folder.rglob("*")}
            taken.text += [path.read_text(encoding="latin-1") for path in sorted(folder.rglob("*.h"))]
            for path in sorted(folder.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    for owner, (repository, pattern) in REPOSITORIES.items():
        paths = repository_paths(repository, places.get(repository), work)
        taken = found.setdefault(owner, Taken())
        taken.paths |= {f"/{path}" for path in paths if re.match(pattern, path)}
        taken.components |= {match[1] for path in paths if (match := re.match(r"components/(\w+)/CMakeLists", path))}
    return found


def packages(components: Iterable[str]) -> dict[str, set[str]]:
    """Names by which build systems find packages of their own: they would find them, or ours in their place."""
    listed = package_files(["cmake-data"])
    modules = [match[1] for path in listed if (match := re.search(r"/Modules/Find(\w+)\.cmake$", path))]
    return {"CMake": legal(modules), "ESP-IDF": legal(["main", *components])}


_HEAD = """\
# Names that a model may not have: written by `python tests/targets/c/taken_names.py`, not by hand.
#
# header: NAME.h would hide a header of that name; library: libNAME.a; prefix: NAME_init or another name that an
# export defines would be one of theirs; macro: compilers define it themselves; package: build systems find theirs, or
# NAME in its place. All are in lower case.
"""


def listing(found: dict[str, Taken]) -> str:
    """The text of the data file."""
    functions, macros = defined_by_an_export()
    sections: dict[str, set[str]] = {}
    for owner, taken in found.items():
        sections[f"header {owner}"] = legal(header_names(taken.paths))
        libraries = [re.search(r"/lib([^/]+)\.a$", path) for path in taken.paths]
        sections[f"library {owner}"] = legal(match[1] for match in libraries if match)
        sections[f"prefix {owner}"] = legal(prefixes(taken.text, functions, macros))
    sections |= {f"header {owner}": legal(names) for owner, names in CONFIGURED.items()}
    sections["macro compilers"] = legal(predefined())
    for owner, names in packages(found["ESP-IDF"].components).items():
        sections[f"package {owner}"] = names
    lines = [_HEAD]
    for title in sorted(sections):
        if sections[title]:
            lines.append(f"\n[{title}]\n" + wrapped(sorted(sections[title])))
    return "".join(lines)


def wrapped(names: Iterable[str]) -> str:
    lines = [""]
    for name in names:
        if len(lines[-1]) + len(name) >= 120:
            lines.append("")
        lines[-1] = f"{lines[-1]} {name}".lstrip()
    return "\n".join(lines) + "\n"


def main() -> None:
    root = Path(__file__).parents[3]
    sys.path[:0] = [str(root), str(root / "tests")]
    parser = argparse.ArgumentParser(description="List names that toolchains have taken.")
    parser.add_argument("--repository", action="append", default=[], metavar="OWNER/NAME=PLACE")
    places = dict(item.split("=", 1) for item in parser.parse_args().repository)
    with tempfile.TemporaryDirectory() as work:
        text = listing(collect(places, Path(work)))
    (root / "blrc" / "targets" / "naming" / "taken_names.txt").write_text(text, encoding="ascii")


if __name__ == "__main__":
    main()
