from __future__ import annotations

import numpy as np
import onnx
import pytest

from blrc.net.elements import ELEMENTS, DType, code_type
from blrc.program.program import Value


@pytest.mark.parametrize(
    ("dtype", "nbytes", "c_type", "given"),
    [
        ("uint8", 6 * 40, "uint8_t", onnx.TensorProto.UINT8),
        ("int8", 6 * 40, "int8_t", onnx.TensorProto.INT8),
        ("int32", 6 * 160, "int32_t", onnx.TensorProto.INT32),
        ("bits", 6 * 8, "uint32_t", onnx.TensorProto.UINT8),  # 40 channels in two words
        *((f"codes{k}", 6 * 8 * k, "uint32_t", onnx.TensorProto.UINT8) for k in (1, 2, 3, 4)),
        *((f"codes{k}", 6 * 40, "uint8_t", onnx.TensorProto.UINT8) for k in (5, 6, 7, 8)),
    ],
)
def test_each_type_in_memory_in_c_and_in_onnx(dtype: DType, nbytes: int, c_type: str, given: int) -> None:
    element = ELEMENTS[dtype]
    assert Value("x", dtype, (2, 3, 40)).nbytes == nbytes
    assert (element.c_type, onnx.helper.np_dtype_to_tensor_dtype(element.given)) == (c_type, given)
    ends = np.array([element.low, element.high])
    assert np.array_equal(ends.astype(element.value), ends) and np.array_equal(ends.astype(element.given), ends)


def test_every_type_has_a_row() -> None:
    assert set(ELEMENTS) == {"uint8", "int8", "int32", "bits", *(f"codes{k}" for k in range(1, 9))}
    assert [code_type(k) for k in range(1, 9)] == [f"codes{k}" for k in range(1, 9)]
