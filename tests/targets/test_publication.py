"""What a user says of a model in a package: checked, and the same in every file that repeats it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from random_networks import checkpoint_of
from torch import nn

import blrc
from blrc import nn as bnn
from blrc import version
from blrc.cli.main import main
from blrc.errors import BlrcError
from blrc.exports.door import read_manifest
from blrc.exports.manifest import Manifest
from blrc.exports.recorded import from_plain
from blrc.program.vectors import Vectors
from blrc.reading.schema import MisfitError
from blrc.targets.publication import Publication, cmake, markdown, parse_publication, yaml
from blrc.targets.runtime_licence import RUNTIME_LICENCE
from blrc.version import AUTHOR

ROOT = Path(__file__).parents[2]
PACKAGES = ("cmake", "arduino", "platformio", "zephyr", "esp-idf")

LICENSES = (
    "MIT",
    "Apache-2.0 OR MIT",
    "GPL-2.0-or-later WITH Bison-exception-2.2",
    "(MIT AND (LGPL-2.1+ OR BSD-3-Clause))",
    "LicenseRef-Proprietary",
    "DocumentRef-a.b:LicenseRef-c",
    "(MIT) OR GPL-2.0+ WITH Classpath-exception-2.0 AND (BSD-3-Clause)",
    "GPL-2.0-only WITH AdditionRef-mine",
)
NO_LICENSES = (
    *("", " ", " MIT", "MIT ", "MIT Apache-2.0", "MIT or Apache-2.0", "MIT AND", "OR MIT", "(MIT", "MIT)", "()", "AND"),
    *(
        "MIT WITH (a)",
        "(A OR B) WITH C",
        "(A) WITH C",
        "A WITH B WITH C",
        "A WITH B+",
        "LicenseRef-",
        "LicenseRef-+",
        "LicenseRef-a+",
        "DocumentRef-a:MIT",
        "DocumentRef-:LicenseRef-a",
        "DocumentRef-a:LicenseRef-",
        "DocumentRef-a",
        "AdditionRef-a",
        "MIT WITH LicenseRef-a",
        "MIT WITH",
        "WITH MIT",
        "AND+",
        "A AND (B OR)",
        "(A OR B))",
        "MIT (GPL-2.0)",
        "MIT++",
        "+",
        "MIT*/",
        "MIT\nevil",
        "MIT\x00",
        "M\u00efT",
        "MIT OR OR MIT",
        "a" * 256,
        'MIT"',
        "MIT;",
        "\ud800",
    ),
)
URLS = ("https://example.org", "http://a-b.example.org:8080/x?y=(1)&z=$HOME;'@name@'#top")
NO_URLS = (
    *(
        "",
        "example.org",
        "ftp://example.org",
        "javascript:alert(1)",
        "https://",
        "https://localhost",
        "https://a b.org",
    ),
    *("https://u:p@example.org", 'https://example.org/"', "https://example.org/\n", "https://example.org/<x>"),
    *("https://example.org/\\", "https://ex\u00e4mple.org", "https://example.org:x/", "https://[::1", "https://-a.org"),
    "https://example.org/" + "a" * 255,
)
NO_AUTHORS = (
    "",
    "  ",
    " Ann",
    "Ann ",
    "Ann\nBob",
    "a\tb",
    "a\x00b",
    "a\x7fb",
    "a\x85b",
    "\u2028",
    "\ud800",
    "\u202ea",
    "a" * 101,
)
NO_VERSIONS = (
    "",
    "1",
    "1.0",
    "1.0.0.0",
    "v1.0.0",
    "1.0.0-rc1",
    "01.0.0",
    "1.0.1234567",
    "1.0.0\n",
    "\u0661.0.0",
    "-1.0.0",
)

# Texts that mean something in one of the files that repeat them.
HOSTILE = (
    'Ann "the *boss*" O\'Neil <ann@example.org>',
    "M\u00fcller & S\u00f6hne \U0001f600",
    "*/ #error out /*",
    "${HOME} $ENV{PATH} @name@ @sources@ @how@ NAME_ name_",
    "key: value # comment",
    "- [x](javascript:y) `code` | cell",
    "back\\\\slash\\\\",
    "%s %n {0} {{",
    "null",
    "=;,!",
)


@pytest.mark.parametrize("license", LICENSES)
def test_spdx_expressions(license: str) -> None:
    assert parse_publication(license=license).license == license


@pytest.mark.parametrize(
    ("option", "values"),
    [("license", NO_LICENSES), ("url", NO_URLS), ("author", NO_AUTHORS), ("package_version", NO_VERSIONS)],
)
def test_what_cannot_stand_in_a_package_is_refused_in_one_line(option: str, values: tuple[str, ...]) -> None:
    for value in values:
        with pytest.raises(BlrcError, match=f"^--{option.replace('_', '-')}") as caught:
            parse_publication(**{option: value})
        assert str(caught.value).isprintable(), value


def test_good_addresses_and_versions() -> None:
    for url in URLS:
        assert parse_publication(url=url).url == url
    for number in ("0.0.1", "1.2.3", "999999.0.10"):
        assert parse_publication(package_version=number).package_version == number
    assert parse_publication() == Publication()
    assert Publication().package_version == "0.0.0"


ANYTHING = st.text(max_size=120) | st.text(
    st.sampled_from("aZ09 \\\"'\n\x00<>&*/#:;$@{}[]()|`%\u00fc\u2028\ud800.-+"), max_size=30
)


@given(ANYTHING)
def test_an_author_is_one_line_of_text_or_refused(text: str) -> None:
    try:
        author = parse_publication(author=text).author
    except BlrcError as error:
        assert str(error).isprintable()
        return
    assert author == text and len(text.splitlines()) == 1 and text.isprintable() and text == text.strip()
    text.encode("utf-8")
    assert json.loads(yaml(text)) == text
    assert "<" not in markdown(text)


@given(ANYTHING, ANYTHING, ANYTHING)
def test_other_fields_are_plain_ascii_or_refused(license: str, url: str, number: str) -> None:
    for option, value in (("license", license), ("url", url), ("package_version", number)):
        try:
            parse_publication(**{option: value})
        except BlrcError as error:
            assert str(error).isprintable()
        else:
            assert value.isascii() and value.isprintable() and not set(value) & set('"\\<>`')


def test_hostile_texts_are_the_same_in_yaml(packagers: Path) -> None:
    texts = [text for text in (*HOSTILE, *URLS) if parse_publication(author=text)]
    script = (
        "import json, sys; from ruamel.yaml import YAML\n"
        "for of in ('1.1', '1.2'):\n"
        "    yaml = YAML(typ='safe'); yaml.version = of\n"
        "    print(json.dumps(yaml.load(sys.argv[1])))"
    )
    listed = "".join(f"- {yaml(text)}\n" for text in texts)
    done = subprocess.run(
        [packagers / "python", "-c", script, listed], capture_output=True, text=True, check=True, encoding="utf-8"
    )
    assert [json.loads(line) for line in done.stdout.splitlines()] == [texts, texts]


@pytest.mark.needs("cmake")
def test_hostile_texts_are_the_same_in_cmake(tmp_path: Path) -> None:
    texts = [*HOSTILE, *URLS]
    script = tmp_path / "say.cmake"
    script.write_text("".join(f"message({cmake(text)})\n" for text in texts), encoding="utf-8")
    done = subprocess.run(["cmake", "-P", script], capture_output=True, check=True)
    assert done.stderr.decode("utf-8").splitlines() == texts


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of two layers on pixels that a page can show."""
    layers = (nn.Flatten(), bnn.BinaryLinear(16, 8), bnn.StochasticSign(), bnn.SoftmaxLinear(8, 3))
    source = checkpoint_of(nn.Sequential(*layers), "uint8", (1, 4, 4), 0)
    path = tmp_path_factory.mktemp("model") / "net.pt"
    blrc.save(source.model(), path=path, input=source.encoding, calibration=source.samples())
    return path


OPTIONS = ("license", "author", "url", "package_version")


def published(manifest: Manifest) -> dict[str, str | None]:
    """Return what the manifest holds of the options about the model."""
    return {name: manifest.options[name] for name in OPTIONS}


@pytest.mark.parametrize("option", OPTIONS)
def test_a_forged_manifest_puts_nothing_into_the_c(model: Path, option: str, tmp_path: Path) -> None:
    """The options stand in comments, and what is emitted again from a forged manifest would equal forged C."""
    done = blrc.export(model, folder=tmp_path / "out", targets="c")
    for evil in ("a\nb", "\x00", 7, ["MIT"]):
        with pytest.raises(MisfitError):
            from_plain({**done.manifest.options, option: evil}, "net", Vectors(np.zeros((1, 1)), ()), version.VERSION)


def test_nothing_of_blrc_s_own_is_said_of_the_model(model: Path, tmp_path: Path) -> None:
    """Packages put "MIT, (c) the blrc authors" over the user's own weights."""
    done = blrc.export(model, folder=tmp_path / "out", targets=["c", "onnx"], packages=PACKAGES)
    assert published(done.manifest) == dict.fromkeys(OPTIONS)
    for package, file in (
        ("cmake", "CMakeLists.txt"),
        ("arduino", "library.properties"),
        ("platformio", "library.json"),
        ("zephyr", "zephyr/module.yml"),
        ("esp-idf", "idf_component.yml"),
    ):
        text = (tmp_path / "out" / package / "net" / file).read_text(encoding="utf-8")
        text = text.replace(f"# Made by blrc {version.VERSION}.", "")
        assert AUTHOR not in text and version.VERSION not in text and version.HOMEPAGE not in text and "MIT" not in text
        readme = (tmp_path / "out" / package / "net" / "README.md").read_text(encoding="utf-8")
        assert "| licence | unspecified | MIT, in `LICENSE.blrc-runtime.txt` |" in readme
        assert "| author | unspecified | the blrc authors |" in readme
        assert f"| version | unspecified | blrc {version.VERSION} |" in readme
    assert "Licence of the model: unspecified." in (tmp_path / "out" / "net.h").read_text().replace("\n * ", " ")


@pytest.mark.needs("clang-19", "wasm-ld-19")
def test_the_runtime_s_licence_goes_with_every_export(model: Path, tmp_path: Path) -> None:
    blrc.export(model, folder=tmp_path / "out", targets=["c", "web"], packages=PACKAGES)
    wanted = (ROOT / "LICENSE").read_bytes()
    places = [tmp_path / "out" / "web"]
    places += [tmp_path / "out" / package / "net" for package in PACKAGES]
    for place in places:
        assert (place / RUNTIME_LICENCE).read_bytes() == wanted
    listed = read_manifest(tmp_path / "out").files
    assert f"web/{RUNTIME_LICENCE}" in listed and RUNTIME_LICENCE not in listed
    for file in ("net_blrc.h", "net_blrc.c"):  # and of C by itself at the top of both
        top = (tmp_path / "out" / file).read_text(encoding="ascii").split("*/")[2]
        assert " ".join(top.replace("/*", " ").replace("\n *", "\n").split()) == " ".join(wanted.decode().split())
    sources = [path for path in (tmp_path / "out").rglob("*.[ch]") if "_blrc" in path.name]
    sources += [path for path in (tmp_path / "out" / "web").iterdir() if path.name not in ("model.js", RUNTIME_LICENCE)]
    assert len(sources) > 2 * len(PACKAGES)
    for path in sources:
        head = path.read_text(encoding="utf-8").splitlines()[:3]
        assert any("SPDX-License-Identifier: MIT" in line for line in head), path
        assert any("SPDX-FileCopyrightText: 2026 the blrc authors" in line for line in head), path


def test_every_file_of_the_runtime_has_an_spdx_line_first() -> None:
    files = [path for path in (ROOT / "runtime").rglob("*") if path.suffix in (".c", ".h")]
    assert len(files) > 60
    for path in files:
        assert path.read_text(encoding="ascii").splitlines()[0] == "/* SPDX-License-Identifier: MIT */", path


@pytest.mark.parametrize("author", HOSTILE)
def test_options_reach_every_package(model: Path, author: str, tmp_path: Path) -> None:
    given = {"license": "Apache-2.0 OR MIT", "author": author, "url": URLS[1], "package_version": "3.2.1"}
    done = blrc.export(model, folder=tmp_path / "out", targets=["c", "onnx"], packages=PACKAGES, **given)
    assert published(done.manifest) == given
    folder = {package: tmp_path / "out" / package / "net" for package in PACKAGES}
    listed = (folder["arduino"] / "library.properties").read_text(encoding="utf-8").splitlines()
    properties = dict(line.split("=", 1) for line in listed)
    assert properties["author"] == properties["maintainer"] == author
    assert (properties["version"], properties["url"], properties["license"]) == ("3.2.1", URLS[1], "Apache-2.0 OR MIT")
    library = json.loads((folder["platformio"] / "library.json").read_text(encoding="utf-8"))
    assert library["authors"] == [{"name": author, "maintainer": True}]
    assert (library["version"], library["homepage"], library["license"]) == ("3.2.1", URLS[1], "Apache-2.0 OR MIT")
    component = (folder["esp-idf"] / "idf_component.yml").read_text(encoding="utf-8").splitlines()
    assert f"  - {yaml(author)}" in component and f"url: {yaml(URLS[1])}" in component
    assert 'license: "Apache-2.0 OR MIT"' in component and 'version: "3.2.1"' in component
    lists = (folder["cmake"] / "CMakeLists.txt").read_text(encoding="utf-8")
    assert "project(net VERSION 3.2.1 " in lists and f"HOMEPAGE_URL {cmake(URLS[1])} LANGUAGES C)" in lists
    for package in PACKAGES:
        readme = (folder[package] / "README.md").read_text(encoding="utf-8")
        assert f"| author | {markdown(author)} | the blrc authors |" in readme
        assert "@" not in readme.replace(markdown(author), "").replace(URLS[1], "")
    metadata = {entry.key: entry.value for entry in onnx.load(tmp_path / "out" / "net.onnx").metadata_props}
    assert (metadata["model_author"], metadata["model_license"]) == (author, "Apache-2.0 OR MIT")
    if shutil.which("cmake") and author == HOSTILE[0]:
        subprocess.run(["cmake", "-S", folder["cmake"], "-B", tmp_path / "b"], check=True, capture_output=True)


def test_the_packers_take_what_is_given(model: Path, packagers: Path, tmp_path: Path) -> None:
    """ESP-IDF's; PlatformIO's checks a licence with a list from the network, and is tested without one."""
    given = {"author": HOSTILE[0], "url": URLS[0], "package_version": "3.2.1"}
    blrc.export(model, folder=tmp_path / "out", targets="c", packages=PACKAGES, **given)
    blrc.export(model, folder=tmp_path / "with", targets="c", packages=PACKAGES, license="Apache-2.0 OR MIT", **given)
    environment = {"HOME": str(tmp_path), "IDF_TOOLS_PATH": str(tmp_path), "PATH": "/usr/bin:/bin"}
    environment |= {"PLATFORMIO_CORE_DIR": str(tmp_path / "pio"), "PLATFORMIO_SETTING_ENABLE_TELEMETRY": "no"}
    component, library = tmp_path / "with" / "esp-idf" / "net", tmp_path / "out" / "platformio" / "net"
    pack = ("compote", "component", "pack", "--name", "net", "--dest-dir", tmp_path, "--project-dir", component)
    for command, made in (
        (pack, "net_3.2.1.tgz"),
        (("pio", "pkg", "pack", "-o", tmp_path, library), "net-3.2.1.tar.gz"),
    ):
        done = subprocess.run(
            [packagers / command[0], *command[1:]], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert (tmp_path / made).is_file()


def test_the_command_has_the_options_and_refuses_before_it_writes(model: Path, tmp_path: Path) -> None:
    arguments = ["export", str(model), "--target", "c", "-o", str(tmp_path / "out")]
    for option, bad in (("--license", "MIT;"), ("--author", "a\nb"), ("--url", "x"), ("--package-version", "1")):
        done = CliRunner().invoke(main, [*arguments, option, bad])
        assert done.exit_code != 0 and option in done.output and not (tmp_path / "out").exists()
    good = ["--license", "MIT", "--author", "Ann", "--url", URLS[0], "--package-version", "1.0.2"]
    done = CliRunner().invoke(main, [*arguments, *good])
    assert done.exit_code == 0, done.output
    assert published(read_manifest(tmp_path / "out")) == {
        "license": "MIT",
        "author": "Ann",
        "url": URLS[0],
        "package_version": "1.0.2",
    }
