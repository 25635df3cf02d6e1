"""tests/server/test_node.py PROGRAM MAKE_CHECKPOINT - what openai-node sends, byte by byte: the file before the fields,
a chunked body that comes in packets of any size, connections that are kept; by a scripted client and, where there is a
node with fetch, by its own (test_node.mjs), which is what openai-node uses.
"""
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile

from servertest import QUICK, Server, check, check_equal, done, make_model, read_answer, sound

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = make_model(sys.argv[2])
SOUND = sound(8)
PATH = "/v1/audio/transcriptions"
# As version 7.5 sends them; Node's fetch adds the last four.
HEADERS = {"Accept": "application/json", "User-Agent": "OpenAI/JS 7.5.0", "X-Stainless-Retry-Count": "0",
           "X-Stainless-Timeout": "600", "X-Stainless-Lang": "js", "X-Stainless-Package-Version": "7.5.0",
           "X-Stainless-OS": "Linux", "X-Stainless-Arch": "x64", "X-Stainless-Runtime": "node",
           "X-Stainless-Runtime-Version": "v20.20.2", "Authorization": "Bearer none", "Accept-Language": "*",
           "Sec-Fetch-Mode": "cors", "Accept-Encoding": "gzip, deflate", "Connection": "keep-alive"}


def parts(fields, border):
    """The body as its stream gives it: the head of a part, the file by 64 KiB, the fields one by one"""
    yield (f'--{border}\r\nContent-Disposition: form-data; name="file"; filename="talk.wav"\r\n'
           "Content-Type: audio/wav\r\n\r\n").encode()
    for i in range(0, len(SOUND), 65536):
        yield SOUND[i:i + 65536]
    yield b"\r\n"
    for name, value in fields:
        yield f'--{border}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
    yield f"--{border}--\r\n".encode()


def send_chunked(s, port, fields, cut=0, path=PATH):
    """Writes each piece as a chunk; cut: into packets of so many bytes, whatever they cut through"""
    border = "openai-" + os.urandom(12).hex()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n" + \
        "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items()) + \
        f"Content-Type: multipart/form-data; boundary={border}\r\nTransfer-Encoding: chunked\r\n\r\n"
    data = head.encode() + b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in parts(fields, border))
    data += b"0\r\n\r\n"
    for i in range(0, len(data), cut or len(data)):
        s.sendall(data[i:i + (cut or len(data))])
    return read_answer(s)


def test_scripted(server, text):
    fields = [("model", "whisper-1"), *QUICK.items()]
    with server.connect() as s:   # one connection for all, as its agent keeps it
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for cut in (0, 1000, 4093, 65536):
            answer = send_chunked(s, server.port, fields, cut)
            check_equal((answer.status, answer.json.get("text")), (200, text), f"in packets of {cut}")
            check(answer.headers["content-type"].startswith("application/json"), "a type that it parses", answer)
            check("x-request-id" in answer.headers, "_request_id")
        answer = send_chunked(s, server.port, [("stream", "true"), *fields])
        check_equal(answer.events[-1], {**answer.events[-1], "type": "transcript.text.done", "text": text}, "a stream")
        arrays = [("timestamp_granularities[]", "word"), ("timestamp_granularities[]", "segment")]
        words = send_chunked(s, server.port, [("response_format", "verbose_json"), *arrays, *fields]).json
        check("words" in words and "segments" in words, "arrays after the file", words)
        answer = send_chunked(s, server.port, [("chunking_strategy[type]", "server_vad"),
                                               ("chunking_strategy[threshold]", "7"), *fields])
        check_equal((answer.status, answer.error.get("param")), (400, "chunking_strategy"), "an object after the file")
    with server.connect() as s:   # a field that is wrong comes after the file: it is refused all the same
        answer = send_chunked(s, server.port, [("model", "nobody"), *QUICK.items()])
        check_equal((answer.status, answer.error.get("param")), (404, "model"), "a wrong model after the file")
    with server.connect() as s:
        answer = send_chunked(s, server.port, [("language", "klingon"), *QUICK.items()])
        check_equal((answer.status, answer.error.get("param")), (400, "language"), "a wrong field after the file")


def test_fetch(server, text):
    node = shutil.which("node") or shutil.which("nodejs")
    if not node or subprocess.run([node, "-e", "fetch"], capture_output=True, check=False).returncode:
        print("without Node's fetch: there is no node of version 18 or later")
        return
    with tempfile.NamedTemporaryFile(suffix=".wav") as file:
        file.write(SOUND)
        file.flush()
        made = subprocess.run([node, os.path.join(HERE, "test_node.mjs"), f"http://127.0.0.1:{server.port}/v1",
                               file.name, json.dumps(QUICK)], capture_output=True, text=True, timeout=240, check=False)
    check_equal(made.returncode, 0, f"node: {made.stderr[-2000:]}")
    for name, got in json.loads(made.stdout or "{}").items():
        check_equal(got, text, f"Node's fetch: {name}")


def main():
    with Server("--model", MODEL) as server:
        text = server.post(QUICK, SOUND).json["text"]
        check(len(text) > 5, "a text", text)
        test_scripted(server, text)
        test_fetch(server, text)
    done()


main()
