"""The generated C as a function on arrays: the reference's values in every form of input, for any number of threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from by_night import first, where
from c_exports import assert_equal, longest_strips
from every_kernel import binary_scores, gated_members, words_of_groups
from numpy.typing import NDArray
from random_networks import binarized_network, checkpoint_of, deep_network
from random_programs import gated, random_inputs, random_program, top_probability

from blrc.app.export import build
from blrc.errors import BlrcError
from blrc.frontend.members import parse_members
from blrc.program import head, reference
from blrc.program.program import Program, Value
from blrc.targets.c.build.compiler import STRICT
from blrc.targets.c.kernels.cpus import PORTABLE
from blrc.targets.c.kernels.tiers import host_cpu
from blrc.targets.c.layout import strips
from blrc.targets.c.native import calls, library
from blrc.targets.c.native import network as native
from blrc.targets.c.native.library import library_files
from blrc.targets.c.native.network import Native

QUICK = ("-O1",)
KINDS = ("uint8", "int8", "bits")


@pytest.fixture(autouse=True)
def _portable(monkeypatch: pytest.MonkeyPatch) -> None:
    """C without the levels of this machine: fewer files to compile, and only maps of portable C run row by row."""
    monkeypatch.setattr(library, "host_cpu", lambda: PORTABLE)


def compiled(program: Program, threads: int = 1, flags: tuple[str, ...] = QUICK, cc: str | None = None) -> Native:
    return Native(library_files(program, "net"), "net", program, threads, flags, cc)


def check_program(program: Program, samples: int = 30, **options: Any) -> None:
    """Every value of every member, the scores, the labels, and each step alone."""
    raw = random_inputs(program, samples)
    with compiled(program, **options) as net:
        stored = [step.y.name for step in net.layout.steps]
        for member in range(len(program.members)):
            found = net.run(raw, member)
            assert_equal(program, found, raw, stored, member)
            scores = reference.scores(program, raw, member)
            np.testing.assert_array_equal(net.scores(raw, member), scores)
            np.testing.assert_array_equal(found["label"], reference.labels(scores))
            for step in net.layout.steps:
                alone = net.run_op(step.op.name, found[step.x.name], member)
                np.testing.assert_array_equal(alone, found[step.y.name], err_msg=step.op.name)
        expected = reference.answer(program, raw)
        if len(program.members) > 1:
            np.testing.assert_array_equal(net(raw), expected.label)
        else:
            np.testing.assert_array_equal(net(raw), reference.labels(reference.scores(program, raw)))
        answers = net.answers(raw)
        for name in ("label", "log_p", "mean", "variance", "members"):
            np.testing.assert_array_equal(getattr(answers, name), getattr(expected, name), err_msg=name)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("seed", "kind"),
    [
        (0, "bits"),
        *(pytest.param(seed, kind, marks=pytest.mark.nightly) for seed in (1, 2) for kind in KINDS),
        *(pytest.param(0, kind, marks=pytest.mark.nightly) for kind in KINDS[:2]),
    ],
)
@pytest.mark.slow("compiles C")
def test_random_programs(seed: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the kernels of this machine."""
    monkeypatch.setattr(library, "host_cpu", host_cpu)
    check_program(random_program(seed, kind, members=1 + seed % 3), threads=1 + seed % 2)


@pytest.mark.nightly
@pytest.mark.parametrize("program", [binary_scores, words_of_groups, gated_members])
@pytest.mark.needs("clang")
def test_every_kernel_with_clang(program: Any) -> None:
    check_program(program(), cc="clang", flags=("-O3", *STRICT))


def test_steps_that_run_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strips, "plan", longest_strips)
    program = gated_members()
    check_program(program)
    assert compiled(program).layout.rows  # else nothing was tested


@pytest.mark.parametrize(
    ("network", "kind", "members"),
    [(deep_network, "uint8", "3"), pytest.param(binarized_network, "bits", "map", marks=pytest.mark.nightly)],
)
def test_random_networks(network: Any, kind: str, members: str) -> None:
    model, shape = network(3)
    program, _ = build(checkpoint_of(model, kind, shape, 3), parse_members(members, 5))
    check_program(program, samples=12)


def running_sums(program: Program, raw: NDArray[Any]) -> list[head.Sums]:
    """The law: the sums after 1, 2, ... members."""
    scale, sums, found = head.scale_of(program.score_scale), head.Sums.start(len(raw), program.classes), []
    for member in range(len(program.members)):
        sums = sums.add(reference.scores(program, raw, member), scale)
        found.append(sums)
    return found


@pytest.mark.parametrize("with_gate", first(1, [True, False]))
def test_ensembles_that_stop_early(with_gate: bool) -> None:
    program = random_program(6, "uint8", members=5)
    raw = random_inputs(program, 80)
    if with_gate:
        program = gated(program, int(np.median(top_probability(gated(program, 1), raw))))
    law = running_sums(program, raw)
    with compiled(program) as net:
        for k, sums in enumerate(law, 1):
            found = net.answers(raw, members=k)
            for name in ("log_p", "p", "p_squared"):
                np.testing.assert_array_equal(getattr(found, name), getattr(sums, name))
            np.testing.assert_array_equal(found.settled, sums.settled(len(law) - k))
            assert (found.members == k).all()
        median = int(np.median(law[0].answer().mean))
        for confidence in (0, median):
            found, used = net.answers(raw, stop=True, confidence=confidence), []
            for i in range(len(raw)):
                for k, sums in enumerate(law, 1):
                    mean = int(sums.answer().mean[i])
                    if sums.settled(len(law) - k)[i] or 0 < confidence <= mean or (k == 1 and 0 < program.gate <= mean):
                        break
                used.append(k)
                assert (found.label[i], found.mean[i]) == (sums.answer().label[i], mean)
                np.testing.assert_array_equal(found.log_p[i], sums.log_p[i])
            np.testing.assert_array_equal(found.members, used)
            assert len(set(used)) > 1  # else nothing was tested
        np.testing.assert_array_equal(net(raw), reference.answer(program, raw).label)


def test_threads_and_parts_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    program = random_program(7, "uint8", members=2)
    raw = random_inputs(program, 101)
    monkeypatch.setattr(calls, "MACS_A_THREAD", 1)  # else so little work is done by one thread
    with compiled(program) as net:
        expected = net.run(raw, 1, threads=1)
        for samples_a_call in (1, 7, 1000):
            monkeypatch.setattr(calls, "MACS_A_CALL", samples_a_call * net.calls.macs)
            for threads in (1, 2, 5):
                found = net.run(raw, 1, threads=threads)
                for name, values in expected.items():
                    np.testing.assert_array_equal(found[name], values, err_msg=name)
                for name, values in vars(net.answers(raw, threads=threads)).items():
                    np.testing.assert_array_equal(values, getattr(net.answers(raw, threads=1), name), err_msg=name)
                np.testing.assert_array_equal(net(raw, threads=threads), net(raw, threads=1))


def test_the_work_is_shared_among_as_many_threads_as_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    program = random_program(7, "uint8")
    monkeypatch.setattr(calls, "MACS_A_THREAD", 1)
    with compiled(program) as net:
        barrier, at_work = threading.Barrier(3), set()
        called = net.calls.entries["scores"]

        def meet(*arguments: Any) -> int:
            at_work.add(threading.get_ident())
            barrier.wait(60)  # passes only when three threads are in here at once
            return int(called(*arguments))

        net.calls.entries["scores"] = meet
        raw = random_inputs(program, 3)
        np.testing.assert_array_equal(net.scores(raw, threads=3), reference.scores(program, raw))
    assert len(at_work) == 3


def test_many_threads_may_call_one_object() -> None:
    program = random_program(9, "bits", members=2)
    raw = random_inputs(program, 40)
    with compiled(program) as net, ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda i: net.run(raw, i % 2, threads=1 + i % 3), range(40)))
        for i, values in enumerate(found):
            assert_equal(program, values, raw, [net.program.output.name], i % 2)


@pytest.mark.parametrize("kind", where(lambda kind: kind != "int8", KINDS))
def test_every_form_of_input(kind: str) -> None:
    program = random_program(1, kind, (5, 7, 3))
    raw = random_inputs(program, 23)
    expected = reference.scores(program, raw)
    twice = np.repeat(raw, 2, axis=0)
    forms = {
        "strided": twice[::2],
        "reversed": raw[::-1].copy()[::-1],
        "fortran": np.asfortranarray(raw),
        "a part of larger images": np.pad(raw, ((0, 0), (1, 2), (3, 0), (1, 1)))[:, 1:-2, 3:, 1:-1],
    }
    with compiled(program) as net:
        for what, x in forms.items():
            assert not x.flags.c_contiguous, what
            np.testing.assert_array_equal(net.scores(x), expected, err_msg=what)
        frozen = raw.copy()
        frozen.flags.writeable = False
        np.testing.assert_array_equal(net.scores(frozen), expected)
        channels_first = np.ascontiguousarray(raw.transpose(0, 3, 1, 2))
        np.testing.assert_array_equal(net.scores(channels_first, order="NCHW"), expected)
        for name, values in net.run(channels_first, order="NCHW").items():
            np.testing.assert_array_equal(values, net.run(raw)[name], err_msg=name)
        if kind == "bits":
            np.testing.assert_array_equal(net.scores(raw.astype(np.uint8)), expected)


def test_no_samples() -> None:
    program = random_program(1, "uint8", members=2)
    none = random_inputs(program, 1)[:0]
    with compiled(program) as net:
        assert net(none).shape == (0,)
        assert net.scores(none).shape == (0, program.classes)
        assert net.answers(none).log_p.shape == (0, program.classes)
        assert all(len(values) == 0 for values in net.run(none).values())


def test_contiguous_input_is_read_where_it_lies() -> None:
    program = random_program(1, "uint8", (5, 7, 3))
    raw = random_inputs(program, 6)
    with compiled(program) as net:
        seen = []
        called = net.calls.entries["scores"]
        net.calls.entries["scores"] = lambda x, *rest: seen.append(x) or called(x, *rest)
        net.scores(raw[2:])
        assert seen == [raw.ctypes.data + raw[:2].nbytes]


def test_copies_are_of_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    program = random_program(1, "uint8", (5, 7, 3))
    raw = random_inputs(program, 20)
    monkeypatch.setattr(calls, "COPY_BYTES", 3 * program.input.nbytes)
    with compiled(program) as net:
        counts = []
        called = net.calls.entries["scores"]
        net.calls.entries["scores"] = lambda x, count, *rest: counts.append(count) or called(x, count, *rest)
        np.testing.assert_array_equal(net.scores(np.asfortranarray(raw)), reference.scores(program, raw))
        assert counts == [3] * 6 + [2]


def test_wrong_input_is_refused_with_shape_and_type() -> None:
    program, bits = random_program(1, "uint8", (5, 7, 3)), random_program(1, "bits", (2, 2, 4))
    raw = random_inputs(program, 4)
    with compiled(program) as net, compiled(bits) as of_bits:
        for x, message in (
            (raw[0], r"takes uint8 \(N, 5, 7, 3\), got uint8 \(5, 7, 3\): a single sample is x\[None\]"),
            (raw[:, :4], r"got uint8 \(4, 4, 7, 3\)$"),
            (raw.transpose(0, 3, 1, 2), r"got uint8 \(4, 3, 5, 7\): for \(N, C, H, W\) give order='NCHW'"),
            (raw.astype(np.float32), r"got float32 \(4, 5, 7, 3\)"),
            (raw.view(np.int8), r"got int8"),
            (raw.tolist(), r"got list: give a NumPy array"),
            (np.uint8(3), r"got uint8: give a NumPy array"),
            (np.array(3, np.uint8), r"got uint8 \(\)"),
        ):
            for call in (net, net.scores, net.answers, net.run):
                with pytest.raises(BlrcError, match=message):
                    call(x)
        with pytest.raises(BlrcError, match=r"takes uint8 \(N, 3, 5, 7\), got uint8 \(4, 5, 7, 3\)"):
            net(raw, order="NCHW")
        with pytest.raises(BlrcError, match="order 'HWCN': NHWC or NCHW"):
            net(raw, order="HWCN")  # type: ignore[arg-type]
        with pytest.raises(BlrcError, match=r"takes bool or uint8 \(N, 2, 2, 4\) of 0 and 1, got uint8 up to 2"):
            of_bits(np.full((1, 2, 2, 4), 2, np.uint8))


def test_wrong_arguments_are_refused() -> None:
    program = random_program(1, "uint8", members=2)
    raw = random_inputs(program, 2)
    with compiled(program) as net:
        for call, message in (
            (lambda: net.scores(raw, 2), "no member 2; it has 2"),
            (lambda: net.run(raw, -1), "no member -1"),
            (lambda: net.answers(raw, 3), "3 members asked for, there are 2"),
            (lambda: net.answers(raw, 1, stop=True), "members cannot be given with stop"),
            (lambda: net.answers(raw, confidence=9), "confidence only with it"),
            (lambda: net.answers(raw, stop=True, confidence=-1), "confidence -1"),
            (lambda: net(raw, threads=0), "threads 0: must be at least 1"),
            (lambda: net.run_op("nothing", raw), "no step 'nothing'"),
            (lambda: compiled(program, threads=-1), "threads -1"),
        ):
            with pytest.raises(BlrcError, match=message):
                call()


def test_an_error_of_the_c_is_raised_and_the_object_goes_on() -> None:
    program = random_program(1, "uint8", members=2)
    raw = random_inputs(program, 5)
    with compiled(program) as net:
        called = net.calls.entries["scores"]
        net.calls.entries["scores"] = lambda *_: -3
        with pytest.raises(BlrcError, match="net: the C says error -3 in 'scores'"):
            net.scores(raw)
        net.calls.entries["scores"] = called
        np.testing.assert_array_equal(net.scores(raw), reference.scores(program, raw))


def test_an_interrupt_ends_the_call_and_the_object_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    program = random_program(1, "uint8")
    raw = random_inputs(program, 20)
    with compiled(program) as net:
        monkeypatch.setattr(calls, "MACS_A_CALL", net.calls.macs)
        called, count = net.calls.entries["scores"], 0

        def interrupted(*arguments: Any) -> int:
            nonlocal count
            count += 1
            if count == 3:
                raise KeyboardInterrupt
            return int(called(*arguments))

        net.calls.entries["scores"] = interrupted
        with pytest.raises(KeyboardInterrupt):
            net.scores(raw)
        assert count == 3
        np.testing.assert_array_equal(net.scores(raw), reference.scores(program, raw))


def test_an_error_in_one_thread_is_the_call_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "MACS_A_THREAD", 1)
    program = random_program(1, "uint8")
    with compiled(program) as net:
        monkeypatch.setattr(calls, "MACS_A_CALL", net.calls.macs)
        main = threading.get_ident()
        other = threading.Event()

        def fail_elsewhere(*_: Any) -> int:
            if threading.get_ident() == main:
                assert other.wait(60)
                return 0
            other.set()
            return -2

        net.calls.entries["scores"] = fail_elsewhere
        with pytest.raises(BlrcError, match="error -2"):
            net.scores(random_inputs(program, 50), threads=2)


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("observer(context, member, op, output, bytes)", "observer(context, member, op, output, bytes - 4)", "-100"),
        ("observer(context, member, op, output, bytes)", "observer(context, member, op, output, bytes + 4)", "-100"),
    ],
)
def test_a_step_that_tells_of_too_little_or_too_much(
    old: str, new: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = random_program(3, "uint8")
    files = library_files(program, "net")
    assert files["net.c"].decode().count(old) == 1
    files["net.c"] = files["net.c"].decode().replace(old, new).encode()
    guarded: list[NDArray[Any]] = []

    def in_the_middle(value: Value, count: int) -> NDArray[Any]:
        size = count * int(np.prod(value.shape))
        guarded.append(np.full(size + 64, 85, np.bool_ if value.dtype == "bits" else value.dtype))
        return guarded[-1][:size].reshape(count, *value.shape)

    monkeypatch.setattr(native, "_empty", in_the_middle)
    with Native(files, "net", program, 1, QUICK) as net, pytest.raises(BlrcError, match=f"error {error} in 'run'"):
        net.run(random_inputs(program, 1))
    # Nothing is written behind the caller's arrays.
    for array in guarded:
        assert (array[-64:] == np.full(1, 85, array.dtype)).all()


def test_an_unused_bit_that_is_set_is_an_error() -> None:
    program = random_program(0, "bits", (4, 4, 5), layers=1)
    with compiled(program) as net:
        step = net.layout.steps[0]
        assert step.y.shape[2] % 32
        files = library_files(program, "net")
        text = files["net.c"].decode()
        call = f"    net_tell(observer, context, member, NET_OP_{step.op.name.upper()},"
        assert text.count(call) == 1
        word = text[text.index(call) + len(call) :].split(",")[0].strip()
        files["net.c"] = text.replace(call, f"    {word}[0] |= 0x80000000u;\n{call}").encode()
    with Native(files, "net", program, 1, QUICK) as net, pytest.raises(BlrcError, match="error -101 in 'run'"):
        net.run(random_inputs(program, 2))


def test_closed() -> None:
    program = random_program(1, "uint8")
    raw = random_inputs(program, 2)
    net = compiled(program)
    net(raw, threads=2)
    net.close()
    net.close()
    with pytest.raises(BlrcError, match="net: was closed"):
        net(raw)
    with compiled(program) as again:
        np.testing.assert_array_equal(again.scores(raw), reference.scores(program, raw))


def test_two_models_and_two_objects_of_one_model_do_not_meet() -> None:
    programs = [random_program(seed, "uint8", (5, 7, 3)) for seed in (1, 2)]
    raw = random_inputs(programs[0], 20)
    nets = [compiled(program) for program in (*programs, programs[0])]
    nets[2].close()
    for net in nets[:2]:
        np.testing.assert_array_equal(net.scores(raw), reference.scores(net.program, raw))


def test_what_it_looks_like() -> None:
    with compiled(random_program(1, "uint8", (5, 7, 3), members=2)) as net:
        assert repr(net) == "<blrc net: uint8 (N, 5, 7, 3), 2 members>"
