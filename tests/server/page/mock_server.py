"""tests/server/page/mock_server.py - the server's API with made-up text, for what a real one does not do on request: a
full queue, a file that is too large, a broken stream, a key that is refused, a live connection that ends.

What happens to a file follows from its name: busy-, large-, bad-, broken-, cut-, queue-, slow-; any other is
transcribed. Attributes of Mock change the rest while it runs. Not a server for anybody: one thread a
connection, whole bodies in memory.

    python3 tests/server/page/mock_server.py 8123        the page of this tree, to be looked at
"""
import base64
import hashlib
import http.server
import json
import os
import re
import struct
import sys
import threading
import time

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "apps", "server", "page")
WWW = os.path.join(PAGE, "www")
SAID = ["It was the best of times, it was the worst of times.",
        "It was the age of wisdom, it was the age of foolishness.",
        "It was the epoch of belief, it was the epoch of incredulity.", "It was the season of light."]
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


def page_headers():
    """The headers of page.c, read from it"""
    with open(os.path.join(PAGE, "page.c"), encoding="utf-8") as stream:
        text = stream.read()
    policy = "".join(re.findall(r'"([^"]*)"', re.search(r"policy\[\] =(.*?);\n", text, re.DOTALL).group(1)))
    rows = re.findall(r'\{"([^"]+)", (?:"([^"]*)"|policy)\}', text)
    return [(name, value or policy) for name, value in rows]


def result_of(seconds):
    """verbose_json over so many seconds: words at equal distances, top-level as OpenAI has them"""
    total = sum(len(text.split()) for text in SAID)
    segments, words, at = [], [], 0
    for number, text in enumerate(SAID):
        first = at
        for word in text.split():
            words.append({"word": word, "start": seconds * at / total, "end": seconds * (at + 1) / total})
            at += 1
        segments.append({"id": number, "seek": 0, "start": seconds * first / total, "end": seconds * at / total,
                         "text": " " + text, "tokens": [1], "temperature": 0.0, "avg_logprob": -0.2,
                         "compression_ratio": 1.2, "no_speech_prob": 0.01})
    return {"task": "transcribe", "language": "english", "duration": seconds, "text": " ".join(SAID),
            "segments": segments, "words": words, "usage": {"type": "duration", "seconds": seconds}}


class Mock:
    """What the mock does now, and what it saw"""
    key = ""                    # wanted of every request if not ""
    away = False                # connections are closed without an answer
    drop_live_after = 0         # seconds of live sound after which the connection ends; 0: never
    pace = 0.05                 # seconds between events
    requests = []               # fields of every transcription
    gone = []                   # names of files whose client went away
    tries = {}                  # name: how often
    sessions = []               # what live sessions asked for
    opens = threading.Event()   # cleared: live connections wait with their answer
    lives = []                  # live connections


Mock.opens.set()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def answer(self, status, body, kind="application/json", headers=()):
        self.send_response(status)
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(body))), *headers):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status, message, headers=(), **more):
        error = {"message": message, "type": "invalid_request_error", "param": None, "code": None, **more}
        self.answer(status, json.dumps({"error": error}).encode(), headers=headers)

    def allowed(self):
        if Mock.away:
            self.close_connection = True
            self.connection.shutdown(2)
            return False
        offered = self.headers.get("Authorization", "") + self.headers.get("Sec-WebSocket-Protocol", "")
        if Mock.key and self.path.startswith("/v1/") and Mock.key not in offered:
            self.refuse(401, "Incorrect API key provided.", code="invalid_api_key")
            return False
        return True

    def do_GET(self):
        if not self.allowed():
            return
        path = self.path.split("?")[0]
        if path == "/v1/models":
            data = [{"id": name, "object": "model", "created": 0, "owned_by": "mock"} for name in ("base", "tiny.en")]
            self.answer(200, json.dumps({"object": "list", "data": data}).encode())
        elif path == "/v1/realtime":
            live = Live(self)
            Mock.lives.append(live)
            Mock.opens.wait()
            try:
                live.run()
            finally:
                live.is_over = True
        else:
            self.send_asset("index.html" if path == "/" else path)

    def send_asset(self, path):
        file = os.path.join(WWW, os.path.basename(path))
        kind = TYPES.get(os.path.splitext(file)[1])
        if not kind or not os.path.exists(file):
            return self.refuse(404, "no such page")
        with open(file, "rb") as stream:
            return self.answer(200, stream.read(), kind, page_headers())

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not self.allowed():
            return
        boundary = b"--" + self.headers["Content-Type"].split("boundary=")[1].encode()
        fields, name, sound = {}, "", b""
        for part in body.split(boundary)[1:-1]:
            head, _, data = part.partition(b"\r\n\r\n")
            field = re.search(rb'name="([^"]*)"', head).group(1).decode()
            file = re.search(rb'filename="([^"]*)"', head)
            if file:
                name, sound = file.group(1).decode(), data[:-2]
            else:
                fields.setdefault(field, []).append(data[:-2].decode())
        Mock.requests.append({"path": self.path, "file": name, **fields})
        Mock.tries[name] = Mock.tries.get(name, 0) + 1
        self.transcribe(name, sound)

    def transcribe(self, name, sound):
        kind = name.split("-")[0]
        if kind == "busy" and Mock.tries[name] == 1:
            return self.refuse(429, "The queue is full.", [("Retry-After", "2")])
        if kind == "large":
            return self.refuse(413, "The file is larger than 1 kB (--max-upload).")
        if kind == "bad":
            return self.refuse(400, "bad-file.wav: not audio that can be decoded", param="file")
        self.send_response(200)
        for header in (("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")):
            self.send_header(*header)
        self.end_headers()
        try:
            self.stream(kind, sound)
        except (BrokenPipeError, ConnectionResetError):
            Mock.gone.append(name)
            self.close_connection = True
        return None

    def event(self, event):
        data = f"data: {json.dumps(event)}\n\n".encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()
        time.sleep(Mock.pace)

    def stream(self, kind, sound):
        seconds = (len(sound) - 44) / struct.unpack("<I", sound[28:32])[0]
        result = result_of(seconds)
        for position in ((3, 2, 1) if kind == "queue" else ()):
            self.event({"type": "max_whisper.queued", "position": position})
            time.sleep(20 * Mock.pace)
        for number, segment in enumerate(result["segments"]):
            self.event({"type": "max_whisper.progress", "done_s": segment["start"], "total_s": seconds})
            if kind == "broken" and number == 2:
                self.event({"error": {"message": "The model ran out of memory.", "type": "server_error"}})
                break
            if kind == "cut" and number == 2:
                self.close_connection = True
                return self.connection.shutdown(2)
            while kind == "slow":
                self.event({"type": "max_whisper.progress", "done_s": segment["start"], "total_s": seconds})
            inside = [word for word in result["words"] if segment["start"] <= word["start"] < segment["end"]]
            inside = [{**word, "word": " " + word["word"], "probability": 0.9} for word in inside]
            self.event({"type": "max_whisper.segment", "segment": {**segment, "words": inside}})
        else:
            self.event({"type": "max_whisper.result", "result": result})
            self.event({"type": "transcript.text.done", "text": result["text"]})
        return self.wfile.write(b"0\r\n\r\n")


class Live:
    """A realtime session: a word for each half second of sound, a passage for each sentence"""

    def __init__(self, handler):
        self.handler, self.seconds, self.said, self.item, self.is_over = handler, 0.0, 0, None, False

    def run(self):
        handler = self.handler
        nonce = handler.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        handler.send_response(101)
        for name, value in (("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Protocol", "realtime"),
                            ("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(nonce.encode()).digest()).decode())):
            handler.send_header(name, value)
        handler.end_headers()
        handler.close_connection = True
        self.send({"type": "session.created", "session": {"type": "transcription"}})
        while self.frame():
            pass

    def send(self, event):
        data = json.dumps({"event_id": "event_1", **event}).encode()
        head = b"\x81" + (bytes([len(data)]) if len(data) < 126 else b"\x7e" + struct.pack(">H", len(data)))
        self.handler.wfile.write(head + data)
        self.handler.wfile.flush()

    def frame(self):
        head = self.handler.rfile.read(2)
        if len(head) < 2 or head[0] & 15 == 8:
            return False
        n = head[1] & 127
        if n > 125:
            n = int.from_bytes(self.handler.rfile.read(2 if n == 126 else 8), "big")
        mask, data = self.handler.rfile.read(4), self.handler.rfile.read(n)
        event = json.loads(bytes(byte ^ mask[i % 4] for i, byte in enumerate(data)))
        return self.take(event)

    def take(self, event):
        if event["type"] == "session.update":
            Mock.sessions.append(event["session"])
            self.send({"type": "session.updated", "session": event["session"]})
        if event["type"] == "input_audio_buffer.append":
            self.seconds += len(base64.b64decode(event["audio"])) / 48000
            if Mock.drop_live_after and self.seconds > Mock.drop_live_after:
                return False
            self.speak()
        if event["type"] == "input_audio_buffer.commit":
            self.end()
        return True

    def speak(self):
        words = [(text, i, word) for text in SAID for i, word in enumerate(text.split())]
        while self.said < min(len(words), int(2 * self.seconds)):
            text, i, word = words[self.said]
            if i == 0:
                self.item = {"id": f"item_{self.said}", "text": text, "start": self.said / 2}
                self.send({"type": "input_audio_buffer.speech_started", "item_id": self.item["id"],
                           "audio_start_ms": 500 * self.said})
            self.said += 1
            self.send({"type": "conversation.item.input_audio_transcription.delta", "item_id": self.item["id"],
                       "content_index": 0, "delta": " " + word})
            self.send({"type": "max_whisper.partial", "item_id": self.item["id"], "text": " perhaps"})
            if i == len(text.split()) - 1:
                self.end()

    def end(self):
        if not self.item:
            return self.send({"type": "error", "error": {"message": "buffer too small", "type": "invalid_request_error",
                                                         "code": "input_audio_buffer_commit_empty"}})
        item, self.item = self.item, None
        words = item["text"].split()[:int(self.said - 2 * item["start"])]
        self.send({"type": "input_audio_buffer.speech_stopped", "item_id": item["id"], "audio_end_ms": 500 * self.said})
        self.send({"type": "input_audio_buffer.committed", "item_id": item["id"], "previous_item_id": None})
        return self.send({"type": "conversation.item.input_audio_transcription.completed", "item_id": item["id"],
                          "content_index": 0, "transcript": " ".join(words),
                          "words": [{"word": " " + word, "start": item["start"] + i / 2,
                                     "end": item["start"] + i / 2 + 0.4} for i, word in enumerate(words)],
                          "usage": {"type": "duration", "seconds": 1}})


def start(port=0):
    """The server, running in a thread; its port is server_address[1]"""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


if __name__ == "__main__":
    print(f"http://127.0.0.1:{start(int(sys.argv[1])).server_address[1]}/", flush=True)
    threading.Event().wait()
