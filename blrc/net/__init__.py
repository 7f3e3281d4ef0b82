"""Describe one sampled network: weights of -1 and +1 with float norms, the compiler's first intermediate form.

Layers, geometry of windows, the input's encoding, the order of bits and the shapes of maps are defined here. Everything
is a frozen dataclass or a pure function on NumPy arrays. May import: `blrc.errors` and `blrc.reading`; nothing here
needs torch.
"""
