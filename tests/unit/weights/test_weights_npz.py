#!/usr/bin/env python3
"""test_weights_npz.py PROGRAM - numpy reads what test_weights_npz (PROGRAM) exports: names, types, shapes, bytes.

Skipped (77) where numpy is not installed.
"""
import subprocess
import sys
import tempfile
import zlib

try:
    import numpy
except ImportError:
    print("SKIP: weights-npz-numpy: numpy is not installed")
    sys.exit(77)

TYPES = {"f32": 0, "f16": 1, "bf16": 2, "i8": 4}
LIMITS = (0xFFFFFFFF, 5000)  # the second forces ZIP64 fields
DIMS = {"n_mels": 80, "n_audio_ctx": 16, "n_audio_state": 8, "n_audio_head": 2, "n_audio_layer": 1,
        "n_vocab": 32, "n_text_ctx": 8, "n_text_state": 8, "n_text_head": 2, "n_text_layer": 1}


def check(program, type_number, limit):
    with tempfile.TemporaryDirectory() as folder:
        lines = subprocess.run([program, folder, str(type_number), str(limit)], check=True, stdout=subprocess.PIPE,
                               encoding="ascii").stdout.splitlines()
        with numpy.load(folder + "/out.npz", allow_pickle=False) as npz:
            for line in lines:
                name, descr, shape, crc = line.split()
                array = npz[name]
                got = (array.dtype.str, ",".join(map(str, array.shape)), "%08x" % zlib.crc32(array.tobytes()))
                assert got == (descr, shape, crc), (name, got, line)
            for name, value in DIMS.items():
                assert npz["dims." + name].shape == () and npz["dims." + name] == value, name
            assert npz["alignment_heads"].tolist() == [[0, 0]]
            assert len(npz.files) == len(lines) + len(DIMS) + 1
    return len(lines)


total = sum(check(sys.argv[1], number, limit) for number in TYPES.values() for limit in LIMITS)
assert total == 2 * len(TYPES) * 50
print(f"{total} tensors agree")
