"""Drop channels whose weights are close to their prior, and write the smaller network (`blrc.prune`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from blrc.app.import_onnx import opened
from blrc.datasets import labelled
from blrc.errors import BlrcError
from blrc.extras import require
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.members import check_labels
from blrc.frontend.sample import MAP, binary_layers, sample
from blrc.frontend.weights.prior import EVEN
from blrc.lowering.lower import lower
from blrc.pruning.channels import channels_of, weight_count
from blrc.pruning.ranking import order_of, scores_of
from blrc.pruning.removal import read_without_norm
from blrc.pruning.report import LayerPruned, Pruned
from blrc.pruning.request import PruneRequest, ask
from blrc.reading.given import check_loaded, typed
from blrc.reading.regular import check_output
from blrc.store.places import writable
from blrc.targets.c.layout.layout import lay_out
from blrc.targets.c.size import footprint
from blrc.verification.run import Progress

if TYPE_CHECKING:
    from blrc.pruning.search import Pruning


@typed
def prune(
    model: str | Path | Checkpoint,
    *,
    output: str | Path | None = None,
    data: str | Path | None = None,
    loss: float | None = None,
    share: str | float | Fraction | None = None,
    by: str = "both",
    words: bool = False,
    layers: str | Sequence[str] | None = None,
    prior: str | float | Mapping[str, float] = EVEN,
    head: str | None = None,
    progress: Progress = lambda what, done, total: None,
) -> Pruned:
    """Drop output channels of convolutions and dense layers, and write what is left as a smaller, ordinary checkpoint.

    Channels are ranked by the mean divergence of their weights from the prior, KL(q || Bern(prior)) in nats. Weights
    that are at their prior say nothing of the data. Whole channels are dropped, with the norms' and
    activations' parameters that are theirs and the weights that read them. Channels of a convolution with groups go by
    groups, together with those that they read. Heads, and the input, stay as they are.

    A dropped channel was no zero. What it gave on average is taken up by the norm behind the layer that reads it, whose
    statistics are estimated anew, and where there is no norm (a softmax layer) by the layer's bias. Nothing is trained.

    Args:
        model: a checkpoint with random weights, or its path.
        output: the checkpoint to write (atomically), or None to write none.
        data: validation images: the last 5,000 training images of a folder of MNIST or CIFAR-10, or an ``.npz`` file of
            images and labels. Never give test images here.
        loss: the points of accuracy that the likeliest network may lose on them; by default 0.2.
        share: drop this share of the channels of each layer instead, such as ``"50%"``, whatever it costs.
        by: the weights that rank a channel: those that compute it (``outputs``), those that read it (``inputs``,
            which are columns of the next layer), or ``both``, the default.
        words: keep a multiple of 32 channels in each layer, so that packed words have no gaps.
        layers: the layers whose channels may be dropped; by default all.
        prior: the probability of a weight of +1, of all layers or by name (see `blrc.frontend.weights.prior`).
        head: the head that the labels are for, of a network with several; None takes the first.
        progress: is told how many networks are measured, and how many there are.

    Returns:
        what is left of each layer, weights and flash before and after, and accuracies; ``print`` shows a table.

    Raises:
        BlrcError: an option is invalid, no weight of the network is random, it has no calibration samples, or the data
            does not fit.
    """
    require("torch", "blrc prune")
    request = ask(output, data, loss, share, by, words, layers, prior, head)
    return run(opened(model), request, progress)


def run(source: Checkpoint, request: PruneRequest, progress: Progress) -> Pruned:
    """Prune a checkpoint as a request asks.

    Raises:
        BlrcError: as for `prune`.
    """
    check_loaded(source, "prune")
    if request.data is not None:
        check_labels(source, "pruning by accuracy (--data)")
    if not binary_layers(source):
        raise BlrcError(
            f"{source.source}: no weight of it is random (a Binarized NN), and pruning ranks by the weights' KL"
        )
    source.samples()  # without any, nothing can be estimated anew
    if request.head is not None:
        source.of_head(request.head)  # refuses one that is not there
    channels = channels_of(source)
    scores = scores_of(source, channels, request.by, request.prior)
    families = [family for family in channels.families if family.name in scores]
    names = request.among(families, source.source)
    if request.output is not None:
        check_output(request.output)
        writable(request.output.absolute().parent)  # a search takes long; what cannot be written is found before it
    images = None
    if request.data is not None:
        measured = lower([sample(source.of_head(request.head), MAP, running=True)])
        folder = request.data.suffix != ".npz"
        images = labelled.load(request.data, measured.input, measured.classes, folder, source.whitening)
    from blrc.pruning.constants import means_of, with_statistics
    from blrc.pruning.search import Pruning, Search

    orders = {name: order_of(scores[name]) for name in names}
    pruning = Pruning(source, channels, orders, means_of(source, read_without_norm(source)), request.words)
    search = None if images is None else Search(pruning, request.head, images, progress)
    if request.allowed is not None and search is not None:
        dropped = search.run(request.allowed)
    else:
        dropped = pruning.at_share(float(request.share or 0))
    before, after = (None, None) if search is None else (search.accuracy({}), search.accuracy(dropped))
    if search is not None:
        progress("networks measured", len(search.found), len(search.found))
    smaller = with_statistics(pruning.smaller(dropped))
    if request.output is not None:
        from blrc.frontend.saving import write

        write(smaller, request.output)
    return Pruned(
        source=source.source,
        output=None if request.output is None else str(request.output),
        layers=tuple(_layers(pruning, scores, dropped)),
        weights=weight_count(smaller),
        weights_before=weight_count(source),
        flash=_flash(smaller),
        flash_before=_flash(source),
        images=0 if images is None else len(images.labels),
        accuracy=after,
        accuracy_before=before,
        loss=request.allowed,
        evaluations=0 if search is None else len(search.found),
    )


def _layers(
    pruning: Pruning, scores: Mapping[str, NDArray[np.float64]], dropped: Mapping[str, int]
) -> Iterator[LayerPruned]:
    for family in pruning.families:
        score, count = scores[family.name], dropped[family.name]
        of = {layer: len(np.intersect1d(family.groups[0], pruning.channels.made[layer])) for layer in family.layers}
        gone = float(score[pruning.orders[family.name][:count]].mean()) if count else None
        for layer, size in of.items():
            groups = len(family.groups)
            yield LayerPruned(layer, size * groups, size * (groups - count), float(score.mean()), gone)


def _flash(checkpoint: Checkpoint) -> int:
    return footprint.measure(lay_out(lower([sample(checkpoint, MAP, running=True)]))).flash_bytes
