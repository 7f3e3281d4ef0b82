"""Make C identifiers: check which names a model may have, and name its ops and values."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from blrc.errors import BlrcError
from blrc.targets.naming.taken import taken


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# C23 and C++23 together: a header must be usable from both.
KEYWORDS = _words(
    """
    alignas alignof and and_eq asm atomic_cancel atomic_commit atomic_noexcept auto bitand bitor bool break case catch
    char char8_t char16_t char32_t class compl concept const consteval constexpr constinit const_cast continue co_await
    co_return co_yield decltype default delete do double dynamic_cast else enum explicit export extern false float for
    friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected
    public reflexpr register reinterpret_cast requires restrict return short signed sizeof static static_assert
    static_cast struct switch synchronized template this thread_local throw true try typedef typeid typename typeof
    typeof_unqual union unsigned using virtual void volatile wchar_t while xor xor_eq
    """
)

# Windows opens a device for a file of such a name, whatever its ending.
DEVICES = _words("con prn aux nul") | {f"{port}{number}" for port in ("com", "lpt") for number in range(10)}

# Identifiers that every C program has, beside those that headers define.
IDENTIFIERS = _words("main null eof stdin stdout stderr errno assert")

# A model NAME has files NAME_weights.c, ...: another one of that name would have files of the same name.
FILE_ENDING = re.compile(r"_(weights(_\d+)?|selftest|image)$", re.IGNORECASE | re.ASCII)

LONGEST = 48


def check_name(name: str) -> str:
    """Return `name` if it can prefix every file, symbol and macro of a model.

    Case is ignored where files are concerned, as file systems of Windows and macOS do.

    Raises:
        BlrcError: it is no C identifier, or starts with an underscore, which is reserved; it is too long; it contains
            ``_blrc``; it is a keyword of C or C++, or a device on Windows; it is the name of another model's file, such
            as ``net_weights`` beside ``net``; or a toolchain has taken it (`blrc.targets.naming.taken`): for a header,
            library, package or macro, or for a function such as ``NAME_init``.
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
    if name in KEYWORDS or name.lower() in KEYWORDS:
        raise BlrcError(f"name {name!r}: is a keyword of C or C++; give another --name")
    if why := _taken(name):
        raise BlrcError(f"name {name!r}: {why}; give another --name")
    return name


def _taken(name: str) -> str:
    """Return who has taken a name already, as the end of a sentence, or "" where nobody has."""
    lower, known = name.lower(), taken()
    if lower in DEVICES:
        return "is a device on Windows, which opens no file of that name"
    for kind, reason in _REASONS.items():
        if owners := known[kind].get(lower):
            return f"{reason.format(name=name, lower=lower, whose=_whose(owners))}"
    return "is an identifier of every C program" if lower in IDENTIFIERS else ""


_REASONS = {
    "header": "{name}.h would hide a header of {whose}",
    "prefix": "a function or macro of {whose} begins with it, as those of an export would",
    "library": "lib{name}.a would hide a library of {whose}",
    "macro": "{whose} define a macro of that name",
    "package": "{whose} has a package of that name",
}


def _whose(owners: Sequence[str]) -> str:
    """Join names by commas and an "and"."""
    return " and ".join(filter(None, [", ".join(owners[:-1]), owners[-1]]))


def identifiers(names: Iterable[str], others: Collection[str] = (), before_digits: str = "op_") -> dict[str, str]:
    """Return a C identifier for each of `names`; the same list always gives the same identifiers.

    They differ from one another and from `others` even where case is ignored, since macros are written in upper case.
    None is a keyword or a macro of compilers, such as ``linux``. Where one would start with a digit, `before_digits` is
    put before it.
    """
    used = {word.lower() for word in (*others, *KEYWORDS, *IDENTIFIERS, *taken()["macro"])}
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
