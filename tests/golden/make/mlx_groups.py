#!/usr/bin/env python3
"""mlx_groups.py - what MLX makes of its own quantized matrices, as tests/golden/data/mlx.jsonl.

    python3 tests/golden/make/mlx_groups.py > tests/golden/data/mlx.jsonl

Run it where mlx is installed (on Linux: pip install mlx mlx-cpu; MIT). A line for each number of bits, type of the
scales and size of the groups: the words of mx.quantize, scales and biases, and the values of mx.dequantize widened to
f32, all as hexadecimal bytes."""
import json

import mlx.core as mx
import numpy as np


def raw(array):
    if array.dtype == mx.bfloat16:
        array = array.view(mx.uint16)
    return np.array(array).tobytes().hex()


def main():
    rng = np.random.default_rng(22)
    for bits in (2, 3, 4, 5, 6, 8):
        for dtype, name in ((mx.float32, "f32"), (mx.float16, "f16"), (mx.bfloat16, "bf16")):
            group = 64 if bits in (4, 8) else 32
            weight = mx.array(rng.normal(0, 0.05, (2, 128)).astype(np.float32)).astype(dtype)
            words, scales, biases = mx.quantize(weight, group_size=group, bits=bits)
            wide = mx.dequantize(words, scales, biases, group_size=group, bits=bits)
            assert wide.dtype == dtype and scales.dtype == dtype
            print(json.dumps({"bits": bits, "group": group, "type": name, "rows": 2, "columns": 128,
                              "words": raw(words), "scales": raw(scales), "biases": raw(biases),
                              "f32": raw(wide.astype(mx.float32))}))


main()
