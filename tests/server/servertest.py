"""tests/server/servertest.py - what the tests of the server share: start it, ask it by raw sockets, stop it.

sys.argv: PROGRAM [MAKE_CHECKPOINT ...]. Everything is of Python's standard library. With a generated model (narrow) the
text is nonsense, but the same every time, and a request takes milliseconds.
"""
import array
import atexit
import json
import math
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from clitest import PROGRAM, ROOT, check, check_equal, done, model_path, run, skip, speech_path, wav  # noqa: F401,E402

FOLDER = tempfile.mkdtemp(prefix="servertest-")
atexit.register(shutil.rmtree, FOLDER, True)
if not os.path.exists(os.path.join(os.environ.get("MXW_MODULE_DIR", ""), "server.so")):
    skip(os.path.basename(sys.argv[0]), "the server module is not built")
# Fields of a request, and options of the command line, that make a generated model quick and its text certain.
QUICK = {"beam_size": "none", "temperature_increment_on_fallback": "none", "sample_len": "12",
         "no_speech_threshold": "none"}


def make_model(maker, name="narrow.pt", seed="1"):
    path = os.path.join(FOLDER, name)
    subprocess.run([maker, "pt", "f32", path, "narrow", "2", seed], check=True)
    return path


def make_certificate(name):
    """(certificate, key) of localhost, or None without openssl"""
    cert, key = (os.path.join(FOLDER, f"{name}.{kind}") for kind in ("crt", "key"))
    if not shutil.which("openssl"):
        return None
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "2", "-subj", f"/CN={name}", "-keyout", key, "-out", cert],
                   check=True, capture_output=True)
    return cert, key


def sound(seconds, number=1):
    """A WAV file: a tone that comes and goes over noise, another for each number"""
    noise = random.Random(number).randbytes(int(16000 * seconds))
    pitch, pace = 0.05 + 0.09 * number, 3000 + 700 * number
    samples = [int(9000 * math.sin(i * pitch) * max(0, math.sin(i / pace))) + 8 * n for i, n in enumerate(noise)]
    return wav(0, data=array.array("h", samples).tobytes())


class Server:
    """max-whisper serve on a free port, or a given one; a context, at whose end it must stop by itself with status 0"""

    def __init__(self, *words, env=None, wait=True, port=0):
        self.temp = tempfile.mkdtemp(dir=FOLDER)
        self.errors = open(os.path.join(self.temp, "..", f"stderr-{id(self)}"), "w+b")
        self.process = subprocess.Popen([PROGRAM, "serve", "--port", str(port), *words], stdout=subprocess.PIPE,
                                        stderr=self.errors, env={**os.environ, "TMPDIR": self.temp, **(env or {})})
        self.line = self.process.stdout.readline().decode() if wait else ""
        self.tls = "https://" in self.line
        self.port = int(self.line.rsplit(":", 1)[1]) if ":" in self.line else None
        check(self.port or not wait, "the server listens", self.stderr())

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            check_equal(self.process.wait(60), 0, "the server ends with status 0")
        except subprocess.TimeoutExpired:
            self.process.kill()
            check(False, "the server ends after SIGTERM")
        check_equal(os.listdir(self.temp), [], "files left in the temporary folder")
        self.process.stdout.close()
        if kind or self.process.returncode:
            print(self.stderr(), file=sys.stderr)
        self.errors.close()

    def kill(self):
        """SIGKILL; nothing may be left of it"""
        self.process.kill()
        check_equal(self.process.wait(60), -signal.SIGKILL, "it was killed")
        check_equal(os.listdir(self.temp), [], "files left in the temporary folder")
        self.process.stdout.close()
        self.errors.close()

    def stderr(self):
        self.errors.seek(0)
        return self.errors.read().decode("utf-8", "replace")

    def rss_kib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as stream:
            return int(next(line for line in stream if line.startswith("VmRSS")).split()[1])

    def threads(self):
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    def connect(self, timeout=300):
        s = socket.create_connection(("127.0.0.1", self.port), timeout)
        if not self.tls:
            return s
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context.wrap_socket(s)

    def raw(self, data, timeout=300, close=False):
        """Sends bytes (and then closes that direction); one answer, or None if the connection ends without"""
        with self.connect(timeout) as s:
            s.sendall(data)
            if close:
                s.shutdown(socket.SHUT_WR)
            return read_answer(s)

    def ask(self, method, path, body=b"", headers=None, timeout=300):
        lines = {"Host": f"127.0.0.1:{self.port}", "Connection": "close", **(headers or {})}
        if (body or method == "POST") and "Transfer-Encoding" not in lines:
            lines.setdefault("Content-Length", str(len(body)))
        head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return self.raw(head.encode() + b"\r\n" + body, timeout)

    def post(self, fields, file=None, path="/v1/audio/transcriptions", headers=None, timeout=300, file_first=False):
        """A form: fields is a dictionary or a list of (name, value); file is bytes, or (name, bytes)"""
        body, kind = form(fields, file, file_first)
        return self.ask("POST", path, body, {"Content-Type": kind, **(headers or {})}, timeout)


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json.get("error", {}) if self.body[:1] == b"{" else {}

    @property
    def text(self):
        return self.body.decode()

    @property
    def events(self):
        """Of a stream: the JSON of each data line"""
        return [json.loads(block[6:]) for block in self.body.decode().split("\n\n") if block.startswith("data: ")]

    def __repr__(self):
        return f"{self.status} {self.headers} {self.body[:600]!r}"


def read_head(s):
    data = b""
    while b"\r\n\r\n" not in data:
        piece = s.recv(65536)
        if not piece:
            return data, b""
        data += piece
    head, rest = data.split(b"\r\n\r\n", 1)
    return head, rest


def read_answer(s):
    """One answer, whatever its framing; None if the connection ended without any"""
    try:
        head, rest = read_head(s)
        while head.startswith(b"HTTP/1.1 100"):
            head, more = read_head(s) if b"\r\n\r\n" not in rest else rest.split(b"\r\n\r\n", 1)
            rest = more
    except (ConnectionError, ssl.SSLError):
        return None
    if not head.startswith(b"HTTP/1.1 "):
        return None
    lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
    body, broken = read_body(s, headers, rest)
    answer = Answer(int(lines[0].split()[1]), headers, body)
    answer.broken = broken
    return answer


def read_body(s, headers, rest):
    def more():
        try:
            return s.recv(65536)
        except (ConnectionError, ssl.SSLError):
            return b""
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while True:
            while b"\r\n" not in rest:
                piece = more()
                if not piece:
                    return body, True
                rest += piece
            size, rest = rest.split(b"\r\n", 1)
            n = int(size, 16)
            while len(rest) < n + 2:
                piece = more()
                if not piece:
                    return body + rest, True
                rest += piece
            body, rest = body + rest[:n], rest[n + 2:]
            if n == 0:
                return body, False
    wanted = int(headers.get("content-length", -1))
    while wanted < 0 or len(rest) < wanted:
        piece = more()
        if not piece:
            break
        rest += piece
    return rest, 0 <= len(rest) < wanted


def form(fields, file=None, file_first=False):
    """(body, content type) of a multipart form"""
    border = "----servertest" + os.urandom(8).hex()
    pairs = list(fields.items()) if isinstance(fields, dict) else list(fields)
    parts = [f'--{border}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode() +
             (value if isinstance(value, bytes) else str(value).encode()) + b"\r\n" for name, value in pairs]
    if file is not None:
        name, data = file if isinstance(file, tuple) else ("upload", file)
        part = (f'--{border}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
                "Content-Type: application/octet-stream\r\n\r\n").encode() + data + b"\r\n"
        parts.insert(0 if file_first else len(parts), part)
    return b"".join(parts) + f"--{border}--\r\n".encode(), f"multipart/form-data; boundary={border}"


def wait_until(truth, seconds=120):
    """Patience costs nothing where all is well, and a busy machine needs it"""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if truth():
            return True
        time.sleep(0.02)
    return False
