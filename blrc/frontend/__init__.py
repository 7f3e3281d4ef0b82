"""Take networks in: torch modules and checkpoints come in, nets with sampled weights go out.

`capture` follows a module and refuses by name what it does not understand, `kinds` holds one record for each kind of
layer, `saving` writes and `checkpoint` reads the file, and `sample` draws members. Reading a checkpoint and drawing
members need no torch. May import: `blrc.nn`, `blrc.datasets`, `blrc.net`, `blrc.store`, `blrc.reading` and what these
may import.
"""
