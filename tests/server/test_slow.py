"""tests/server/test_slow.py PROGRAM MAKE_CHECKPOINT - uploads that drip have every place, and others are served.

Each of them sends more than the least that a connection needs, for as long as it may, and comes again when it is cut
off. What is slow, and after how long, stands in apps/server/load/uploads.h.
"""
import socket
import ssl
import sys
import threading
import time

from servertest import (QUICK, Server, check, check_equal, done, form, make_certificate, make_model, read_answer, sound,
                        wait_until, wav)

MODEL = make_model(sys.argv[2])
PLACES = 4 + 1 + 64   # --concurrency 4, a spare one, --queue 64
SOUND = sound(3)
HEAD = ("POST /v1/audio/transcriptions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000000\r\n"
        "Content-Type: multipart/form-data; boundary=border\r\n\r\n--border\r\n"
        "Content-Disposition: form-data; name=\"file\"; filename=\"x\"\r\n\r\n")


def metrics(server):
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
            for line in server.ask("GET", "/metrics").text.splitlines() if not line.startswith("#")}


def inside(server):
    return metrics(server)["max_whisper_recordings_inside"]


def count(server, status):
    label = f'route="/v1/audio/transcriptions",method="POST",status="{status}"'
    return metrics(server).get(f"max_whisper_request_seconds_count{{{label}}}", 0)


class Drips(threading.Thread):
    """So many clients that send 4 KiB a second each; `told` are the answers that they got"""

    def __init__(self, server, n):
        super().__init__()
        self.server, self.stopped, self.told = server, False, []
        self.sockets = [self.connect() for _ in range(n)]
        self.start()

    def connect(self):
        s = self.server.connect()
        s.sendall(HEAD.encode())
        return s

    def drip(self, s):
        """False once the server ended it"""
        try:
            s.sendall(bytes(1024))
            s.setblocking(False)
            first = s.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            s.setblocking(True)
            return True
        except OSError:
            return False
        s.setblocking(True)
        answer = read_answer(Ahead(s, first)) if first else None
        self.told += [answer] if answer else []
        return False

    def run(self):
        while not self.stopped:
            for i, s in enumerate(self.sockets):
                if not self.drip(s):
                    s.close()
                    self.sockets[i] = self.connect()
            time.sleep(0.25)

    def stop(self):
        self.stopped = True
        self.join()
        for s in self.sockets:
            s.close()


class Ahead:
    """A socket of which a byte was read before"""

    def __init__(self, s, first):
        self.socket, self.first = s, first

    def recv(self, n):
        first, self.first = self.first, b""
        return first or self.socket.recv(n)


class Fast(threading.Thread):
    """An upload of a long file that is ten times as fast as it has to be, until it is let go"""

    def __init__(self, server):
        super().__init__()
        self.body, self.kind = form({**QUICK, "clip_timestamps": "0,1"}, wav(0, data=bytes(32 << 20)))
        self.server, self.go, self.answer = server, threading.Event(), None
        self.start()

    def run(self):
        with self.server.connect() as s:
            s.sendall((f"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {self.kind}\r\n"
                       f"Content-Length: {len(self.body)}\r\nConnection: close\r\n\r\n").encode())
            for at in range(0, len(self.body) - 1, 1 << 16):
                s.sendall(self.body[at:min(at + (1 << 16), len(self.body) - 1)])
                self.go.wait(0.2)
            self.go.wait()
            s.sendall(self.body[-1:])
            self.answer = read_answer(s)


def check_told(drips, label):
    check(wait_until(lambda: any(told.status == 408 for told in drips.told)), f"{label}: one that drips is told why")
    told = next((told for told in drips.told if told.status == 408), None)
    if told:
        check_equal((told.error["code"], told.error["param"]), ("upload_too_slow", None), f"{label}: the error")
        check_equal((told.headers["connection"], told.headers["x-should-retry"]), ("close", "true"),
                    f"{label}: headers")
        check(told.headers["x-request-id"].startswith("req_") and int(told.headers["retry-after"]) >= 1,
              f"{label}: more headers", told)


def test_drips(server):
    text = server.post(QUICK, SOUND).json["text"]
    fast = Fast(server)
    check(wait_until(lambda: inside(server) == 1), "a fast upload has a place")
    drips = Drips(server, PLACES)
    check(wait_until(lambda: inside(server) == PLACES), "those that drip have every other one")
    for number in range(3):
        check(wait_until(lambda: server.post(QUICK, SOUND).status == 200), f"ordinary client {number} is served")
    check_told(drips, "HTTP")
    seen = metrics(server)
    check(seen["max_whisper_recordings_inside"] <= PLACES, "never more inside than places", seen)
    check(1 <= seen["max_whisper_recordings_uploading"] <= PLACES, "uploads are counted", seen)
    check(count(server, 408) >= 1, "and those that gave way")
    fast.go.set()
    fast.join()
    check_equal(fast.answer and fast.answer.status, 200, f"the fast upload is not harmed: {fast.answer}")
    drips.stop()
    check(wait_until(lambda: inside(server) == 0), "nothing is left of them")
    check_equal(metrics(server)["max_whisper_recordings_uploading"], 0, "no upload either")
    check_equal(server.post(QUICK, SOUND).json["text"], text, "the text as before")


def test_silence(server):
    """Headers and then nothing; the connection of one that gave way is not kept"""
    silent = []
    for _ in range(3):
        silent.append(server.connect())
        silent[-1].sendall(HEAD.encode())
    check(wait_until(lambda: inside(server) == 3), "three silent clients have the places")
    check(wait_until(lambda: server.post(QUICK, SOUND).status == 200), "another one is served")
    check(wait_until(lambda: count(server, 408) == 1), "one of them gave way, and was counted")
    for s in silent:
        s.close()


def test_tls(server):
    drips = Drips(server, 3)
    check(wait_until(lambda: inside(server) == 3), "TLS: those that drip have every place")
    check(wait_until(lambda: server.post(QUICK, SOUND).status == 200), "TLS: others are served")
    check_told(drips, "TLS")
    drips.stop()


def main():
    """All at once, for what is waited for is time"""
    socket.setdefaulttimeout(120)
    pair = make_certificate("slow")
    words = ["--model", MODEL, "--concurrency", "1", "--queue", "1"]
    with Server("--model", MODEL, "--concurrency", "4") as server, Server(*words) as small:
        threads = [threading.Thread(target=test_silence, args=(small,))]
        with Server(*words, *(["--tls-cert", pair[0], "--tls-key", pair[1]] if pair else [])) as other:
            if pair:
                threads.append(threading.Thread(target=test_tls, args=(other,)))
            else:
                print("SKIP: server-slow TLS: no openssl to make a certificate")
            for thread in threads:
                thread.start()
            test_drips(server)
            for thread in threads:
                thread.join()
    done()


main()
