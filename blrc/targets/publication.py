"""Read what a user says of a model that is published: its licence, author, address and version.

None of this is known unless the user gives it: blrc's own licence, author and version are those of the runtime alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from blrc.errors import BlrcError

# Limits of the registries that read the fields: PlatformIO's are the strictest.
LONGEST_LICENSE, LONGEST_AUTHOR, LONGEST_URL = 255, 100, 255
UNSPECIFIED = "unspecified"
NO_VERSION = "0.0.0"
"""What stands where an ecosystem wants a version and none was given."""

# The words of SPDX's grammar (annex D of SPDX 2.3; references of exceptions are of SPDX 3).
_LISTED = r"(?!(?:AND|OR|WITH)\+?$)(?!(?:DocumentRef|LicenseRef|AdditionRef)-)[A-Za-z0-9][A-Za-z0-9.-]*"
_REFERENCE = r"(?:DocumentRef-[A-Za-z0-9.-]+:)?{}Ref-[A-Za-z0-9.-]+"
_LICENSE = re.compile(rf"{_LISTED}\+?|{_REFERENCE.format('License')}", re.ASCII)
_EXCEPTION = re.compile(rf"{_LISTED}|{_REFERENCE.format('Addition')}", re.ASCII)


@dataclass(frozen=True)
class Publication:
    """Hold what is known of a published model; None stands for what was not given.

    Attributes:
        license: an SPDX expression.
        author: one line of printable characters.
        url: an http or https address.
        version: MAJOR.MINOR.PATCH.
    """

    license: str | None = None
    author: str | None = None
    url: str | None = None
    version: str | None = None

    @property
    def package_version(self) -> str:
        return self.version or NO_VERSION

    def to_plain(self) -> dict[str, str | None]:
        """Return the fields as plain data for the manifest."""
        return {"license": self.license, "author": self.author, "url": self.url, "version": self.version}


def parse_publication(
    license: str | None = None, author: str | None = None, url: str | None = None, package_version: str | None = None
) -> Publication:
    """Check the values of ``--license``, ``--author``, ``--url`` and ``--package-version``, and return them together.

    Raises:
        BlrcError: one of them cannot stand in every package's files; the message names the option.
    """
    given = {"--license": license, "--author": author, "--url": url, "--package-version": package_version}
    for option, value in given.items():
        if value is not None and not isinstance(value, str):
            raise BlrcError(f"{option} {value!r}: must be text")
    if license is not None:
        _check_license(license)
    if author is not None:
        _check_line(author, "--author", LONGEST_AUTHOR)
    if url is not None:
        _check_url(url)
    if package_version is not None and not re.fullmatch(
        r"(0|[1-9]\d{0,5})(\.(0|[1-9]\d{0,5})){2}", package_version, re.ASCII
    ):
        raise BlrcError(
            f"--package-version {package_version!r}: must be MAJOR.MINOR.PATCH, three numbers of at most six digits, "
            "such as 1.0.2"
        )
    return Publication(license, author, url, package_version)


def _check_line(value: str, option: str, longest: int) -> None:
    if not value.strip():
        raise BlrcError(f"{option} {value!r}: is empty; leave it out, then it is unspecified")
    if value != value.strip():
        raise BlrcError(f"{option} {value!r}: begins or ends with a space; give it without")
    if len(value) > longest:
        raise BlrcError(f"{option}: has {len(value):,} characters, and packages take {longest}; give a shorter one")
    if not value.isprintable():
        wrong = next(character for character in value if not character.isprintable())
        raise BlrcError(
            f"{option} {value!r}: the character U+{ord(wrong):04X} cannot be printed; give one line of text"
        )


def _check_license(value: str) -> None:
    """Refuse a licence that is not an SPDX expression. Whether a licence of that name exists is not checked."""
    _check_line(value, "--license", LONGEST_LICENSE)
    if not _is_expression(re.findall(r"[()]|[^\s()]+", value)):
        raise BlrcError(
            f"--license {value!r}: is no SPDX expression; give such as MIT, 'Apache-2.0 OR MIT' or "
            "LicenseRef-Proprietary"
        )


def _is_expression(words: Sequence[str]) -> bool:
    """Return whether the words are an SPDX expression.

    An exception (``WITH``) belongs to one licence, and never to a group.
    """
    before, depth = "operator", 0
    for word in words:
        if before == "operator":  # a licence or a group begins
            if word == "(":
                depth += 1
                continue
            if not _LICENSE.fullmatch(word):
                return False
            before = "license"
        elif before == "with":
            if not _EXCEPTION.fullmatch(word):
                return False
            before = "group"
        elif word == ")" and depth:
            depth, before = depth - 1, "group"
        elif word in ("AND", "OR"):
            before = "operator"
        elif word == "WITH" and before == "license":
            before = "with"
        else:
            return False
    return before in ("license", "group") and depth == 0


def _check_url(value: str) -> None:
    _check_line(value, "--url", LONGEST_URL)
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        parts, host = urlsplit(""), ""
    legal = re.fullmatch(r"[A-Za-z0-9._~:/?#@!$&'()*+,;=%-]+", value, re.ASCII)
    if not (legal and parts.scheme in ("http", "https") and "@" not in parts.netloc and _is_host(host)):
        raise BlrcError(f"--url {value!r}: is no web address; give such as https://example.org/model")


def _is_host(host: str) -> bool:
    label = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
    return re.fullmatch(rf"({label}\.)+{label}", host, re.ASCII) is not None


def yaml(value: str) -> str:
    """Return `value` as a YAML string between double quotes, which is the JSON string where all can be printed."""
    return json.dumps(value, ensure_ascii=False)


def cmake(value: str) -> str:
    """Return `value` as a quoted argument of CMake."""
    return '"' + re.sub(r'([\\"$])', r"\\\1", value) + '"'


def markdown(value: str) -> str:
    """Return Markdown that shows `value` as it is: every character that could be mark-up is escaped."""
    escaped = re.sub(r"([\\`*_{}\[\]()#+.!|~:@/-])", r"\\\1", value)
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
