"""`blrc verify --on`: each status where it belongs, and what the report and the exit status make of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from c_exports import export as export_c
from click.testing import CliRunner
from random_networks import checkpoint_of, deep_network
from random_programs import random_inputs, random_program

from blrc.app.export import export
from blrc.cli import progress
from blrc.cli.main import main
from blrc.errors import BlrcError
from blrc.program.program import Program
from blrc.targets.c.build import compiler
from blrc.targets.c.machines import table
from blrc.targets.c.machines.emulated import EmulatedBuild
from blrc.targets.c.machines.table import ALL, Machine, Tool
from blrc.targets.c.size.fit import NoRoomToTestError
from blrc.verification import devices
from blrc.verification.devices import Device, parse_machines, to_table, unchecked, verify_device, verify_devices
from blrc.verification.run import InputSet


@pytest.fixture(scope="module")
def program() -> Program:
    return random_program(5)


@pytest.fixture(scope="module")
def folder(program: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_c(program, tmp_path_factory.mktemp("net"), random_inputs(program, 3))


@pytest.fixture
def inputs(program: Program) -> list[InputSet]:
    return [InputSet("recorded vectors", random_inputs(program, 3)), InputSet("test set", random_inputs(program, 9, 1))]


def altered(monkeypatch: pytest.MonkeyPatch, **changes: object) -> None:
    """Let the machine called host be another one."""
    host = replace(table.host(), **changes)  # type: ignore[arg-type]

    def find(name: str) -> Machine:
        return host if name == "host" else table.find(name)

    monkeypatch.setattr(devices, "find", find)


def test_names() -> None:
    assert parse_machines("all") == ALL
    assert parse_machines("wasm, host,cortex-m4,host") == ("host", "cortex-m4", "wasm")
    for text, named in (("cortex-m9", "cortex-m9"), ("", "named"), (" , ", "named"), ("host,x,y", "x, y")):
        with pytest.raises(BlrcError, match=f"no machine {named}; there are host, cortex-m0, "):
            parse_machines(text)
    assert parse_machines("Cortex-M4") == ("cortex-m4",)
    with pytest.raises(BlrcError, match=r"no machine cortexm4 \(did you mean cortex-m4\?\); there are"):
        parse_machines("cortexm4")


def test_equal(folder: Path, inputs: list[InputSet], program: Program) -> None:
    found = verify_device(folder, "net", "host", inputs, 0)
    assert (found.name, found.status, found.detail, found.inputs) == ("host", "equal", "", 12)
    assert found.flash and found.ram and found.stack and found.compiler
    # more than the 12 inputs' own values: each op alone is among them
    assert found.values_compared > 12 * sum(int(np.prod(op.y.shape)) for op in program.ops[1:])


def test_at_most_so_many_inputs(folder: Path, inputs: list[InputSet], monkeypatch: pytest.MonkeyPatch) -> None:
    altered(monkeypatch, limit=4)
    assert verify_device(folder, "net", "host", inputs, 0).inputs == 3 + 4


def test_a_difference_is_named(
    folder: Path, inputs: list[InputSet], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    for file in broken.glob("net_blrc*"):
        text = file.read_text(encoding="ascii")
        file.write_text(
            text.replace("<= n - NET_BLRC_READ", "< n - NET_BLRC_READ").replace(">= NET_BLRC_READ", "> NET_BLRC_READ"),
            encoding="ascii",
        )
    assert any(file.read_bytes() != (folder / file.name).read_bytes() for file in broken.iterdir())
    found = verify_device(broken, "net", "host", inputs, 0)
    assert found.status == "differs"
    for word in ("member 'sample 0:0'", "op 'conv", "position", "channel", "z ", "threshold", "expected", "found"):
        assert word in found.detail, found.detail


def test_a_failing_self_test_is_a_difference(
    folder: Path, inputs: list[InputSet], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices.EmulatedBuild, "selftest", lambda self: 3)
    found = verify_device(folder, "net", "host", inputs, 0)
    assert found.status == "differs" and found.detail.endswith("the export's self-test returns 3")


def test_code_that_does_not_compile_is_not_checked(folder: Path, inputs: list[InputSet], tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    with (broken / "net.c").open("a", encoding="ascii") as file:
        file.write("#error no\n")
    found = verify_device(broken, "net", "host", inputs, 0)
    assert found.status == "not built" and "#error no" in found.detail
    assert devices.unchecked([found], strict=False)


def test_skipped_and_too_large(folder: Path, inputs: list[InputSet], monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        altered(patch, tools=(Tool("no-such", "no-such-package"), Tool("cc", "gcc")))
        found = verify_device(folder, "net", "host", inputs, 0)
        assert (found.status, found.detail) == ("skipped", "no-such not found: install no-such-package")
    altered(monkeypatch, fits=(1_000, 1_000))
    found = verify_device(folder, "net", "host", inputs, 0)
    assert found.status == "does not fit" and "there are 1,000 and 1,000" in found.detail
    assert found.has == (1_000, 1_000) and found.flash and found.ram and found.needs_ram
    assert found.flash > 1_000 or found.needs_ram > 1_000


def test_progress_counts_machines(folder: Path, inputs: list[InputSet], monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[str, int, int]] = []
    altered(monkeypatch, tools=(Tool("no-such", "x"),))
    found = verify_devices(folder, "net", ["host"], inputs, 0, lambda *what: said.append(what))
    assert [device.status for device in found] == ["skipped"]
    assert said == [("machines", 0, 1), ("machines (host: skipped)", 1, 1)]


def test_the_table_has_a_line_for_each_and_its_detail() -> None:
    lines = to_table(
        [
            Device("host", "this", "equal", "", 12, 99, 1234, 5, 678, 9_000_000, "cc"),
            Device("avr", "AVR", "skipped", "why"),
        ]
    ).splitlines()
    assert lines[1].split() == ["host", "equal", "12", "1,234", "5", "678", "9,000,000"]
    assert lines[2].split() == ["avr", "skipped", "-", "-", "-", "-", "-"]
    assert lines[3].strip() == "why" and len(lines) == 4


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("exported")
    model, shape = deep_network(3)
    export(checkpoint_of(model, "uint8", shape, 3), folder=where / "out", targets=["c"], name="net")
    return where / "out"


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["verify", *map(str, arguments)])
    return result.exit_code, result.output


@pytest.mark.slow("whole commands")
def test_the_command(exported: Path) -> None:
    code, output = run(exported, "--random", 20, "--on", "host", "--json")
    targets = json.loads(output[output.index("{\n") :])["targets"]
    assert code == 0
    assert [(t["name"], t["status"], t["inputs"]) for t in targets] == [("host", "equal", 8 + 200)]
    assert all(targets[0][key] > 0 for key in ("flash", "ram", "stack", "values_compared"))


@pytest.mark.nightly
@pytest.mark.slow("whole commands")
def test_the_command_says_what_was_not_checked(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    altered(monkeypatch, tools=(Tool("no-such", "no-such-package"),))
    code, output = run(exported, "--random", 20, "--on", "host", "--strict")
    assert code == 2 and "NOT CHECKED: host: skipped: no-such not found: install no-such-package" in output

    assert output.endswith("bit-exact: what was compared is, but not everything was checked\n")

    altered(monkeypatch, fits=(10, 10))
    code, output = run(exported, "--random", 20, "--on", "host", "--strict")
    assert code == 0 and "does not fit" in output


def test_a_difference_on_a_machine_alone_fails_the_command(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices.EmulatedBuild, "selftest", lambda self: 3)
    code, output = run(exported, "--random", 20, "--on", "host")
    assert code == 1 and output.endswith("bit-exact: NO\n")


def test_mistakes(exported: Path, tmp_path: Path) -> None:
    code, output = run(exported, "--on", "cortex-m99")
    assert code == 2 and "no machine cortex-m99; there are host, " in output
    code, output = run(exported, "--strict")
    assert code == 2 and "name some with --on" in output
    model, shape = deep_network(3)
    export(checkpoint_of(model, "uint8", shape, 3), folder=tmp_path / "onnx", targets=["onnx"], name="net")
    code, output = run(tmp_path / "onnx", "--on", "host")
    assert code == 2 and "holds no C to run on host; export it again with --target c" in output


def test_a_c_library_that_is_missing_is_named(
    folder: Path, inputs: list[InputSet], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cross compiler without its C library finds no stdio.h: that is no difference."""
    for name in ("aarch64", "armv7", "s390x", "avr"):
        assert any(tool.header_of and "lib" in tool.package for tool in table.find(name).tools)
    assert Tool("stdio.h", "libc6-dev", header_of="cc").found
    assert Tool("no_such.h", "libc6-dev", header_of="no-such-cc").found  # the compiler is what is missing
    altered(monkeypatch, tools=(Tool("cc", "gcc"), Tool("no_such.h", "libc6-dev-no-such-cross", header_of="cc")))
    found = verify_device(folder, "net", "host", inputs, 0)
    assert (found.status, found.detail) == ("skipped", "no_such.h not found: install libc6-dev-no-such-cross")


def test_every_machine_s_size_is_a_tool() -> None:
    with pytest.raises(BlrcError, match="no-such-size not found; install binutils"):
        compiler.measure([Path("x.o")], "no-such-size")
    for name in ALL:
        machine = table.find(name)
        names = {tool.program: tool.package for tool in machine.tools}
        assert machine.size is None or names[machine.size].startswith("binutils")


def test_an_emulator_that_cannot_count_is_no_difference(
    folder: Path, inputs: list[InputSet], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As QEMU without plugins: it knows no such option."""
    altered(monkeypatch, count=("sh", "-c", "echo unknown option plugin >&2; exit 1"))
    found = verify_device(folder, "net", "host", inputs, 0)
    assert (found.status, found.instructions, found.inputs) == ("equal", None, 12)
    assert "instructions not counted" in found.detail and "unknown option plugin" in found.detail


def test_a_program_that_hangs_is_a_status_of_its_own(
    folder: Path, inputs: list[InputSet], monkeypatch: pytest.MonkeyPatch
) -> None:
    altered(monkeypatch, run=("sleep", "30"))
    monkeypatch.setattr(devices, "EmulatedBuild", partial(devices.EmulatedBuild, timeout=0.5))
    found = verify_device(folder, "net", "host", inputs, 0)
    assert found.status == "timed out" and "did not finish in" in found.detail
    assert unchecked([found], strict=False) == (f"host: timed out: {found.detail}",)


def test_what_counts_as_not_checked() -> None:
    found = [Device(status, "title", status, "why") for status in get_args(devices.Status)]
    assert unchecked(found, strict=False) == ("timed out: timed out: why", "not built: not built: why")
    assert {line.split(":")[0] for line in unchecked(found, strict=True)} == {
        "timed out",
        "not built",
        "no room to test",
        "skipped",
    }


def test_where_only_the_self_test_fits(folder: Path, inputs: list[InputSet], monkeypatch: pytest.MonkeyPatch) -> None:
    link = EmulatedBuild._link

    def cramped(self: EmulatedBuild, objects: Sequence[Path], out: str) -> Path:
        if out in without:
            raise NoRoomToTestError("no room", "RAM", 10**9)
        return link(self, objects, out)

    monkeypatch.setattr(EmulatedBuild, "_link", cramped)
    without = {"device"}
    found = verify_device(folder, "net", "host", inputs, 0)
    assert found.status == "no room to test" and found.detail.endswith(
        "only its self-test was run, and found no difference"
    )
    assert found.flash and found.needs_ram and found.inputs == 0
    with monkeypatch.context() as patch:
        patch.setattr(EmulatedBuild, "selftest", lambda self: 3)
        assert verify_device(folder, "net", "host", inputs, 0).status == "differs"
    without = {"steps"}
    found = verify_device(folder, "net", "host", inputs, 0)
    assert found.status == "equal" and "no room to run alone" in found.detail and "conv0" in found.detail
    assert found.inputs == 12
    without = {"selftest"}
    found = verify_device(folder, "net", "host", inputs, 0)
    assert found.status == "equal" and found.detail == "no room: no self-test"
    without = {"selftest", "device"}
    found = verify_device(folder, "net", "host", inputs, 0)
    assert found.status == "no room to test" and found.detail == "no room; nor its self-test"


def test_a_line_in_the_log_for_each_machine(capsys: pytest.CaptureFixture[str]) -> None:
    say = progress.Progress()
    for done, what in enumerate(("machines", "machines (a: equal)", "machines (b: skipped)")):
        say(what, done, 3)
    say("machines (b: skipped)", 2, 3)
    assert capsys.readouterr().err.splitlines() == [
        "machines: 0 of 3",
        "machines (a: equal): 1 of 3",
        "machines (b: skipped): 2 of 3",
    ]
