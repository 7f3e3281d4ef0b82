"""Use the machine well: several processes, torch.compile, bfloat16, and memory.

Nothing here changes what is optimised. This package may import `blrc.nn`, `blrc.errors` and `blrc.training.seeds`.
"""
