"""Turn a user's module into a graph of named layers that computes the same, or refuse it by name.

An `nn.Module` comes in, and `blrc.frontend.kinds.node.Node`s go out. `known` says which classes are compiled, `allowed`
refuses what changes one of them, and `trace` follows ``forward``. `evaluate` computes a captured layer in NumPy, and
`check` runs the module beside its graph. No module here reads or writes files.
"""
