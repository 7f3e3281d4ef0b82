"""List the choices of the statistics that norms get. It loads nothing, so that help and completion can ask it."""

from typing import Literal, get_args

Norms = Literal["given", "estimated"]
NORMS: tuple[Norms, ...] = get_args(Norms)
