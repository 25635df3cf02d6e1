#!/usr/bin/env python3
"""bench/serve/realtime.py CLIP.wav [--sockets 1,4,8] [--model tiny.en] [--device auto] [--seconds 30] [--build build]:
live sockets.

In: a 16 kHz mono recording of speech. N clients stream it to one server at its own pace, again and again, each from
another place on. Out: a line for each N: how long after the end of speech a turn's text was complete (p50, p95, the
pause of 500 ms included), how many deltas came while somebody spoke, memory for each socket, seconds of turns, and how
late the clients were themselves with a piece of 100 ms: if that is much, they were measured and not the server.
"""
import argparse
import os
import statistics
import sys
import threading
import time
import wave

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("clip")
parser.add_argument("--sockets", default="1,4,8", help="numbers of sockets at once, 200 for example [1,4,8]")
parser.add_argument("--model", default="tiny.en")
parser.add_argument("--device", default="auto", help="cpu, cuda, ... [auto]")
parser.add_argument("--seconds", type=float, default=30)
parser.add_argument("--build", default=os.path.join(ROOT, "build"))
options = parser.parse_args()
sys.argv = [sys.argv[0], os.path.join(options.build, "max-whisper")]
os.environ.setdefault("MXW_MODULE_DIR", os.path.join(os.path.abspath(options.build), "max-whisper-modules"))
sys.path.insert(0, os.path.join(ROOT, "tests", "server", "realtime"))
from websocket import Socket, silence  # noqa: E402
from servertest import Server  # noqa: E402

RATE, PIECE_S, PAUSE_S = 16000, 0.1, 0.5
PATIENCE_S = 60   # for the last turn's text, on a machine that is too slow


class Client(threading.Thread):
    def __init__(self, server, sound, offset_s):
        super().__init__()
        self.socket = Socket(server)
        self.sound, self.offset_s = sound, offset_s
        self.completed, self.deltas, self.spoken_s, self.ends = [], [], 0, {}
        self.start_s, self.late_s = 0, 0

    def run(self):
        self.socket.event()
        self.socket.update(format={"type": "audio/pcm", "rate": RATE})
        reader = threading.Thread(target=self.read)
        reader.start()
        self.start_s = time.monotonic()
        size, at = int(2 * RATE * PIECE_S), int(self.offset_s * RATE) * 2
        for i in range(int(options.seconds / PIECE_S)):
            wait_s = self.start_s + (i + 1) * PIECE_S - time.monotonic()   # sound exists once it was spoken
            time.sleep(max(0, wait_s))
            self.late_s = max(self.late_s, -wait_s)
            at %= len(self.sound)
            self.socket.append((self.sound[at:] + self.sound)[:size])
            at += size
        self.socket.append(silence(1, RATE))
        limit = time.monotonic() + PATIENCE_S
        while (not self.completed or len(self.completed) < len(self.ends)) and time.monotonic() < limit:
            time.sleep(0.1)
        self.socket.socket.close()
        reader.join()

    def read(self):
        while (event := self.socket.event()) is not None:
            now = time.monotonic() - self.start_s
            kind = event["type"].rsplit(".", 1)[-1]
            if kind == "speech_stopped":
                self.ends[event["item_id"]] = event["audio_end_ms"] / 1000 - PAUSE_S
            elif kind == "delta" and event["item_id"] not in self.ends:
                self.deltas.append(now)
            elif kind == "completed":
                self.completed.append(now - self.ends[event["item_id"]])
                self.spoken_s += event["usage"]["seconds"]


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def measure(n, sound):
    with Server("--model", options.model, "--device", options.device, "--realtime-sockets", str(n + 1)) as server:
        with Socket(server) as first:   # the model's own memory is there before it is counted
            first.event()
            first.update(format={"type": "audio/pcm", "rate": RATE})
            first.stream(sound[:2 * RATE * 5] + silence(1, RATE), RATE)
            first.until("conversation.item.input_audio_transcription.completed")
        before = server.rss_kib()
        clients = [Client(server, sound, 1.7 * i) for i in range(n)]
        for client in clients:
            client.start()
        time.sleep(options.seconds)
        memory = (server.rss_kib() - before) / 1024 / n
        for client in clients:
            client.join()
    done = [value for client in clients for value in client.completed]
    print(f"{n:4d} sockets: {len(done)} turns, complete after {percentile(done, 0.5):.2f} s (p50), "
          f"{percentile(done, 0.95):.2f} s (p95), {sum(len(c.deltas) for c in clients)} deltas while speaking, "
          f"{memory:.1f} MiB a socket, {statistics.mean(c.spoken_s for c in clients):.0f} s of turns each, "
          f"clients late by at most {max(c.late_s for c in clients):.2f} s", flush=True)


def main():
    with wave.open(options.clip) as file:
        if (file.getframerate(), file.getnchannels(), file.getsampwidth()) != (RATE, 1, 2):
            sys.exit(f"{options.clip}: must be 16 kHz, mono, 16 bits")
        sound = file.readframes(file.getnframes()) + silence(1, RATE)
    for n in options.sockets.split(","):
        measure(int(n), sound)


main()
