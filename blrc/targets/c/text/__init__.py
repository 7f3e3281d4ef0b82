"""Write the text of an export: headers, sources, tables, the self-test and the Makefile.

A layout with its symbols comes in, and text goes out. May import: `blrc.targets.c.size`, `blrc.targets.c.layout`,
`blrc.targets.naming`, `blrc.program`, and what lies directly in `blrc.targets`.
"""
