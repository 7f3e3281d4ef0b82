"""Define the version and other facts about the project, from which packages, artefacts and checkpoints take them."""

VERSION = "0.1.0"
AUTHOR = "the blrc authors"
LICENSE = "MIT"  # SPDX
HOMEPAGE = "https://arxiv.org/abs/1809.03368"  # the method's paper: the project has no page of its own
