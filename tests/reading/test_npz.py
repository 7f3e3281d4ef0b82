import hashlib
import io

import numpy as np

from blrc.reading import npz

ARRAYS = {
    "bits": np.array([[True, False]]),
    "deep/name": np.arange(6, dtype=np.int32).reshape(2, 3),
    "big": np.arange(3).astype(">u4"),
    "empty": np.zeros((0, 2), dtype=np.int8),
    "turned": np.arange(6, dtype=np.uint8).reshape(2, 3).T,
}


def test_arrays_come_back() -> None:
    found = npz.from_bytes(npz.to_bytes(ARRAYS))
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert np.array_equal(found[name], array)
        assert found[name].dtype == array.dtype.newbyteorder("<")


def test_numpy_reads_it_as_its_own() -> None:
    with np.load(io.BytesIO(npz.to_bytes(ARRAYS)), allow_pickle=False) as file:
        assert np.array_equal(file["deep/name"], ARRAYS["deep/name"])


def test_bytes_are_the_same_on_every_machine() -> None:
    content = npz.to_bytes(ARRAYS)
    assert hashlib.sha256(content).hexdigest() == GOLDEN
    assert content == npz.to_bytes(dict(ARRAYS))


GOLDEN = "c1deb1736fda76fb32b0101d9cf11340ee81e975ef5dfbff7de4c372d2572cf3"
