"""Models for the oracle: OpenAI's .pt through openai-whisper itself, CTranslate2's model.bin through a reader of our
own here (numpy only, nothing shared with the C readers), mapped to openai-whisper's names.

Invariants: the reader gives tiny.en's 167 tensors bit for bit as the .pt has them (`reference.py selftest`).
"""

import os
import struct

import numpy as np

from .common import whisper_library

CT2_DTYPES = {0: np.dtype("<f4"), 1: np.dtype("i1"), 2: np.dtype("<i2"), 3: np.dtype("<i4"), 4: np.dtype("<f2")}


class Ct2File:
    """A CTranslate2 model.bin of binary version 6: variables by name, aliases resolved."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = file.read()
        self.at = 0
        self.variables = {}
        self.version = self._number("<I")
        self.spec = self._text()
        self.revision = self._number("<I")
        if self.version != 6 or self.spec != "WhisperSpec":
            raise SystemExit(f"{path}: version {self.version} of {self.spec}, only version 6 of WhisperSpec is read")
        for _ in range(self._number("<I")):
            name = self._text()
            shape = [self._number("<I") for _ in range(self._number("<B"))]
            dtype = CT2_DTYPES[self._number("<B")]
            count = self._number("<I")
            data = np.frombuffer(self._take(count), dtype=dtype)
            self.variables[name] = data.reshape(shape)
        for _ in range(self._number("<I")):
            alias = self._text()
            self.variables[alias] = self.variables[self._text()]
        if self.at != len(self.bytes):
            raise SystemExit(f"{path}: {len(self.bytes) - self.at} bytes left over")

    def _take(self, count):
        piece = self.bytes[self.at : self.at + count]
        if len(piece) != count:
            raise SystemExit("model.bin ends early")
        self.at += count
        return piece

    def _number(self, form):
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _text(self):
        return self._take(self._number("<H")).rstrip(b"\0").decode()


def ct2_layer(take, fused, state, prefix, side, decoder):
    """One block: norms, attention with its fused rows parted, feed-forward."""

    def norm(ours, theirs):
        state[f"{prefix}.{ours}.weight"] = take(f"{side}/{theirs}/gamma")
        state[f"{prefix}.{ours}.bias"] = take(f"{side}/{theirs}/beta")

    def linear(ours, theirs):
        state[f"{prefix}.{ours}.weight"] = take(f"{side}/{theirs}/weight")
        state[f"{prefix}.{ours}.bias"] = take(f"{side}/{theirs}/bias")

    norm("attn_ln", "self_attention/layer_norm")
    fused(f"{prefix}.attn", f"{side}/self_attention/linear_0", ["query", "key", "value"])
    linear("attn.out", "self_attention/linear_1")
    if decoder:
        norm("cross_attn_ln", "attention/layer_norm")
        linear("cross_attn.query", "attention/linear_0")
        fused(f"{prefix}.cross_attn", f"{side}/attention/linear_1", ["key", "value"])
        linear("cross_attn.out", "attention/linear_2")
    norm("mlp_ln", "ffn/layer_norm")
    linear("mlp.0", "ffn/linear_0")
    linear("mlp.2", "ffn/linear_1")


def ct2_state_dict(path):
    """(dimensions, state dict of numpy arrays under openai-whisper's names), every array in the file's own dtype."""
    variables = Ct2File(path).variables
    used = set()
    state = {}

    def take(name):
        used.add(name)
        return variables[name]

    def fused(prefix, name, parts):
        weight, bias = take(f"{name}/weight"), take(f"{name}/bias")
        rows = weight.shape[0] // len(parts)
        for index, part in enumerate(parts):
            piece = slice(index * rows, (index + 1) * rows)
            state[f"{prefix}.{part}.weight"] = weight[piece]
            if part == "key":
                if np.any(bias[piece] != 0):
                    raise SystemExit(f"{path}: {name} has a key bias, which Whisper has not")
            else:
                state[f"{prefix}.{part}.bias"] = bias[piece]

    for conv in ("conv1", "conv2"):
        for leaf in ("weight", "bias"):
            state[f"encoder.{conv}.{leaf}"] = take(f"encoder/{conv}/{leaf}")
    state["encoder.positional_embedding"] = take("encoder/position_encodings/encodings")
    state["decoder.positional_embedding"] = take("decoder/position_encodings/encodings")
    state["decoder.token_embedding.weight"] = take("decoder/embeddings/weight")
    layers = {}
    for side, decoder in (("encoder", False), ("decoder", True)):
        folders = {name.split("/")[1] for name in variables if name.startswith(f"{side}/layer_")} - {"layer_norm"}
        layers[side] = len(folders)
        for index in range(layers[side]):
            ct2_layer(take, fused, state, f"{side}.blocks.{index}", f"{side}/layer_{index}", decoder)
        ours = "encoder.ln_post" if side == "encoder" else "decoder.ln"
        state[f"{ours}.weight"] = take(f"{side}/layer_norm/gamma")
        state[f"{ours}.bias"] = take(f"{side}/layer_norm/beta")
    left = sorted(n for n in variables if n not in used and variables[n].ndim > 0 and n != "decoder/projection/weight")
    if left:
        raise SystemExit(f"{path}: tensors of unknown use: {', '.join(left)}")
    vocabulary, width = state["decoder.token_embedding.weight"].shape
    context, audio_width = state["encoder.positional_embedding"].shape
    dimensions = {
        "n_mels": state["encoder.conv1.weight"].shape[1],
        "n_audio_ctx": context,
        "n_audio_state": audio_width,
        "n_audio_head": audio_width // 64,
        "n_audio_layer": layers["encoder"],
        "n_vocab": vocabulary,
        "n_text_ctx": state["decoder.positional_embedding"].shape[0],
        "n_text_state": width,
        "n_text_head": width // 64,
        "n_text_layer": layers["decoder"],
    }
    return dimensions, state


def load(path):
    """A Whisper model in f32 on the CPU from a .pt or a CTranslate2 model.bin (or the folder that holds it)."""
    import torch

    whisper = whisper_library()
    if os.path.isdir(path):
        path = os.path.join(path, "model.bin")
    if path.endswith(".pt"):
        return whisper.load_model(path, device="cpu")
    from whisper.model import ModelDimensions, Whisper

    dimensions, state = ct2_state_dict(path)
    model = Whisper(ModelDimensions(**dimensions))
    tensors = {name: torch.from_numpy(np.array(value, dtype=np.float32)) for name, value in state.items()}
    model.load_state_dict(tensors, strict=True)
    return model.eval()


def selftest(pt_path, ct2_path):
    """Proves the CTranslate2 reader: the two files of tiny.en hold the same bits."""
    import torch

    checkpoint = torch.load(pt_path, map_location="cpu", weights_only=True)
    dimensions, state = ct2_state_dict(ct2_path if not os.path.isdir(ct2_path) else os.path.join(ct2_path, "model.bin"))
    if dimensions != checkpoint["dims"]:
        raise SystemExit(f"dimensions differ: {dimensions} and {checkpoint['dims']}")
    theirs = checkpoint["model_state_dict"]
    if set(theirs) != set(state):
        raise SystemExit(f"names differ: {sorted(set(theirs) ^ set(state))}")
    for name, value in theirs.items():
        ours = state[name]
        bits = value.contiguous().numpy()
        if bits.dtype != ours.dtype:  # a container may widen: equal after widening is equal
            bits, ours = bits.astype(np.float32), ours.astype(np.float32)
        if bits.shape != ours.shape or bits.tobytes() != np.ascontiguousarray(ours).tobytes():
            raise SystemExit(f"{name} differs: {bits.dtype} {bits.shape}, {ours.dtype} {ours.shape}")
    print(f"CTranslate2 reader: {len(theirs)} tensors equal bit for bit")
