"""Hold one record for each kind of op: its fields, its constants, what is legal, what it computes, and what it costs.

`op` defines what every record has, and `registry` lists them all. Checking, running, storing and measuring a program
ask the records, so a new op is a module here and a line in `registry`; only lowering and the targets know ops by type.
May import: `blrc.errors`, `blrc.net` and `blrc.program.head`.
"""
