"""tests/cli/test_int8.py PROGRAM [MAKE_CHECKPOINT] - --precision int8 as a user meets it.

Results, and every stage of a run, are the same to the last bit on every instruction set, with any number of threads
and in any batch; checkpoints in 8 bits keep their numbers; verify holds it to its bounds. With MAKE_CHECKPOINT on a
generated model, plain loops included; without, on tiny.en and the kept speech (golden): plain loops would take minutes.
"""
import json
import math
import os
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

from clitest import ROOT, check, check_equal, check_fails, done, model_path, run, skip

FOLDER = tempfile.mkdtemp()
SPEECH = [os.path.join(ROOT, "tests", "data", name) for name in ("librivox-0870.wav", "librivox-0880.wav")]
# A generated model ends no text by itself.
LENGTH = ["--sample-len", "3", "--clip-timestamps", "0,1"] if len(sys.argv) > 2 else []
# Names that MXW_CPU knows on this architecture; one that the processor lacks is a cap, too.
SETS = ["ref", "neon", "neondot"] if platform.machine() == "aarch64" else ["ref", "avx2", "avxvnni", "avx512",
                                                                           "avx512vnni", "amx"]


def make_model():
    path = os.path.join(FOLDER, "small.pt")
    made = subprocess.run([sys.argv[2], "pt", "f16", path, "narrow", "2", "3"], capture_output=True, text=True,
                          check=False)
    check(made.returncode == 0, "make_checkpoint", made.stdout + made.stderr)
    return path


def stages(model, cpu, threads):
    """{array: bytes} of every named value of a run"""
    path = os.path.join(FOLDER, f"{cpu}.npz")
    code, _, err = run("features", "extract", "--model", model, "--device", "cpu", "--engine", "max",
                       "--precision", "int8", "--threads", str(threads), "--fused", "-o", path, SPEECH[0],
                       env={"MXW_CPU": cpu})
    check_equal(code, 0, f"features extract on {cpu}: {err}")
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def results(model, cpu, *words):
    """The whole results of the recordings, but for times and threads"""
    out = os.path.join(FOLDER, "out")
    shutil.rmtree(out, ignore_errors=True)
    code, _, err = run("--model", model, "--device", "cpu", "--precision", "int8", "--temperature", "0",
                       "--beam-size", "3", *LENGTH, "--word-timestamps", "True", "--format", "json-full",
                       "--output-dir", out, "--quiet", *words, *SPEECH, env={"MXW_CPU": cpu})
    check_equal(code, 0, f"transcribe on {cpu} {words}: {err}")
    found = []
    for name in sorted(os.listdir(out) if code == 0 else []):
        with open(os.path.join(out, name), encoding="utf-8") as stream:
            found.append(json.load(stream))
        del found[-1]["times"], found[-1]["manifest"]["threads"]
    return found


def test_same_bits(model, sets):
    want = results(model, sets[0])
    check_equal(len(want), 2, "a result for each recording")
    for cpu in sets[1:]:
        check(results(model, cpu) == want, f"results on {cpu} are those on {sets[0]}")
    check(results(model, sets[-1], "--threads", "1") == want, "results with one thread")
    check(results(model, sets[-1], "--batch", "2") == want, "results in a batch")


def test_same_stages(model, sets):
    want = stages(model, sets[0], 1)
    check("decoder.candidates.logprobs.npy" in want and "encoder.ln_post.npy" in want, "stages", list(want))
    for cpu in sets[1:]:
        got = stages(model, cpu, 2)
        check_equal([name for name in want if got.get(name) != want[name]], [],
                    f"stages on {cpu} that differ from {sets[0]}")


def array(bytes_of):
    """The numbers of a .npy of f32"""
    start = 10 + int.from_bytes(bytes_of[8:10], "little")
    return struct.unpack(f"<{(len(bytes_of) - start) // 4}f", bytes_of[start:])


def test_checkpoints(model, sets):
    """Checkpoints in 8 bits, whose numbers are used as they are: about the stages of the same values in f32, whose
    scales are rounded once more"""
    def convert(source, leaf, *words):
        code, _, err = run("model", "convert", source, os.path.join(FOLDER, leaf), *words)
        check_equal(code, 0, f"model convert {words}: {err}")
        return os.path.join(FOLDER, leaf)

    for kind in ("ct2", "safetensors"):
        codes = convert(model, f"{kind}-int8", "--format", kind, "--type", "int8")
        wide = convert(codes, f"{kind}-f32", "--format", "safetensors", "--type", "f32")
        check(results(codes, sets[0]) == results(codes, sets[-1]), f"{kind}: {sets[0]} has the results of {sets[-1]}")
        got, want = stages(codes, sets[-1], 2), stages(wide, sets[-1], 2)
        for name, most in (("encoder.blocks.0.attn.q.npy", 1e-6), ("encoder.ln_post.npy", 1e-2)):
            x, y = array(got[name]), array(want[name])
            off = math.sqrt(sum((a - b) ** 2 for a, b in zip(x, y)) / sum(b * b for b in y))
            check(len(x) == len(y) and off < most, f"{kind}: {name} is about that of f32", off)


def test_verify(model):
    code, out, err = run("verify", "--json", "--threads", "2", "--model", model, "--engine", "max", "--device", "cpu",
                         "--precision", "int8", SPEECH[0])
    report = json.loads(out) if out.startswith("{") else {}
    engines = [engine for engine in report.get("engines", []) if engine["verdict"] != "skipped"]
    check(code == 0 and report.get("holds") is True, "verify --precision int8 holds", (out[-600:], err))
    check_equal([engine["precision"] for engine in engines], ["int8"], "what was verified")
    code, out, _ = run("verify", "--json", "--threads", "2", "--model", model, "--engine", "max", "--device", "cpu",
                       "--precision", "int8", "--inject", "random-weight", SPEECH[0])
    check(code == 1 and json.loads(out).get("holds") is False, "verify in int8 finds a wrong weight", out[-600:])


def test_refused(model):
    check_fails(["--model", model, "--engine", "cpu", "--precision", "int8", SPEECH[0]], 1,
                "precision int8 is not supported by engine cpu: expected engine max")


def main():
    generated = len(sys.argv) > 2
    model = make_model() if generated else model_path("tiny.en")
    if not model:
        skip("cli-int8 tiny.en", "model tiny.en is not installed (make model)")
    test_same_bits(model, SETS if generated else ["avx2", "avxvnni", "avx512vnni"])
    if generated:
        test_checkpoints(model, SETS)
        test_refused(model)
    else:
        test_same_stages(model, ["avx2", "avx512vnni"])
        test_verify(model)
    shutil.rmtree(FOLDER)
    done()


if __name__ == "__main__":
    main()
