"""Emit the ONNX target: one file of standard ops that gives the integers of the reference.

The reference is `blrc.program.reference` with `blrc.program.head`.

A user of the file sees these tensors:

==========  ==============================  ====================================================================
`input`     uint8 or int8 (N, C, H, W)      raw device input; bits are uint8 0 and 1; a dense input is (N, C)
`label`     int64 (N,)                      the first maximum of `log_p`
`log_p`     int64 (N, classes)              sum over members of log2 of the probability, in units of 2^-16
`mean`      int64 (N,)                      mean over members of the label's probability, in units of 2^-16
`variance`  int64 (N,)                      its population variance over members (certainty), in units of 2^-32
`members`   int64 (N,)                      how many members were used
`scores`    int32 (N, classes), or (N,      integer scores; real score = score x `blrc.score_scale`; the longer
            members, classes)               shape where there are several members
==========  ==============================  ====================================================================

Where the network has several heads, the scores of each are an output of its name in place of `scores`, the others are
``NAME.label``, ``NAME.log_p``, ``NAME.mean`` and ``NAME.variance``, and `members` is common to all; the metadata have
``blrc.heads`` and ``blrc.score_scale.NAME``.

A network of values has `scores` too, or one output of each head's name; its metadata have ``blrc.scale`` and
``blrc.offset`` (of heads ``blrc.scale.NAME`` and so on). It has no label, but `values`, float32 (N, values), the real
values, of members their mean; and where there are members `sum`, int32 (N, values), the sum of their scores.

``--onnx-outputs scores`` leaves out all but the scores. ``--onnx-form float`` (`blrc.targets.onnx.float_form`) has a
float32 `input` and float32 `scores`, which hold the same integers, and no other output.

N is dynamic. Inside, every value of the program is a tensor of its own name. What members compute alike is computed
once, and the rest is named ``mK/value`` (`blrc.targets.onnx.tensors.tensor_name`). `blrc.targets.onnx.graph` says which
numbers the tensors hold and how the ops are lowered. Where the program has a gate (`Program.gate`, metadata
``blrc.gate`` in units of 2^-16), the file still computes every member, and leaves the members that are not asked out of
the sums: the values are the same, but no time is saved. IR version 8 and opset 17 are what ONNX Runtime 1.17 and
everything newer read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import onnx
from onnx import TensorProto, helper

from blrc.net.elements import ELEMENTS
from blrc.program import head, program_file
from blrc.program.program import Op, Program, Value
from blrc.targets.onnx import head as onnx_head
from blrc.targets.onnx.float_form import FloatLowering, float_info, read_float_input
from blrc.targets.onnx.graph import Lowering
from blrc.targets.onnx.nodes import IR_VERSION, OPSET, Graph
from blrc.targets.onnx.tensors import read_input, tensor_info, tensor_name, value_info
from blrc.targets.options import EmitOptions, Emitted
from blrc.targets.requests import OnnxForm


def emit(program: Program, options: EmitOptions) -> Emitted:
    """Emit the file ``<name>.onnx``, and what the manifest says of it.

    The same program and options give the same bytes.

    Raises:
        BlrcError: a layer or the file is too large for ONNX, or a layer is not exact in the float form.
    """
    graph = Graph(options.onnx_weights)
    form = FORMS[options.onnx_form]
    start = form.read_input(graph, program)
    members = [form.lowering(graph, program, k, start) for k in range(len(program.members))]
    costs = {op.name: _Cost() for op in program.ops}
    for member in members:
        for op in program.ops:
            with _counted(graph, costs[op.name]):
                member.lower(op)
    head_cost = _Cost()
    has_head = options.onnx_outputs == "all" and options.onnx_form == "integer"
    with _counted(graph, head_cost):
        scores = [tensor_name(program, program.output, k) for k in range(len(members))]
        if program.heads:
            with_head = has_head and not program.values
            (onnx_head.lower_heads if with_head else onnx_head.split_heads)(graph, scores, program)
        elif program.values:
            onnx_head.stack_scores(graph, scores, program.classes)
        elif has_head:
            onnx_head.lower_head(graph, scores, head.scale_of(program.score_scale), program.classes, program.gate)
        else:
            onnx_head.stack_scores(graph, scores, program.classes)
        if program.values and has_head:
            onnx_head.lower_values(graph, scores, program)
    inner = {info.name: info for k in range(len(members)) for info in _infos(program, k, form)}
    model = graph.model(
        options.name,
        inputs=[value_info(tensor_name(program, program.input), program.input, form.raw(program))],
        outputs=_outputs(program, form.scores, has_head),
        inner=[info for name, info in inner.items() if name != "scores"],
    )
    model.producer_version = options.version
    model.doc_string = _describe(program, options)
    properties = {
        "blrc.digest": program_file.digest(program),
        "blrc.members": json.dumps(list(program.members)),
        **_scales(program),
        "blrc.version": options.version,
        **({"model_author": options.author} if options.author else {}),
        **({"model_license": options.license} if options.license else {}),
        **({"blrc.gate": str(program.gate)} if program.gate else {}),
        **({"blrc.form": options.onnx_form} if options.onnx_form != "integer" else {}),
    }
    helper.set_model_props(model, properties)
    content = _bytes(model)
    about = {
        "ir_version": IR_VERSION,
        "opset": OPSET,
        "weights": options.onnx_weights,
        "outputs": options.onnx_outputs,
        "form": options.onnx_form,
        "bytes": len(content),
        "operators": sorted({node.op_type for node in model.graph.node}),
        "layers": [{"op": name, "nodes": cost.nodes, "bytes": cost.nbytes} for name, cost in costs.items()],
        "head": {"nodes": head_cost.nodes, "bytes": head_cost.nbytes},
    }
    return Emitted({f"{options.name}.onnx": content}, about)


def op_model(program: Program, op: Op, member: int = 0, form: OnnxForm = "integer") -> bytes:
    """Return a model of `op` alone, made by the same code as the file.

    Its input and output are the inner tensors of the op's values.
    """
    graph = Graph()
    info, lowering = FORMS[form].info, FORMS[form].lowering
    x = info(program, op.x, member)
    lowering(graph, program, member, x.name).lower(op)
    return _bytes(graph.model("op", inputs=[x], outputs=[info(program, op.y, member)], inner=[]))


@dataclass(frozen=True)
class Form:
    """Hold the functions and types that make one form of the file.

    Attributes:
        read_input: adds the nodes that read the file's input.
        lowering: the class that adds the ops of a member.
        info: describes the inner tensor of a value of one member.
        raw: gives the element type of the file's input.
        scores: element type of the scores.
    """

    read_input: Callable[[Graph, Program], str]
    lowering: type[Lowering]
    info: Callable[[Program, Value, int], onnx.ValueInfoProto]
    raw: Callable[[Program], int]
    scores: int


def _integer_type(program: Program) -> int:
    return int(onnx.helper.np_dtype_to_tensor_dtype(ELEMENTS[program.input.dtype].given))


FORMS: Mapping[OnnxForm, Form] = {
    "integer": Form(read_input, Lowering, tensor_info, _integer_type, TensorProto.INT32),
    "float": Form(
        read_float_input, FloatLowering, float_info, lambda program: int(TensorProto.FLOAT), TensorProto.FLOAT
    ),
}


@dataclass
class _Cost:
    """Count what an op has added to the file, over all members."""

    nodes: list[str] = field(default_factory=list)
    nbytes: int = 0


@contextmanager
def _counted(graph: Graph, cost: _Cost) -> Iterator[None]:
    nodes, known = len(graph.nodes), set(graph.constants)
    yield
    cost.nodes += [node.op_type for node in graph.nodes[nodes:]]
    cost.nbytes += sum(array.nbytes for name, array in graph.constants.items() if name not in known)


def _outputs(program: Program, kind: int, has_head: bool) -> list[onnx.ValueInfoProto]:
    members, found = len(program.members), list[onnx.ValueInfoProto]()
    if program.values:
        given = [(each.classes, each.name) for each in program.heads] or [(program.classes, "scores")]
        found += [onnx_head.scores_info(members, count, kind, name) for count, name in given]
        return [*found, *(onnx_head.value_infos(program) if has_head else [])]
    if not program.heads:
        found += onnx_head.outputs(program.classes) if has_head else []
        return [*found, onnx_head.scores_info(members, program.classes, kind)]
    for each in program.heads:
        found.append(onnx_head.scores_info(members, each.classes, kind, each.name))
        found += onnx_head.outputs(each.classes, each.name) if has_head else []
    return [*found, *([onnx_head.members_info()] if has_head else [])]


def _scales(program: Program) -> dict[str, str]:
    """Return the metadata that give the scale of the scores: of the only head, or of each by its name."""
    if program.values:
        names = [f".{each.name}" for each in program.heads] or [""]
        pairs = list(zip(names, program.units, strict=True))
        return {
            "blrc.outputs": "values",
            **({"blrc.heads": json.dumps([each.name for each in program.heads])} if program.heads else {}),
            **{f"blrc.scale{name}": repr(unit.scale) for name, unit in pairs},
            **{f"blrc.offset{name}": repr(unit.offset) for name, unit in pairs},
        }
    if not program.heads:
        return {"blrc.score_scale": repr(program.score_scale)}
    return {
        "blrc.heads": json.dumps([each.name for each in program.heads]),
        **{f"blrc.score_scale.{each.name}": repr(each.score_scale) for each in program.heads},
    }


def _infos(program: Program, member: int, form: Form) -> list[onnx.ValueInfoProto]:
    return [form.info(program, op.y, member) for op in program.ops]


def _describe(program: Program, options: EmitOptions) -> str:
    raw = "0 and 1" if program.input.dtype == "bits" else program.input.dtype
    what = "network" if len(program.members) == 1 else f"network, an ensemble of {len(program.members)} members"
    said = f"Binary neural {what}: {options.name}, compiled by blrc {options.version}. input: raw {raw}; "
    if program.values:
        return said + _describe_values(program, options)
    scores, scale = "scores", "blrc.score_scale"
    if program.heads:
        scores, scale = ", ".join(each.name for each in program.heads), "blrc.score_scale.NAME"
        said += "the outputs of a head are its scores by its name, and NAME.label and so on; "
    if options.onnx_form == "float":
        return (
            f"{said}as float32; {scores}: integers as float32, real score = score x {scale}. "
            "Inner bits are -1 and +1; inner codes are -128 to 127."
        )
    if options.onnx_outputs == "all":
        said += (
            "label: the first maximum of log_p; log_p: sum over members of log2 of the probability x 2^16; "
            "mean: of the label's probability over members x 2^16; variance: likewise x 2^32; members: how many; "
        )
    return (
        f"{said}{scores}: int32, real score = score x {scale}. "
        "Inner bits are uint8 0 and 2 with zero point 1; inner codes are uint8 code + 128."
    )


def _describe_values(program: Program, options: EmitOptions) -> str:
    inner = "Inner bits are uint8 0 and 2 with zero point 1; inner codes are uint8 code + 128."
    of_head, kind, said = ".NAME" if program.heads else "", "int32", ""
    if options.onnx_form == "float":
        kind, inner = "integers as float32", "Inner bits are -1 and +1; inner codes are -128 to 127."
    elif options.onnx_outputs == "all":
        mean = "" if len(program.members) == 1 else "mean over members of the "
        total = "" if len(program.members) == 1 else "sum: of the members' scores; "
        said = f"{total}values: {mean}real values, float32; "
    scores = "an output by a head's name" if program.heads else "scores"
    return f"{said}{scores}: {kind}, real value = score x blrc.scale{of_head} + blrc.offset{of_head}. {inner}"


def _bytes(model: onnx.ModelProto) -> bytes:
    content: bytes = model.SerializeToString(deterministic=True)
    return content
