"""Keep compiled objects in the user's cache, and reuse them where the same text is compiled in the same way.

Two exports of one name share most files of the runtime, and one export is compiled several times over: for the library,
its self-test and its verification. An entry's name is a hash of all that its object depends on: the compiler with all
that it predefines under these flags (version, ABI, instruction set), the flags, and the text after preprocessing.
Macros and include folders count by what they do to the text. Only successes are kept, so error messages always come
from the compiler.

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
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from itertools import count
from pathlib import Path

from blrc.errors import BlrcError
from blrc.store.lock import UnknownLockError, take
from blrc.store.places import cache_folder
from blrc.store.private import UnsafeError, is_own, private_folder, read_regular

Run = Callable[[Sequence[str]], str]
"""Run a tool and return its standard output; a tool that fails raises `BlrcError`."""

FOLDER = "objects"
SUFFIXES = (".o", ".su", ".ci")  # gcc leaves the last two where it is asked for stack and calls
MOST_BYTES = 512 * 2**20  # of all entries together: several hundred exports
LARGEST = 64 * 2**20  # bytes of an entry: larger objects are compiled again each time
BOUND_EVERY = 256  # new entries of this process before the folder's size is looked at again
DEAD_AFTER = 3600  # seconds: no write of an entry takes as long, so what is older was left by a killed process
MOST_KNOWN = 10_000  # texts of this process whose entries it remembers: about two megabytes
LOCKS = 256  # files whose locks make others wait for an entry that is being compiled: one for each first byte of a name
PAUSE = 0.005  # seconds between two looks at such a lock
LONGEST_WAIT = 600.0  # seconds for another process's compilation; a compiler is stopped after as long

# Options that change no other file than the object and those in `SUFFIXES`. Others (coverage, profiles, plugins, files
# of options) go to the compiler unseen.
_PLAIN = re.compile(
    r"-(?:[DUI].+|O\w*|W(?![lpa],)[\w=+-]+|w|std=.+|x|m[\w=+.,-]+|g(?:line-tables-only|[0-3])?|pthread|P|nostdinc|"
    r"-target=.+|f(?!profile|auto-profile|dump|plugin|save|test-coverage|time|modules|lto|record|opt|diagnostics-"
    r"|cs-|coverage|instrument|xray|integrated)[\w=+,./-]+)|c|c\+\+"
)
_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*(include|embed)(\w*)[ \t]*(["<]?)([^">\n]*)', re.MULTILINE)
_NUMBER = re.compile(rb"^#define (\w+) \d+$", re.MULTILINE)
_PASTED = re.compile(rb"##[ \t]*(\w*)")
_COMMENT = re.compile(rb'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*', re.DOTALL)  # or a string
_WORD = re.compile(rb"\w+")
_SIZES = struct.Struct(f"<{len(SUFFIXES)}q")
_LOG = logging.getLogger("blrc")
_known: dict[str, str] = {}  # hash of everything that is read, before preprocessing -> name of the entry
_identities: dict[str, bytes] = {}
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
    folder = _folder() if all(map(_PLAIN.fullmatch, before[1:])) else None
    try:
        key = None if folder is None else _key(before, source, run)
    except (BlrcError, OSError):
        key = None  # the compiler itself says best what is wrong
    if folder is None or key is None:
        run(command)
        return
    entry = folder / key
    with _one_at_a_time(entry):
        try:
            content = _load(entry)
            if content is not None:
                _put(content, out)
                return
            run(command)
            _keep(entry, out)
        except UnsafeError as error:
            _say(str(error))
            run(command)


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


def _key(before: list[str], source: Path, run: Run) -> str:
    """Return the name of the entry.

    Texts that were the same before preprocessing are preprocessed only once in a process.
    """
    kept = [flag for flag in before if not flag.startswith(("-D", "-U", "-I"))]
    who = [source.name.encode(), identity(kept, run)]
    folders = [Path(flag[2:]) for flag in before if flag.startswith("-I")]
    texts = list(_texts(source, folders))
    macros = [flag for flag in before if flag.startswith(("-D", "-U"))]
    short = None if b"" in texts else _hash(*who, repr(macros).encode(), *_without_unused(texts, macros))
    if short is not None and short in _known:
        return _known[short]
    key = _hash(*who, run([*before, "-E", "-P", str(source)]).encode())
    if short is not None:
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        _known[short] = key
    return key


def _texts(source: Path, folders: Sequence[Path]) -> Iterator[bytes]:
    """Yield the texts of a file and of all that it may include from its own folder or from `folders`.

    The system's headers are left out, since they do not change. An empty text stands for an include that only the
    preprocessor can find.
    """
    seen, waiting = {source}, [source]
    while waiting:
        path = waiting.pop()
        text = path.read_bytes()
        yield text or b" "
        for _, more, mark, name in _INCLUDE.findall(text):
            if more or not mark:
                yield b""
                continue
            places = (folder / os.fsdecode(name) for folder in (path.parent, *folders))
            found = next((place for place in places if place.is_file()), None)
            if found is not None and found not in seen:
                seen.add(found)
                waiting.append(found)


def _without_unused(texts: Sequence[bytes], macros: Sequence[str]) -> Sequence[bytes]:
    """Drop comments and the definitions of numbers that are used nowhere.

    Without this, a header with an export's sizes, which all files read, would make every file's text differ. A name
    that may be put together from parts (``##``) counts as used; where the parts are not known, every name does.
    """
    read = [_words(text) for text in (*texts, " ".join(macros).encode())]
    counts, pasted = Counter[bytes](), Counter[bytes]()
    for _, words, rights in read:
        counts.update(words)
        pasted.update(rights)
    if not all(right[:1] == b"_" and counts[right] == times for right, times in pasted.items()):
        return texts

    def kept(line: re.Match[bytes]) -> bytes:
        return line[0] if counts[line[1]] > 1 or line[1].endswith(tuple(pasted)) else b""

    return [_NUMBER.sub(kept, text) for text, _, _ in read]


@lru_cache(1024)  # the runtime's files, many times over
def _words(text: bytes) -> tuple[bytes, Counter[bytes], Counter[bytes]]:
    """Return the text without comments, its words, and the words to the right of ``##`` in it."""
    text = _COMMENT.sub(lambda found: b" " if found[0].startswith(b"/") else found[0], text)
    return text, Counter(_WORD.findall(text)), Counter(_PASTED.findall(text))


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
