"""Ensembles in C: after every member the law's sums and answer; stopping early; misuse; what an export holds of it."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from by_night import first, night
from c_exports import export
from numpy.typing import NDArray
from random_programs import gated, random_inputs, random_program, top_probability

from blrc.errors import BlrcError
from blrc.program import head, reference
from blrc.program.legal import check
from blrc.program.program import Constant, Program, Scores, Value
from blrc.program.vectors import record
from blrc.targets.c.build import compiler as build
from blrc.targets.c.build.answers import Answers
from blrc.targets.c.build.compiler import STRICT
from blrc.targets.c.build.host import SANITIZE, HostBuild
from blrc.targets.c.emit import emit
from blrc.targets.options import EmitOptions


def running_sums(program: Program, raw: NDArray[Any]) -> list[head.Sums]:
    """The law: the sums after 1, 2, ... members."""
    scale, sums, found = head.scale_of(program.score_scale), head.Sums.start(len(raw), program.classes), []
    for member in range(len(program.members)):
        sums = sums.add(reference.scores(program, raw, member), scale)
        found.append(sums)
    return found


def assert_answers(found: Answers, sums: head.Sums, remaining: int, rows: NDArray[np.bool_] | None = None) -> None:
    """`found` is what `sums` say, in the chosen rows."""
    answer = sums.answer()
    expected = {name: getattr(sums, name) for name in ("log_p", "p", "p_squared")}
    expected |= {name: getattr(answer, name) for name in ("label", "mean", "variance")}
    expected |= {"settled": sums.settled(remaining), "members": answer.members}
    chosen = slice(None) if rows is None else rows
    for name, values in expected.items():
        np.testing.assert_array_equal(getattr(found, name)[chosen], values[chosen], err_msg=name)


def check_ensemble(program: Program, folder: Path, samples: int = 60, **options: Any) -> set[int]:
    """Every number of members, and every way to stop; gives how many members early stopping used."""
    raw = random_inputs(program, samples)
    law, count = running_sums(program, raw), len(program.members)
    with HostBuild(export(program, folder, raw[:3]), "net", **options) as c:
        for k, sums in enumerate(law, 1):
            assert_answers(c.answers(raw, k), sums, count - k)
        whole = c.answers(raw)
        assert_answers(whole, law[-1], 0)
        np.testing.assert_array_equal(whole.label, reference.answer(program, raw).label)
        used = set()
        means = np.stack([sums.answer().mean for sums in law])
        for confidence in (0, 1, int(np.median(means)), int(means.max()), int(means.max()) + 1, 2**32 - 1):
            found = c.answers(raw, stop=True, confidence=confidence)
            expected = stopped_after(law, confidence)
            np.testing.assert_array_equal(found.members, expected)
            for k, sums in enumerate(law, 1):
                assert_answers(found, sums, count - k, expected == k)
            if confidence == 0:
                np.testing.assert_array_equal(found.label, whole.label)
            used |= set(expected.tolist())
        assert "equal" in c.selftest()
    return used


def stopped_after(law: list[head.Sums], confidence: int, gate: int = 0) -> NDArray[np.int64]:
    """The law of predict, written out for one input after the other."""
    count, found = len(law), []
    for i in range(len(law[0].p)):
        for k, sums in enumerate(law, 1):
            settled, mean = sums.settled(count - k)[i], sums.answer().mean[i]
            if settled or (confidence > 0 and mean >= confidence) or (k == 1 and 0 < gate <= mean):
                break
        found.append(k)
    return np.array(found)


def scaled(program: Program, bits: float) -> Program:
    """The same with a scale at which the spread of the scores is about `bits` bits."""
    raw = random_inputs(program, 60)
    spread = np.median([np.ptp(reference.scores(program, raw, m), axis=1) for m in range(len(program.members))])
    scale = bits / float(max(spread, 1)) * float(np.log(2))
    return check(replace(program, score_scale=max(scale, head.SMALLEST_SCALE)))


CASES = [(kind, members) for kind in ("uint8", "int8", "bits") for members in (1, 2, 5)]


BY_DAY = [("bits", 1)]


@pytest.mark.parametrize(
    ("kind", "members"),
    [pytest.param(*case, marks=[] if case in BY_DAY else [pytest.mark.nightly]) for case in CASES],
)
def test_random_programs(tmp_path: Path, kind: str, members: int) -> None:
    seed = CASES.index((kind, members))
    program = scaled(random_program(seed, kind, members=members), (3.0, 12.0, 400.0)[seed % 3])
    check_ensemble(program, tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("kind", "members"),
    [("int8", 2), ("uint8", 5), ("bits", 5)],
)
def test_random_programs_under_sanitizers(tmp_path: Path, kind: str, members: int) -> None:
    check_ensemble(scaled(random_program(80 + members, kind, members=members), 20.0), tmp_path, flags=SANITIZE)


@pytest.mark.nightly
@pytest.mark.needs("clang")
def test_with_clang(tmp_path: Path) -> None:
    program = scaled(random_program(81, "uint8", members=5), 30.0)
    check_ensemble(program, tmp_path, cc="clang", flags=("-Os", *STRICT))


@pytest.mark.parametrize(
    "compiler",
    [
        pytest.param("g++", marks=pytest.mark.needs("g++")),
        pytest.param("clang++", marks=pytest.mark.needs("clang++")),
    ],
)
@pytest.mark.nightly
def test_as_cplusplus(tmp_path: Path, compiler: str) -> None:
    program = scaled(random_program(82, "bits", members=3), 10.0)
    raw = random_inputs(program, 30)
    with HostBuild(export(program, tmp_path, raw[:3]), "net", ("-O2", *STRICT), cc=compiler, cplusplus=True) as c:
        assert_answers(c.answers(raw), running_sums(program, raw)[-1], 0)


@pytest.mark.nightly
@pytest.mark.needs("s390x-linux-gnu-gcc", "qemu-s390x")
def test_on_a_big_endian_machine(tmp_path: Path) -> None:
    program = scaled(random_program(83, "uint8", members=3, binary=False), 10.0)
    options = {"cc": "s390x-linux-gnu-gcc -static", "runner": ("qemu-s390x",), "flags": ("-O2", *STRICT)}
    check_ensemble(program, tmp_path, samples=10, **options)


def check_gate(program: Program, gate: int, folder: Path, samples: int = 60, **options: Any) -> set[int]:
    """The whole answer is the law's; stopping early keeps its label; so many members on request. Members used."""
    program = gated(program, gate)
    raw = random_inputs(program, samples)
    law, count = running_sums(program, raw), len(program.members)
    with HostBuild(export(program, folder, raw[:8]), "net", **options) as c:
        whole, expected = c.answers(raw), reference.answer(program, raw)
        alone = top_probability(program, raw) >= gate
        np.testing.assert_array_equal(expected.members, np.where(alone, 1, count))
        for k, sums in ((1, law[0]), (count, law[-1])):
            assert_answers(whole, sums, count - k, expected.members == k)
        for k, sums in enumerate(law, 1):
            assert_answers(c.answers(raw, k), sums, count - k)
        for confidence in (0, int(np.median(law[0].answer().mean)), 65537):
            found = c.answers(raw, stop=True, confidence=confidence)
            np.testing.assert_array_equal(found.members, stopped_after(law, confidence, gate))
            if confidence != int(np.median(law[0].answer().mean)):
                np.testing.assert_array_equal(found.label, expected.label)
            for k, sums in enumerate(law, 1):
                assert_answers(found, sums, count - k, found.members == k)
        assert "equal" in c.selftest()
    return set(expected.members.tolist())


@pytest.mark.parametrize(
    ("kind", "flags"),
    [
        ("int8", SANITIZE),
        pytest.param("uint8", ("-O2", *STRICT), marks=pytest.mark.nightly),
        pytest.param("bits", ("-Os", *STRICT), marks=pytest.mark.nightly),
    ],
)
@pytest.mark.parametrize("above", first(1, [0, 1]))
def test_a_gate(tmp_path: Path, kind: str, flags: tuple[str, ...], above: int) -> None:
    """At a probability that occurs, and just above it."""
    program = scaled(random_program(89, kind, members=3, binary=False), 4.0)
    top = np.sort(top_probability(program, random_inputs(program, 60)))
    assert check_gate(program, int(top[30]) + above, tmp_path, flags=flags) == {1, 3}


@pytest.mark.nightly
def test_gates_and_confidences_of_any_kind(tmp_path: Path) -> None:
    """The anytime loop against its law, at gates and confidences that occur, and beside them."""
    program = gated(scaled(random_program(89, "uint8", members=4, binary=False), 4.0), 1)
    raw = random_inputs(program, 40)
    law, top = running_sums(program, raw), np.unique(top_probability(program, raw))
    means = np.unique(np.stack([sums.answer().mean for sums in law]))
    rng = np.random.default_rng(0)
    edges = [int(g) + d for g in rng.choice(top, 2, replace=False) for d in (0, 1)]
    for gate in (1, *edges, head.ONE):
        folder = export(replace(program, gate=min(gate, head.ONE)), tmp_path / str(gate), raw[:1])
        with HostBuild(folder, "net", SANITIZE) as c:
            some = rng.choice(means, 4, replace=False)
            for confidence in (0, 1, *(int(m) + d for m in some for d in (-1, 0, 1)), head.ONE, 2**32 - 1):
                found = c.answers(raw, stop=True, confidence=confidence)
                expected = stopped_after(law, confidence, min(gate, head.ONE))
                np.testing.assert_array_equal(found.members, expected)
                for k, sums in enumerate(law, 1):
                    assert_answers(found, sums, len(law) - k, expected == k)


@pytest.mark.nightly
def test_a_gate_that_always_or_never_opens(tmp_path: Path) -> None:
    program = scaled(random_program(86, "bits", members=2, binary=False), 3.0)
    assert check_gate(program, 1, tmp_path / "always") == {1}
    assert check_gate(program, head.ONE, tmp_path / "never") == {2}


def test_only_a_gated_ensemble_has_a_gate(tmp_path: Path) -> None:
    program, folder = three(tmp_path)
    assert "gate" not in "".join((folder / f).read_text().lower() for f in ("net.h", "net.c"))
    again = export(gated(program, 64_881), tmp_path / "gated", random_inputs(program, 3))
    assert "#define NET_GATE 64881 " in (again / "net.h").read_text()
    assert "int net_gated(const net_ensemble *ensemble);" in (again / "net.h").read_text()


def voters(votes: list[tuple[int, ...]], scale: float = 1.0) -> Program:
    """A member for each of `votes`: its scores, whatever the input (whose weights are 0)."""
    classes = len(votes[0])
    x, y = Value("input", "bits", (1, 1, 3)), Value("scores", "int32", (1, 1, classes))
    weights = Constant((np.zeros((classes, 1, 1, 3), np.int8),), (0,) * len(votes))
    different = sorted(set(votes))
    bias = Constant(tuple(np.array(v, np.int32) for v in different), tuple(different.index(v) for v in votes))
    names = tuple(f"sample 0:{k}" for k in range(len(votes)))
    return check(Program(x, (Scores("scores", x, y, "w", "b"),), {"w": weights, "b": bias}, names, scale))


MOST = 2**29
QUICK = ("-O0",)
"""Flags of builds that run for a moment."""


VOTES = [
    # The floor: three of five settle it; the label stays the first of two that are equal.
    ([(MOST, 0, 0)] * 5, 1.0, 3),
    ([(0, 0, MOST)] * 5, 1.0, 3),
    ([(0, MOST, MOST)] * 5, 1.0, 5),
    ([(MOST, -MOST)] * 4, 1.0, 2),
    ([(-MOST, MOST)] * 4, 1.0, 3),  # an earlier rival wins a tie
    ([(5, 5)] * 4, head.SMALLEST_SCALE, 4),  # all are equal
    ([(MOST, -MOST), (-MOST, MOST)] * 2, 1.0, 3),
    ([(-MOST, MOST), (MOST, -MOST)] * 2, 1.0, 4),
    ([(7,), (9,)], 1.0, 1),  # one class
    ([tuple(range(300))], 0.5, 1),
]


@pytest.mark.parametrize(
    ("votes", "scale", "used"),
    [pytest.param(*case, marks=[] if i in (4, 9) else [pytest.mark.nightly]) for i, case in enumerate(VOTES)],
)
def test_votes(tmp_path: Path, votes: list[tuple[int, ...]], scale: float, used: int) -> None:
    program = voters(votes, scale)
    raw = np.zeros((1, 1, 1, 3), np.bool_)
    law = running_sums(program, raw)
    with HostBuild(export(program, tmp_path, raw), "net", SANITIZE) as c:
        for k, sums in enumerate(law, 1):
            assert_answers(c.answers(raw, k), sums, len(votes) - k)
        stopped = c.answers(raw, stop=True)
        assert stopped.members.tolist() == [used]
        assert_answers(stopped, law[used - 1], len(votes) - used)


def test_members_are_saved_and_labels_kept(tmp_path: Path) -> None:
    used = check_ensemble(scaled(random_program(84, "uint8", members=5), 2000.0), tmp_path, flags=QUICK)
    assert min(used) < 5 and max(used) == 5


MISUSE = """
#include "net.h"
#define REQUIRE(condition) do { if (!(condition)) return __LINE__; } while (0)
static uint32_t arena[(NET_ARENA_SIZE + 7) / 4];
static uint8_t input[NET_INPUT_SIZE];
static int32_t scores[NET_CLASSES];
int main(void)
{
    net_ensemble e;
    net_answer a;
    uint32_t k;
    int label;
    REQUIRE(net_init(0) == NET_ERROR_NULL);
    REQUIRE(net_is_final(0) == NET_ERROR_NULL);
    REQUIRE(net_init(&e) == 0 && e.members == 0);
    REQUIRE(net_result(&e, &a) == NET_ERROR_EMPTY);
    REQUIRE(net_is_final(&e) == 0);
    REQUIRE(net_add(0, input, arena) == NET_ERROR_NULL);
    REQUIRE(net_add(&e, 0, arena) == NET_ERROR_NULL);
    REQUIRE(net_add(&e, input, 0) == NET_ERROR_NULL);
    REQUIRE(net_add(&e, input, (char *)arena + 1) == NET_ERROR_ALIGN);
    REQUIRE(e.members == 0 && e.log_p[0] == 0);
    for (k = 1; k <= NET_MEMBERS; ++k) {
        REQUIRE(net_add(&e, input, arena) == 0 && e.members == k);
        label = net_result(&e, &a);
        REQUIRE(label >= 0 && a.label == label && a.members == k && a.mean <= 65536 && a.variance <= 1u << 30);
    }
    REQUIRE(net_is_final(&e) == 1);
    k = e.p[0];
    REQUIRE(net_add(&e, input, arena) == NET_ERROR_MEMBERS);
    REQUIRE(e.members == NET_MEMBERS && e.p[0] == k);
    REQUIRE(net_result(0, &a) == NET_ERROR_NULL && net_result(&e, 0) == NET_ERROR_NULL);
    e.members = NET_MEMBERS + 1;
    REQUIRE(net_result(&e, &a) == NET_ERROR_MEMBERS && net_is_final(&e) == NET_ERROR_MEMBERS);
    REQUIRE(net_predict(0, arena, &e, 0, &a) == NET_ERROR_NULL);
    REQUIRE(net_predict(input, 0, &e, 0, &a) == NET_ERROR_NULL);
    REQUIRE(net_predict(input, arena, 0, 0, &a) == NET_ERROR_NULL);
    REQUIRE(net_predict(input, arena, &e, 0, 0) == NET_ERROR_NULL);
    REQUIRE(net_predict(input, (char *)arena + 2, &e, 0, &a) == NET_ERROR_ALIGN);
    REQUIRE(net_predict(input, arena, &e, 70000, &a) == a.label && a.members == e.members);
    REQUIRE(net_observe(NET_MEMBERS, input, arena, scores, 0, 0) == NET_ERROR_MEMBERS);
    REQUIRE(net_observe(NET_MEMBERS - 1, input, arena, 0, 0, 0) == NET_ERROR_NULL);
    REQUIRE(net_observe(NET_MEMBERS - 1, input, arena, scores, 0, 0) >= 0);
    return 0;
}
"""


@pytest.mark.parametrize("members", [3, *night(1)])
def test_misuse_is_an_error_code_and_changes_nothing(tmp_path: Path, members: int) -> None:
    program = random_program(3, "uint8", shape=(9, 8, 3), members=members)
    folder = export(program, tmp_path / "net", random_inputs(program, 3))
    (tmp_path / "main.c").write_text(MISUSE)
    compiler = build.find_compiler()
    objects = [
        build.compile_object(compiler, SANITIZE, source, tmp_path / f"{source.stem}.o", folder)
        for source in (*build.sources(folder, "net"), tmp_path / "main.c")
    ]
    binary = build.link(compiler, SANITIZE, objects, tmp_path / "main")
    done = subprocess.run([binary], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, ""), f"line {done.returncode} of MISUSE"


def three(tmp_path: Path) -> tuple[Program, Path]:
    program = scaled(random_program(3, "uint8", shape=(9, 8, 3), members=3), 10.0)
    return program, export(program, tmp_path / "net", random_inputs(program, 3))


def test_wrong_arguments_are_named(tmp_path: Path) -> None:
    program, folder = three(tmp_path)
    raw = random_inputs(program, 2)
    with HostBuild(folder, "net", QUICK) as c:
        for members in (0, 4):
            with pytest.raises(BlrcError, match=f"{members} members asked for, there are 3"):
                c.answers(raw, members)
        with pytest.raises(BlrcError, match="members cannot be given with stop"):
            c.answers(raw, 2, stop=True)
        with pytest.raises(BlrcError, match="confidence only with it"):
            c.answers(raw, confidence=5)
        assert c.answers(raw[:0]).log_p.shape == (0, program.classes)


def test_only_a_single_network_has_classify(tmp_path: Path) -> None:
    _, folder = three(tmp_path)
    assert "net_classify" not in (folder / "net.h").read_text() + (folder / "net.c").read_text()
    assert "#define NET_MEMBERS 3 " in (folder / "net.h").read_text()


def test_tables_that_members_share_are_stored_once(tmp_path: Path) -> None:
    program, folder = three(tmp_path)
    text = (folder / "net_weights.c").read_text()
    tables = re.findall(r"^NET_BLRC_STORED const \w+ (net_const_\w+?)(?:_\d)?(?<!_of)\[", text, re.MULTILINE)
    pointers = re.findall(r"^const \w+ \*const (net_const_\w+)\[3\]", text, re.MULTILINE)
    assert len(tables) == sum(len(constant.tables) for constant in program.constants.values())
    assert len(pointers) == sum(len(constant.tables) > 1 for constant in program.constants.values())
    assert tables.count("net_const_dense2_weights") == 3
    assert tables.count("net_const_scores_weights") == 1


def test_objects_need_only_what_a_compiler_itself_calls(tmp_path: Path) -> None:
    _, folder = three(tmp_path)
    sources = [*build.sources(folder, "net"), folder / "net_selftest.c"]
    # A position-independent program relocates the pointers to members' tables when it starts; firmware does not.
    flags = ("-O2", "-fno-pic", *STRICT)
    objects = [build.compile_object(build.find_compiler(), flags, s, tmp_path / f"{s.stem}.o", folder) for s in sources]
    listing = subprocess.run(["nm", "-P", *objects], capture_output=True, text=True, check=True).stdout
    symbols = [line.split()[:2] for line in listing.splitlines() if not line.endswith(":") and not line.startswith(".")]
    assert not [name for name, kind in symbols if kind in "BbDdC"]
    defined = {name for name, kind in symbols if kind not in "Uw"}
    assert {"net_init", "net_add", "net_result", "net_is_final", "net_predict", "net_observe"} <= defined
    assert all(name.startswith("net_") for name in defined)
    assert {n for n, _ in symbols if n not in defined and not n.startswith("__")} <= {"memcpy", "memset"}


@pytest.mark.nightly
def test_the_stack_is_bounded(tmp_path: Path) -> None:
    _, folder = three(tmp_path)
    compiler, flags = build.find_compiler(), ("-Os", "-fstack-usage")
    for source in build.sources(folder, "net"):
        build.compile_object(compiler, flags, source, tmp_path / f"{source.stem}.o", folder)
    usage = build.stack_usage(tmp_path)
    runtime = (folder / "net_blrc.c").read_text()
    whole = build.stack_bound(usage, "net", runtime)
    for call in build.CERTAINTY:
        usage["net"].pop(f"net_{call}", None)
    assert 0 < whole - build.stack_bound(usage, "net", runtime) <= 256


def test_the_selftest_names_the_member(tmp_path: Path) -> None:
    _, folder = three(tmp_path)
    path = folder / "net_weights.c"
    source = path.read_text()
    pointers = re.search(r"const int16_t \*const net_const_dense2_thresholds\[3\] = \{(.*?)\};", source, re.DOTALL)
    assert pointers is not None
    swapped = pointers[0].replace("thresholds_1", "thresholds_2")
    path.write_text(source.replace(pointers[0], swapped))
    with HostBuild(folder, "net", QUICK) as c, pytest.raises(BlrcError, match="selftest: member 1, step 2 differs"):
        c.selftest()


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("net.c", (r"(int32_t shift = )(\d+)", r"\g<1>1 + \2")),  # another scale
        ("net_blrc.c", (r"\+ \(\(uint32_t\)1 << 13\)", "")),  # no rounding of p
        ("net_selftest.c", (r"(vector_answers\[12\] = \{\s*)\d+", r"\g<1>99")),  # another label
    ],
)
def test_the_selftest_sees_a_wrong_answer(tmp_path: Path, file: str, change: tuple[str, str]) -> None:
    _, folder = three(tmp_path)
    text = (folder / file).read_text()
    changed = re.sub(*change, text, count=1)
    assert changed != text
    (folder / file).write_text(changed)
    with HostBuild(folder, "net", QUICK) as c, pytest.raises(BlrcError, match="what the members say together differs"):
        c.selftest()


@pytest.mark.parametrize("name", first(1, ["name_", "element", "SHIFT", "INPUT_TYPE"]))
def test_names_that_look_like_the_generator_s_own(tmp_path: Path, name: str) -> None:
    program = voters([(1, 2), (2, 1)])
    raw = np.zeros((1, 1, 1, 3), np.bool_)
    with HostBuild(export(program, tmp_path, raw, name), name, QUICK) as c:
        assert "equal" in c.selftest()
        assert c.answers(raw).members.tolist() == [2]


def test_the_same_bytes_again_and_members_in_the_manifest(tmp_path: Path) -> None:
    program, _ = three(tmp_path)
    options = EmitOptions("net", record(program, random_inputs(program, 3)), "0.0")
    first, second = emit(program, options), emit(program, options)
    assert (first.files, first.about) == (second.files, second.about)
    assert first.about["members"] == 3
