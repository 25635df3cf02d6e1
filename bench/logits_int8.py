#!/usr/bin/env python3
"""bench/logits_int8.py - what an int8 vocabulary costs in accuracy: the logarithm of the sum over all ids, as
src/device/cpu/logits/logits_int8.h makes it, against float64, on the decoder's rows of a real transcription.

In: an OpenAI checkpoint and a recording; needs PyPI's openai-whisper (make bench-peers installs it: run this with
~/.cache/max-whisper/peers/openai-whisper/bin/python). Out: a line for each threshold, and one for f32 logits.
"""
import argparse

import numpy as np
import whisper

BLOCK = 100


def rows_of(model, audio):
    """The decoder's normed rows that meet the vocabulary, of a beam search over the recording."""
    rows = []
    model.decoder.ln.register_forward_hook(lambda module, given, out: rows.append(out[:, -1].detach().numpy().copy()))
    whisper.transcribe(model, audio, beam_size=5, temperature=0, language="en", fp16=False)
    return np.concatenate(rows)


def log_sum(logits):
    top = logits.max(axis=1, keepdims=True)
    return top[:, 0] + np.log(np.exp(logits - top).sum(axis=1))


class Int8Vocabulary:
    """A byte for a weight, columns brought to one size first, as logits_int8.c packs it."""

    def __init__(self, weight):
        self.columns = np.abs(weight[:: max(len(weight) // 2048, 1)]).max(axis=0)
        scaled = weight / self.columns
        self.scales = np.abs(scaled).max(axis=1) / 127
        self.numbers = np.rint(scaled / self.scales[:, None])

    def logits(self, rows):
        x = rows * self.columns
        most = min(32767, (2**31 - 1) // (127 * rows.shape[1]))
        steps = np.abs(x).max(axis=1, keepdims=True) / most
        return (np.rint(x / steps) @ self.numbers.T) * steps * self.scales


def measure(rows, weight, thresholds):
    """{what: [(error of the logarithm, ids that were exact)]}"""
    found, int8 = {}, Int8Vocabulary(weight)
    wide = weight.T.astype(np.float64)
    for first in range(0, len(rows), BLOCK):
        some = rows[first : first + BLOCK]
        exact, rough = some.astype(np.float64) @ wide, int8.logits(some)
        sums, share = log_sum(exact), rough - log_sum(rough)[:, None]
        error = np.abs(rough - exact)
        found.setdefault("logits, int8", []).append((error.mean(axis=1), np.zeros(len(some))))
        found.setdefault("log sum, all f32", []).append(
            (log_sum((some @ weight.T).astype(np.float64)) - sums, np.full(len(some), weight.shape[0])))
        for threshold in thresholds:
            likely = share >= np.log(threshold)
            mixed = np.where(likely, exact, rough)
            what = f"log sum, exact from {threshold:g}"
            found.setdefault(what, []).append((log_sum(mixed) - sums, likely.sum(axis=1)))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--audio", required=True)
    parser.add_argument("--rows", type=int, default=1200, help="at most, chosen at random")
    parser.add_argument("--thresholds", default="1e-4,1e-5,3e-6,1e-6")
    options = parser.parse_args()
    model = whisper.load_model(options.model, device="cpu")
    weight = model.decoder.token_embedding.weight.detach().numpy().astype(np.float16).astype(np.float32)
    rows = rows_of(model, options.audio)
    chosen = np.random.default_rng(1).permutation(len(rows))[: options.rows]
    print(f"{len(chosen)} rows, {weight.shape[0]} ids of {weight.shape[1]}")
    for what, pieces in measure(rows[chosen], weight, [float(t) for t in options.thresholds.split(",")]).items():
        errors, ids = (np.concatenate(column) for column in zip(*pieces))
        print(f"{what:26} off by {np.sqrt((errors**2).mean()):.2e} rms, {np.abs(errors).max():.2e} at most; "
              f"ids exact: {ids.mean():.0f}, median {np.median(ids):.0f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
