"""Keep compiled objects in the user's cache, and reuse them where the same text is compiled in the same way.

Two exports of one name share most files of the runtime, and one export is compiled several times over: for the library,
its self-test and its verification. An entry's name is a hash of what its object depends on: the compiler with all that
it predefines under these flags (version, ABI, instruction set), the flags, and the text after preprocessing. Macros and
include folders count by what they do to the text. Declarations of the runtime that nothing uses do not count, since
exports of other networks have others. Where warnings are asked for they do, and so do comments, of which some silence
one. What depends on more than that is compiled each time: options and environment variables that name other files or
programs, and assembler that includes a file. Only successes are kept, so that error messages always come from the
compiler.

An entry is one file. It begins with the SHA-256 of the rest; then come the object and what gcc writes beside it about
stack and calls. It is used where `blrc.store.private` finds it safe. A damaged entry is compiled and written again.
Where an entry is not safe, or cannot be written, the file is compiled each time; nothing else happens. Deleting the
cache, or any entry, is always safe.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import stat
import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path

from blrc.errors import BlrcError
from blrc.store.lock import UnknownLockError, take
from blrc.store.places import cache_folder
from blrc.store.private import UnsafeError, is_own, private_folder, read_regular
from blrc.targets.c.build import reads
from blrc.targets.c.build.unused import without_unused

Run = Callable[[Sequence[str]], str]
"""Run a tool and return its standard output, in which surrogates stand for bytes that are not UTF-8; a tool that fails
raises `BlrcError`."""

FOLDER = "objects"
SUFFIXES = (".o", ".su", ".ci")  # gcc leaves the last two where it is asked for stack and calls
MOST_BYTES = 512 * 2**20  # of all entries together: several hundred exports
LARGEST = 64 * 2**20  # bytes of an entry: larger objects are compiled again each time
BOUND_EVERY = 256  # new entries of this process before the folder's size is looked at again
DEAD_AFTER = 3600  # seconds: no write of an entry takes as long, so what is older was left by a killed process
LOCKS = 256  # files whose locks make others wait for an entry that is being compiled: one for each first byte of a name
PAUSE = 0.005  # seconds between two looks at such a lock
LONGEST_WAIT = 30.0  # seconds for another process's compilation: longer than a file takes, and it may have been stopped

# Options that neither read nor write another file than the source, the object and those in `SUFFIXES`. Others
# (coverage, profiles, plugins, lists for sanitizers, files of options) go to the compiler unseen.
_PLAIN = re.compile(
    r"-(?:[DUI].+|O\w*|W(?![lpa],)[\w=+-]+|w|std=.+|x|m[\w=+.,-]+|g(?:line-tables-only|[0-3])?|pthread|P|nostdinc|"
    r"-target=.+|f(?:(?:sanitize|(?:no-)?sanitize-(?:recover|trap)|trivial-auto-var-init|callgraph-info|visibility"
    r"|pack-struct)=[\w,-]+|(?!profile|auto-profile|dump|plugin|save|test-coverage|time|modules|lto|record|opt"
    r"|diagnostics-|cs-|coverage|instrument|xray|integrated)[\w+-]+))|c|c\+\+"
)
_VARIABLES = ("COMPILER_PATH", "GCC_EXEC_PREFIX", "CCC_OVERRIDE_OPTIONS", "DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES")
"""Variables with which a compiler runs other programs, changes its options, or writes other files."""
_READS_A_FILE = ".incbin"
_SIZES = struct.Struct(f"<{len(SUFFIXES)}q")
_LOG = logging.getLogger("blrc")
_identities: dict[str, bytes] = {}
_known: dict[tuple[bytes, bytes | None], str] = {}
"""Keep the names of entries for what compilers have preprocessed in this process (`blrc.targets.c.build.reads`)."""
_written = count(1)


def compiled(command: Sequence[str], source: Path, out: Path, run: Run) -> None:
    """Compile `source` to `out`, or copy the object that the same text gave before.

    Args:
        command: the whole command, which ends in ``-c SOURCE -o OUT``.
        run: runs a tool and returns its standard output.

    Raises:
        BlrcError: the compiler fails; `run` raises it.
    """
    before = list(command[:-4])
    key = None
    if all(map(_PLAIN.fullmatch, before[1:])) and not any(map(os.environ.get, _VARIABLES)):
        key = _key(before, source, run)
    folder = None if key is None else _folder()
    if key is None or folder is None or not _reuse(folder / key, before, source, out, command, run):
        run(command)


def _reuse(entry: Path, before: list[str], source: Path, out: Path, command: Sequence[str], run: Run) -> bool:
    """Take the object from its entry, or compile it and make the entry; return False where the entry is no use."""
    try:
        if _taken(entry, out):
            return True
        with _one_at_a_time(entry):
            if _taken(entry, out):
                return True
            run(command)
            if _key(before, source, run) == entry.name:  # else a file was changed meanwhile
                _keep(entry, out)
            return True
    except UnsafeError as error:
        _say(str(error))
    except OSError:  # the object cannot be written: the compiler itself says why
        pass
    return False


def _taken(entry: Path, out: Path) -> bool:
    """Copy the object of an entry; return False where there is none.

    Raises:
        UnsafeError: the entry is there, but does not belong to this user alone.
        OSError: the object cannot be written.
    """
    content = _load(entry)
    if content is not None:
        _put(content, out)
    return content is not None


def identity(command: Sequence[str], run: Run) -> bytes:
    """Return a hash of a compiler and its flags: of the compiler's file, and of all that it predefines under the flags.

    Raises:
        BlrcError: the compiler fails; `run` raises it.
    """
    path = Path(os.path.realpath(shutil.which(command[0]) or command[0]))
    what = repr((list(command), str(path)))
    with suppress(OSError):  # where there is none, `run` says so
        found = path.stat()
        what += repr((found.st_size, found.st_mtime_ns))
    if what not in _identities:
        predefined = run([*command, "-dM", "-E", "-x", "c", os.devnull])
        _identities[what] = hashlib.sha256(f"{what}\n{predefined}".encode()).digest()
    return _identities[what]


def _folder() -> Path | None:
    """Return the folder of all entries, or None where there can be none, or none that is safe."""
    try:
        return private_folder(cache_folder(FOLDER))
    except UnsafeError as error:
        _say(str(error))
    except (BlrcError, OSError):  # a user without a home folder, or who may not write there
        pass
    return None


@cache
def _say(what: str) -> None:
    """Warn once in a process that objects are not kept, and why.

    The warning is a line on standard error unless logging is set up otherwise.
    """
    _LOG.warning("%s; until then objects are compiled anew", what)


def _key(before: list[str], source: Path, run: Run) -> str | None:
    """Return the name of the entry, or None where the compiler fails, or the object depends on more than the text."""
    kept = [flag for flag in before if not flag.startswith(("-D", "-U", "-I"))]
    try:
        who = identity(kept, run)
        files = reads.digest(before, source)
        if (known := _known.get((who, files))) is not None:
            return known
        warns = any(flag.startswith("-W") for flag in before)  # "fall through" silences a warning
        text = run([*before, "-E", "-P", *(["-C"] if warns else []), str(source)])
    except (BlrcError, OSError):
        return None  # the compiler itself says best what is wrong
    if _READS_A_FILE in text:
        return None
    text = text if warns else without_unused(text)
    key = _hash(source.name.encode(), who, text.encode("utf-8", "surrogateescape"))
    if files is not None and files == reads.digest(before, source):  # else a file was changed meanwhile
        _known[who, files] = key
    return key


def _hash(*parts: bytes) -> str:
    """Hash the hashes of the parts, so that different lists of parts cannot give the same bytes to hash."""
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def _load(entry: Path) -> bytes | None:
    """Return the content of an entry without its checksum, or None where it is missing or damaged.

    Raises:
        UnsafeError: the entry is there, but does not belong to this user alone.
    """
    if not is_own(entry, stat.S_ISREG):
        return None
    try:
        content = read_regular(entry, _all_of, LARGEST)
    except OSError:
        return None
    with suppress(OSError):
        os.utime(entry)  # the entry that has not been used for longest goes first
    return content[32:] if hashlib.sha256(content[32:]).digest() == content[:32] else None


def _all_of(file: int) -> bytes:
    return b"".join(iter(lambda: os.read(file, 2**20), b""))


def _put(content: bytes, out: Path) -> None:
    """Write the object and the files beside it."""
    at = _SIZES.size
    for suffix, size in zip(SUFFIXES, _SIZES.unpack(content[:at]), strict=True):
        if size >= 0:
            (out if suffix == ".o" else out.with_suffix(suffix)).write_bytes(content[at : at + size])
            at += size


def _keep(entry: Path, out: Path) -> None:
    """Write an entry; an error of the disk is ignored."""
    temporary = None
    try:
        paths = [out if suffix == ".o" else out.with_suffix(suffix) for suffix in SUFFIXES]
        files = [path.read_bytes() if path.is_file() else None for path in paths]
        sizes = _SIZES.pack(*(-1 if file is None else len(file) for file in files))
        content = sizes + b"".join(file or b"" for file in files)
        if len(content) + 32 > LARGEST:
            return
        descriptor, temporary = tempfile.mkstemp(prefix=".new.", dir=entry.parent)
        with os.fdopen(descriptor, "wb") as file:
            file.write(hashlib.sha256(content).digest() + content)
        Path(temporary).replace(entry)
        if next(_written) % BOUND_EVERY == 1:
            bound(entry.parent, MOST_BYTES)
    except OSError:
        if temporary is not None:
            with suppress(OSError):
                Path(temporary).unlink(missing_ok=True)


def bound(folder: Path, most: int) -> None:
    """Remove entries, those unused for longest first, where all together hold more than `most` bytes.

    Entries are removed until the rest hold at most three quarters of `most`. What killed processes have left of an
    entry is removed, too.
    """
    now, entries = time.time(), []
    with os.scandir(folder) as found:
        for each in found:
            about = each.stat(follow_symlinks=False)
            if each.name.startswith(".new.") and now - about.st_mtime > DEAD_AFTER:
                Path(each.path).unlink(missing_ok=True)
            elif not each.name.startswith("."):
                entries.append((about.st_mtime, about.st_size, Path(each.path)))
    total = sum(size for _, size, _ in entries)
    limit = most if total <= most else most * 3 // 4
    for _, size, path in sorted(entries):
        if total <= limit:
            return
        path.unlink(missing_ok=True)
        total -= size


@contextmanager
def _one_at_a_time(entry: Path) -> Iterator[None]:
    """Wait while another process or thread compiles this entry. Where no lock can be had, nobody waits."""
    descriptor = -1
    try:
        with suppress(OSError, UnknownLockError):
            no_link = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
            name = f".lock.{int(entry.name[:2], 16) % LOCKS:02x}"
            descriptor = os.open(entry.parent / name, os.O_RDWR | os.O_CREAT | no_link, 0o600)
            until = time.monotonic() + LONGEST_WAIT
            while not take(descriptor) and time.monotonic() < until:
                time.sleep(PAUSE)
        yield
    finally:
        if descriptor >= 0:
            os.close(descriptor)
