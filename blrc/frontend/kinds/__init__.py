"""The kinds of layers that a checkpoint may hold: one record for each, without torch.

In: nodes, as capture makes them from modules and a checkpoint's file holds them. Out: whether every option is known and
in its range, the shapes of each layer's tensors, and the layers of a net (`blrc.net.net`). A record says it all once:
the reader of checkpoints, the drawing of members and the modules that are built again (`blrc.frontend.graph`) ask it.
Imports windows and the net, and nothing that needs torch.
"""
