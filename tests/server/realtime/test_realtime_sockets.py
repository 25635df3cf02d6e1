"""Live sockets by hand, on a generated model: who is let in, frames of every kind, well-formed and not, clients that
are slow, rude or gone, limits, secrets, the end of the server. None of it needs speech.

usage: test_realtime_sockets.py PROGRAM MAKE_CHECKPOINT
"""
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time
from socket import SO_LINGER, SOL_SOCKET

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from websocket import BINARY, CLOSE, PING, PONG, TEXT, Socket, frame, silence, upgrade  # noqa: E402
from servertest import FOLDER, Server, check, check_equal, done, make_model, wait_until  # noqa: E402

MODEL = ["--model", make_model(sys.argv[2]), "--model-dir", FOLDER]
NONSENSE = json.dumps({"type": "nonsense", "event_id": "mine"}).encode()


def refused(server, status, code, what, headers=None, path="/v1/realtime?intent=transcription", key=None):
    s, got, answer, rest = upgrade(server, headers, path, key=key)
    wanted = int(answer.get("content-length", 0))
    while len(rest) < wanted and (piece := s.recv(65536)):
        rest += piece
    s.close()
    check_equal((got, json.loads(rest)["error"]["code"] if rest else None), (status, code), what)
    return answer


def created(socket, what):
    check_equal(socket.status, 101, what)
    event = socket.event()
    check(event and event["type"] in ("session.created", "transcription_session.created"), what, event)
    return event


def closes(server, data, code, what):
    """After these bytes the server closes with that code; and others are as they were"""
    with Socket(server) as socket:
        created(socket, what)
        try:
            socket.socket.sendall(data)
        except OSError:
            pass
        socket.rest_of()
        check_equal(socket.closed[0], code, what)
    check_equal(server.ask("GET", "/health").status, 200, f"{what}: the server is well")


def let_in(server, headers=None):
    """The status of an attempt"""
    s, status, _, _ = upgrade(server, headers)
    s.close()
    return status


def test_handshake(server):
    answer = refused(server, 426, "upgrade_required", "a plain GET", {"Upgrade": None})
    check_equal([answer.get(name) for name in ("sec-websocket-version", "upgrade")], ["13", "websocket"],
                "what would be right")
    refused(server, 426, "upgrade_required", "an upgrade to something else", {"Upgrade": "h2c"})
    refused(server, 426, "upgrade_required", "no Connection: Upgrade", {"Connection": "keep-alive"})
    refused(server, 426, "websocket_version", "an old version", {"Sec-WebSocket-Version": "8"})
    refused(server, 400, "websocket_key", "a short key", key="c2hvcnQ=")
    refused(server, 400, "websocket_key", "no base64", key="!" * 24)
    refused(server, 403, "origin_not_allowed", "another origin", {"Origin": "https://evil.example"})
    refused(server, 400, "invalid_value", "another intent", path="/v1/realtime?intent=conversation")
    refused(server, 400, "unsupported_parameter", "a call", path="/v1/realtime?call_id=rtc_1")
    refused(server, 404, "model_not_found", "no such model", path="/v1/realtime?model=nobody")
    check_equal(server.ask("POST", "/v1/realtime").status, 405, "POST")
    for path in ("/v1/realtime", "/v1/realtime?intent=transcription", "/v1/realtime?model=whisper-1",
                 "/v1/realtime?model=gpt-4o-realtime-preview&intent=transcription", "/v1/realtime?model=narrow"):
        with Socket(server, path=path) as socket:
            created(socket, path)
    with Socket(server, {"Origin": f"http://127.0.0.1:{server.port}"}) as socket:
        created(socket, "its own origin")
    with Socket(server, {"OpenAI-Beta": "realtime=v1"}) as socket:
        check_equal(created(socket, "beta")["type"], "transcription_session.created", "the beta by its header")
    offered = "realtime, openai-insecure-api-key.x, openai-beta.realtime-v1"
    with Socket(server, {"Sec-WebSocket-Protocol": offered}) as s:
        check_equal(created(s, "beta")["type"], "transcription_session.created", "the beta by its subprotocol")
        check_equal(s.headers.get("sec-websocket-protocol"), "realtime", "the subprotocol that is chosen")
        check("sec-websocket-extensions" not in s.headers, "no compression")


def test_frames(server):
    with Socket(server) as s:
        created(s, "frames")
        for what, data in {
                "one frame": frame(TEXT, NONSENSE),
                "a binary one": frame(BINARY, NONSENSE),
                "fragments": frame(TEXT, NONSENSE[:5], fin=False) + frame(0, NONSENSE[5:9], fin=False) +
                frame(0, NONSENSE[9:]),
                "empty fragments": frame(TEXT, b"", fin=False) + frame(0, b"", fin=False) * 50 + frame(0, NONSENSE),
                "16 bits of length": frame(TEXT, NONSENSE + b" " * 3000),
                "64 bits of length": frame(TEXT, NONSENSE + b" " * 70000)}.items():
            s.socket.sendall(data)
            check_equal((s.event() or {}).get("error", {}).get("event_id"), "mine", what)
        for byte in frame(TEXT, NONSENSE):
            s.socket.sendall(bytes([byte]))
        check_equal((s.event() or {}).get("error", {}).get("event_id"), "mine", "a byte at a time")
        s.socket.sendall(frame(TEXT, NONSENSE[:5], fin=False) + frame(PING, b"between") + frame(0, NONSENSE[5:]))
        check_equal(s.next_frame(), (PONG, b"between"), "a ping between fragments")
        check_equal((s.event() or {}).get("error", {}).get("event_id"), "mine", "the message around it")
        s.socket.sendall(frame(PONG, b"nobody asked"))
        s.socket.sendall(b"".join(frame(PING, b"%d" % i) for i in range(100)))
        check_equal([s.next_frame() for _ in range(100)], [(PONG, b"%d" % i) for i in range(100)], "pongs in order")
        s.socket.sendall(frame(TEXT, b""))
        check_equal((s.event() or {}).get("error", {}).get("code"), "invalid_json", "an empty message")
        s.socket.sendall(frame(CLOSE, struct.pack(">H", 1000) + b"bye"))
        check_equal(s.next_frame(), (CLOSE, struct.pack(">H", 1000) + b"bye"), "the close is answered")
        check_equal(s.socket.recv(10), b"", "and the connection ends")


def test_bad_frames(server):
    closes(server, frame(TEXT, b"{}", masked=False), 1002, "not masked")
    closes(server, frame(TEXT, b"{}", rsv=4), 1002, "compressed")
    closes(server, frame(3, b"{}"), 1002, "an unknown opcode")
    closes(server, frame(0, b"{}"), 1002, "a fragment of nothing")
    closes(server, frame(TEXT, b"{", fin=False) + frame(TEXT, b"}"), 1002, "a message inside another")
    closes(server, frame(TEXT, b"\xc3("), 1007, "not UTF-8")
    closes(server, frame(TEXT, b"\xf0\x9f", fin=False) + frame(0, b"(("), 1007, "not UTF-8 across fragments")
    closes(server, frame(CLOSE, struct.pack(">H", 999)), 1002, "a close code that there is not")
    closes(server, frame(TEXT, b"{}", length=1 << 40), 1009, "a length beyond all bounds")
    closes(server, frame(TEXT, b" " * (11 << 20), fin=False) + frame(0, b" " * (11 << 20)), 1009,
           "fragments that are too much together")
    with Socket(server) as s:
        created(s, "a ping that is too long")
        s.socket.sendall(frame(PING, b"x" * 126))
        s.rest_of()
        check(s.closed[0] in (1002, None), "a ping that is too long ends the connection", s.closed)
    with Socket(server) as s:
        created(s, "the largest message")
        s.socket.sendall(frame(TEXT, NONSENSE + b" " * ((20 << 20) - len(NONSENSE))))
        check_equal((s.event() or {}).get("error", {}).get("event_id"), "mine", "20 MiB are a message")


def test_rude_clients(server):
    before = server.threads()
    for i in range(20):
        s = Socket(server)
        s.socket.sendall(frame(TEXT, NONSENSE * 3)[:50 + i] if i % 2 else frame(TEXT, b"{", fin=False))
        s.socket.close()
    check(wait_until(lambda: server.threads() <= before), "threads of clients that left end", server.threads())
    s = Socket(server)   # sends and sends, and never reads
    s.socket.settimeout(20)
    data = frame(TEXT, json.dumps({"type": "nonsense" * 12}).encode()) * 500
    try:
        for _ in range(400):
            s.socket.sendall(data)
        dropped = False
    except OSError:
        dropped = True
    check(dropped, "a client that does not read is dropped, or not read")
    check_equal(server.ask("GET", "/health").status, 200, "the server is well")
    s.socket.close()
    check(wait_until(lambda: server.threads() <= before), "its thread ends", server.threads())


def test_reads_later(server):
    """More short events than pings may wait, and together more than the system's buffers hold: they wait, and come"""
    n = 30000
    with Socket(server) as s:
        created(s, "one that reads later")
        dropped = metric(server, "sockets_dropped_total")
        for _ in range(n // 100):
            s.socket.sendall(frame(TEXT, NONSENSE) * 100)
        check(wait_until(lambda: metric(server, "socket_waiting_bytes") == 0), "all is heard")
        check_equal([(s.event() or {}).get("error", {}).get("event_id") for _ in range(n)], ["mine"] * n, "all events")
        check_equal(metric(server, "sockets_dropped_total"), dropped, "it is not dropped")


def metric(server, name):
    name = f"max_whisper_{name} "
    return next(float(line[len(name):]) for line in server.ask("GET", "/metrics").text.splitlines()
                if line.startswith(name))


def waiting_bytes(server):
    return metric(server, "socket_waiting_bytes")


def test_unfinished(server):
    """Messages that do not end are memory: as much as all clients may have waiting (512 MiB, realtime/socket.h), and
    no more. 17 MiB of a message have room for 21."""
    piece, held = frame(BINARY, b" " * (17 << 20), fin=False), []
    for _ in range(24):
        held.append(Socket(server))
        created(held[-1], "one that does not end its message")
        held[-1].socket.sendall(piece + frame(PING, b"read"))
        check_equal(held[-1].next_frame(), (PONG, b"read"), "what has come was read")
    check_equal(waiting_bytes(server), 24 * (21 << 20), "it counts")
    with Socket(server) as s:
        created(s, "one too many")
        s.socket.sendall(piece)
        s.rest_of()
        check_equal(s.closed[0], 1013, "there is no room for one more")
    with Socket(server) as s:
        created(s, "a small message")
        s.send(NONSENSE)
        check_equal((s.event() or {}).get("error", {}).get("event_id"), "mine", "a small message has room")
    check_equal(waiting_bytes(server), 24 * (21 << 20), "nothing of those is left")
    held[0].socket.sendall(frame(0, b"{"))
    check_equal((held[0].event() or {}).get("error", {}).get("code"), "invalid_json", "one ends its message")
    check(wait_until(lambda: waiting_bytes(server) == 23 * (21 << 20)), "its room is free", waiting_bytes(server))
    for s in held:
        s.socket.close()
    check(wait_until(lambda: waiting_bytes(server) == 0), "and that of clients that left", waiting_bytes(server))


def test_many(server):
    base = server.threads()
    sockets = [Socket(server) for _ in range(100)]
    for s in sockets:
        created(s, "one of many")
    check(wait_until(lambda: server.threads() <= base + 101), "a thread for each socket", server.threads() - base)
    for s in sockets:
        s.socket.sendall(frame(PING, b"x"))
    check_equal([s.next_frame() for s in sockets], [(PONG, b"x")] * 100, "all answer")
    check_equal(server.ask("GET", "/health").status, 200, "health beside them")
    for s in sockets:
        s.socket.close()
    check(wait_until(lambda: server.threads() <= base), "and all threads end", server.threads() - base)


def leave(socket, way):
    """0: the end of the stream; 1: a reset; 2: a close, and the end of the stream when the server's is there"""
    if way == 1:
        socket.socket.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    if way == 2:
        socket.rest_of()
    socket.socket.close()


def test_leaving_together(server, rounds):
    """Sixty at once, again and again: what they leave in libmicrohttpd is taken down while others still leave"""
    for i in range(rounds):
        sockets = [Socket(server) for _ in range(60)]
        check_equal([s.status for s in sockets], [101] * 60, "all are in")
        if i % 3 == 2:
            for s in sockets:
                s.socket.sendall(frame(CLOSE, struct.pack(">H", 1000)))
        for s in sockets:
            leave(s, i % 3)
        check(wait_until(lambda: metric(server, "sockets") == 0), "all are gone", metric(server, "sockets"))


def test_no_detector(server):
    """Without the weights that find speech: an error that says so, once, and the session goes on"""
    with Socket(server) as s:
        created(s, "no detector")
        s.append(silence(0.3))
        error = s.event()["error"]
        check("silero" in error["message"] and error["code"] == "model_not_found", "no detector", error)
        s.append(silence(0.3))
        s.send({"type": "input_audio_buffer.commit"})
        kinds = [event["type"].rsplit(".", 1)[-1] for event in s.until(
            "conversation.item.input_audio_transcription.failed")]
        check_equal(kinds, ["committed", "added", "done", "failed"], "a commit then")


def test_keys():
    with Server(*MODEL, "--api-key", "sk-one") as server:
        key = {"Authorization": "Bearer sk-one"}
        refused(server, 401, "invalid_api_key", "no key")
        refused(server, 401, "invalid_api_key", "a wrong one", {"Authorization": "Bearer sk-two"})
        refused(server, 401, "invalid_api_key", "a wrong one in the subprotocol",
                {"Sec-WebSocket-Protocol": "realtime, openai-insecure-api-key.sk-two"})
        with Socket(server, key) as s:
            created(s, "the key")
        with Socket(server, {"Sec-WebSocket-Protocol": "realtime, openai-insecure-api-key.sk-one"}) as s:
            created(s, "the key in the subprotocol")
            check("sk-one" not in str(s.headers), "the key is not repeated")
        path = "/v1/realtime/client_secrets"
        check_equal(server.ask("POST", path, b"{}").status, 401, "a secret without a key")
        for body, param in ((b'{"expires_after":{"seconds":5}}', "expires_after.seconds"),
                            (b'{"expires_after":{"anchor":"now"}}', "expires_after.anchor"),
                            (b'{"expires_after":{"minutes":5}}', "expires_after.minutes"),
                            (b'{"expires_at":5}', "expires_at"),
                            (b'{"session":{"type":"realtime"}}', "session.type"),
                            (b'{"session":{"audio":{"input":{"transcription":{"language":"xx"}}}}}',
                             "session.audio.input.transcription.language"), (b"[", None)):
            answer = server.ask("POST", path, body, key)
            check_equal((answer.status, answer.error["param"]), (400, param), f"{body}")
        wanted = {"expires_after": {"anchor": "created_at", "seconds": 3600},
                  "session": {"type": "transcription", "audio": {"input": {"turn_detection": None}}}}
        before = time.time()
        answer = server.ask("POST", path, json.dumps(wanted).encode(), key).json
        check(answer["value"].startswith("ek_") and expires(answer, before, 3600), "secret", answer)
        check_equal(answer["session"]["audio"]["input"]["turn_detection"], None, "its session")
        secret = {"Sec-WebSocket-Protocol": f"realtime, openai-insecure-api-key.{answer['value']}"}
        for _ in range(2):
            with Socket(server, secret) as s:
                check_equal(created(s, "a secret")["session"]["audio"]["input"]["turn_detection"], None, "its session")
        check_equal(server.ask("GET", "/v1/models", headers={"Authorization": f"Bearer {answer['value']}"}).status, 401,
                    "a secret opens nothing else")
        path = "/v1/realtime/transcription_sessions"
        beta = server.ask("POST", path, b'{"input_audio_format":"g711_alaw"}', key).json
        check_equal((beta["object"], beta["input_audio_format"]), ("realtime.transcription_session", "g711_alaw"), "it")
        with Socket(server, {"Authorization": f"Bearer {beta['client_secret']['value']}",
                             "OpenAI-Beta": "realtime=v1"}) as s:
            check_equal(created(s, "beta")["session"]["input_audio_format"], "g711_alaw", "a beta secret's session")
        for body, param in ((b'{"input_audio_format":"mp3"}', "input_audio_format"),
                            (b'{"client_secret":5}', "client_secret"),
                            (b'{"client_secret":{"seconds":60}}', "client_secret.seconds"),
                            (b'{"client_secret":{"expires_at":{"seconds":7201}}}', "client_secret.expires_at.seconds")):
            answer = server.ask("POST", path, body, key)
            check_equal((answer.status, answer.error["param"]), (400, param), f"{body}")
        before = time.time()
        beta = server.ask("POST", path, b'{"client_secret":{"expires_at":{"seconds":60}}}', key).json
        check(expires(beta["client_secret"], before, 60), "a beta secret for a minute", beta)
        soon = server.ask("POST", "/v1/realtime/client_secrets", b'{"expires_after":{"seconds":10}}', key).json["value"]
        secret = {"Sec-WebSocket-Protocol": f"realtime, openai-insecure-api-key.{soon}"}
        check(wait_until(lambda: let_in(server, secret) == 401), "a secret expires")
        refused(server, 401, "invalid_api_key", "a secret that never was", {"Authorization": "Bearer ek_guess"})


def expires(said, before, seconds):
    """Whether expires_at is so many seconds after a moment between then and now, in whole ones, of a clock that may be
    a tick behind this one"""
    return int(before) + seconds - 1 <= said["expires_at"] <= time.time() + seconds + 1


def test_limits():
    with Server(*MODEL, "--realtime-sockets", "2", "--cors-origin", "https://a.example") as server:
        with Socket(server, {"Origin": "https://a.example"}) as one, Socket(server) as two:
            created(one, "one")
            created(two, "two")
            check("retry-after" in refused(server, 503, "too_many_sockets", "a third"), "Retry-After")
        check(wait_until(lambda: let_in(server) == 101), "then there is room again")
    with Server(*MODEL, "--realtime-expiry", "2") as server:
        before = time.time()
        with Socket(server) as s:
            check(expires(created(s, "one that expires")["session"], before, 2), "expires_at")
            events = s.rest_of()
            check_equal([event["error"]["code"] for event in events], ["session_expired"], "a session expires")
            check_equal(s.closed[0], 1001, "and is closed")
    with Server(*MODEL, "--realtime-idle", "1") as server, Socket(server) as s:
        created(s, "idle")
        s.rest_of()
        check_equal(s.closed[0], 1001, "a client that sends nothing")


def test_no_thread():
    """A connection has its thread, and there is no room for that of its socket, which has a larger stack"""
    with Server(*MODEL) as server:
        with open(f"/proc/{server.process.pid}/status", encoding="ascii") as stream:
            kib = next(int(line.split()[1]) for line in stream if line.startswith("VmSize"))
        if kib >= 1 << 30:
            return   # a sanitizer's shadow: its threads need more than their stacks
        resource.prlimit(server.process.pid, resource.RLIMIT_AS, ((kib + 1500) << 10, resource.RLIM_INFINITY))
        with Socket(server) as s:
            check_equal((s.status, s.event()), (101, None), "it is closed at once")
        resource.prlimit(server.process.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        check_equal([metric(server, name) for name in ("sockets", "sockets_opened_total")], [0, 0], "nor counted")
        check("out of memory or threads" in server.stderr(), "and told in the log", server.stderr())


def test_end():
    with Server(*MODEL) as server:
        sockets = [Socket(server) for _ in range(5)]
        for s in sockets:
            created(s, "before the end")
        server.process.send_signal(signal.SIGTERM)
        for s in sockets:
            s.rest_of()
            check_equal(s.closed[0], 1001, "the server says goodbye")
            s.socket.close()


def test_tls():
    if not shutil.which("openssl"):
        return
    cert, key = os.path.join(FOLDER, "cert.pem"), os.path.join(FOLDER, "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-subj", "/CN=localhost", "-days", "2", "-keyout", key, "-out", cert], check=True,
                   stderr=subprocess.DEVNULL)
    with Server(*MODEL, "--tls-cert", cert, "--tls-key", key) as server:
        with Socket(server) as s:
            created(s, "TLS")
            s.socket.sendall(frame(TEXT, NONSENSE + b" " * 200000))
            check_equal((s.event() or {}).get("error", {}).get("event_id"), "mine", "a long message through TLS")
            s.socket.sendall(frame(PING, b"tls"))
            check_equal(s.next_frame(), (PONG, b"tls"), "a ping through TLS")
            s.socket.sendall(frame(CLOSE, struct.pack(">H", 1000)))
            check_equal(s.next_frame(), (CLOSE, struct.pack(">H", 1000)), "a close through TLS")
        for how in (0, 1):   # libmicrohttpd does not pass on a reset, and would be busy until a ping is not answered
            s = Socket(server)
            leave(s, how)
            check(wait_until(lambda: metric(server, "sockets") == 0, 20), "a client that is gone is noticed", how)
        test_leaving_together(server, 3)


with Server(*MODEL) as shared:
    test_handshake(shared)
    test_frames(shared)
    test_bad_frames(shared)
    test_rude_clients(shared)
    test_reads_later(shared)
    test_unfinished(shared)
    test_many(shared)
    test_leaving_together(shared, 3)
    test_no_detector(shared)
test_keys()
test_limits()
test_no_thread()
test_end()
test_tls()
done()
