"""Verify an exported folder by running every engine on every set of inputs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.datasets import labelled
from blrc.datasets.whitening import Whitening
from blrc.errors import BlrcError
from blrc.exports.again import code_of, private_copy, vectors_of
from blrc.exports.door import OpenedExport, open_export
from blrc.exports.manifest import VECTORS
from blrc.extras import lacking
from blrc.lowering.statistics import moved_by_estimation
from blrc.net.encoding import torch_layout
from blrc.net.net import Net
from blrc.program import program_file, reference, vectors
from blrc.program.program import Program
from blrc.targets.c.build.compiler import ToolError, find_compiler
from blrc.targets.web.emit import MODEL
from blrc.verification.compare import ANSWER, LABEL
from blrc.verification.devices import unchecked, verify_devices
from blrc.verification.engines import Engine, compile_c, onnx_engine, page_engine
from blrc.verification.inputs.stimuli import adversarial_inputs, random_inputs
from blrc.verification.oracles.agreement import Agreement, torch_agreement
from blrc.verification.oracles.lowered import first_other_bits
from blrc.verification.oracles.stopping import STOPPING
from blrc.verification.original.compare import against_original
from blrc.verification.report import Report
from blrc.verification.request import VerifyRequest
from blrc.verification.run import InputSet, Progress, Tally, compare_inputs, compare_ops, compare_ties, not_compared

TEST_SET = "test set"
RANDOM_INPUTS = 10_000
DEVICE_INPUTS = 200  # emulators are slow
LOWERED_INPUTS = 256  # on which the program's bits are compared with the net's, layer by layer
RANDOM_VALUES = 1 << 26  # values of all random inputs together, where the number is not given
RANDOM_OPERATIONS = 6e10  # multiply-adds of all random inputs together, where the number is not given

Lower = Callable[[Sequence[str], int, str, str], tuple[Program, list[Net], Net | None]]
"""Lower the checkpoint again for members by description, a gate, a choice of the norms' statistics, and a rounding.

It also returns the network as it was saved, where norms were estimated and there is one."""


def verify_folder(
    request: VerifyRequest, progress: Progress, lower: Lower | None = None, whitening: Whitening | None = None
) -> Report:
    """Compare everything in a folder with the reference, as `blrc.verify` says.

    Args:
        lower: lowers the checkpoint again, if there is one.
        whitening: the transformation that images of the test data go through, if any.
    """
    folder, on, seed = request.folder, request.machines, request.seed
    opened = open_export(folder, request.digest, request.trust_code)
    manifest, program = opened.manifest, opened.program
    if on and "c" not in manifest.targets:
        raise BlrcError(f"{folder}: holds no C to run on {', '.join(on)}; export it again with --target c")
    recorded = vectors_of(opened)
    content = opened.contents[f"{opened.name}{VECTORS}"]
    problems = vectors.differences(content, opened.path(VECTORS), program, recorded)
    code = code_of(opened, recorded)
    test: labelled.Labelled | labelled.Valued | None = None
    if request.data is not None and program.values:
        test = labelled.load_values(request.data, program.input, None, whitening=whitening)
    elif request.data is not None:
        classes = program.heads[0].classes if program.heads else program.classes
        test = labelled.load(request.data, program.input, classes, whitening=whitening)
    relowered = None if lower is None else lower(program.members, program.gate, manifest.norms, manifest.rounding)
    if relowered is not None and (again := program_file.digest(relowered[0])) != opened.digest:
        problems.append(
            f"the checkpoint gives program {again}, but {folder} holds {opened.digest}; "
            "give the checkpoint that was exported, or export this one"
        )

    inputs = [
        InputSet("recorded vectors", recorded.inputs),
        InputSet("adversarial inputs", adversarial_inputs(program.input)),
    ]
    if test is not None:
        inputs.append(InputSet(TEST_SET, test.raw, test.labels if isinstance(test, labelled.Labelled) else None))
    count = default_random(program) if request.random is None else request.random
    if count:
        inputs.append(InputSet("random inputs", random_inputs(program.input, count, seed)))

    against = None
    if request.original is not None and program.values:
        raise BlrcError(f"{folder}: gives values, and --original compares labels; leave it out")
    if request.original is not None:
        against = against_original(opened, request.original, [(each.raw, each.labels) for each in inputs], progress)
        problems += against.problems
    engines: list[Engine] = []
    skipped, left_out = list(code.skipped), list(code.unchecked)
    flash = ram = None
    tally = Tally()
    with ExitStack() as builds:
        private = builds.enter_context(private_copy(code.files))
        if "c" in manifest.targets:
            find_compiler()  # without one there is nothing to report on
            try:
                compiled = compile_c(private, opened.name, progress, builds)
            except ToolError as error:  # it says nothing of code that is what blrc writes
                (problems if opened.trusted else left_out).append(f"C: {error}")
            except BlrcError as error:
                problems.append(str(error))
            else:
                engines += compiled.engines
                flash, ram = compiled.flash, compiled.ram
                problems += compiled.problems
                skipped += compiled.skipped
        if "onnx" in manifest.targets and (model := code.files.get(f"{opened.name}.onnx")) is not None:
            if (missing := lacking("onnxruntime")) is None:
                engines.append(onnx_engine(model, program))
            else:
                skipped.append(f"ONNX: running the file needs {missing}")
        if MODEL in code.files:
            if shutil.which("node") is None:
                skipped.append("page: node, which runs its scripts, was not found; install nodejs")
            else:
                engines.append(page_engine(private, program))
        if engines and not any(engine.layers for engine in engines):
            skipped.append("layers: a page only answers; export with --target c as well, and they are compared")
        if not engines and not problems:  # nothing was checked, so nothing differs
            nothing = "it holds no target that could be compared; export again with --target c"
            raise BlrcError(f"{folder}: nothing of it can be run here; {'; '.join([*left_out, *skipped]) or nothing}")
        with _as_problem(problems):
            compare_ops(program, engines, seed, tally, progress)
            compare_ties(program, engines, tally)
            for each in inputs:
                if tally.difference is None:
                    compare_inputs(program, engines, each, tally, progress)
        given = _device_inputs(program, inputs, seed)
        devices = verify_devices(private, opened.name, on, given, seed, progress) if on else ()
    agreement, saved_labels = None, None
    if relowered is not None and not problems:
        progress("torch network", 0, 1)
        raw = test.raw if test is not None else np.concatenate([i.raw for i in inputs])[:1000]
        agreement = _agreement(program, relowered[1][0], raw)
        if relowered[2] is not None and not program.values:
            saved_labels = _agreement(program, relowered[2], raw).same_labels
        for member, net in enumerate(relowered[1]):
            other = first_other_bits(program, net, _torch_inputs(program, net, raw[:LOWERED_INPUTS]), member)
            if other is not None:
                problems.append(
                    f"member {program.members[member]!r}, layer {other!r}: "
                    "the program's bits are not those of the network it was lowered from"
                )
        progress("torch network", 1, 1)
        if agreement.differences:
            problems.append(f"{agreement.differences} decisions differ from the torch network's where there is no tie")
    if tally.difference is None:
        problems += not_compared(program, engines, tally)
    left_out += unchecked(devices, request.strict)
    report = _report(opened, program, engines, tally, tuple(problems), agreement, flash, ram)
    differs = not report.equal or any(device.status == "differs" for device in devices)
    return replace(
        report,
        equal=not differs and not left_out,
        differs=differs,
        skipped=tuple(skipped),
        devices=devices,
        unchecked=tuple(left_out),
        moved=None if relowered is None else moved_by_estimation(relowered[2], relowered[1][0]),
        saved_labels=saved_labels,
        original=against,
    )


def _device_inputs(program: Program, inputs: Sequence[InputSet], seed: int) -> list[InputSet]:
    """Return the recorded vectors, and the first inputs of the test set, or random ones if there is none."""
    test = [InputSet(each.name, each.raw[:DEVICE_INPUTS]) for each in inputs if each.name == TEST_SET]
    random = InputSet("random inputs", random_inputs(program.input, min(DEVICE_INPUTS, default_random(program)), seed))
    return [inputs[0], *(test or [random])]


@contextmanager
def _as_problem(problems: list[str]) -> Iterator[None]:
    """Record it as a problem, instead of raising an error, if an engine crashes or a sanitizer reports something."""
    try:
        yield
    except BlrcError as error:
        problems.append(str(error))


def default_random(program: Program) -> int:
    """Return the default number of random inputs for a program.

    It is 10,000, or as many as keep the multiply-adds of all of them together within 60 billion, but at least 20. It is
    smaller only if the inputs are so large that this many would take much memory.
    """
    count = max(20, min(RANDOM_INPUTS, RANDOM_OPERATIONS / (program.macs * len(program.members))))
    return int(max(1, min(count, RANDOM_VALUES / prod(program.input.shape))))


def _agreement(program: Program, net: Net, raw: NDArray[Any]) -> Agreement:
    labels = program.labels(reference.scores(program, raw))
    return torch_agreement(net, _torch_inputs(program, net, raw), labels)


def _torch_inputs(program: Program, net: Net, raw: NDArray[Any]) -> NDArray[Any]:
    given = raw.astype(np.uint8) if program.input.dtype == "bits" else raw
    return torch_layout(given, net.encoding.shape)


def _report(
    opened: OpenedExport,
    program: Program,
    engines: Sequence[Engine],
    tally: Tally,
    problems: tuple[str, ...],
    agreement: Agreement | None,
    flash: int | None,
    ram: int | None,
) -> Report:
    layers = {op.name: sum(counts.get(op.name, 0) for counts in tally.values.values()) for op in program.ops}
    stopping = [STOPPING] if any(engine.predict is not None for engine in engines) else []
    for name in (*(() if program.values else (LABEL,)), ANSWER, *stopping):
        layers[name] = sum(counts.get(name, 0) for counts in tally.values.values())
    accuracy = None
    if engines and tally.labelled and tally.difference is None:
        accuracy = 100.0 * tally.correct[engines[0].name] / tally.labelled
    equal = tally.difference is None and not problems and bool(engines)
    return Report(
        equal=equal,
        differs=not equal,
        name=opened.name,
        digest=opened.digest,
        engines=tuple(engine.name for engine in engines),
        inputs=tally.inputs,
        layers=layers,
        edges=tally.edges,
        values_compared=sum(layers.values()),
        accuracy=accuracy,
        difference=None if tally.difference is None else str(tally.difference),
        problems=problems,
        agreement=agreement,
        flash=flash,
        ram=ram,
    )
