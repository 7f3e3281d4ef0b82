"""Write what the examples of all packages share: a recorded image, and C that reports how it was classified.

The report has the label, the certainty and the time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from blrc.net.elements import ELEMENTS
from blrc.program.program import Value
from blrc.program.vectors import Vectors, memory
from blrc.targets.c.text import text
from blrc.targets.c.text.symbols import Symbols, element, head

SHADES = " .:-=+#%@"
_SAYS = "what the reference says of it"
LARGEST_DRAWING = (64, 100)  # rows and columns


def image_header(symbols: Symbols, version: str, vectors: Vectors) -> str:
    """Return the text of ``<name>_image.h``: the first recorded input and the label that the reference gives it.

    That input is a calibration sample if the checkpoint has any.
    """
    program, upper = symbols.layout.program, symbols.upper
    answer = program.together([member.scores[:1] for member in vectors.members])
    labels = np.atleast_1d(answer.label[0]).tolist()
    said = (
        text.define(f"{upper}_IMAGE_VALUES", f"{{{', '.join(map(str, answer.mean[0].tolist()))}}}", _SAYS)
        if program.values
        else text.define(f"{upper}_IMAGE_LABEL", labels[0], _SAYS)
    )
    flat = memory(program.input, vectors.inputs[:1]).reshape(-1)
    c_type = element(program.input)
    body = (
        "#include <stdint.h>\n\n"
        + said
        + (text.define(f"{upper}_IMAGE_LABELS", f"{{{', '.join(map(str, labels))}}}") if len(labels) > 1 else "")
        + "\n"
        + drawing(program.input, vectors.inputs[0])
        + text.array(f"static const {c_type} {symbols.name}_image[{len(flat)}]", flat)
    )
    return head(symbols, version, f"{symbols.name}: a recorded image.") + text.guarded(f"{upper}_IMAGE_H", body)


def drawing(value: Value, image: NDArray[np.generic]) -> str:
    """Return a comment that shows the image, or "" if it has several channels or is too large or too small."""
    height, width, channels = value.shape
    if channels != 1 or not 1 < height <= LARGEST_DRAWING[0] or width > LARGEST_DRAWING[1]:
        return ""
    low, high = ELEMENTS[value.dtype].low, ELEMENTS[value.dtype].high + 1
    shades = (image[:, :, 0].astype(np.int64) - low) * len(SHADES) // (high - low)
    if value.dtype == "bits":
        shades = image[:, :, 0].astype(np.int64) * (len(SHADES) - 1)
    rows = ["".join(SHADES[shade] for shade in row) for row in shades.tolist()]
    return "/*" + "".join(f"\n *  {row}".rstrip() for row in rows) + "\n */\n"


_SHOWS = "LABELS(its label, how certain it is,)LABELSVALUES(its values)VALUES"
OPENING = f"Classifies a recorded image with @name@: {_SHOWS} and the"
"""The first words of the comment on every example; which time it is follows."""
CALL = (
    "name_predict(name_image, arena, &members, "
    "LABELS(0, )LABELSONE(&answer)ONEHEADS(answer)HEADSVALUES(values, 0)VALUES)"
)
"""The call that asks the network, whose result `report` is given."""
AS_RECORDED = "LABELS(label == NAME_IMAGE_LABEL)LABELSVALUES(label == 0 && as_recorded() == NAME_VALUES)VALUES"
"""Test, in C, whether the answer is the recorded one."""

REPORT = """\
static uint32_t arena[(NAME_ARENA_SIZE + 3) / 4]; /* of words, so that it is aligned */
static name_ensemble members;
ONE(static name_answer answer;
)ONEHEADS(static name_answer answer[NAME_HEADS];
static const char *const heads[NAME_HEADS] = NAME_HEADS_NAMES;
static const int recorded[NAME_HEADS] = NAME_IMAGE_LABELS;
)HEADSVALUES(static int32_t values[NAME_VALUES];
static const int32_t recorded[NAME_VALUES] = NAME_IMAGE_VALUES;

static int as_recorded(void)
{
    int i = 0;

    while (i < NAME_VALUES && values[i] == recorded[i]) {
        ++i;
    }
    return i;
}
)VALUES
static void report(int label, unsigned long microseconds)
{
ONE(    const unsigned long percent = ((unsigned long)answer.mean * 10000 + 32768) / 65536; /* its hundredths */
    const unsigned long variance = (unsigned long)(((uint64_t)answer.variance * 1000000) >> 32); /* millionths */
)ONEHEADS(    int i;
)HEADSVALUES(    int i;
)VALUES
    if (label < 0) {
        @print@("error %d (see @name@.h)\\n", label);
        return;
    }
ONE(    @print@("label: %d (%s)\\n", label, label == NAME_IMAGE_LABEL ? "as recorded" : "NOT what was recorded");
    @print@("certainty: %lu.%02lu %%, variance 0.%06lu, members asked: %lu of %d\\n",
    @space@ percent / 100, percent % 100, variance, (unsigned long)answer.members, NAME_MEMBERS);
)ONEHEADS(    for (i = 0; i < NAME_HEADS; ++i) {
        const unsigned long percent = ((unsigned long)answer[i].mean * 10000 + 32768) / 65536; /* its hundredths */
        const unsigned long variance = (unsigned long)(((uint64_t)answer[i].variance * 1000000) >> 32);

        @print@("%s: label %d (%s)\\n", heads[i], (int)answer[i].label,
        @space@ answer[i].label == recorded[i] ? "as recorded" : "NOT what was recorded");
        @print@("certainty: %lu.%02lu %%, variance 0.%06lu\\n", percent / 100, percent % 100, variance);
    }
    @print@("members asked: %lu of %d\\n", (unsigned long)answer[0].members, NAME_MEMBERS);
)HEADSVALUES(    for (i = 0; i < NAME_VALUES; ++i) {
        @print@("value: %ld (%s)\\n", (long)values[i],
        @space@ values[i] == recorded[i] ? "as recorded" : "NOT what was recorded");
    }
    @print@("members asked: %lu of %d\\n", (unsigned long)members.members, NAME_MEMBERS);
)VALUES    @print@("time: %lu us\\n", microseconds);
}
"""
"""Label, mean probability and variance of the members asked, and time, without floats. Its printer is @print@."""


def reporting(printer: str) -> str:
    """Return `REPORT` with the ecosystem's function in the place of ``printf``."""
    return REPORT.replace("@print@", printer).replace("@space@", " " * len(printer))
