"""The version and the other facts about the project, in one place: packages, artefacts and checkpoints take them from
here."""

VERSION = "0.1.0"
AUTHOR = "the blrc authors"
LICENSE = "MIT"  # SPDX
HOMEPAGE = "https://arxiv.org/abs/1809.03368"  # the method's paper: the project has no page of its own
