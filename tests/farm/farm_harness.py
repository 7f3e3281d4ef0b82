"""An export compiled with sanitizers, whose every buffer has exactly the size that the C is promised.

Each lies alone on the heap, so that one byte before or behind it is found: the caller's input, arena and scores, and,
where a step runs alone, its input, output and scratch. Memory that nobody has written holds a pattern.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from blrc.program import program_file
from blrc.program.program import Value
from blrc.targets.c.build import compiler as build
from blrc.targets.c.build import driver
from blrc.targets.c.build.host import HostBuild
from blrc.targets.c.text.symbols import name_all

NAME = "net"
CLANG = "clang"
FLAGS = (
    "-O0",  # which clang compiles in a third of -O1's time
    "-gline-tables-only",
    "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-ftrivial-auto-var-init=pattern",
)
LINKER = shutil.which("ld.lld-19")
"""Ten times as fast as the default one."""


class ExactBuild(HostBuild):
    """An export, compiled with sanitizers, in buffers of exact sizes."""

    def __init__(self, folder: Path, flags: Sequence[str] = ()) -> None:
        super().__init__(folder, NAME, (*FLAGS, "-D_POSIX_C_SOURCE=200809L", *flags), cc=CLANG)

    def _compile(self, compiler: tuple[str, ...], cplusplus: bool) -> None:
        symbols = name_all(self.layout, self.name, program_file.digest(self.program))
        core = (
            driver.core(symbols)
            + _numbers("exact_scratch", [step.scratch for step in self.layout.steps])
            + _numbers("exact_align", [_align(step.x) for step in self.layout.steps])
            + "static void exact_step(uint32_t op, uint32_t member, const void *x, uint32_t *scratch, void *y)\n"
            + "{\n    (void)scratch;\n    switch (op) {\n"
            + driver.step_cases(symbols, "scratch")
            + "    default:\n        break;\n    }\n}\n"
        )
        (self.build_folder / "driver_core.h").write_text(core, encoding="ascii")
        main = self.build_folder / "driver.c"
        main.write_text(MAIN, encoding="ascii")
        own = [source for source in build.sources(self.folder, self.name) if source.name != f"{self.name}.c"]
        self.objects = [
            build.compile_object(compiler, self.flags, source, self.build_folder / f"{source.stem}.o", self.folder)
            for source in [*own, main]
        ]
        flags = (*self.flags, *((f"--ld-path={LINKER}",) if LINKER else ()))
        self._binary = build.link(compiler, flags, self.objects, self.build_folder / "driver")

    def _byte_order(self) -> str:
        return "<" if sys.byteorder == "little" else ">"


def _align(value: Value) -> int:
    """Return of how many bytes the address of a map is a multiple: of a word where the arena holds words or codes."""
    return 4 if value.element.stored.itemsize > 1 or value.is_codes else 3


def _numbers(name: str, of_steps: Sequence[int]) -> str:
    return f"static const uint32_t {name}[DRIVER_OPS] = {{{', '.join(map(str, of_steps))}}};\n"


MAIN = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver_core.h"

static FILE *exact_out;

/* Nothing of the library allocates. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}
static uint32_t exact_samples;

static void exact_write(const void *data, uint32_t bytes)
{
    if (fwrite(data, 1, bytes, exact_out) != bytes) {
        exit(2);
    }
}

static void exact_observe(void *context, uint32_t member, int32_t op, const void *output, uint32_t bytes)
{
    (void)context;
    (void)member;
    driver_part(exact_write, op, output, bytes);
}

/* So many bytes that end where the memory ends, for every second sample a few further than malloc aligns. */
typedef struct exact {
    uint8_t *memory, *at;
} exact;

static exact exact_bytes(uint32_t bytes, uint32_t align)
{
    const uint32_t before = exact_samples % 2 != 0 ? align : 0;
    exact found;

    found.memory = (uint8_t *)malloc(bytes + before + (bytes + before == 0));
    if (found.memory == 0) {
        exit(2);
    }
    found.at = found.memory + before;
    memset(found.memory, 0xA5, bytes + before);
    return found;
}

static int exact_read(exact *x, uint32_t bytes, uint32_t align, FILE *in)
{
    *x = exact_bytes(bytes, align);
    if (fread(x->at, 1, bytes, in) == bytes) {
        return 1;
    }
    free(x->memory);
    return 0;
}

int main(int argc, char **argv)
{
    const char *const mode = argc > 1 ? argv[1] : "";
    uint32_t op, member, bytes;
    int32_t word, alone;
    FILE *in;
    exact x, y, z;

    exact_out = fopen(argv[argc - 1], "wb");
    if (exact_out == 0) {
        return 2;
    }
    if (strcmp(mode, "order") == 0) {
        op = 1;
        exact_write(&op, sizeof op);
        return fclose(exact_out) == 0 ? 0 : 2;
    }
    if (argc != 6) {
        return 2;
    }
    op = (uint32_t)atoi(argv[2]);
    member = (uint32_t)atoi(argv[3]);
    in = fopen(argv[4], "rb");
    if (in == 0 || member >= DRIVER_MEMBERS) {
        return 2;
    }
    alone = strcmp(mode, "op") == 0;
    bytes = alone ? driver_x_bytes[op] : DRIVER_INPUT_BYTES;
    for (; exact_read(&x, bytes, exact_align[alone ? op : 0], in); ++exact_samples) {
        if (strcmp(mode, "run") == 0) {
            y = exact_bytes(NET_ARENA_SIZE, 4);
            z = exact_bytes(4 * NET_CLASSES, 4);
            word = net_observe(member, (const void *)x.at, y.at, (int32_t *)(void *)z.at, exact_observe, 0);
            driver_part(exact_write, DRIVER_OPS, &word, sizeof word);
            free(y.memory);
            free(z.memory);
        } else if (alone) {
            y = exact_bytes(driver_y_bytes[op], 4);
            z = exact_bytes(exact_scratch[op], 4);
            exact_step(op, member, x.at, (uint32_t *)z.at, y.at);
            exact_write(y.at, driver_y_bytes[op]);
            free(y.memory);
            free(z.memory);
        } else {
            word = driver_ask(strcmp(mode, "predict") == 0, op, x.at);
            if (word < 0) {
                return 3;
            }
            driver_tell(exact_write, word);
        }
        free(x.memory);
    }
    fclose(in);
    return fclose(exact_out) == 0 ? 0 : 2;
}
"""
