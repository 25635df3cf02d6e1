"""tests/golden/test_safetensors.py PROGRAM - tiny.en as Hugging Face files, written here from the .pt by numpy: every
tensor has the bits that it has in the .pt, and every transcript is equal byte for byte. Where the PyPI library
safetensors is installed, it must read the written files to the same values.
"""
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from clitest import check, check_equal, done, model_path, run, skip, speech_path  # noqa: E402

try:
    import numpy
    from hugging_face import hub_name, read_pt, write_folder
except ImportError:
    skip("golden safetensors", "numpy is not there (python3-numpy)")

MODEL = model_path("tiny.en")
CLIP = speech_path("beckett.wav")
if not MODEL or not MODEL.endswith(".pt"):
    skip("golden safetensors", "tiny.en.pt is not there (make model)")
if not CLIP:
    skip("golden safetensors", "the package speech is not there (tools/fetch-speech)")


def tensors_of(model):
    code, out, err = run("model", "inspect", model, "--tensors", "--json")
    check(code == 0, f"inspect {os.path.basename(model)}", err)
    return json.loads(out)


def transcript(model, *options):
    code, out, err = run(CLIP, "--model", model, "--format", "json", *options)
    check(code == 0 and err == "", f"transcribe with {os.path.basename(model)}", err)
    return out


def test_folder(folder, want, engine):
    info = tensors_of(folder)
    check_equal(info["format"], "Hugging Face safetensors", "format")
    check_equal(info["size"], "tiny.en", "size")
    check_equal(info["n_mapped_tensors"], 167, "tensors read from the file's pages")
    for key in ("dims", "n_tensors", "n_parameters"):
        check_equal(info[key], want[key], key)
    if info["dtypes"] == want["dtypes"]:
        check_equal(info["checksum"], want["checksum"], "checksum of all tensors")
    for words in (["--engine", engine], ["--engine", engine, "--greedy"]):
        check_equal(transcript(folder, *words), transcript(MODEL, *words), f"{os.path.basename(folder)} {words}")


def test_library(folder):
    """The format's own library reads the same values."""
    try:
        from safetensors.numpy import load_file
    except ImportError:
        print("SKIP: the PyPI library safetensors is not there")
        return
    theirs = load_file(os.path.join(folder, "model.safetensors"))
    exported = os.path.join(folder, "ours.npz")
    code, _, err = run("model", "export", folder, exported)
    check(code == 0, "export", err)
    ours = numpy.load(exported)
    for name, array in read_pt(MODEL)[1].items():
        read = theirs[hub_name(name)]
        check(read.dtype == ours[name].dtype and read.tobytes() == ours[name].tobytes() == array.tobytes(), name)


with tempfile.TemporaryDirectory() as temporary:
    pt = tensors_of(MODEL)
    for leaf, dtype, shards, engine in (("f16", "F16", 1, "max"), ("f32-shards", "F32", 3, "cpu")):
        path = os.path.join(temporary, leaf)
        write_folder(MODEL, path, dtype, shards)
        test_folder(path, pt, engine)
    test_library(os.path.join(temporary, "f16"))
done()
