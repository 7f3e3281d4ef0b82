"""Bytes on a Cortex-M4 at -Os: written by `python tests/targets/cortex_m4_sizes.py`, not by hand.

A test measures again and compares.
"""

COMPILER = "gcc 12.2.1, -mcpu=cortex-m4 -mthumb -Os"

# Code and constants of each file of the runtime, the largest over the settings of its macros.
CODE = {
    "argmax": 32,
    "conv_codes": 1408,
    "conv_gather": 1090,
    "conv_packed": 1244,
    "conv_rows": 1208,
    "conv_taps": 1450,
    "dense": 66,
    "digest": 124,
    "encode": 60,
    "head": 2596,
    "pool_or": 304,
    "run": 594,
    "run_taps": 740,
    "scores_binary": 124,
    "scores_int16": 142,
    "scores_int8": 138,
    "strips": 552,
}

# Stack of each function with its callees, without the buffers that macros size (`memory.buffer_bytes`).
STACK = {
    "argmax": 12,
    "conv_codes": 268,
    "conv_gather": 408,
    "conv_packed": 344,
    "conv_rows": 280,
    "conv_taps": 292,
    "dense": 152,
    "encode": 24,
    "head_add": 76,
    "head_mean": 0,
    "head_settled": 36,
    "head_variance": 80,
    "pool_or": 96,
    "run": 112,
    "run_taps": 144,
    "scores_binary": 36,
    "scores_int16": 48,
    "scores_int8": 48,
    "strips_next": 120,
}
