"""The version, in one place: packages, artefacts and checkpoints take it from here."""

VERSION = "0.1.0"
