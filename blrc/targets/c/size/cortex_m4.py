"""Bytes on a Cortex-M4 at -Os: written by `python tests/targets/c/cortex_m_sizes.py`, not by hand.

A test measures again and compares.
"""

COMPILER = "gcc 12.2.1, -mcpu=cortex-m4 -mthumb -Os"

# Code and constants of each file of the runtime, the largest over the settings of its macros, with
# -ffreestanding and without.
CODE = {
    "argmax": 32,
    "conv_codes": 1462,
    "conv_columns": 1296,
    "conv_eights": 7496,
    "conv_gather": 1230,
    "conv_packed": 1056,
    "conv_pairs": 1364,
    "conv_quads": 5454,
    "conv_rows": 1890,
    "conv_slices": 2136,
    "conv_taps": 2156,
    "dense": 66,
    "dense_columns": 1124,
    "dense_quads": 4864,
    "digest": 124,
    "encode": 60,
    "head": 2640,
    "pool_or": 304,
    "run": 1552,
    "run_real": 1796,
    "scores_binary": 144,
    "scores_int16": 276,
    "scores_int8": 272,
    "strips": 596,
}

# Stack of each function with its callees, without the buffers that macros size (`memory.buffer_bytes`).
STACK = {
    "argmax": 12,
    "conv_codes": 296,
    "conv_columns": 248,
    "conv_eights": 672,
    "conv_gather": 360,
    "conv_packed": 384,
    "conv_pairs": 272,
    "conv_quads": 760,
    "conv_rows": 280,
    "conv_slices": 428,
    "conv_taps": 284,
    "dense": 184,
    "dense_columns": 144,
    "dense_quads": 544,
    "encode": 24,
    "head_add": 76,
    "head_mean": 0,
    "head_settled": 36,
    "head_variance": 16,
    "pool_or": 96,
    "run": 144,
    "run_real": 152,
    "scores_binary": 48,
    "scores_int16": 64,
    "scores_int8": 64,
    "strips_next": 144,
}
