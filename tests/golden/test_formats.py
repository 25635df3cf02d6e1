"""tests/golden/test_formats.py PROGRAM - tiny.en in the formats of other programs, written here: where the file has the
values of the .pt, every transcript is equal byte for byte; where it is quantized, every tensor has the very values that
numpy makes of the blocks.
"""
import functools
import json
import os
import re
import struct
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from clitest import check, check_equal, done, model_path, run, skip, speech_path  # noqa: E402

try:
    import numpy
except ImportError:
    skip("golden formats", "numpy is not there (python3-numpy)")

MODEL = model_path("tiny.en")
CLIP = speech_path("beckett.wav")
if not MODEL or not MODEL.endswith(".pt"):
    skip("golden formats", "tiny.en.pt is not there (make model)")
if not CLIP:
    skip("golden formats", "the package speech is not there (tools/fetch-speech)")


def inspect(model):
    code, out, err = run("model", "inspect", model, "--tensors", "--json")
    check(code == 0, f"inspect {os.path.basename(model)}", err)
    return json.loads(out)


@functools.lru_cache
def transcript(model):
    code, out, err = run(CLIP, "--model", model, "--format", "json", "--word-timestamps", "--greedy")
    check(code == 0 and err == "", f"transcribe with {os.path.basename(model)}", err)
    return out


def values(model, folder):
    """Every tensor as the program reads it"""
    path = os.path.join(folder, "values.npz")
    code, _, err = run("model", "export", model, path)
    check(code == 0, f"export {os.path.basename(model)}", err)
    with numpy.load(path) as arrays:
        return {name: arrays[name] for name in arrays.files}


def q8_0(rows):
    """(bytes, values) of ggml's q8_0: 32 elements to a block, an f16 scale and eight bits each"""
    blocks = rows.astype(numpy.float32).reshape(-1, 32)
    scale = numpy.abs(blocks).max(axis=1, keepdims=True) / numpy.float32(127)
    codes = numpy.round(blocks / numpy.where(scale > 0, scale, 1)).astype(numpy.int8)
    halves = scale.astype(numpy.float16)
    data = numpy.concatenate([halves.view(numpy.uint8).reshape(-1, 2), codes.view(numpy.uint8)], axis=1)
    return data.tobytes(), (codes * halves.astype(numpy.float32)).reshape(rows.shape)


def check_values(path, want, folder):
    """Every tensor that the program reads has the values of `want`"""
    got = values(path, folder)
    wrong = [name for name in want if got[name].astype(numpy.float32).tobytes() != want[name].tobytes()]
    check_equal(wrong, [], f"tensors of {os.path.basename(path)}")


# ---- ggml ---------------------------------------------------------------------------------------------------------


def quantize_ggml(source, target):
    """A q8_0 file from an f16 one, as whisper.cpp's quantizer makes it; {name: values}"""
    with open(source, "rb") as stream:
        data = stream.read()
    at = 48
    n_mels, n_bins = struct.unpack_from("<2i", data, at)
    at += 8 + 4 * n_mels * n_bins
    n_tokens, = struct.unpack_from("<i", data, at)
    at += 4
    for _ in range(n_tokens):
        at += 4 + struct.unpack_from("<I", data, at)[0]
    out, want = [data[:44], struct.pack("<i", 2007), data[48:at]], {}
    while at < len(data):
        rank, length, kind = struct.unpack_from("<3i", data, at)
        sizes = struct.unpack_from(f"<{rank}i", data, at + 12)
        name = data[at + 12 + 4 * rank:at + 12 + 4 * rank + length]
        at += 12 + 4 * rank + length
        array = numpy.frombuffer(data, "<f2" if kind else "<f4", int(numpy.prod(sizes)), at).reshape(sizes[::-1])
        at += array.nbytes
        elements, want[name.decode()] = array.tobytes(), array.astype(numpy.float32)
        if rank == 2 and kind == 1:
            kind = 8
            elements, want[name.decode()] = q8_0(array)
        out += [struct.pack(f"<3i{rank}i", rank, length, kind, *sizes), name, elements]
    with open(target, "wb") as stream:
        stream.write(b"".join(out))
    return want


def test_ggml(folder):
    text = transcript(MODEL)
    for kind in ("f16", "f32"):
        path = os.path.join(folder, f"{kind}.bin")
        code, _, err = run("model", "export", MODEL, path, "--format", "ggml", "--type", kind)
        check(code == 0, f"export as {kind}", err)
        info = inspect(path)
        check_equal((info["format"], info["size"]), ("whisper.cpp ggml", "tiny.en"), "format and size")
        check_equal([row["piece"] for row in info["missing"]], ["alignment heads", "merges"], "what is missing")
        check_equal(transcript(path), text, f"the transcript of a {kind} file")
    path = os.path.join(folder, "q8_0.bin")
    check_values(path, quantize_ggml(os.path.join(folder, "f16.bin"), path), folder)
    info = inspect(path)
    check_equal(info["stored"], {"f16": 2, "f32": 100, "q8_0": 65}, "types of the q8_0 file")
    check_equal({row["bits"] for row in info["tensors"] if row["stored"] == "q8_0"}, {8.5}, "bits of q8_0")


# ---- GGUF ---------------------------------------------------------------------------------------------------------


def name_table(leaf, macro):
    """{our name: the file's} of a table of src/weights/names, '#' for the layer"""
    root = os.environ["MXW_SOURCE_ROOT"]
    with open(os.path.join(root, "src", "weights", "names", leaf), encoding="utf-8") as stream:
        return dict(re.findall(macro + r'\("([^"]+)", "([^"]+)"\)', stream.read()))


def file_name(table, name):
    layer = re.search(r"\.blocks\.(\d+)\.", name)
    if not layer:
        return table[name]
    return table[name.replace(f".blocks.{layer.group(1)}.", ".blocks.#.")].replace("#", layer.group(1))


def bf16(array):
    upper = (array.astype("<f4").view("<u4") >> 16).astype("<u2")
    return upper.tobytes(), (upper.astype("<u4") << 16).view("<f4")


def write_gguf(path, state, table, prefix, kind):
    """Matrices of a kind, the rest f32; {name: values}"""
    def text(string):
        return struct.pack("<Q", len(string)) + string.encode()

    infos, data, want = b"", b"", {}
    for name, array in state.items():
        number, elements, want[name] = 0, array.astype("<f4").tobytes(), array.astype(numpy.float32)
        if array.ndim == 2 and "positional" not in name and kind == "q8_0":
            number = 8
            elements, want[name] = q8_0(array)
        elif array.ndim == 2 and "positional" not in name and kind == "bf16":
            number = 30
            elements, want[name] = bf16(array)
        elif array.ndim > 1 and kind == "f16":
            number, elements = 1, array.astype("<f2").tobytes()
        infos += text(prefix + file_name(table, name)) + struct.pack(f"<I{array.ndim}QIQ", array.ndim,
                                                                     *array.shape[::-1], number, len(data))
        data += elements + bytes(-len(elements) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(state), 1) + text("general.architecture") + struct.pack("<I", 8)
    head += text("whisper") + infos
    with open(path, "wb") as stream:
        stream.write(head + bytes(-len(head) % 32) + data)
    return want


def test_gguf(folder):
    state = {name: array for name, array in values(MODEL, folder).items() if "." in name and "dims." not in name}
    own, hub = name_table("gguf.def", "MX_GGUF"), name_table("hf.def", "MX_HF")
    text = transcript(MODEL)
    for leaf, table, prefix, kind in (("own.gguf", own, "", "f16"), ("candle.gguf", hub, "model.", "f16"),
                                      ("own-q8_0.gguf", own, "", "q8_0"), ("candle-bf16.gguf", hub, "model.", "bf16")):
        path = os.path.join(folder, leaf)
        check_values(path, write_gguf(path, state, table, prefix, kind), folder)
        check_equal(inspect(path)["format"], "GGUF", "format")
        if kind == "f16":
            check_equal(transcript(path), text, f"the transcript of {leaf}")


with tempfile.TemporaryDirectory() as temporary:
    test_ggml(temporary)
    test_gguf(temporary)
done()
