#!/usr/bin/env python3
"""ctranslate2_rows.py - what CTranslate2 makes of matrices in int8 and int16, as tests/golden/data/ct2.jsonl.

    python3 tests/golden/make/ctranslate2_rows.py > tests/golden/data/ct2.jsonl

Run it where ctranslate2 is installed (MIT; with numpy). A line for each matrix: the codes and scales of its converter,
with the values that they were made from, or made up here; and the values that its runtime gives for them in f32: it
has no function for that, so they are the embeddings of a model whose one layer adds zeros. All as hexadecimal bytes."""
import json
import tempfile

import ctranslate2
import numpy as np
from ctranslate2.specs import model_spec, transformer_spec


def zeros(*dims):
    return np.zeros(dims, np.float32)


def linears(encoder):
    layer = encoder.layer[0]
    return *layer.self_attention.linear, layer.ffn.linear_0, layer.ffn.linear_1


def specification(values):
    """An encoder whose output is its embedding: [rows][columns] of values"""
    rows, columns = values.shape
    encoder = transformer_spec.TransformerEncoderSpec(1, 1, no_final_norm=True)
    encoder.scale_embeddings = False
    encoder.embeddings[0].weight = values.copy()
    encoder.position_encodings.encodings = zeros(rows, columns)
    layer = encoder.layer[0]
    for norm in (layer.self_attention.layer_norm, layer.ffn.layer_norm):
        norm.gamma, norm.beta = zeros(columns) + 1, zeros(columns)
    for i, linear in enumerate(linears(encoder)):   # zeros once they are rounded: of 0 the converter makes no int16
        n = 3 * columns if i == 0 else columns
        linear.weight, linear.bias = zeros(n, columns) + 1 + i, zeros(n)
    spec = transformer_spec.TransformerEncoderModelSpec(encoder)
    spec.register_vocabulary([f"token{i}" for i in range(rows)])
    spec.config.unk_token = "token0"
    spec.validate()
    return spec


def widened(spec, rows):
    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        model = ctranslate2.Encoder(folder, compute_type="float32")
        output = model.forward_batch([list(range(rows))])
        return np.array(output.last_hidden_state)[0]


def line(kind, values, codes=None, scales=None):
    spec = specification(values)
    spec.optimize(quantization=kind)
    weight = spec.encoder.embeddings[0]
    for linear in linears(spec.encoder):
        linear.weight.numpy()[:] = 0
    made = {"type": kind, "rows": values.shape[0], "columns": values.shape[1]}
    if codes is None:
        made["values"] = values.tobytes().hex()
    else:
        weight.weight.numpy()[:] = codes
        weight.weight_scale = model_spec.NumpyVariable(scales)
    wide = widened(spec, len(values))
    assert wide.dtype == np.float32 and wide.shape == values.shape
    made.update(codes=weight.weight.numpy().tobytes().hex(), scales=weight.weight_scale.numpy().tobytes().hex(),
                f32=wide.tobytes().hex())
    print(json.dumps(made))


def main():
    rng = np.random.default_rng(22)
    values = rng.normal(0, 0.05, (8, 256)).astype(np.float32)
    values[1] = 0
    values[2] *= np.float32(2e-37)   # so small that 127 / largest would be infinite
    values[3] *= np.float32(1e15)
    values[4] = rng.integers(-127, 128, 256).astype(np.float32) / 2   # ties
    line("int8", values)
    line("int16", values[[0, 1, 5, 6]])
    line("int8", values[:4, :64], rng.integers(-128, 128, (4, 64)), rng.uniform(1, 3000, 4).astype(np.float32))
    line("int16", values[:4, :64], rng.integers(-32768, 32768, (4, 64)), np.float32(rng.uniform(1, 3000)))


main()
