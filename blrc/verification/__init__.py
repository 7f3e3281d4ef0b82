"""Verify an export: every target must give what the reference gives, at every layer, for every member.

A folder comes in. A `Report` goes out. `folder` opens it, `run` compares, `engines` run the targets, `inputs` choose
the samples, `oracles` judge independently, and `devices` run the C on emulated machines. May import: `blrc.exports`,
`blrc.targets`, `blrc.lowering` and what these may import; torch is used only where it is loaded.
"""
