"""List the machines that an export is verified on: compilers, flags, memory, and how their programs are run here."""

from __future__ import annotations

import importlib.util
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from blrc.targets.c.build.compiler import find_compiler

KILO = 1024
MEGA = 1024 * KILO


@dataclass(frozen=True)
class Tool:
    """Describe something that has to be installed, and the package that has it.

    Attributes:
        program: a program, a file by its path, a Python module, or a header.
        package: the package to install.
        module: whether it is a Python module.
        header_of: the compiler that has to find it, where it is a header; cross compilers come without a C library. The
            header counts as found where the compiler is missing, since that is another tool.
    """

    program: str
    package: str
    module: bool = False
    header_of: str = ""

    @property
    def found(self) -> bool:
        if self.module:
            return importlib.util.find_spec(self.program) is not None
        if self.header_of:
            return shutil.which(self.header_of) is None or _finds_header(self.header_of, self.program)
        return Path(self.program).exists() or shutil.which(self.program) is not None


def _finds_header(compiler: str, header: str) -> bool:
    """Return whether the compiler's preprocessor finds the header."""
    done = subprocess.run(
        [compiler, "-E", "-x", "c", "-"], input=f"#include <{header}>\n".encode(), capture_output=True, check=False
    )
    return done.returncode == 0


@dataclass(frozen=True)
class Memory:
    """Describe the memory of a bare-metal machine: start and bytes of flash and RAM.

    Attributes:
        vectors: the address of the interrupt vectors, where they do not lie in flash.
    """

    flash: int
    flash_bytes: int
    ram: int
    ram_bytes: int
    vectors: int | None = None


@dataclass(frozen=True)
class Machine:
    """Describe a processor on which the exported C is compiled and run.

    Attributes:
        name: name on the command line.
        title: name in tables.
        compiler: the start of the compiler's command.
        size: the tool that measures the objects; None for WebAssembly.
        flags: flags for the compiler, for the model and all around it.
        link: additional flags for the linker.
        sources: files of ``runtime/machines`` that are linked in.
        run: the command that runs the program ``{binary}``.
        count: the command that also writes the number of executed instructions to ``{count}``. ``{plugin}`` is our
            plugin of QEMU, ``{runner}`` (in both) our program around simavr. Empty where instructions cannot be
            counted.
        tools: what has to be installed.
        files: whether the program opens ``in.bin`` and ``out.bin`` itself; otherwise it uses standard input and output.
        memory: the memory of a bare-metal machine, which is linked with a script of our own.
        fits: bytes of flash and RAM that the model has to fit into, or None.
        order: order of the bytes in a word, ``<`` or ``>``.
        call_graph: whether the compiler can write a call graph (gcc 10 and newer), which gives a tight bound on the
            stack.
        limit: the most inputs of each kind that are tried, for slow emulators; None sets no limit.
    """

    name: str
    title: str
    compiler: tuple[str, ...]
    size: str | None
    flags: tuple[str, ...]
    link: tuple[str, ...]
    sources: tuple[str, ...]
    run: tuple[str, ...]
    count: tuple[str, ...]
    tools: tuple[Tool, ...]
    files: bool = False
    memory: Memory | None = None
    fits: tuple[int, int] | None = None
    order: str = "<"
    call_graph: bool = False
    limit: int | None = None


_ARM = (Tool("arm-none-eabi-gcc", "gcc-arm-none-eabi"), Tool("arm-none-eabi-size", "binutils-arm-none-eabi"))
_RISCV = (
    Tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf"),
    Tool("riscv64-unknown-elf-size", "binutils-riscv64-unknown-elf"),
)
_BARE = ("-nostdlib",)
_WASM = (sys.executable, "-m", "blrc.targets.c.machines.wasm_worker")
_RISCV_LINK = (*_BARE, "-static", "-Wl,-Ttext-segment=0x100000", "-lgcc")
_SEMIHOSTING = ("-semihosting-config", "enable=on,target=native")


def _counted(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command of an emulator of QEMU's family with the plugin that counts instructions."""
    return (*command[:1], "-plugin", "{plugin},out={count}", *command[1:])


def _cortex(core: str, board: str, memory: Memory, flags: tuple[str, ...] = ()) -> Machine:
    run = ("qemu-system-arm", "-M", board, "-nographic", "-monitor", "none", "-serial", "none", *_SEMIHOSTING,
           "-kernel", "{binary}")  # fmt: skip
    return Machine(
        f"cortex-{core}",
        f"Cortex-{core.upper()}",
        ("arm-none-eabi-gcc",),
        "arm-none-eabi-size",
        (f"-mcpu=cortex-{core}", "-mthumb", *flags, "-ffreestanding", "-Os"),
        (*_BARE, "-lgcc"),
        ("cortex_m.c", "freestanding.c"),
        run,
        _counted(run),
        (*_ARM, Tool("qemu-system-arm", "qemu-system-arm")),
        files=True,
        memory=memory,
        fits=(memory.flash_bytes, memory.ram_bytes),
        call_graph=True,
    )


def _riscv(name: str, title: str, march: str, link_march: str, abi: str, cpu: tuple[str, ...] = ()) -> Machine:
    run = (f"qemu-riscv{name[2:4]}", *cpu, "{binary}")
    return Machine(
        name,
        title,
        ("riscv64-unknown-elf-gcc",),
        "riscv64-unknown-elf-size",
        (f"-march={march}", f"-mabi={abi}", "-mcmodel=medany", "-ffreestanding", "-Os"),
        # There are libraries for the basic sets of instructions only; of them, only libgcc is used.
        (f"-march={link_march}", f"-mabi={abi}", "-mcmodel=medany", *_RISCV_LINK),
        ("riscv.c", "freestanding.c"),
        run,
        _counted(run),
        (*_RISCV, Tool(run[0], "qemu-user")),
        call_graph=True,
    )


def _riscv_v() -> Machine:
    """Return the machine of 64-bit RISC-V with vectors of 128 bits, which gcc 12 does not know."""
    isa = ("-march=rv64gcv", "-mabi=lp64d", "-mcmodel=medany")
    run = ("qemu-riscv64", "-cpu", "rv64,v=true,vlen=128,vext_spec=v1.0", "{binary}")
    return Machine(
        "rv64gcv",
        "RV64GCV",
        ("clang-19", "--target=riscv64-unknown-elf"),
        "riscv64-unknown-elf-size",
        (*isa, "-ffreestanding", "-Os"),
        (*isa, *_BARE, "-static", "-fuse-ld=lld", "-Wl,--image-base=0x100000"),
        ("riscv.c", "freestanding.c"),
        run,
        _counted(run),
        (
            Tool("clang-19", "clang-19"),
            Tool("ld.lld-19", "lld-19"),
            Tool("riscv64-unknown-elf-size", "binutils-riscv64-unknown-elf"),
            Tool(run[0], "qemu-user"),
        ),
    )


def _linux(name: str, title: str, prefix: str, libc: str, order: str = "<", flags: tuple[str, ...] = ()) -> Machine:
    run = (f"qemu-{'arm' if name == 'armv7' else name}", "{binary}")
    return Machine(
        name,
        title,
        (f"{prefix}-gcc",),
        f"{prefix}-size",
        (*flags, "-O2"),
        ("-static",),
        ("posix.c",),
        run,
        _counted(run),
        (
            Tool(f"{prefix}-gcc", f"gcc-{prefix} {libc}"),
            Tool("stdio.h", libc, header_of=f"{prefix}-gcc"),
            Tool(f"{prefix}-size", f"binutils-{prefix}"),
            Tool(run[0], "qemu-user"),
        ),
        order=order,
        call_graph=True,
    )


def _wasm(name: str, title: str, flags: tuple[str, ...] = ()) -> Machine:
    return Machine(
        name,
        title,
        ("clang-19", "--target=wasm32"),
        None,
        (*flags, "-ffreestanding", "-O2"),
        ("-nostdlib", "-Wl,--no-entry", "-Wl,--export-memory", "-Wl,-z,stack-size=65536"),
        ("wasm.c", "freestanding.c"),
        (*_WASM, "{binary}", "count.txt"),
        (*_WASM, "{binary}", "{count}"),
        (
            Tool("clang-19", "clang-19"),
            Tool("wasm-ld-19", "lld-19"),
            Tool("wasmtime", "blrc[wasm] with pip", module=True),
        ),
        files=True,
    )


def host() -> Machine:
    """Return this machine, with its own compiler.

    Its instructions are counted where a QEMU that emulates it is installed.
    """
    emulator = f"qemu-{platform.machine()}"
    run = ("{binary}",)
    compiler = find_compiler()
    return Machine(
        "host",
        f"this machine ({platform.machine()})",
        compiler,
        "size",
        ("-O2",),
        (),
        ("posix.c",),
        run,
        _counted((emulator, *run)) if shutil.which(emulator) else (),
        (
            Tool(compiler[0], "gcc"),
            Tool("stdio.h", "libc6-dev", header_of=compiler[0]),
            Tool("size", "binutils"),
        ),
        order="<" if sys.byteorder == "little" else ">",
    )


_BIG = Memory(0x0, 4 * MEGA, 0x20000000, 4 * MEGA)

MACHINES: Mapping[str, Machine] = {
    machine.name: machine
    for machine in (
        _cortex("m0", "microbit", Memory(0x0, 256 * KILO, 0x20000000, 16 * KILO)),
        _cortex("m3", "mps2-an385", _BIG),
        _cortex("m4", "mps2-an386", _BIG),
        _cortex("m7", "mps2-an500", _BIG),
        _cortex("m33", "mps2-an505", Memory(0x10000000, 4 * MEGA, 0x38000000, 4 * MEGA)),
        _cortex(
            "m55",
            "mps3-an547",
            Memory(0x60000000, 32 * MEGA, 0x20000000, 512 * KILO, vectors=0x0),
            ("-mfloat-abi=hard",),
        ),
        _riscv("rv32imc", "RV32IMC", "rv32imc", "rv32imac", "ilp32"),
        _riscv("rv32imc_zbb", "RV32IMC with Zbb", "rv32imc_zbb", "rv32imac", "ilp32", ("-cpu", "rv32,zbb=true")),
        _riscv("rv64", "RV64GC", "rv64imafdc", "rv64imafdc", "lp64d"),
        _riscv_v(),
        _linux("aarch64", "AArch64", "aarch64-linux-gnu", "libc6-dev-arm64-cross"),
        _linux("armv7", "Armv7-A with NEON", "arm-linux-gnueabihf", "libc6-dev-armhf-cross", flags=("-mfpu=neon",)),
        _linux("s390x", "s390x (big-endian)", "s390x-linux-gnu", "libc6-dev-s390x-cross", ">"),
        Machine(
            "avr",
            "ATmega2560",
            ("avr-gcc",),
            "avr-size",
            ("-mmcu=atmega2560", "-Os"),
            (),
            ("avr.c",),
            ("{runner}", "atmega2560", "{binary}", "in.bin", "out.bin"),
            ("{runner}", "atmega2560", "{binary}", "in.bin", "out.bin", "{count}"),
            (
                Tool("avr-gcc", "gcc-avr avr-libc"),
                Tool("avr/io.h", "avr-libc", header_of="avr-gcc"),
                Tool("avr-size", "binutils-avr"),
                Tool("/usr/include/simavr/sim_avr.h", "libsimavr-dev"),
                Tool("/usr/include/libelf.h", "libelf-dev"),
            ),
            files=True,
            fits=(256 * KILO, 8 * KILO),
            limit=20,
        ),
        _wasm("wasm", "WebAssembly"),
        _wasm("wasm_simd", "WebAssembly with SIMD", ("-msimd128",)),
    )
}

ALL = ("host", *MACHINES)
"""What ``all`` stands for."""


def find(name: str) -> Machine:
    """Return the machine of that name, one of `ALL`."""
    return host() if name == "host" else MACHINES[name]
