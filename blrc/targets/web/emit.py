"""Emit the web target: a folder of static files that runs the generated C in a browser, without a network."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from blrc.errors import BlrcError
from blrc.program import head, program_file
from blrc.program.legal import check
from blrc.program.program import Program
from blrc.program.vectors import Vectors
from blrc.targets.c.emit import emit as emit_c
from blrc.targets.c.layout.layout import PORTABLE
from blrc.targets.options import EmitOptions, Emitted, check_heads
from blrc.targets.publication import UNSPECIFIED
from blrc.targets.runtime_licence import LICENCE, RUNTIME_LICENCE
from blrc.targets.web.wasm import COMPILE, LINK, Tools, compile_wasm, find_tools
from blrc.version import LICENSE

FOLDER = "web"
MODEL = f"{FOLDER}/model.js"
PAGE = Path(__file__).parent / "page"
CHANNELS = (1, 3)


def emit(program: Program, options: EmitOptions) -> Emitted:
    """Emit the page of a program: ``web/index.html`` and what it loads, all of it beside it.

    Everything but ``model.js`` is the same for every model. ``model.js`` holds the recorded samples with the
    reference's answers, and the WebAssembly module. The module is in base64, because a page opened from a disk may not
    read files.

    Raises:
        BlrcError: the input is not a grey or colour image of bytes, or clang or wasm-ld is missing.
    """
    check(program)
    check_input(program)
    tools = find_tools()
    plain = replace(options, packages=(), cpu=PORTABLE)  # kernels of another CPU are none of WebAssembly's
    module = compile_wasm(emit_c(program, plain).files, options.name, tools)
    files = page_files()
    files[MODEL] = _model(program, options, tools, module)
    about = {
        "compiler": tools.compiler_version,
        "linker": tools.linker_version,
        "compile_flags": list(COMPILE),
        "link_flags": list(LINK),
        "wasm_bytes": len(module),
        "samples": len(list(samples(program, options.vectors))),
        "open": f"{FOLDER}/index.html",
    }
    return Emitted(files, about)


def page_files() -> dict[str, bytes]:
    """Return the files of a page that are the same for every model, by their path in the export."""
    files = {f"{FOLDER}/{file.name}": file.read_bytes() for file in sorted(PAGE.iterdir())}
    return {**files, f"{FOLDER}/{RUNTIME_LICENCE}": LICENCE.encode("ascii")}


def check_input(program: Program) -> None:
    """Refuse a network whose input a page cannot show.

    Raises:
        BlrcError: the input is bits or int8, has neither one channel nor three, or has only one pixel; or there are
            several heads.
    """
    height, width, channels = program.input.shape
    check_heads(["web"], [each.name for each in program.heads], bool(program.values))
    if program.input.dtype != "uint8":
        raise BlrcError(
            f"target web: the network takes {program.input.dtype}, and a page has pixels, which are uint8; train it on "
            "raw images (blrc.pixels), or export another target"
        )
    if channels not in CHANNELS or height * width == 1:
        raise BlrcError(
            f"target web: the network takes {height} x {width} pixels of {channels} channels; a page shows images of 1 "
            "channel (grey) or 3 (red, green, blue); export another target"
        )


def samples(program: Program, vectors: Vectors) -> Iterator[dict[str, Any]]:
    """Yield the recorded inputs that are not of one value, with the reference's answer to each.

    The answer is that after the last member that the gate asks for.
    """
    scale = head.scale_of(program.score_scale)
    scores = [member.scores for member in vectors.members]
    answer = head.ensemble(scores, scale, program.gate)
    for i, raw in enumerate(vectors.inputs):
        if np.ptp(raw) > 0:
            yield {
                "input": b64encode(raw.tobytes()).decode("ascii"),
                "label": int(answer.label[i]),
                "members": int(answer.members[i]),
                "mean": int(answer.mean[i]),
                "variance": int(answer.variance[i]),
                "log_p": answer.log_p[i].tolist(),
            }


def _model(program: Program, options: EmitOptions, tools: Tools, module: bytes) -> bytes:
    height, width, channels = program.input.shape
    model = {
        "name": options.name,
        "digest": program_file.digest(program),
        "version": options.version,
        "compiler": tools.compiler_version,
        "height": height,
        "width": width,
        "channels": channels,
        "classes": program.classes,
        "members": list(program.members),
        "gate": program.gate,
        "samples": list(samples(program, options.vectors)),
        "wasm": b64encode(module).decode("ascii"),
    }
    text = json.dumps(model, indent=1)
    licence = f"Licence of the model: {options.license or UNSPECIFIED}. Of all else: {LICENSE}, see {RUNTIME_LICENCE}."
    return f'"use strict";\n/* Written by blrc {options.version}. {licence} */\nconst blrcModel = {text};\n'.encode(
        "ascii"
    )
