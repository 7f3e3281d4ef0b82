"""Run a program in WebAssembly on the bytes of ``in.bin``, and write what it writes to ``out.bin``.

The command is ``python -m blrc.targets.c.machines.wasm_worker PROGRAM COUNT_FILE``. The program runs in a process of
its own, so that it can be stopped if it never ends. The number of instructions that it executed (wasmtime's fuel: one
for each operator that does something) goes to COUNT_FILE.
"""

from __future__ import annotations

import sys
from pathlib import Path

import wasmtime

FUEL = 2**62


def main(program: Path, count: Path) -> None:
    """Run the export ``start`` of `program`, which imports ``host.read`` and ``host.write``."""
    config = wasmtime.Config()
    config.consume_fuel = True
    engine = wasmtime.Engine(config)
    store = wasmtime.Store(engine)
    store.set_fuel(FUEL)
    linker = wasmtime.Linker(engine)
    given, place = Path("in.bin").read_bytes(), 0
    written = bytearray()

    def read(caller: wasmtime.Caller, at: int, count: int) -> int:
        nonlocal place
        part = given[place : place + count]
        place += len(part)
        _memory(caller).write(caller, part, at)
        return len(part)

    def write(caller: wasmtime.Caller, at: int, count: int) -> None:
        written.extend(_memory(caller).read(caller, at, at + count))

    i32 = wasmtime.ValType.i32()
    linker.define_func("host", "read", wasmtime.FuncType([i32, i32], [i32]), read, access_caller=True)
    linker.define_func("host", "write", wasmtime.FuncType([i32, i32], []), write, access_caller=True)
    instance = linker.instantiate(store, wasmtime.Module.from_file(engine, str(program)))
    start = instance.exports(store)["start"]
    assert isinstance(start, wasmtime.Func)
    status = start(store)
    Path("out.bin").write_bytes(written)
    count.write_text(f"{FUEL - store.get_fuel()}\n", encoding="ascii")
    sys.exit(status)


def _memory(caller: wasmtime.Caller) -> wasmtime.Memory:
    memory = caller["memory"]
    assert isinstance(memory, wasmtime.Memory)
    return memory


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
