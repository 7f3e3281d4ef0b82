"""Define the layers: linear maps, norms, pools and signs over random variables, and those of the Binarized NN.

This package may import the distributions and the noise in `blrc.nn`, and `blrc.net.window`.
"""
