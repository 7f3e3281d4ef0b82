"""Say what each operation of torch means for a binary network.

A rule takes an operation on what its arguments stand for, and gives what its result stands for. `meaning` lists them,
with `arithmetic` and `linear` for its two large parts; `entry` is the network's input. Imports
the modules beside this room.
"""
