"""Read data sets (MNIST, CIFAR-10 and labelled files of users), and whiten images in integers.

Paths come in, NumPy arrays go out. Files are read where they lie, or downloaded to the cache with checksums. May
import: `blrc.net`, `blrc.program`, `blrc.store`, `blrc.reading` and what these may import; nothing here needs torch.
"""

from blrc.datasets.cifar import cifar10
from blrc.datasets.idx import Dataset, mnist, read_idx, split

__all__ = ["Dataset", "cifar10", "mnist", "read_idx", "split"]
