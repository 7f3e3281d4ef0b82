"""What takes part in a measurement, and what is refused. No time is asserted: times are those of the machine."""

from __future__ import annotations

import dataclasses
import json
import platform
import shutil
from pathlib import Path

import numpy as np
import pytest

import blrc
from blrc.benchmark import host
from blrc.benchmark.host import Host, measure
from blrc.benchmark.ours import compile_levels, levels_of
from blrc.benchmark.rivals import lce, registry
from blrc.benchmark.rivals.lce import LCE
from blrc.benchmark.rivals.registry import FLOAT32, INT8, OURS, RIVALS, TORCH
from blrc.benchmark.subject import Subject, load
from blrc.errors import BlrcError
from blrc.exports.door import read_manifest
from blrc.program.program import Encode
from blrc.reading import npz
from blrc.targets.c.kernels.cpus import TIERS as ALL_TIERS
from blrc.targets.c.kernels.tiers import VARIABLE, allowed, limited, wanted
from blrc.targets.c.layout.layout import lay_out

pytestmark = pytest.mark.needs("cc")
x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="this machine is no x86-64")
TIERS = ALL_TIERS["x86-64"]
TINY = Path(__file__).parents[1] / "golden" / "tiny.pt"


def quick(subject: Subject, others: bool = False) -> Host:
    return measure(subject, 1, others, 0)


@pytest.mark.nightly
@x86
@pytest.mark.slow("times every level")
def test_each_layer_is_timed_at_each_level_beside_each_rival(x86_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "popcnt")
    subject = load(x86_folder)
    found = quick(subject)
    layers = read_manifest(x86_folder).targets["c"]["layers"]
    assert [(row.what, row.kernel) for row in found.rows] == [
        *((layer["op"], layer["kernel"]) for layer in layers),
        ("network", ""),
    ]
    levels = allowed(("portable", "popcnt"))
    assert found.levels == levels and set(found.peaks) == set(levels)
    # No other runtime has to compute anything where the C packs bits.
    assert [list(row.times) for row in found.rows] == [
        [*levels, OURS, *([] if row.kernel == "flatten" else [FLOAT32, INT8, TORCH])] for row in found.rows
    ]
    assert all(time.cpu > 0 and time.wall > 0 for row in found.rows for time in row.times.values())
    assert set(found.left_out) == {LCE} and found.others == ()
    computing = [op for op in subject.program.ops if not isinstance(op, Encode)]
    assert [row.macs for row in found.rows] == [*(op.macs for op in computing), subject.program.macs]
    assert found.rows[-1].macs > found.rows[0].macs > 0 == found.rows[2].macs
    assert [row.binary for row in found.rows] == [False, True, False, True, False, False]
    assert VARIABLE == "BLRC_TIER" and wanted("x86-64") == "popcnt"  # as it was before


def test_an_ensemble_has_a_row_and_its_onnx_file_stands_there(ensemble_folder: Path) -> None:
    found = quick(load(ensemble_folder))
    network, ensemble = found.rows[-2:]
    assert network.what == "network" and OURS not in network.times
    assert ensemble.what == "ensemble of 3" and set(ensemble.times) == {"portable", OURS}
    assert ensemble.macs == 3 * network.macs
    assert found.levels == ("portable",)


@pytest.mark.nightly
def test_other_choices_are_timed_where_they_give_other_c(x86_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "portable")
    monkeypatch.setattr(host, "RIVALS", {})
    found = quick(load(x86_folder), others=True)
    assert [(other.options, other.level) for other in found.others] == [("--cpu portable", "portable")]
    program = load(x86_folder).program
    assert found.others[0].tables == sum(step.flash for step in lay_out(program).steps)


@pytest.mark.nightly
def test_the_c_is_laid_out_for_hosts_from_a_portable_export(
    ensemble_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "portable")
    monkeypatch.setattr(host, "RIVALS", {})
    monkeypatch.setattr(host, "host_cpu", lambda: "x86-64")
    assert [other.options for other in quick(load(ensemble_folder), others=True).others] == ["--cpu x86-64"]
    monkeypatch.setattr(host, "host_cpu", lambda: "aarch64")
    assert [other.options for other in quick(load(ensemble_folder), others=True).others] == ["--cpu aarch64"]
    monkeypatch.setattr(host, "host_cpu", lambda: "portable")
    assert quick(load(ensemble_folder), others=True).others == ()


def test_a_rival_that_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "portable")
    monkeypatch.setattr(registry.importlib.util, "find_spec", lambda name: None if name == "torch" else object())
    found = quick(load(TINY))
    assert found.left_out == {
        TORCH: "torch not installed: pip install 'blrc[train]'",
        OURS: "no ONNX file: export with --target onnx too, and give the folder",
        LCE: lce.missing(),
    }
    assert all(set(row.times) == {*found.levels, FLOAT32, INT8} for row in found.rows if row.kernel != "flatten")


def test_a_checkpoint_is_compiled_at_map() -> None:
    subject = load(TINY)
    assert subject.program.members == ("map",) and subject.exported is None and subject.onnx is None
    assert subject.sample.shape == (1, *subject.program.input.shape)


def test_a_folder_s_sample_is_the_first_that_it_recorded(x86_folder: Path) -> None:
    subject = load(x86_folder)
    recorded = npz.from_bytes((x86_folder / "tiny.vectors.npz").read_bytes())["inputs"]
    assert len(recorded) > 1 and np.array_equal(subject.sample, recorded[:1])


def test_a_changed_folder_is_not_timed(x86_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "changed"
    shutil.copytree(x86_folder, folder)
    with (folder / "tiny.c").open("a") as file:
        file.write("\n")
    with pytest.raises(BlrcError, match=r"tiny\.c: was changed since the export"):
        load(folder)


def test_kernels_that_the_manifest_does_not_name_are_not_timed(x86_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    shutil.copytree(x86_folder, folder)
    path = folder / "tiny.manifest.json"
    plain = json.loads(path.read_text(encoding="utf-8"))
    layer = plain["targets"]["c"]["layers"][1]
    layer["kernel"] = "conv_better"
    path.write_text(json.dumps(plain), encoding="utf-8")
    with pytest.raises(BlrcError, match=r"tiny\.manifest\.json: 'layers' of target c is not what this blrc says"):
        load(folder)


def test_a_folder_without_c_is_refused(tmp_path: Path) -> None:
    blrc.export(TINY, folder=tmp_path / "only", targets=["onnx"])
    with pytest.raises(BlrcError, match="holds no C"):
        load(tmp_path / "only")


def test_wrong_code_is_not_timed() -> None:
    subject = load(TINY)
    weights = subject.files["tiny_weights.c"]
    files = {**subject.files, "tiny_weights.c": weights.replace(b" -", b" ")}  # codes and scores lose their signs
    with pytest.raises(BlrcError, match="is wrong at level portable: not timed"):
        compile_levels(files, subject.name, subject.program, subject.sample, ["portable"])


def test_portable_c_has_one_level(ensemble_folder: Path, x86_folder: Path) -> None:
    assert levels_of(load(ensemble_folder).layout, TIERS) == ("portable",)
    assert levels_of(load(x86_folder).layout, TIERS[:2]) == TIERS[:2]


def test_a_level_is_limited_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with limited("avx2"):
        assert wanted("x86-64") == "avx2"
        with limited("popcnt"):
            assert allowed(TIERS) == ("portable", "popcnt")
        assert allowed(TIERS) == ("portable", "popcnt", "avx2")
    assert wanted("x86-64") == "" and allowed(TIERS) == TIERS
    with pytest.raises(BlrcError, match="no such level"):
        allowed(TIERS, {VARIABLE: "avx3"})


def test_every_rival_names_its_packages() -> None:
    assert all(rival.packages and rival.missing is None for rival in RIVALS.values())
    broken = dataclasses.replace(RIVALS[TORCH], packages=("no_such_package",))
    assert broken.missing == "no_such_package not installed: pip install no_such_package"


def test_a_file_that_onnx_runtime_refuses_is_said() -> None:
    with pytest.raises(BlrcError, match="refuses a file to compare with"):
        registry.in_onnx_runtime(b"no model")
