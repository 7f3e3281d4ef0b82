"""Define the layers: linear maps, norms, pools and signs over random variables, and those of the Binarized NN.

May import: the distributions and noise in `blrc.nn`, and `blrc.net.window`.
"""
