"""Call into a shared library of an export: split batches into parts, and share them among threads.

Each thread has its own working memory.
"""

from __future__ import annotations

import _ctypes
import ctypes
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.targets.c.native.wrapper import entry

if sys.platform == "win32":
    _unload = _ctypes.FreeLibrary
else:
    _unload = _ctypes.dlclose

Work = NDArray[np.uint8]
Arguments = Callable[[int, Work], tuple[Any, ...]]
ALIGN = 64  # of the working memory
MACS_A_CALL = 200_000_000  # multiply-adds of one call into C: some 10 ms, after which ctrl-C is heard
MACS_A_THREAD = 2_000_000  # for fewer than these it is not worth to wake another thread
COPY_BYTES = 2**24  # of samples that have to be copied, at a time
_POINTER, _U64, _U32, _INT = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_int
_SIGNATURES: dict[str, Sequence[Any]] = {
    "scores": [_POINTER, _U64, _U32, _POINTER, _POINTER, _POINTER],
    "answers": [_POINTER, _U64, _INT, _U32, _POINTER, *[_POINTER] * 8],
    "run": [_POINTER, _U64, _U32, _POINTER, _POINTER, _POINTER],
    "op": [_U32, _U64, _POINTER, _U64, _U32, _POINTER, _POINTER],
}
_OF_SLOTS: dict[str, Sequence[Any]] = {"set": [_U32, _U32, _POINTER]}  # see `slots`


class Calls:
    """Load a library and call the entry points that `host_wrapper` has given it.

    Args:
        path: path of the library.
        name: the model's name.
        macs: multiply-adds of one sample, at least 1; they decide how large the parts of a batch are.
        slots: whether it is a library of `blrc.targets.c.native.slots`.

    Raises:
        BlrcError: the library cannot be loaded.
    """

    def __init__(self, path: Path, name: str, macs: int, slots: bool = False) -> None:
        self.name, self.macs = name, macs
        self.entries: dict[str, Any] = {}
        self._idle: list[Work] = []
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        try:
            library = ctypes.CDLL(str(path))
        except OSError as error:
            raise BlrcError(f"{name}: the compiled library cannot be loaded: {error}") from None
        # An entry keeps the library alive: it is unloaded behind the last call, not under it.
        weakref.finalize(library, _unload, library._handle).atexit = False
        for function, arguments in (_SIGNATURES | _OF_SLOTS if slots else _SIGNATURES).items():
            found = library[entry(name, function)]
            found.argtypes, found.restype = tuple(arguments), _INT
            self.entries[function] = found
        work_bytes = library[entry(name, "work_bytes")]
        work_bytes.restype = _U64
        self._work_bytes = int(work_bytes())

    def close(self) -> None:
        """Release the library and the threads. Running calls end first; later ones are refused."""
        self.entries = {}
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()
        self._idle = []

    def spread(
        self,
        function: str,
        x: NDArray[Any],
        arguments: Arguments,
        threads: int,
        first: tuple[int, ...] = (),
    ) -> None:
        """Call an entry point on all of `x`, part by part.

        Args:
            function: name of the entry point, without prefix.
            x: samples, one byte an element; parts are copied where the array is not contiguous.
            arguments: gives the arguments after the count, for samples from i on; arrays are passed by their addresses.
            threads: at most so many threads, including the caller's.
            first: arguments before the samples.

        Raises:
            BlrcError: the C reports an error, or the library was closed.
        """
        called = self.entries.get(function)
        if called is None:
            raise BlrcError(f"{self.name}: was closed; call blrc.compile again")
        count, bytes_each = len(x), max(1, x[:1].nbytes)
        workers = max(1, min(threads, count, count * self.macs // MACS_A_THREAD))
        step = max(1, min(MACS_A_CALL // self.macs, COPY_BYTES // bytes_each, -(-count // workers)))
        contiguous, starts = x.flags.c_contiguous, iter(range(0, count, step))
        failed: list[BaseException] = []

        def work_on() -> None:
            work = self._take()
            try:
                while not failed and (i := self._next(starts)) is not None:
                    part = x[i : i + step]
                    part = part if contiguous else np.ascontiguousarray(part)
                    given = (*first, part, len(part), *arguments(i, work))
                    status = called(*(address(a) if isinstance(a, np.ndarray) else a for a in given))
                    if status < 0:
                        raise BlrcError(f"{self.name}: the C says error {status} in {function!r}")
            except BaseException as error:
                failed.append(error)
                raise
            finally:
                self._idle.append(work)

        others = [self._others(threads).submit(work_on) for _ in range(workers - 1)]
        try:
            work_on()
        finally:
            # What has not begun (the pool may be busy with another call) is not needed any more.
            begun = [other for other in others if not other.cancel()]
            wait(begun)
        for other in begun:
            other.result()

    def _next(self, starts: Iterator[int]) -> int | None:
        with self._lock:
            return next(starts, None)

    def _take(self) -> Work:
        try:
            return self._idle.pop()
        except IndexError:
            memory = np.empty(self._work_bytes + ALIGN, np.uint8)
            return memory[-address(memory) % ALIGN :][: self._work_bytes]

    def _others(self, threads: int) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None or self._pool._max_workers < threads - 1:
                self._pool = ThreadPoolExecutor(threads - 1, f"blrc-{self.name}")
            return self._pool


def checked(threads: int) -> int:
    """Return `threads` if it is at least 1.

    Raises:
        BlrcError: it is less.
    """
    if threads < 1:
        raise BlrcError(f"threads {threads}: must be at least 1")
    return threads


def address(array: NDArray[Any]) -> int:
    """Return the address of an array's first element."""
    return int(array.__array_interface__["data"][0])
