#!/usr/bin/env python3
"""blocks.py - what libggml makes of its own quantized blocks, as tests/golden/data/blocks.jsonl.

    python3 tests/golden/make/blocks.py LIBGGML-BASE.SO > tests/golden/data/blocks.jsonl

The library is that of whisper.cpp, for example of the pywhispercpp wheel (MIT). A line for each type: its name and
number, the blocks (two by ggml_quantize_chunk of normal values, where it can, and two of random bytes with scales that
are finite), and the bits of the values that dequantize_row_* gives."""
import ctypes
import json
import random
import struct
import sys

# name, ggml's number, elements, bytes, offsets of f16 scales (of q8_K: an f32)
TYPES = [
    ("q4_0", 2, 32, 18, [0]), ("q4_1", 3, 32, 20, [0, 2]), ("q5_0", 6, 32, 22, [0]), ("q5_1", 7, 32, 24, [0, 2]),
    ("q8_0", 8, 32, 34, [0]), ("q2_K", 10, 256, 84, [80, 82]), ("q3_K", 11, 256, 110, [108]),
    ("q4_K", 12, 256, 144, [0, 2]), ("q5_K", 13, 256, 176, [0, 2]), ("q6_K", 14, 256, 210, [208]),
    ("q8_K", 15, 256, 292, [0]),
]
BLOCKS = 2


def random_block(rng, name, size, scales):
    block = bytearray(rng.randbytes(size))
    for at in scales:
        if name == "q8_K":
            block[at:at + 4] = struct.pack("<f", rng.gauss(0, 0.01))
        else:   # any sign, subnormals too, neither infinity nor NaN
            block[at:at + 2] = struct.pack("<H", rng.choice([0, 0x8000]) | rng.randrange(0, 0x3800))
    return bytes(block)


def main():
    lib = ctypes.CDLL(sys.argv[1])
    lib.ggml_quantize_chunk.restype = ctypes.c_size_t
    lib.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64,
                                        ctypes.c_int64, ctypes.c_void_p]
    rng = random.Random(22)
    for name, number, elements, size, scales in TYPES:
        count = BLOCKS * elements
        data = b""
        if name != "q8_K":   # an intermediate type: no row is ever quantized to it
            values = (ctypes.c_float * count)(*[rng.gauss(0, 0.05) for _ in range(count)])
            packed = (ctypes.c_uint8 * (BLOCKS * size))()
            lib.ggml_quantize_chunk(number, values, packed, 0, BLOCKS, elements, None)
            data = bytes(packed)
        data += b"".join(random_block(rng, name, size, scales) for _ in range(BLOCKS))
        n = len(data) // size * elements
        out = (ctypes.c_float * n)()
        widen = getattr(lib, "dequantize_row_" + name)
        widen.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64]
        widen(data, out, n)
        print(json.dumps({"type": name, "id": number, "elements": elements, "bytes": size, "blocks": data.hex(),
                          "f32": bytes(out).hex()}))


main()
