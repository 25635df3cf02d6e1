#!/usr/bin/env python3
"""bench/serve.py [OPTION...] - the server under load: latency and throughput by the number of clients.

In: a built max-whisper, a model, clips of 5 to 11 s that are cut from a recording.
Out: a table on standard output, with --out FILE also there: for 1, 8, 32 and 64 clients p50, p95 and p99 of a request,
requests a second, seconds of sound a second, memory, and how long /health takes meanwhile; with --mixed the same beside
a recording of an hour; 16 clients against the command line on the same files; what a request costs besides its
transcription; short clips while long recordings run; in turns with ours faster-whisper behind FastAPI, where it can be
installed, and whisper.cpp's server, which --whisper-server names.
Invariants: every request is answered with 200, and with the text that the command line gives, or the run fails.
"""
import argparse
import http.client
import json
import multiprocessing
import os
import queue
import select
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import wave

sys.dont_write_bytecode = True
import environments  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FIELDS = {"temperature_increment_on_fallback": "none", "language": "en"}
HEALTH_S = 0.01   # between two questions for /health
HOUR_S = 3600
SETTLED_S = 0.5   # a request is counted in /metrics shortly after its answer is sent


def arguments():
    parser = argparse.ArgumentParser(prog="bench/serve.py", description="The server under load.")
    parser.add_argument("--model", default="tiny.en")
    parser.add_argument("--device", default="auto", help="cpu, cuda, ... [auto]")
    parser.add_argument("--mixed", action="store_true", help="also beside a recording of an hour")
    parser.add_argument("--clients", default="1,8,32,64", help="numbers of clients [1,8,32,64]")
    parser.add_argument("--requests", type=int, default=64, help="requests of each number of clients [64]")
    parser.add_argument("--source", default="", help="a long WAV, 16 kHz mono, that clips are cut from [made speech]")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--without-peers", action="store_true")
    parser.add_argument("--whisper-server", default="", metavar="PROGRAM", help="whisper.cpp's whisper-server, built")
    parser.add_argument("--peer-requests", type=int, default=16, help="requests of a peer, with 8 clients [16]")
    parser.add_argument("--out", default="", metavar="FILE")
    return parser.parse_args()


def say(line):
    print(line, file=sys.stderr, flush=True)


# ---- clips ----------------------------------------------------------------------------------------------------------

def make_clips(source, folder, n=16):
    """[(path, seconds)] of 5 to 11 s"""
    clips = []
    with wave.open(source) as stream:
        rate, at = stream.getframerate(), 0
        for number in range(n):
            frames = int(rate * (5 + 6 * (number * 7 % n) / (n - 1)))
            if at + frames > stream.getnframes():
                at = 0
            stream.setpos(at)
            data = stream.readframes(frames)
            at += frames
            path = os.path.join(folder, f"clip-{number:02}.wav")
            with wave.open(path, "wb") as out:
                out.setparams(stream.getparams())
                out.writeframes(data)
            clips.append((path, frames / rate))
    return clips


def make_hour(clips, folder):
    """The path of a recording of an hour: the clips, one after the other, again and again"""
    path, sounds = os.path.join(folder, "hour.wav"), []
    for name, _ in clips:
        with wave.open(name) as stream:
            parameters = stream.getparams()
            sounds.append(stream.readframes(stream.getnframes()))
    with wave.open(path, "wb") as out:
        out.setparams(parameters)
        while out.getnframes() < HOUR_S * parameters.framerate:
            out.writeframesraw(sounds[0])
            sounds.append(sounds.pop(0))
    return path


# ---- clients --------------------------------------------------------------------------------------------------------

def form(path, fields):
    border = "benchserve"
    parts = [f'--{border}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
             for name, value in fields]
    with open(path, "rb") as stream:
        data = stream.read()
    head = "".join(parts) + (f'--{border}\r\nContent-Disposition: form-data; name="file"; '
                             f'filename="{os.path.basename(path)}"\r\n\r\n')
    return head.encode() + data + f"\r\n--{border}--\r\n".encode(), f"multipart/form-data; boundary={border}"


def ask(base, path, fields, timeout=3600):
    """(text, seconds)"""
    body, kind = form(path, fields.items())
    request = urllib.request.Request(base + "/v1/audio/transcriptions", body, {"Content-Type": kind})
    start = time.perf_counter()
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        text = json.load(answer)["text"]
    return text, time.perf_counter() - start


def load(base, clips, clients, n, fields, texts=None):
    """Latencies, wall seconds and seconds of sound of n requests by so many clients"""
    work, latencies, problems = queue.Queue(), [], []
    for i in range(n):
        work.put(i % len(clips))

    def client():
        while True:
            try:
                i = work.get_nowait()
            except queue.Empty:
                return
            try:
                text, seconds = ask(base, clips[i][0], fields)
                latencies.append(seconds)
                if texts is not None and texts.setdefault(i, text) != text:
                    problems.append(f"clip {i}: {text!r} instead of {texts[i]!r}")
            except OSError as error:
                problems.append(f"clip {i}: {error}")
    threads = [threading.Thread(target=client) for _ in range(clients)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall = time.perf_counter() - start
    if problems:
        sys.exit(f"serve.py: {problems[0]} ({len(problems)} of {n} failed)")
    return sorted(latencies), wall, sum(clips[i % len(clips)][1] for i in range(n))


class Long:
    """A recording that is transcribed beside what is measured, and given up at the end of that"""

    def __init__(self, server, path):
        self.server = server
        self.connection = http.client.HTTPConnection(urllib.parse.urlsplit(server.base).netloc)
        body, kind = form(path, FIELDS.items())
        self.connection.request("POST", "/v1/audio/transcriptions", body, {"Content-Type": kind})
        self.wait(1)

    def wait(self, running):
        while self.server.metric("max_whisper_recordings_running") != running:
            if running and self.has_answer():
                sys.exit(f"serve.py: the long recording: {self.connection.getresponse().read().decode().strip()}")
            time.sleep(0.05)

    def has_answer(self):
        return bool(select.select([self.connection.sock], [], [], 0)[0])

    def close(self):
        """Whether it had ended before"""
        ended = self.has_answer()
        self.connection.close()
        self.wait(0)
        return ended


def ask_health(base, stop, out):
    """Once, and until it is told to stop: every 10 ms on a connection that is kept"""
    connection, latencies = http.client.HTTPConnection(urllib.parse.urlsplit(base).netloc), []
    while not latencies or not stop.is_set():
        start = time.perf_counter()
        connection.request("GET", "/health")
        connection.getresponse().read()
        latencies.append(time.perf_counter() - start)
        stop.wait(max(0, HEALTH_S - latencies[-1]))
    out.put(latencies)


class Health:
    """/health beside what is measured. In a process of its own: client threads take turns in their interpreter, and its
    times would be those of the turns."""

    def __init__(self, base):
        context = multiprocessing.get_context("spawn")
        self.stop, self.out = context.Event(), context.Queue()
        self.process = context.Process(target=ask_health, args=(base, self.stop, self.out), daemon=True)
        self.process.start()

    def close(self):
        """Sorted latencies"""
        self.stop.set()
        latencies = sorted(self.out.get(timeout=60))
        self.process.join()
        return latencies


def share(latencies, part):
    return latencies[min(len(latencies) - 1, int(part * len(latencies)))]


# ---- servers --------------------------------------------------------------------------------------------------------

class Ours:
    def __init__(self, settings, *words):
        command = [os.path.join(settings.build, "max-whisper"), "serve", "--model", settings.model, "--device",
                   settings.device, "--port", "0"]
        self.process = subprocess.Popen([*command, *words], stdout=subprocess.PIPE, text=True)
        self.base = self.process.stdout.readline().split()[-1]

    def rss_mib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as stream:
            return next(int(line.split()[1]) for line in stream if line.startswith("VmRSS")) / 1024

    def metric(self, name):
        with urllib.request.urlopen(self.base + "/metrics") as answer:
            lines = answer.read().decode().splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(name))

    def worked(self):
        return self.metric("max_whisper_transcription_seconds_sum")

    def close(self):
        self.process.terminate()
        self.process.wait()


def answers(process, base):
    """(process, base) once it does, or (None, why not)"""
    for _ in range(100):
        try:
            urllib.request.urlopen(base + "/docs").close()
            return process, base
        except urllib.error.HTTPError:
            return process, base
        except OSError:
            time.sleep(0.1)
    process.kill()
    return None, "it does not answer"


def whisper_server(settings, kind, port=8766):
    """(process, base) of whisper.cpp's server with the same weights, or (None, why not)"""
    if not settings.whisper_server:
        return None, "--whisper-server names none"
    model = os.path.join(settings.folder, "ggml.bin")
    subprocess.run([os.path.join(settings.build, "max-whisper"), "model", "convert", settings.model, model, "--format",
                    "ggml", "--type", kind, "--quiet"], check=True)
    process = subprocess.Popen([settings.whisper_server, "--model", model, "--port", str(port), "--inference-path",
                                "/v1/audio/transcriptions", "--language", "en", "--beam-size", "5", "--no-fallback",
                                "--threads", str(len(os.sched_getaffinity(0)))],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return answers(process, f"http://127.0.0.1:{port}")


def fastapi_server(settings, kind, port=8765):
    """(process, base) of faster-whisper behind FastAPI, or (None, why not)"""
    python, why = environments.interpreter("faster-whisper-server")
    if not python:
        return None, why
    model = os.path.join(environments.cache_folder("MAX_WHISPER_MODELS", "models"), "tiny.en-ct2")
    if settings.model != "tiny.en" or not os.path.isdir(model):
        return None, "only tiny.en is there as CTranslate2 (tools/fetch-model tiny.en-ct2)"
    process = subprocess.Popen([python, os.path.join(ROOT, "bench", "serve", "fastapi_peer.py"), model, str(port),
                                str(len(os.sched_getaffinity(0))), kind], stdout=subprocess.PIPE, text=True)
    if not process.stdout.readline():
        return None, "it does not start"
    return answers(process, f"http://127.0.0.1:{port}")


# name, what starts it, the type of its weights, fields of a request, our precision beside it
PEERS = [("faster-whisper 1.2.1 behind FastAPI, 4 workers", fastapi_server, "float32", {"model": "tiny.en"}, "exact"),
         ("faster-whisper 1.2.1 behind FastAPI, 4 workers", fastapi_server, "int8", {"model": "tiny.en"}, "int8"),
         ("whisper.cpp's server", whisper_server, "f16", {"response_format": "json", "temperature": "0.0"}, "exact")]


# ---- measurements ---------------------------------------------------------------------------------------------------

def put_table(settings, server, clips, texts, put, hour=None):
    """A line for each number of clients; hour: a recording that runs beside each"""
    put("| clients | p50 s | p95 s | p99 s | requests/s | sound s/s | memory MiB | /health p50, p99, max ms |\n"
        "|---|---|---|---|---|---|---|---|")
    n_ended = 0
    for clients in (int(word) for word in settings.clients.split(",")):
        long = Long(server, hour) if hour else None
        health = Health(server.base)
        latencies, wall, sound = load(server.base, clips, clients, settings.requests, FIELDS, texts)
        asked, memory = health.close(), server.rss_mib()
        n_ended += long.close() if long else 0
        times = " | ".join(f"{share(latencies, part):.2f}" for part in (0.5, 0.95, 0.99))
        put(f"| {clients} | {times} | {len(latencies) / wall:.2f} | {sound / wall:.1f} | {memory:.0f} | "
            f"{', '.join(f'{1e3 * share(asked, part):.1f}' for part in (0.5, 0.99, 1))} |")
    if hour:
        put(f"\nBeside each a recording of an hour, which takes a place; the sound is that of the clips alone. It had "
            f"ended before the clips in {n_ended} of the lines.")


def by_clients(settings, clips, put):
    server, texts = Ours(settings), {}
    try:
        load(server.base, clips, 4, len(clips), FIELDS, texts)
        put_table(settings, server, clips, texts, put)
        time.sleep(SETTLED_S)
        before, seconds = server.worked(), []
        for path, _ in clips:
            seconds.append(ask(server.base, path, FIELDS)[1])
        time.sleep(SETTLED_S)
        besides = 1e3 * (sum(seconds) - server.worked() + before) / len(clips)
        put(f"\nA request of one client costs {besides:.1f} ms besides its transcription (mean: connection, upload, "
            "opening the file, answer).")
        if settings.mixed:
            put("")
            put_table(settings, server, clips, texts, put, make_hour(clips, settings.folder))
    finally:
        server.close()
    return texts


def against_batch(settings, clips, texts, put):
    """In turns: 16 clients, and the command line on the same files"""
    words = [os.path.join(settings.build, "max-whisper"), "transcribe", "--model", settings.model, "--device",
             settings.device, "--language", "en", "--temperature-increment-on-fallback", "none", "--format", "json",
             "--quiet"]
    server, ratios = Ours(settings), []
    try:
        load(server.base, clips, 4, len(clips), FIELDS, texts)
        with tempfile.TemporaryDirectory() as out:
            for _ in range(3):
                start = time.perf_counter()
                subprocess.run([*words, "--output-dir", out, *(path for path, _ in clips)], check=True)
                alone = time.perf_counter() - start
                _, wall, _ = load(server.base, clips, 16, len(clips), FIELDS, texts)
                ratios.append(alone / wall)
            for i, (path, _) in enumerate(clips):
                name = os.path.join(out, os.path.splitext(os.path.basename(path))[0] + ".json")
                with open(name, encoding="utf-8") as stream:
                    if json.load(stream)["text"].strip() != texts[i]:
                        sys.exit(f"serve.py: {path}: the server's text is not the command line's")
    finally:
        server.close()
    put(f"16 clients against `transcribe` on the same {len(clips)} files, in turns: throughput {min(ratios):.2f}, "
        f"{statistics.median(ratios):.2f}, {max(ratios):.2f} of it (least, median, most of {len(ratios)}; the command "
        "line loads its model each time). The texts are the same.")


def beside_long(settings, clips, source, put):
    """Short clips while long recordings hold every place"""
    server = Ours(settings, "--concurrency", "2")
    try:
        alone = sorted(ask(server.base, path, FIELDS)[1] for path, _ in clips[:6])
        ended = []

        def hear():
            try:
                ended.append(ask(server.base, source, FIELDS))
            except (OSError, http.client.HTTPException):
                pass   # the server ends before it

        for _ in range(3):
            threading.Thread(target=hear, daemon=True).start()
        time.sleep(1)
        busy = sorted(ask(server.base, path, FIELDS)[1] for path, _ in clips[:6])
        put(f"Short clips while three long recordings take the two places and wait: p50 {share(busy, .5):.2f} s, alone "
            f"{share(alone, .5):.2f} s; of the long ones {len(ended)} had ended.")
    finally:
        server.process.kill()
        server.process.wait()


def beside_peer(settings, clips, put, peer, start, kind, peer_fields, precision):
    process, base = start(settings, kind)
    if not process:
        put(f"{peer}: not measured: {base}.")
        return
    server, rates = Ours(settings, "--precision", precision), {"ours": [], "theirs": []}
    try:
        for turn in range(3):   # the first warms both up
            for name, address, fields in (("ours", server.base, FIELDS), ("theirs", base, peer_fields)):
                latencies, wall, _ = load(address, clips, 8, settings.peer_requests, fields)
                if turn:
                    rates[name].append(len(latencies) / wall)
    finally:
        server.close()
        process.terminate()
        process.wait()
    ours, theirs = statistics.median(rates["ours"]), statistics.median(rates["theirs"])
    put(f"8 clients, `{precision}`, in turns with {peer}, {kind}: {ours:.2f} against {theirs:.2f} requests/s, "
        f"{ours / theirs:.1f} times.")


def main():
    settings = arguments()
    source = settings.source or subprocess.run([os.path.join(ROOT, "tools", "make-speech"), "--path", "prompts-161s"],
                                               capture_output=True, text=True, check=True).stdout.strip()
    lines = []

    def put(line):
        print(line, flush=True)
        lines.append(line)
    with tempfile.TemporaryDirectory() as folder:
        settings.folder = folder
        clips = make_clips(source, folder)
        say(f"{len(clips)} clips, {sum(seconds for _, seconds in clips):.0f} s")
        texts = by_clients(settings, clips, put)
        put("")
        against_batch(settings, clips, texts, put)
        put("")
        beside_long(settings, clips, source, put)
        put("")
        for peer in PEERS if not settings.without_peers else []:
            beside_peer(settings, clips, put, *peer)
    if settings.out:
        with open(settings.out, "w", encoding="utf-8") as stream:
            stream.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
