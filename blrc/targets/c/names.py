"""C identifiers: which names a model may have, and what its ops and values are called."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from blrc.errors import BlrcError


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# C11 and C++20 together: a header must be usable from both.
KEYWORDS = _words(
    """
    alignas alignof and and_eq asm atomic_cancel atomic_commit atomic_noexcept auto bitand bitor bool break case catch
    char char8_t char16_t char32_t class compl concept const consteval constexpr constinit const_cast continue co_await
    co_return co_yield decltype default delete do double dynamic_cast else enum explicit export extern false float for
    friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected
    public reflexpr register reinterpret_cast requires restrict return short signed sizeof static static_assert
    static_cast struct switch synchronized template this thread_local throw true try typedef typeid typename typeof
    union unsigned using virtual void volatile wchar_t while xor xor_eq
    """
)

# <name>.h must not stand in front of a header of the compiler in an include path.
HEADERS = _words(
    """
    assert complex ctype errno fenv float inttypes iso646 limits locale math memory new setjmp signal stdalign stdarg
    stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string strings tgmath threads time uchar wchar wctype
    """
)

# A model NAME has files NAME_weights.h, ...: another one of that name would have files of the same name.
FILE_ENDING = re.compile(r"_(weights(_\d+)?|ensemble|vectors|selftest)$", re.IGNORECASE | re.ASCII)

LONGEST = 48


def check_name(name: str) -> str:
    """Return `name` if it can prefix every file, symbol and macro of a model.

    Raises:
        BlrcError: it is no C identifier, starts with an underscore (reserved), is too long, a keyword of C or C++, or
            the name of a standard header; or the name of another model's file, such as ``net_weights`` beside ``net``.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name, re.ASCII):
        raise BlrcError(f"name {name!r}: must be letters, digits and underscores, and start with a letter; give --name")
    if len(name) > LONGEST:
        raise BlrcError(f"name {name!r}: longer than {LONGEST} characters; give a shorter --name")
    if "_blrc" in name.lower():
        raise BlrcError(f"name {name!r}: '_blrc' is part of the runtime's file names; give another --name")
    if ending := FILE_ENDING.search(name):
        other = name[: ending.start()]
        raise BlrcError(
            f"name {name!r}: a model {other!r} has a file {name}.*; give a --name that does not end in {ending[0]}"
        )
    if name in KEYWORDS:
        raise BlrcError(f"name {name!r}: is a keyword of C or C++; give another --name")
    if name.lower() in HEADERS:
        raise BlrcError(f"name {name!r}: {name}.h would hide a standard header; give another --name")
    return name


def identifiers(names: Iterable[str], taken: Collection[str] = (), before_digits: str = "op_") -> dict[str, str]:
    """A C identifier for each of `names`, the same for the same list.

    They differ from one another and from `taken` even where case is ignored (macros are written in upper case), and
    none is a keyword. Where one would start with a digit, `before_digits` is put before it.
    """
    used = {word.lower() for word in taken} | {word.lower() for word in KEYWORDS}
    result: dict[str, str] = {}
    for name in names:
        if name in result:
            continue
        base = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_") or "op"
        base = f"{before_digits}{base}" if base[0].isdigit() else base
        candidate, count = base, 2
        while candidate.lower() in used:
            candidate, count = f"{base}_{count}", count + 1
        used.add(candidate.lower())
        result[name] = candidate
    return result
