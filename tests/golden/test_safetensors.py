"""tests/golden/test_safetensors.py PROGRAM - tiny.en as Hugging Face files, written here from the .pt by numpy: every
tensor has the bits that it has in the .pt, and every transcript is equal byte for byte. Where the PyPI library
safetensors is installed, files written by it (f32, f16, bf16; one, three) are read to the very bits that it reads.
"""
import json
import os
import sys
import tempfile
import zlib

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


def library():
    """The format's own library, or None"""
    try:
        import safetensors.numpy
    except ImportError:
        print("SKIP: the PyPI library safetensors is not there")
        return None
    return safetensors


def raw(array, dtype):
    """(bytes, the array that numpy can hold): bf16 is the upper half of an f32, cut"""
    if dtype == "BF16":
        return (array.astype("<f4").view("<u4") >> 16).astype("<u2")
    return array.astype({"F16": "<f2", "F32": "<f4"}[dtype])


def write_by_library(theirs, folder, dtype, shards):
    """A folder whose files the library itself wrote; {our name: CRC of the bytes that the library reads back}"""
    write_folder(MODEL, folder, "F16", shards)   # config and index
    state = read_pt(MODEL)[1]
    of_hub = {hub_name(name): name for name in state}
    sums = {}
    for leaf in sorted(os.listdir(folder)):
        if not leaf.endswith(".safetensors"):
            continue
        path = os.path.join(folder, leaf)
        arrays = {name: raw(state[of_hub[name]], dtype) for name in theirs.numpy.load_file(path)}
        if dtype == "BF16":   # numpy has no such type: the bytes, told to be that
            text = {name: {"dtype": "bfloat16", "shape": list(a.shape), "data": a.tobytes()}
                    for name, a in arrays.items()}
            with open(path, "wb") as stream:
                stream.write(serialize_bf16(theirs, text, arrays))
        else:
            theirs.numpy.save_file(arrays, path, {"format": "pt"})
        with open(path, "rb") as stream:
            for name, tensor in theirs.deserialize(stream.read()):
                check_equal(tensor["dtype"], dtype, f"{name}: type")
                sums[of_hub[name]] = (zlib.crc32(bytes(tensor["data"])), list(tensor["shape"]))
    return sums


def serialize_bf16(theirs, text, arrays):
    """By whichever form of its call this release of the library has"""
    if not hasattr(theirs, "TensorSpec"):
        return theirs.serialize(text, {"format": "pt"})
    specs = {name: theirs.TensorSpec(dtype="bfloat16", shape=list(a.shape), data_ptr=a.ctypes.data, data_len=a.nbytes)
             for name, a in arrays.items()}
    return theirs.serialize(specs, {"format": "pt"})


def test_library(theirs, folder):
    """Every tensor of files that the library wrote, bit for bit as it reads them: each type, one file or three"""
    for dtype, shards in [(d, n) for d in ("F32", "F16", "BF16") for n in (1, 3)]:
        label = f"{dtype}, {shards} files"
        path = os.path.join(folder, f"library-{dtype}-{shards}")
        want = write_by_library(theirs, path, dtype, shards)
        got = tensors_of(path)
        check_equal(got["dtypes"], {dtype.lower(): 167}, f"{label}: types")
        check_equal({row["name"]: (int(row["crc32"], 16), row["shape"]) for row in got["tensors"]}, want,
                    f"{label}: every tensor's bytes")
        print(f"the library's own files, {label}: {len(want)} tensors equal")


def test_read_by_library(theirs, folder):
    """What the test wrote is read by the library to the values that our export has"""
    read = theirs.numpy.load_file(os.path.join(folder, "model.safetensors"))
    exported = os.path.join(folder, "ours.npz")
    code, _, err = run("model", "export", folder, exported)
    check(code == 0, "export", err)
    ours = numpy.load(exported)
    for name, array in read_pt(MODEL)[1].items():
        other = read[hub_name(name)]
        check(other.dtype == ours[name].dtype and other.tobytes() == ours[name].tobytes() == array.tobytes(), name)


with tempfile.TemporaryDirectory() as temporary:
    pt = tensors_of(MODEL)
    for leaf, dtype, shards, engine in (("f16", "F16", 1, "max"), ("f32-shards", "F32", 3, "cpu")):
        path = os.path.join(temporary, leaf)
        write_folder(MODEL, path, dtype, shards)
        test_folder(path, pt, engine)
    safetensors_library = library()
    if safetensors_library:
        test_read_by_library(safetensors_library, os.path.join(temporary, "f16"))
        test_library(safetensors_library, temporary)
done()
