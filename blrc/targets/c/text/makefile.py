"""Write the Makefile of an export."""

from __future__ import annotations

from collections.abc import Sequence


def makefile(name: str, sources: Sequence[str]) -> str:
    """Return a Makefile that builds a static library from `sources`, and the self-test."""
    objects = " \\\n\t".join(f"build/{source.removesuffix('.c')}.o" for source in sources)
    return _MAKEFILE.replace("@name@", name).replace("@NAME@", name.upper()).replace("@objects@", objects)


_MAKEFILE = """\
# make            build/lib@name@.a
# make selftest   run the recorded inputs and compare every step
#
# CC, AR and CFLAGS may be given: make CC=arm-none-eabi-gcc AR=arm-none-eabi-ar CFLAGS="-Os -mcpu=cortex-m4"
# or: make CC=avr-gcc AR=avr-ar CFLAGS="-Os -mmcu=atmega2560"

CFLAGS ?= -O2
# A linker with --gc-sections leaves out what a program does not call.
MODEL_FLAGS := -std=c99 -Wall -Wextra -ffunction-sections -fdata-sections -I.

OBJECTS := @objects@

.PHONY: all selftest clean

all: build/lib@name@.a

build/lib@name@.a: $(OBJECTS)
	rm -f $@
	$(AR) rcs $@ $(OBJECTS)

build/%.o: %.c $(wildcard *.h)
	@mkdir -p build
	$(CC) $(MODEL_FLAGS) $(CFLAGS) -c $< -o $@

selftest: build/@name@_selftest
	./build/@name@_selftest

build/@name@_selftest: @name@_selftest.c build/lib@name@.a
	$(CC) $(MODEL_FLAGS) $(CFLAGS) $(LDFLAGS) -D@NAME@_SELFTEST_MAIN $^ -o $@

clean:
	rm -rf build
"""
