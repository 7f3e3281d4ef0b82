"""Turn torch modules and checkpoints into nets with sampled weights.

`capture` follows a module and refuses by name what it does not understand, and `kinds` holds one record for each kind
of layer. `saving` writes a checkpoint, `checkpoint` reads it, and `sample` draws members from it. Reading a checkpoint
and drawing members need no torch. May import: `blrc.nn`, `blrc.datasets`, `blrc.net`, `blrc.store`, `blrc.reading` and
what these may import.
"""
