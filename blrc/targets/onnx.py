"""The ONNX target: one file of standard ops whose integers are those of `reference.py`.

What a user of the file sees:

=========  ==============================  =====================================================================
`input`    uint8 or int8 (N, C, H, W)      raw device input; bits are uint8 0 and 1; a dense input is (N, C)
`scores`   int32 (N, classes)              integer scores; real score = score x `blrc.score_scale`
`label`    int64 (N,)                      the first maximum of the scores
=========  ==============================  =====================================================================

N is dynamic. Inside, every value of the program is a tensor of its own name; `onnx_graph.py` says which numbers it
holds and how the ops are lowered. IR version 8 and opset 17 are what ONNX Runtime 1.17 and everything newer read.
"""

from __future__ import annotations

import json

import onnx
from onnx import TensorProto, helper

from blrc import program_file
from blrc.program import Op, Program
from blrc.targets.onnx_graph import IR_VERSION, OPSET, Graph, tensor_info, tensor_name, value_info
from blrc.targets.options import EmitOptions, Emitted


def emit(program: Program, options: EmitOptions) -> Emitted:
    """The file ``<name>.onnx``, and what the manifest says of it. The same program and options give the same bytes.

    Raises:
        BlrcError: more than one member, or a layer too large for ONNX.
    """
    graph = Graph(program)
    raw = tensor_name(program, program.input)
    graph.read_input(raw)
    layers = [_lower(graph, op) for op in program.ops]
    scores = tensor_name(program, program.output)
    graph.node("ArgMax", [scores], "label", axis=1, keepdims=0, select_last_index=0)
    raw_type = TensorProto.INT8 if program.input.dtype == "int8" else TensorProto.UINT8
    model = graph.model(
        options.name,
        inputs=[value_info(raw, program.input, raw_type)],
        outputs=[
            helper.make_tensor_value_info("label", TensorProto.INT64, ["N"]),
            tensor_info(program, program.output),
        ],
        inner=[tensor_info(program, op.y) for op in program.ops[:-1]],
    )
    model.producer_version = options.version
    model.doc_string = _describe(program, options)
    properties = {
        "blrc.digest": program_file.digest(program),
        "blrc.members": json.dumps(list(program.members)),
        "blrc.score_scale": repr(program.score_scale),
        "blrc.version": options.version,
    }
    helper.set_model_props(model, properties)
    content = _bytes(model)
    about = {
        "ir_version": IR_VERSION,
        "opset": OPSET,
        "bytes": len(content),
        "operators": sorted({node.op_type for node in model.graph.node}),
        "layers": layers,
    }
    return Emitted({f"{options.name}.onnx": content}, about)


def op_model(program: Program, op: Op) -> bytes:
    """A model of `op` alone, made by the same code; its input and output are the inner tensors of the op's values."""
    graph = Graph(program)
    x = tensor_info(program, op.x)
    graph.tensors[op.x.name] = x.name
    graph.lower(op)
    return _bytes(graph.model("op", inputs=[x], outputs=[tensor_info(program, op.y)], inner=[]))


def _lower(graph: Graph, op: Op) -> dict[str, object]:
    """Lower `op`, and say what was added: node types and bytes of constants."""
    nodes, known = len(graph.nodes), set(graph.constants)
    graph.lower(op)
    added = sum(array.nbytes for name, array in graph.constants.items() if name not in known)
    return {"op": op.name, "nodes": [node.op_type for node in graph.nodes[nodes:]], "bytes": added}


def _describe(program: Program, options: EmitOptions) -> str:
    raw = "0 and 1" if program.input.dtype == "bits" else program.input.dtype
    return (
        f"Binary neural network {options.name}, compiled by blrc {options.version}. input: raw {raw}; "
        "scores: int32, real score = score x blrc.score_scale; label: the first maximum of scores. "
        "Inner bits are uint8 0 and 2 with zero point 1; inner codes are uint8 code + 128."
    )


def _bytes(model: onnx.ModelProto) -> bytes:
    content: bytes = model.SerializeToString(deterministic=True)
    return content
