#!/usr/bin/env python3
"""Writes tests/golden/data/outputs.json: made-up results as openai-whisper's writers put them, floats as repr() does.

Usage: python3 tests/golden/make/outputs.py > tests/golden/data/outputs.json
(needs openai-whisper 20250625; the same bytes every time)

"results": each with the result and the whole file of every format. "doubles": [bits in hex, repr].
A case whose subtitles the reference cannot write (it fails with KeyError, see results()) has null for them.
"""
import json
import math
import os
import random
import struct
import tempfile

from whisper.utils import get_writer

FORMATS = ["txt", "srt", "vtt", "tsv", "json"]
TEXTS = [
    " Hello, world.", "plain", " ", "", "\t tab\tinside \t", " a --> b ---> c -->--> d", " line\nbreak ",
    "\r\n both ends \r\n", ' "quotes" and \\backslash\\ and /slash/', " \x01\x02\x1f\x7f controls \x08\x0c",
    "\x1c\x1d\x1e\x1f separators \x1f", "\x85\xa0 C1 \x85", "\u2028 line sep \u2029", "\u3000全角\u3000空白\u3000",
    "\u200b zero width \u200b", "\ufeff mark", " naïve café", " Привет", " 日本語", " 😀👨‍👩‍👧 \U0010ffff", "\ufffd",
    " \uffff \ue000", "\u2000\u200a\u202f\u205f\u1680x\u180e", " -", "-->", "--", " <b>&amp;</b>", "' {} [] '",
]


def segment(index, start, end, text, rng):
    item = {"id": index, "seek": 3000 * (index // 4), "start": start, "end": end, "text": text,
            "tokens": [rng.randrange(51866) for _ in range(rng.randrange(6))],
            "temperature": rng.choice([0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]), "avg_logprob": -rng.random(),
            "compression_ratio": rng.uniform(0.5, 3), "no_speech_prob": rng.random() ** 9}
    if start == end or text.strip() == "":  # as transcribe() clears a segment; note the key that it adds
        item.update(text="", tokens=[], words=[])
    return item


def results():
    rng = random.Random(3)
    yield "empty", []
    yield "texts", [segment(i, i * 1.5, i * 1.5 + 1.25, text, rng) for i, text in enumerate(TEXTS)]
    halves = [i / 1000 + 0.0005 for i in range(0, 40)]
    halves += [0.0625, 0.1875, 1.0005, 59.9995, 59.9994999, 3599.9995, 3600.0, 86399.9999, 359999.999, 360000.0]
    halves += [1e9 + 0.125, 5e-324, 0.0004999, 1e-5]
    yield "halves", [segment(i, t, t + 0.02, " t", rng) for i, t in enumerate(halves)]
    ticks = [rng.randrange(0, 10**7) * 0.02 for _ in range(60)] + [rng.uniform(0, 40000) for _ in range(60)]
    yield "times", [segment(i, t, t + rng.randrange(1, 1500) * 0.02, f" segment {i}.", rng)
                    for i, t in enumerate(ticks)]
    yield "all cleared", [segment(i, float(i), float(i), " gone", rng) for i in range(3)]
    spans = [(0.0, 1.0, " kept"), (1.0, 1.0, " gone"), (1.0, 2.0, " kept")]
    yield "one cleared", [segment(i, *span, rng) for i, span in enumerate(spans)]
    yield "first cleared", [segment(0, 0.0, 1.0, "  ", rng), segment(1, 1.0, 2.0, " kept", rng)]


def written(result, form):
    with tempfile.TemporaryDirectory() as folder:
        try:
            get_writer(form, folder)(result, "x.wav", {})
        except KeyError:
            return None
        with open(os.path.join(folder, "x." + form), encoding="utf-8", newline="") as file:
            return file.read()


def doubles():
    rng = random.Random(5)
    values = [0.0, -0.0, 1.0, 3.0, 30.0, 0.1, 0.6000000000000001, 1e-4, 9.999e-5, 1e-5, 1e15, 1e16,
              9999999999999998.0, 1.5e16, 1e17, 1e22, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308,
              -12.5, 123456.789, math.pi, 1e100, 1e-100]
    values += [math.ldexp(1, e) for e in range(-1074, 1024, 7)]  # where the shortest decimal is not the nearest
    values += [7.120236347223045e-307, 5.641232424577593e-278, 9.5367431640625e-07, 2.0**-44]
    values += [struct.unpack("<d", rng.randbytes(8))[0] for _ in range(200)] + [i * 0.02 for i in range(150)]
    values += [struct.unpack("<f", struct.pack("<f", rng.uniform(-2, 1)))[0] for _ in range(50)]
    return [[struct.pack(">d", v).hex(), repr(v)] for v in values]


def main():
    print('{"made_by": "tests/golden/make/outputs.py", "results": [')
    rows = []
    for name, segments in results():
        result = {"text": "".join(s["text"] for s in segments), "segments": segments, "language": "en"}
        rows.append(json.dumps({"name": name, "result": result, **{form: written(result, form) for form in FORMATS}}))
    print(",\n".join(rows))
    print('], "doubles": [')
    print(",\n".join(json.dumps(pair) for pair in doubles()))
    print("]}")


main()
