#!/usr/bin/env python3
"""bench/live/peer.py FOLDER MODEL THREADS [CHUNK_S] < paths - recordings as live streams through whisper_streaming
(LocalAgreement) on faster-whisper, for bench/live.py.

In: FOLDER, a checkout of ufal/whisper_streaming; MODEL, a CTranslate2 folder; a path a line on standard input. Out: the
events of bench-live-streams, as far as the peer has them: partial and final, and "stats".
Invariants: the peer's own code decides everything; here only audio is fed and time is kept, as by clock=skip of
bench-live-streams: samples come in packets of 100 ms, and time passes while the model works.
"""
import json
import os
import sys
import time
import types
import wave

import numpy

RATE, PACKET = 16000, 1600


def read(path):
    with wave.open(path) as stream:
        return numpy.frombuffer(stream.readframes(stream.getnframes()), dtype="<i2").astype("float32") / 32768


def open_peer(folder, model, threads):
    for reader in ("librosa", "soundfile"):   # it reads files with them; here none are
        sys.modules.setdefault(reader, types.ModuleType(reader))
    sys.path.insert(0, folder)
    import faster_whisper
    import whisper_online

    class OnThisCpu(whisper_online.FasterWhisperASR):
        """The same on a CPU: the peer asks for a GPU"""

        def load_model(self, modelsize=None, cache_dir=None, model_dir=None):
            return faster_whisper.WhisperModel(model_dir, device="cpu", compute_type="float32", cpu_threads=threads)

    return whisper_online, OnThisCpu("en", model_dir=model)


def say(path, kind, words, heard, ready):
    words = [[round(w[0], 2), round(w[1], 2), w[2]] for w in words]
    print(json.dumps({"path": path, "stream": 0, "kind": kind, "utterance": 0, "start": words[0][0] if words else heard,
                      "end": words[-1][1] if words else heard, "heard": heard, "ready": ready,
                      "text": "".join(w[2] for w in words), "words": words}))


def replay(online, path, samples, chunk):
    """The peer's own loop: it works as soon as a chunk is there, on all that has come"""
    now = fed = passes = 0
    given = 0
    cpu = time.process_time()
    while fed < len(samples):
        arrived = min(len(samples), max(fed + int(chunk * RATE), int(now * RATE) // PACKET * PACKET))
        now = max(now, arrived / RATE)
        online.insert_audio_chunk(samples[fed:arrived])
        fed = arrived
        start = time.monotonic()
        online.process_iter()
        now += time.monotonic() - start
        passes += 1
        if online.commited[given:]:
            say(path, "final", online.commited[given:], fed / RATE, now)
        given = len(online.commited)
        say(path, "partial", online.transcript_buffer.complete(), fed / RATE, now)
    say(path, "final", online.transcript_buffer.complete(), fed / RATE, now)
    online.finish()
    print(json.dumps({"path": path, "stream": 0, "stats": {"fed_s": fed / RATE, "passes": passes,
                                                          "cpu_s": time.process_time() - cpu}}), flush=True)


def main(arguments):
    if len(arguments) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    module, asr = open_peer(arguments[0], arguments[1], int(arguments[2]))
    chunk = float(arguments[3]) if len(arguments) == 4 else 1.0
    for line in sys.stdin:
        online = module.OnlineASRProcessor(asr)
        replay(online, line.rstrip("\n"), read(line.rstrip("\n")), chunk)
    return 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", sys.argv[3] if len(sys.argv) > 3 else "1")
    sys.exit(main(sys.argv[1:]))
