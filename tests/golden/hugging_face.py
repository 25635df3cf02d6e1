"""tests/golden/hugging_face.py - an OpenAI .pt written as a Hugging Face folder, by numpy alone.

In: the path of a .pt, a folder, and how: the type ("F16", "F32") and into how many files. Out: model.safetensors (or
shards and their index), config.json, generation_config.json in the folder.
Invariants: it shares no code and no table with the readers that it is to prove; the pickle's names are answered by
functions of our own, so nothing of it is run.
"""
import collections
import json
import os
import pickle
import struct
import zipfile

import numpy

STORAGES = {"HalfStorage": "<f2", "FloatStorage": "<f4"}
OUTSIDE = {
    "encoder.positional_embedding": "encoder.embed_positions.weight",
    "decoder.positional_embedding": "decoder.embed_positions.weight",
    "decoder.token_embedding.weight": "decoder.embed_tokens.weight",
}
PARTS = [  # longest first, so that cross_attn is not taken for attn
    ("encoder.ln_post.", "encoder.layer_norm."), ("decoder.ln.", "decoder.layer_norm."), (".blocks.", ".layers."),
    (".cross_attn_ln.", ".encoder_attn_layer_norm."), (".cross_attn.", ".encoder_attn."),
    (".attn_ln.", ".self_attn_layer_norm."), (".attn.", ".self_attn."), (".mlp_ln.", ".final_layer_norm."),
    (".mlp.0.", ".fc1."), (".mlp.2.", ".fc2."), (".query.", ".q_proj."), (".key.", ".k_proj."),
    (".value.", ".v_proj."), (".out.", ".out_proj."),
]


def read_pt(path):
    """(dimensions, {name: array}) of a file that torch.save wrote"""
    archive = zipfile.ZipFile(path)
    pickled = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
    prefix = pickled[:-len("data.pkl")]

    class Reader(pickle.Unpickler):
        def find_class(self, module, name):
            if (module, name) == ("collections", "OrderedDict"):
                return collections.OrderedDict
            if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
                return rebuild
            if module == "torch" and name in STORAGES:
                return STORAGES[name]
            raise pickle.UnpicklingError(f"{module}.{name}")

        def persistent_load(self, saved):
            _, dtype, key, _, _ = saved
            return numpy.frombuffer(archive.read(prefix + "data/" + key), dtype)

    def rebuild(storage, offset, size, stride, *_):
        view = numpy.lib.stride_tricks.as_strided(storage[offset:], size, [s * storage.itemsize for s in stride])
        return numpy.ascontiguousarray(view)

    with archive.open(pickled) as stream:
        root = Reader(stream).load()
    return root["dims"], root["model_state_dict"]


def hub_name(name):
    name = OUTSIDE.get(name, name)
    for ours, theirs in PARTS:
        name = name.replace(ours, theirs)
    return "model." + name


def write_file(path, tensors, dtype):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    blocks = []
    for name, array in tensors:
        block = array.astype({"F16": "<f2", "F32": "<f4"}[dtype]).tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [at, at + len(block)]}
        at += len(block)
        blocks.append(block)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        for block in blocks:
            stream.write(block)


def write_folder(pt, folder, dtype="F16", shards=1):
    dims, state = read_pt(pt)
    tensors = [(hub_name(name), array) for name, array in state.items()]
    os.makedirs(folder, exist_ok=True)
    index = {"metadata": {"total_size": 0}, "weight_map": {}}
    for shard in range(shards):
        part = tensors[shard::shards]
        leaf = "model.safetensors" if shards == 1 else f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        write_file(os.path.join(folder, leaf), part, dtype)
        index["weight_map"].update((name, leaf) for name, _ in part)
    config = {"model_type": "whisper", "activation_function": "gelu", "scale_embedding": False,
              "d_model": dims["n_text_state"], "num_mel_bins": dims["n_mels"], "vocab_size": dims["n_vocab"],
              "encoder_layers": dims["n_audio_layer"], "decoder_layers": dims["n_text_layer"],
              "encoder_attention_heads": dims["n_audio_head"], "decoder_attention_heads": dims["n_text_head"],
              "max_source_positions": dims["n_audio_ctx"], "max_target_positions": dims["n_text_ctx"]}
    written = {"config.json": config, "generation_config.json": {"no_timestamps_token_id": dims["n_vocab"] - 1502}}
    if shards > 1:
        written["model.safetensors.index.json"] = index
    for leaf, value in written.items():
        with open(os.path.join(folder, leaf), "w", encoding="utf-8") as stream:
            json.dump(value, stream)
