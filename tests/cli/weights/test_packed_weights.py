"""tests/cli/weights/test_packed_weights.py PROGRAM MAKE_CHECKPOINT - checkpoints whose weights stay in their codes.

A quantized checkpoint and the same one converted to f32 have the same values, so the whole result,
with every probability, is the same: for each block type, exact and in int8, with a packed vocabulary and without.
MXW_VOCABULARY, which says so, does make a difference to memory, and has no other value.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from clitest import ROOT, check, check_equal, check_fails, done, run

FOLDER = tempfile.mkdtemp()
VOCABULARY = 51864 * 384   # of tiny.en
SPEECH = os.path.join(ROOT, "tests", "data", "librivox-0870.wav")


def make():
    path = os.path.join(FOLDER, "source.pt")
    made = subprocess.run([sys.argv[2], "pt", "f16", path, "tiny.en", "1", "3"], capture_output=True, text=True,
                          check=False)
    check(made.returncode == 0, "make_checkpoint", made.stdout + made.stderr)
    return path


def convert(model, out, *words):
    code, _, err = run("model", "convert", model, os.path.join(FOLDER, out), *words)
    check_equal(code, 0, f"model convert: {err}")
    return os.path.join(FOLDER, out)


def result(model, *words, env=None):
    code, out, err = run(SPEECH, "--model", model, "--device", "cpu", "--temperature", "0", "--beam-size", "3",
                         "--sample-len", "3", "--clip-timestamps", "0,1", "--word-timestamps", "True", "--format",
                         "json-full", "--quiet", *words, env=env)
    check_equal(code, 0, f"transcribe {words}: {err}")
    found = json.loads(out) if code == 0 else {}
    check(len(found.get("segments", [])) > 0, f"transcribe {words}: something")
    for key in ("times", "manifest"):
        found.pop(key, None)
    return found


def kept(model, env):
    """Bytes of weights that the program keeps besides the file's"""
    _, _, err = run(SPEECH, "--model", model, "--device", "cpu", "--temperature", "0", "--beam-size", "none",
                    "--sample-len", "1", "--clip-timestamps", "0,1", "--log-level", "debug", env=env)
    found = re.findall(r"graph \w+ keeps (\d+) bytes of weights", err)
    check(len(found) >= 4, "the log tells what graphs keep", err)
    return sum(map(int, found))


def test_variable(packed):
    """Without panels the int8 shortlist needs a byte less for each number of the vocabulary."""
    panels, codes = kept(packed, {"MXW_VOCABULARY": ""}), kept(packed, {"MXW_VOCABULARY": "packed"})
    check(0.95 * VOCABULARY < panels - codes < 1.05 * VOCABULARY, "MXW_VOCABULARY=packed keeps less",
          f"{panels} and {codes} bytes")
    check_fails([SPEECH, "--model", packed, "--device", "cpu", "--quiet"], 1,
                "MXW_VOCABULARY: 'unpacked': expected packed", env={"MXW_VOCABULARY": "unpacked"})


def main():
    source = make()
    for kind in ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0"):
        packed = convert(source, f"{kind}.bin", "--format", "ggml", "--type", kind)
        wide = convert(packed, kind, "--format", "safetensors", "--type", "f32")   # the same values
        want = result(wide)
        check_equal(result(packed), want, kind)
        check_equal(result(packed, env={"MXW_VOCABULARY": "packed"}), want, f"{kind}, a packed vocabulary")
        if kind == "q5_0":
            test_variable(packed)
            check_equal(result(packed, "--precision", "int8"), result(wide, "--precision", "int8"), f"{kind}, int8")
    shutil.rmtree(FOLDER)
    done()


if __name__ == "__main__":
    main()
