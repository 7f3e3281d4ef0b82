"""Write the end of an export: what its members say together, as labels or as values."""
