#!/usr/bin/env python3
"""Prints tests/golden/data/silence.json: what openai-whisper makes of recordings without speech (tiny.en,
temperature 0).

    FOLDER/bin/python tests/golden/make/silence.py models/tiny.en.pt > tests/golden/data/silence.json

The recordings are made of whole numbers, so that tests/golden/test_silence.c makes the very same ones: zeros, white
noise from a hash of the sample's number, and a tune of square waves. It needs the
environment of tests/golden/make/reference.py.
"""
import json
import sys

import numpy

RATE = 16000
HALF_PERIODS = (31, 27, 24, 20, 18, 24, 27, 36)


def silence(n):
    return numpy.zeros(n, dtype=numpy.int64)


def noise(n):
    x = numpy.arange(1, n + 1, dtype=numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> numpy.uint64(32))) * numpy.uint64(0xD6E8FEB86659FD93)
    x = x ^ (x >> numpy.uint64(32))
    return (x >> numpy.uint64(51)).astype(numpy.int64) - 4096


def tune(n):
    i = numpy.arange(n)
    half = numpy.array(HALF_PERIODS)[i // 6000 % len(HALF_PERIODS)]
    return numpy.where(i // half % 2 == 0, 3000, -3000) + numpy.where(i // (3 * half) % 2 == 0, 1500, -1500)


KEPT = ("seek", "start", "end", "text", "tokens", "avg_logprob", "no_speech_prob")
RECORDINGS = (("silence", silence, 35), ("noise", noise, 12), ("tune", tune, 15))


def main():
    import torch
    import whisper

    torch.set_num_threads(1)
    model = whisper.load_model(sys.argv[1], device="cpu")
    print("[")
    for i, (name, make, seconds) in enumerate(RECORDINGS):
        samples = (make(seconds * RATE) / 32768).astype(numpy.float32)
        for beam in (None, 5):
            result = model.transcribe(samples, fp16=False, beam_size=beam, temperature=0)
            segments = [{key: segment[key] for key in KEPT} for segment in result["segments"]]
            row = {"name": name, "seconds": seconds, "beam_size": beam or 0, "text": result["text"]}
            last = i + 1 == len(RECORDINGS) and beam
            print(json.dumps({**row, "segments": segments}) + ("" if last else ","))
    print("]")


if __name__ == "__main__":
    main()
