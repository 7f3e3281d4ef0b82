"""From a user's module to a graph of named layers that computes the same, or a refusal by name.

`known` says which classes are compiled, `allowed` refuses what changes one of them, `trace` follows ``forward``,
`evaluate` computes a captured layer in NumPy, and `check` runs the module beside it. In goes an `nn.Module`, out come
`blrc.frontend.graph.Node`s; no module here knows files.
"""
