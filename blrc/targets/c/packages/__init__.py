"""Turn the C of an export into a library for an ecosystem, one module for each package, with an example that runs.

The files of an export come in, and those of ``<package>/<name>/`` go out. `blrc.targets.c.options.PACKAGES` lists the
packages, and `registry` finds their modules. None is imported for an export without packages. May import:
`blrc.targets.c.text`, `blrc.program` and what lies directly in `blrc.targets`.
"""
