"""tests/server/realtime/websocket.py - a WebSocket client of Python's standard library that can also break the rules.

Socket(server): connects and upgrades; send and frame write messages and single frames, event reads the next JSON event.
Expects servertest.py beside its folder; a test's own sys.argv is as that says.
"""
import array
import base64
import hashlib
import json
import math
import os
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from servertest import check, check_equal, read_head  # noqa: E402

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def upgrade(server, headers=None, path="/v1/realtime?intent=transcription", timeout=60, key=None):
    """(socket, status, headers, bytes after them) of an attempt"""
    key = base64.b64encode(os.urandom(16)).decode() if key is None else key
    lines = {"Host": f"127.0.0.1:{server.port}", "Upgrade": "websocket", "Connection": "keep-alive, Upgrade",
             "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key, "Content-Type": "application/json",
             **(headers or {})}
    s = server.connect(timeout)
    s.sendall((f"GET {path} HTTP/1.1\r\n" + "".join(f"{a}: {b}\r\n" for a, b in lines.items() if b is not None) +
               "\r\n").encode())
    head, rest = read_head(s)
    first, *others = head.decode("latin-1").split("\r\n")
    answer = {a.lower(): b for a, _, b in (line.partition(": ") for line in others)}
    status = int(first.split()[1]) if first else 0
    if status == 101:
        wanted = base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode()
        check_equal(answer.get("sec-websocket-accept"), wanted, "Sec-WebSocket-Accept")
    return s, status, answer, rest


def frame(opcode, payload=b"", fin=True, masked=True, rsv=0, length=None):
    """The bytes of a frame; length: what it claims"""
    n = len(payload) if length is None else length
    head = bytes([(0x80 if fin else 0) | rsv << 4 | opcode])
    bit = 0x80 if masked else 0
    head += bytes([bit | n]) if n < 126 else bytes([bit | 126]) + struct.pack(">H", n) if n < 65536 else \
        bytes([bit | 127]) + struct.pack(">Q", n)
    if not masked:
        return head + payload
    mask = os.urandom(4)
    repeated = (mask * (len(payload) // 4 + 1))[:len(payload)]
    masked_bytes = (int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")).to_bytes(len(payload), "big")
    return head + mask + masked_bytes


class Socket:
    def __init__(self, server, headers=None, path="/v1/realtime?intent=transcription", timeout=60):
        self.socket, self.status, self.headers, self.rest = upgrade(server, headers, path, timeout)
        self.closed = None   # (code, reason) of the server's close; (None, why) without one

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, event):
        self.socket.sendall(frame(TEXT, json.dumps(event).encode() if isinstance(event, dict) else event))

    def read(self, n):
        while len(self.rest) < n:
            piece = self.socket.recv(65536)
            if not piece:
                raise ConnectionError("the connection ended")
            self.rest += piece
        taken, self.rest = self.rest[:n], self.rest[n:]
        return taken

    def next_frame(self):
        """(opcode, payload); the server does not fragment, and does not mask"""
        first, second = self.read(2)
        check(first & 0x80 and not first & 0x70 and not second & 0x80, "an unmasked whole frame", (first, second))
        n = second & 0x7f
        if n > 125:
            n = int.from_bytes(self.read(2 if n == 126 else 8), "big")
        return first & 15, self.read(n)

    def event(self):
        """The next event; pings are answered; None when the connection is over"""
        while self.closed is None:
            try:
                opcode, payload = self.next_frame()
            except OSError as problem:
                self.closed = (None, str(problem))
                return None
            if opcode == CLOSE:
                self.closed = (struct.unpack(">H", payload[:2])[0] if payload else 1005, payload[2:].decode())
                try:
                    self.socket.sendall(frame(CLOSE, payload))
                except OSError:
                    pass
            elif opcode == PING:
                self.socket.sendall(frame(PONG, payload))
            elif opcode == TEXT:
                return json.loads(payload)
        return None

    def until(self, kind, count=1):
        """Events up to the count-th of that type, or to the end"""
        events = []
        while count and (event := self.event()) is not None:
            events.append(event)
            count -= event["type"] == kind
        return events

    def rest_of(self):
        """Everything up to the end"""
        return self.until(None, -1)

    def append(self, pcm):
        self.send({"type": "input_audio_buffer.append", "audio": base64.b64encode(pcm).decode()})

    def update(self, **audio_input):
        self.send({"type": "session.update", "session": {"type": "transcription", "audio": {"input": audio_input}}})

    def stream(self, pcm, rate=24000, piece_s=0.1, pace=0):
        """Appends all of it, in pieces; pace 1: as fast as it is spoken"""
        size, start = 2 * int(rate * piece_s), time.monotonic()
        for i in range(0, len(pcm), size):
            if pace:
                time.sleep(max(0, start + i / 2 / rate / pace - time.monotonic()))
            self.append(pcm[i:i + size])


def silence(seconds, rate=24000):
    return bytes(2 * int(seconds * rate))


def tone(seconds, rate=24000, pitch=220):
    return array.array("h", [int(9000 * math.sin(2 * math.pi * pitch * i / rate))
                             for i in range(int(seconds * rate))]).tobytes()


def transcripts(events):
    return [event["transcript"] for event in events if event["type"].endswith("transcription.completed")]


def deltas(events):
    """What the deltas of each item say, by item"""
    said = {}
    for event in events:
        if event["type"].endswith("transcription.delta"):
            said[event["item_id"]] = said.get(event["item_id"], "") + event["delta"]
    return said
