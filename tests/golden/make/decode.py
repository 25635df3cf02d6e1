#!/usr/bin/env python3
"""Golden values for decode/: openai-whisper's own DecodingTask driven by a made-up model.

In: nothing. Out: tests/golden/data/decode.json, a list of cases: options in, tokens and numbers out.
The made-up model's logits are a hash of the tokens so far, computed with exact arithmetic, so that
tests/unit/decode/test_decode.c can compute the very same ones and must then find the very same tokens.
Needs the private environment of tests/golden/make/reference.py (openai-whisper==20250625). Run:

    python3 tests/golden/make/decode.py > tests/golden/data/decode.json
"""
import json
import sys
import types

import numpy as np
import torch

sys.modules.setdefault("numba", types.SimpleNamespace(jit=lambda *a, **k: (lambda f: f)))
from whisper import decoding as D
from whisper.model import ModelDimensions
from whisper.tokenizer import get_tokenizer

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def prefix_hash(tokens, seed):
    h = (0xCBF29CE484222325 ^ seed) & MASK
    for t in tokens:
        h = ((h ^ t) * 0x100000001B3) & MASK
        h ^= h >> 29
    return h


def fake_logits(tokens, seed, n_vocab, eot, ts_begin):
    """One row: an exponential-like spread, with end of text and timestamps likelier now and then."""
    h = prefix_hash(tokens, seed)
    with np.errstate(over="ignore"):
        x = np.uint64(h) + np.arange(1, n_vocab + 1, dtype=np.uint64) * np.uint64(GOLDEN)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    m, e = np.frexp(((x >> np.uint64(11)) | np.uint64(1)).astype(np.float64))
    z = (53 - e) + (1 - m) * 2
    row = (z * 1.5).astype(np.float32)
    if h % 5 == 0:
        row[eot] += np.float32(14)
    if h % 3 == 0:
        row[ts_begin:] += np.float32(7)
    return row


class FakeInference(D.Inference):
    def __init__(self, seed, n_vocab, tokenizer):
        self.args = (seed, n_vocab, tokenizer.eot, tokenizer.timestamp_begin)

    def logits(self, tokens, audio_features):
        """Only the rows that are read: the last, and before the first sampled token start-of-transcript's."""
        first = tokens.shape[1] == self.n_initial
        rows = torch.zeros(tokens.shape[0], self.sot_index + 2 if first else 1, self.args[1])
        for i, row in enumerate(tokens.tolist()):
            rows[i, -1] = torch.from_numpy(fake_logits(row, *self.args))
            if first:
                rows[i, self.sot_index] = torch.from_numpy(fake_logits(row[: self.sot_index + 1], *self.args))
        return rows

    def rearrange_kv_cache(self, source_indices):
        pass


def run(case):
    n_vocab = 51865 if case["multilingual"] else 51864
    dims = ModelDimensions(80, 1500, 384, 6, 4, n_vocab, 448, 384, 6, 4)
    model = types.SimpleNamespace(
        dims=dims, is_multilingual=case["multilingual"], num_languages=n_vocab - 51765 - int(case["multilingual"]),
        decoder=types.SimpleNamespace(blocks=[]))
    options = dict(case["options"])
    language = options.pop("language", "en")
    task = D.DecodingTask(model, D.DecodingOptions(fp16=False, language=language, **options))
    fake = FakeInference(case["seed"], n_vocab, task.tokenizer)
    fake.sot_index, fake.n_initial = task.sot_index, task.sample_begin
    task.inference = fake
    if hasattr(task.decoder, "inference"):
        task.decoder.inference = fake
    task._get_audio_features = lambda mel: mel
    result = task.run(torch.zeros(1, 1500, 384))[0]
    return {**case, "tokens": result.tokens, "avg_logprob": float(np.float64(result.avg_logprob)),
            "no_speech_prob": result.no_speech_prob, "compression_ratio": result.compression_ratio,
            "text": result.text}


def cases():
    tok = get_tokenizer(False)
    words = tok.encode(" The quick brown fox jumps over the lazy dog, again and again.")
    ts = tok.timestamp_begin
    prompt = [ts] + words + [ts + 150, ts + 150] + words * 3 + [ts + 400]
    base = [
        {}, {"beam_size": 5}, {"beam_size": 1}, {"beam_size": 2}, {"beam_size": 8},
        {"beam_size": 5, "patience": 2.0}, {"beam_size": 5, "patience": 0.4}, {"beam_size": 3, "patience": 1.5},
        {"beam_size": 5, "length_penalty": 0.0}, {"beam_size": 5, "length_penalty": 0.6},
        {"beam_size": 5, "length_penalty": 1.0}, {"sample_len": 7}, {"beam_size": 5, "sample_len": 7},
        {"beam_size": 5, "sample_len": 1}, {"without_timestamps": True}, {"beam_size": 5, "without_timestamps": True},
        {"max_initial_timestamp": None}, {"max_initial_timestamp": 0.3}, {"max_initial_timestamp": 0.0},
        {"suppress_blank": False, "beam_size": 3}, {"suppress_tokens": "1,2,3,50000"},
        {"suppress_tokens": "", "beam_size": 2}, {"suppress_tokens": "-1,11,13"},
        {"prompt": prompt}, {"prompt": prompt, "beam_size": 5}, {"prompt": prompt * 6, "beam_size": 4},
        {"prefix": " Hello there"}, {"prefix": "Hello there ", "beam_size": 5, "prompt": words},
        {"prefix": "one two three four five", "sample_len": 220}, {"prefix": "one two three", "sample_len": 300},
        {"sample_len": 448}, {"sample_len": 448, "beam_size": 3, "prompt": prompt * 6},
    ]
    for seed, options in enumerate(base):
        for k in range(3):
            yield {"multilingual": False, "seed": seed * 10 + k, "options": options}
    for seed, options in enumerate([{}, {"beam_size": 5}, {"task": "translate", "beam_size": 5, "language": "de"},
                                    {"language": "ja", "beam_size": 2, "prompt": [50364, 1000, 50400]}]):
        for k in range(3):
            yield {"multilingual": True, "seed": 5000 + seed * 10 + k, "options": options}


def main():
    torch.set_num_threads(1)
    print("[")
    rows = [json.dumps(run(c)) for c in cases()]
    print(",\n".join(rows))
    print("]")


if __name__ == "__main__":
    main()
