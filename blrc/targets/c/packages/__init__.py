"""An export as a library of an ecosystem: one module a package, one line in `registry.PACKAGES`."""
