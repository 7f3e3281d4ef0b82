"""Instructions on other machines, counted exactly, and the int8 figures beside them."""

from __future__ import annotations

from pathlib import Path

import pytest
from shapes_only import HALF, SAME, network

import blrc
from blrc.benchmark.devices import OPTIMIZE, _options, measure_devices
from blrc.benchmark.rivals.published import int8_of
from blrc.benchmark.subject import load
from blrc.targets.c.machines.emulated import EmulatedBuild
from blrc.targets.c.machines.table import find

TINY = Path(__file__).parents[1] / "golden" / "tiny.pt"


@pytest.mark.needs("arm-none-eabi-gcc", "qemu-system-arm")
def test_steps_and_whole_are_what_the_emulator_counts(ensemble_folder: Path) -> None:
    subject = load(ensemble_folder)
    (found,) = measure_devices(subject, ["cortex-m4"])
    with EmulatedBuild(ensemble_folder, "tiny", find("cortex-m4")) as build:
        whole, steps = build.instructions(subject.sample), build.step_instructions(subject.sample)
        flash, arena = build.flash, build.layout.arena_bytes
    assert steps is not None and {s.what: s.instructions for s in found.steps} == steps
    assert [(s.what, s.kernel) for s in found.steps] == [(s.op.name, s.kernel) for s in subject.layout.steps]
    assert sum(s.macs for s in found.steps) == found.macs == subject.program.macs
    assert (found.choices[0].options, found.choices[0].instructions) == ("", whole)
    assert (found.choices[0].flash, found.choices[0].arena) == (flash, arena)
    assert found.int8 is None and not found.detail and "cortex-m4" in found.compiler
    assert not found.choices[1:]  # so small that every choice is the same C


@pytest.mark.needs("arm-none-eabi-gcc", "qemu-system-arm")
def test_c_for_x86_is_counted_as_portable_c(x86_folder: Path) -> None:
    (found,) = measure_devices(load(x86_folder), ["cortex-m4"], others=False)
    assert not {step.kernel for step in found.steps} & {"conv_tiles", "dense_tiles"}
    assert len(found.choices) == 1 and found.choices[0].instructions


def test_a_machine_without_its_tools_is_said(ensemble_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    (found,) = measure_devices(load(ensemble_folder), ["cortex-m4"])
    assert found.detail == "cortex-m4: arm-none-eabi-gcc not found; install gcc-arm-none-eabi" and not found.steps


def test_int8_figures_stand_beside_networks_of_the_same_shapes_only() -> None:
    layers = [(32, SAME, HALF), (64, SAME, HALF), (512, None, None)]
    mnist = int8_of(network(*layers, shape=(28, 28, 1)))
    assert mnist is not None and mnist.whole["cortex-m4"] == 12_080_000
    assert abs(sum(mnist.layers["cortex-m4"]) - mnist.whole["cortex-m4"]) < 10_000  # both are rounded
    assert int8_of(network(*layers[:2], (500, None, None), shape=(28, 28, 1))) is None
    assert int8_of(network((32, SAME, None), *layers[1:], shape=(28, 28, 1))) is None
    wide = [(n, SAME, pool) for n in (128, 256, 512) for pool in (None, HALF)]
    cifar = int8_of(network(*wide, (1024, None, None), shape=(32, 32, 3)))
    assert cifar is not None and cifar.whole["cortex-m55"] == 116_000_000


def test_a_machine_with_kernels_of_its_own_shows_what_they_cost() -> None:
    assert _options(find("cortex-m4")) == [("portable", each) for each in OPTIMIZE]
    own = [(cpu, each) for cpu in ("portable", "cortex-m55") for each in OPTIMIZE]
    assert _options(find("cortex-m55")) == own


@pytest.mark.nightly
@pytest.mark.needs("arm-none-eabi-gcc", "qemu-system-arm")
def test_an_export_for_a_machine_is_counted_as_it_is(tmp_path: Path) -> None:
    blrc.export(TINY, folder=tmp_path / "out", targets="c", cpu="cortex-m55")
    subject = load(tmp_path / "out")
    assert subject.layout.cpu == "cortex-m55"
    (found,) = measure_devices(subject, ["cortex-m55"], others=False)
    with EmulatedBuild(tmp_path / "out", "tiny", find("cortex-m55")) as build:
        assert found.choices[0].instructions == build.instructions(subject.sample)
