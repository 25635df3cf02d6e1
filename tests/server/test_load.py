"""tests/server/test_load.py PROGRAM MAKE_CHECKPOINT - many clients, long and short recordings, clients that leave
or are slow, a full queue, a drain, models that come and go.
"""
import json
import os
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "realtime"))
from servertest import (FOLDER, QUICK, Server, check, check_equal, done, form, make_model, read_answer,  # noqa: E402
                        sound, wait_until)
from websocket import Socket, tone  # noqa: E402

MODEL = make_model(sys.argv[2])
SHORT = sound(5)
SLOW = {**QUICK, "beam_size": "5", "sample_len": "224", "suppress_blank": "false"}   # many steps for each window


def long_sound(seconds):
    """A long recording with a true header"""
    data = (sound(30)[44:] * (seconds // 30 + 1))[:32000 * seconds]
    header = bytearray(SHORT[:44])
    header[4:8] = (36 + len(data)).to_bytes(4, "little")
    header[40:44] = len(data).to_bytes(4, "little")
    return bytes(header) + data


def metric(server, name):
    answer = server.ask("GET", "/metrics")   # None: cut off, as a server with a short --idle-timeout may
    for line in answer.text.splitlines() if answer else ():
        if line.startswith(name + " "):
            return float(line.split()[1])
    return None


class Client(threading.Thread):
    """A request on a thread of its own"""

    def __init__(self, server, fields, file, **options):
        super().__init__()
        self.server, self.fields, self.file, self.options = server, fields, file, options
        self.answer, self.ended = None, None
        self.start()

    def run(self):
        try:
            self.answer = self.server.post(self.fields, self.file, **self.options)
        except OSError:
            pass
        self.ended = time.monotonic()


def hold(server, fields, file):
    """A connection with a request whose answer nobody reads yet"""
    body, kind = form(fields, file)
    s = server.connect()
    s.sendall((f"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\n"
               f"Content-Length: {len(body)}\r\n\r\n").encode() + body)
    return s


def test_same_text():
    sounds = [sound(3 + number % 7, number) for number in range(16)]
    with Server("--model", MODEL, "--concurrency", "5") as server:
        alone = [server.post(QUICK, file).json["text"] for file in sounds]
        clients = [Client(server, {**QUICK, "stream": "true"} if i % 2 else QUICK, file)
                   for i, file in enumerate(sounds)]
        for client in clients:
            client.join()
        together = [client.answer.events[-1]["text"] if i % 2 else client.answer.json["text"]
                    for i, client in enumerate(clients)]
        check_equal(together, alone, "16 clients at once: the texts of each alone")
        check(metric(server, "max_whisper_recordings_running") == 0, "none is left running")


def test_fairness(server):
    """Long recordings hold every place; a short one does not wait for them, another long one does."""
    long_file = long_sound(900)
    held = [hold(server, SLOW, long_file) for _ in range(2)]
    check(wait_until(lambda: metric(server, "max_whisper_recordings_running") == 2), "two long ones run")
    waiting = hold(server, {**SLOW, "stream": "true", "stream_events": "all"}, long_file)
    check(wait_until(lambda: metric(server, "max_whisper_recordings_waiting") == 1), "the third waits")
    answer = server.post(QUICK, SHORT)
    check_equal(answer.status, 200, "a short one is done meanwhile")
    check_equal(metric(server, "max_whisper_recordings_running"), 2, "the long ones still run")
    told = b""
    while b"max_whisper.queued" not in told and (piece := waiting.recv(5000)):
        told += piece
    check(b"max_whisper.queued" in told, "the place in the queue is told", told)
    for s in (*held, waiting):
        s.close()
    check(wait_until(lambda: metric(server, "max_whisper_recordings_inside") == 0), "clients that leave end the work")
    check_equal(metric(server, "max_whisper_recordings_running"), 0, "no place is taken")


def test_queue_full(server):
    """Two places, one spare, a queue of two: the sixth is refused, at once and before its body."""
    long_file = long_sound(1200)
    held = [hold(server, SLOW, long_file) for _ in range(5)]
    check(wait_until(lambda: metric(server, "max_whisper_recordings_inside") == 5), "five are in")
    with server.connect() as s:
        s.sendall(b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n"
                  b"Content-Type: multipart/form-data; boundary=border\r\n\r\n")
        answer = read_answer(s)
    check_equal((answer.status, answer.error["code"]), (429, "queue_full"), "a full queue")
    check(1 <= int(answer.headers.get("retry-after", 0)) <= 60, "Retry-After", answer)
    check_equal(answer.headers.get("x-should-retry"), "true", "x-should-retry")
    with server.connect() as s:
        for _ in range(100):
            s.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            check_equal(read_answer(s).status, 200, "health under load")
    check_equal(metric(server, "max_whisper_recordings_inside"), 5, "which waits for none of those that are in")
    held[0].close()
    check(wait_until(lambda: metric(server, "max_whisper_recordings_inside") == 4), "one left")
    for s in held[1:]:
        s.close()
    check(wait_until(lambda: metric(server, "max_whisper_recordings_inside") == 0), "all left")


def test_stream_leaves(server):
    s = hold(server, {**SLOW, "stream": "true"}, long_sound(600))
    check(s.recv(2000).startswith(b"HTTP/1.1 200"), "a stream begins")
    s.close()
    check(wait_until(lambda: metric(server, "max_whisper_recordings_inside") == 0), "the work ends with the stream")


def test_slow_clients():
    with Server("--model", MODEL, "--idle-timeout", "1") as server:
        body, kind = form(QUICK, SHORT)
        head = (f"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\n"
                f"Content-Length: {len(body)}\r\n\r\n").encode()
        silent, half, drip, pause = (server.connect() for _ in range(4))
        half.sendall(b"GET /health HTTP/1.1\r\nHo")
        drip.sendall(head)
        pause.sendall(head + body[:1000])
        ended = time.monotonic() + 120
        gone = False
        while time.monotonic() < ended and not gone:   # a byte at a time: never idle, but too slow
            try:
                drip.sendall(b"x")
                time.sleep(0.05)
            except OSError:
                gone = True
        check(gone, "a body that drips is cut off")
        for name, s in (("silent", silent), ("half a header", half), ("half a body", pause)):
            try:
                check_equal(s.recv(100), b"", f"{name}: closed")
            except ConnectionError:
                check(True, name)
        # A busy machine may keep this client from running for a second, and then it is one of the slow ones.
        check(wait_until(lambda: (answer := server.post(QUICK, SHORT)) and answer.status == 200), "others are served")
        check(wait_until(lambda: metric(server, "max_whisper_recordings_inside") == 0), "nothing is left of them")


def test_many_connections():
    with Server("--model", MODEL, "--max-connections", "1200") as server:
        before = server.rss_kib()
        idle = [server.connect() for _ in range(1000)]
        check(wait_until(lambda: metric(server, "max_whisper_connections") >= 1000), "1000 connections")
        check_equal(server.post(QUICK, SHORT).status, 200, "one more is served")
        check(server.rss_kib() - before < 150 << 10, "memory of 1000 connections", server.rss_kib() - before)
        for s in idle:
            s.close()
        check(wait_until(lambda: server.threads() < 40), "their threads end", server.threads())


def test_drain():
    """One upload is not whole before everything else was looked at, so the server drains as long as that takes."""
    body, kind = form(QUICK, SHORT)
    with Server("--model", MODEL, "--drain-timeout", "600") as server, server.connect() as upload:
        upload.sendall((f"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\n"
                        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n").encode() + body[:-10])
        client = Client(server, {**QUICK, "stream": "true"}, long_sound(600))
        kept = server.connect()
        check(wait_until(lambda: metric(server, "max_whisper_recordings_inside") == 2), "two are under way")
        server.process.send_signal(signal.SIGTERM)
        check(wait_until(lambda: server.ask("GET", "/ready").status == 503), "not ready while it drains")
        refused = server.post(QUICK, SHORT)
        check_equal((refused.status, refused.error["code"]), (503, "draining"), "new requests are refused")
        check("retry-after" in refused.headers, "Retry-After of a drain")
        client.join()
        check_equal(client.answer.events[-1]["type"], "transcript.text.done", "what ran is finished")
        upload.sendall(body[-10:])
        check_equal(read_answer(upload).status, 200, "and so is what was being sent")
        kept.close()
    with Server("--model", MODEL, "--drain-timeout", "0.2") as server:
        client = Client(server, SLOW, long_sound(3600))
        check(wait_until(lambda: metric(server, "max_whisper_recordings_running") == 1), "one runs")
        server.process.send_signal(signal.SIGTERM)
        client.join()
        check(client.answer is None or client.answer.status == 503, "what takes too long is ended", client.answer)


def test_models():
    other = make_model(sys.argv[2], "other.pt", "2")
    with Server("--model", MODEL, "--model", other, "--idle-unload", "0.3") as server:
        def loaded():
            return [model["loaded"] for model in server.ask("GET", "/v1/models").json["data"]]
        texts = {name: server.post({**QUICK, "model": name}, SHORT).json["text"] for name in ("narrow", "other")}
        check(texts["narrow"] != texts["other"], "two models", texts)
        check(wait_until(lambda: loaded() == [False, False]), "unloaded when not used")
        clients = [Client(server, {**QUICK, "model": name}, SHORT) for name in ("narrow", "other") * 3]
        for client in clients:
            client.join()
            check_equal(client.answer.json.get("text"), texts[client.fields["model"]], "loaded again")


def test_changed_model():
    """Its file is replaced in place by another one of the same size: one request is told so, then the new one serves"""
    path, other = make_model(sys.argv[2], "served.pt", "1"), make_model(sys.argv[2], "newer.pt", "2")
    with Server("--model", path) as server:
        before = server.post(QUICK, SHORT).json["text"]
        with open(other, "rb") as source, open(path, "r+b") as target:
            target.write(source.read())
        os.utime(path, (1, 1))
        refused = server.post(QUICK, SHORT)
        check_equal((refused.status, refused.error.get("code")), (503, "model_changed"), "a changed model")
        check_equal(refused.headers.get("x-should-retry"), "true", "a retry helps")
        after = server.post(QUICK, SHORT)
        check_equal(after.status, 200, "loaded again")
        check(after.json["text"] != before, "the text of the new file", (before, after.json))
        check_equal(server.ask("GET", "/ready").status, 200, "ready")


def open_lines(path):
    with open(path, encoding="utf-8") as stream:
        return stream.read().splitlines()


def test_access_log():
    path = os.path.join(FOLDER, "access.log")
    with Server("--model", MODEL, "--access-log", path, "--api-key", "sesame") as server:
        server.post({**QUICK, "prompt": "quick brown fox"}, SHORT, headers={"Authorization": "Bearer sesame"})
        server.ask("GET", "/health?key=sesame")
        server.ask("GET", "/v1/models", headers={"Authorization": "Bearer wrong"})
        check(wait_until(lambda: len(open_lines(path)) == 3), "a line for each request")
        with Socket(server, {"Authorization": "Bearer sesame"}) as live:
            live.append(tone(1.5))
            live.send({"type": "nonsense"})
            check("error" in [event["type"] for event in live.until("error")], "sound was taken")
            check_equal(len(open_lines(path)), 3, "a socket has its line at its end")
        check(wait_until(lambda: len(open_lines(path)) == 4), "a line for the socket")
        os.rename(path, path + ".1")
        server.process.send_signal(signal.SIGHUP)
        check(wait_until(lambda: os.path.exists(path)), "opened again after SIGHUP")
        server.ask("GET", "/ready")
    with open(path + ".1", encoding="utf-8") as stream:
        text = stream.read()
    lines = sorted((json.loads(line) for line in text.splitlines()), key=lambda line: line["path"])
    check_equal([(line["path"], line["status"]) for line in lines],
                [("/health", 200), ("/v1/audio/transcriptions", 200), ("/v1/models", 401), ("/v1/realtime", 101)],
                "lines of the log")
    check_equal((lines[1]["model"], lines[1]["audio_s"]), ("narrow", 5.0), "model and seconds")
    check_equal((lines[3]["model"], lines[3]["audio_s"]), ("narrow", 1.5), "model and seconds of the socket")
    check(lines[3]["bytes_in"] > 1.5 * 48000 and lines[3]["id"].startswith("req_"), "its bytes and id", lines[3])
    check(not any(word in text for word in ("sesame", "wrong", "fox")), "neither keys nor texts")
    with open(path, encoding="utf-8") as stream:
        check_equal(json.loads(stream.readline())["path"], "/ready", "the new file")


def main():
    socket.setdefaulttimeout(120)
    test_same_text()
    with Server("--model", MODEL, "--concurrency", "2", "--queue", "2") as server:
        test_fairness(server)
        test_queue_full(server)
        test_stream_leaves(server)
    test_slow_clients()
    if {"ASAN_OPTIONS", "TSAN_OPTIONS"} & set(os.environ):
        print("a thousand connections: left out, a sanitizer takes megabytes for each thread")
    else:
        test_many_connections()
    test_drain()
    test_models()
    test_changed_model()
    test_access_log()
    done()


main()
