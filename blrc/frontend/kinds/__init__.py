"""Hold one record for each kind of layer that a checkpoint may hold, without torch.

Nodes come in, as capture makes them from modules and as a checkpoint's file holds them. A record checks that every
option is known and in its range, and gives the shapes of a layer's tensors and the layer of a net (`blrc.net.net`). The
reader of checkpoints, the drawing of members and the modules that are built again (`blrc.frontend.graph`) all ask it.
Imports windows and the net, and nothing that needs torch.
"""
