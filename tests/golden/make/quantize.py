#!/usr/bin/env python3
"""quantize.py - the blocks that libggml's own quantizer makes, as tests/golden/data/quantize.jsonl.

    python3 tests/golden/make/quantize.py LIBGGML-BASE.SO > tests/golden/data/quantize.jsonl

The library is that of whisper.cpp, for example of the pywhispercpp wheel (MIT). The first line has the values, as f32
in hexadecimal: normal ones of several sizes, and blocks that decide ties (zeros, equal values, halves, signs, one large
value, values whose scale is a subnormal f16). Then a line for each type with the blocks that ggml_quantize_chunk makes
of them."""
import ctypes
import json
import random
import struct
import sys

TYPES = [("q4_0", 2, 18), ("q4_1", 3, 20), ("q5_0", 6, 22), ("q5_1", 7, 24), ("q8_0", 8, 34)]


def values():
    rng = random.Random(22)
    sizes = (1e-6, 1e-3, 0.02, 0.05, 0.3, 1, 40, 9000)
    rows = [[rng.gauss(0, size) for _ in range(32)] for size in sizes for _ in range(2)]
    rows += [[0.0] * 32, [-0.0] * 32, [0.25] * 32, [-0.25] * 32, [i / 2 for i in range(32)],
             [-i / 2 for i in range(32)], [i - 15.5 for i in range(32)], [(-1) ** i * (i // 2) for i in range(32)],
             [127.0] + [0.5] * 31, [-127.0] + [0.5 + i for i in range(31)], [3e-7 * i for i in range(32)],
             [6e-8 * (i - 16) for i in range(32)],
             [8.0, -8.0] * 16, [-8.0, 8.0] * 16, [1e-30] * 16 + [0.0] * 16, [2.0 ** -i for i in range(32)]]
    return [value for row in rows for value in row]


def main():
    lib = ctypes.CDLL(sys.argv[1])
    lib.ggml_quantize_chunk.restype = ctypes.c_size_t
    lib.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64,
                                        ctypes.c_int64, ctypes.c_void_p]
    x = values()
    count = len(x)
    floats = (ctypes.c_float * count)(*x)
    print(json.dumps({"values": struct.pack(f"<{count}f", *floats).hex()}))
    for name, number, size in TYPES:
        packed = (ctypes.c_uint8 * (count // 32 * size))()
        lib.ggml_quantize_chunk(number, floats, packed, 0, count // 32, 32, None)
        print(json.dumps({"type": name, "blocks": bytes(packed).hex()}))


main()
