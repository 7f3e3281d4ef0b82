"""How fast exports are, beside what else could run the same network: `blrc bench` and `make bench`."""
