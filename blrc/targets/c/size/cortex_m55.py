"""Bytes on a Cortex-M55 at -Os: written by `python tests/targets/c/cortex_m_sizes.py`, not by hand.

A test measures again and compares.
"""

COMPILER = "gcc 12.2.1, -mcpu=cortex-m55 -mthumb -mfloat-abi=hard -Os"

# Code and constants of each file of the runtime, the largest over the settings of its macros, with
# -ffreestanding and without.
CODE = {
    "argmax": 40,
    "conv_codes": 1480,
    "conv_columns": 1328,
    "conv_eights": 1544,
    "conv_gather": 1292,
    "conv_packed": 1096,
    "conv_pairs": 1384,
    "conv_quads": 2612,
    "conv_rows": 2552,
    "conv_slices": 2160,
    "conv_taps": 2832,
    "dense": 70,
    "dense_columns": 1176,
    "dense_quads": 1462,
    "digest": 128,
    "encode": 78,
    "head": 2636,
    "pool_or": 320,
    "run": 1824,
    "run_real": 2240,
    "scores_binary": 140,
    "scores_int16": 288,
    "scores_int8": 286,
    "strips": 608,
}

# Stack of each function with its callees, without the buffers that macros size (`memory.buffer_bytes`).
STACK = {
    "argmax": 12,
    "conv_codes": 296,
    "conv_columns": 256,
    "conv_eights": 416,
    "conv_gather": 464,
    "conv_packed": 480,
    "conv_pairs": 280,
    "conv_quads": 572,
    "conv_rows": 384,
    "conv_slices": 428,
    "conv_taps": 404,
    "dense": 256,
    "dense_columns": 152,
    "dense_quads": 272,
    "encode": 32,
    "head_add": 76,
    "head_mean": 0,
    "head_settled": 36,
    "head_variance": 16,
    "pool_or": 100,
    "run": 216,
    "run_real": 248,
    "scores_binary": 36,
    "scores_int16": 56,
    "scores_int8": 64,
    "strips_next": 144,
}
