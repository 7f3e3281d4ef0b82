"""Use the machine well: several processes, torch.compile, bfloat16, and memory.

Nothing here changes what is optimised. May import: `blrc.nn`, `blrc.errors` and `blrc.training.seeds`.
"""
