"""Hold random weights as 8-bit codes of logits, and draw from these codes in integers, the same on every machine.

`record` says what a distribution gives: tensors, how they become codes, the likeliest value of every code, and integer
thresholds. `binary` and `ternary` are the records, and `table` lists them. Imports nothing that needs torch.
"""
