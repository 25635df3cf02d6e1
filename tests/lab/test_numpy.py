"""tests/lab/test_numpy.py PROGRAM - numpy reads our dumps, and we read numpy's: every type, order and packing."""
import subprocess
import sys
import tempfile
import os

try:
    import numpy as np
except ImportError:
    print("SKIP: lab-files-numpy: python3-numpy is not installed")
    sys.exit(77)

PROGRAM = sys.argv[1]
failed = 0


def check(truth, what):
    global failed
    if not truth:
        failed += 1
        print(f"failed: {what}")


def read_back(path):
    done = subprocess.run([PROGRAM, "read", path], capture_output=True, text=True, check=False)
    found = {}
    for line in done.stdout.splitlines() if done.returncode == 0 else []:
        head, _, values = line.partition(" |")
        name, _, dims = head.partition(":")
        found[name] = (tuple(map(int, dims.split())), [float(value) for value in values.split()])
    return done.returncode, found, done.stdout


with tempfile.TemporaryDirectory() as folder:
    ours = os.path.join(folder, "ours.npz")
    check(subprocess.run([PROGRAM, "write", ours], check=False).returncode == 0, "a dump is written")
    with np.load(ours) as dump:
        check(dump["encoder.blocks.0.attn.q"].shape == (2, 3, 5), "shape")
        check(dump["encoder.blocks.0.attn.q"].dtype == np.float32, "dtype")
        check(dump["a"].tolist() == [7, -1, 2000000000, 0], "whole numbers")
        check(dump["empty"].shape == (0, 5), "empty")
        check(bytes(dump["note.text"]).decode() == ' Grüße, "welt"', "text")
    arrays = {"f4": np.arange(6, dtype="<f4").reshape(2, 3) / 3, "f8": np.arange(4.0) / 7, "f2": np.float16([1.5, -2]),
              "i4": np.int32([1, -5]), "i8": np.int64([[3], [4]]), "u1": np.uint8([255, 0]),
              "b1": np.array([True, False]),
              "scalar": np.float32(2.5), "order": np.asfortranarray(np.arange(12, dtype="<f4").reshape(3, 4)),
              "cube": np.asfortranarray(np.arange(24, dtype="<f4").reshape(2, 3, 4)), "empty": np.zeros((0, 3), "<f4")}
    for save in (np.savez, np.savez_compressed):
        theirs = os.path.join(folder, "theirs.npz")
        save(theirs, words=np.array(["text", "is left out"]), **arrays)
        code, found, said = read_back(theirs)
        check(code == 0 and set(found) == set(arrays), f"{save.__name__}: what is there: {said}")
        for name, array in arrays.items():
            shape, values = found.get(name, ((-1,), []))
            check(shape == array.shape, f"{save.__name__} {name}: shape {shape}")
            check(np.allclose(values, array.astype(np.float32).reshape(-1), rtol=1e-7, atol=0), f"{name}: {values}")
    strange = {"big": np.arange(3, dtype=">f4"), "complex": np.complex64([1j]), "deep": np.zeros((1,) * 8)}
    for name, array in strange.items():
        np.savez(theirs, **{name: array})
        code, _, said = read_back(theirs)
        check(code == 1 and name in said and said.count("\n") == 1, f"{name} is refused in one line: {said}")
print("failed" if failed else "ok")
sys.exit(1 if failed else 0)
