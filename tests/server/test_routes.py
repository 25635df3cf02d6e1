"""tests/server/test_routes.py PROGRAM MAKE_CHECKPOINT - routes, errors, keys, origins, framing."""
import os
import shutil
import signal
import socket
import ssl
import sys
import warnings

from servertest import (FOLDER, QUICK, Server, check, check_equal, done, make_certificate, make_model, run, sound,
                        wait_until)

MODEL = make_model(sys.argv[2])


def check_error(answer, status, code, label):
    check_equal(answer.status, status, f"{label}: status")
    check_equal(set(answer.error), {"message", "type", "param", "code"}, f"{label}: keys of the error")
    check_equal(answer.error.get("code"), code, f"{label}: code")
    check(answer.headers.get("x-request-id", "").startswith("req_"), f"{label}: x-request-id", answer)
    check_equal(answer.headers.get("content-type"), "application/json", f"{label}: content type")


def test_plain(server):
    check_equal(server.ask("GET", "/health").json["status"], "ok", "health")
    check_equal(server.ask("GET", "/ready").json["status"], "ready", "ready")
    listed = server.ask("GET", "/v1/models").json
    check_equal([model["id"] for model in listed["data"]], ["narrow", "other"], "models")
    check_equal(set(listed["data"][0]) >= {"id", "object", "created", "owned_by"}, True, "fields of a model")
    for name, want in (("narrow", "narrow"), ("other", "other"), ("whisper-1", "narrow"),
                       ("x%2Fwhisper-other", "other"), ("gpt-4o-mini-transcribe-2025-12-15", "narrow")):
        check_equal(server.ask("GET", f"/v1/models/{name}").json.get("id"), want, f"model {name}")
    head = server.raw(f"HEAD /health HTTP/1.1\r\nHost: localhost:{server.port}\r\nConnection: close\r\n\r\n".encode())
    check_equal((head.status, head.body), (200, b""), "HEAD has no body")


def test_errors(server):
    check_error(server.ask("GET", "/v1/nothing"), 404, "not_found", "unknown path")
    check_error(server.ask("POST", "/v1/audio/speech", b"{}"), 404, "not_found", "speech synthesis")
    check_error(server.ask("GET", "/v1/models/none"), 404, "model_not_found", "unknown model")
    for name in ("%00", "narrow%00", "narrow%00x", "%00narrow", ""):
        check_equal(server.ask("GET", f"/v1/models/{name}").status, 404, f"a model that cannot be: {name}")
    check_error(server.ask("GET", "/v1/models/a/b"), 404, "not_found", "two parts of a path")
    answer = server.ask("DELETE", "/health")
    check_error(answer, 405, "method_not_allowed", "wrong method")
    check_equal(answer.headers.get("allow"), "GET, HEAD", "Allow")


def test_framing(server):
    host = f"Host: 127.0.0.1:{server.port}\r\n"
    for label, headers in (("length and coding", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"),
                           ("a coding that is not chunked", "Transfer-Encoding: gzip, chunked\r\n"),
                           ("two lengths", "Content-Length: 4\r\nContent-Length: 5\r\n"),
                           ("two hosts", "Host: 127.0.0.1\r\n"),
                           ("two codings", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n")):
        answer = server.raw(f"POST /v1/models HTTP/1.1\r\n{host}{headers}\r\n".encode())
        check_error(answer, 400, "bad_framing", label)
        check_equal(answer.headers.get("connection"), "close", f"{label}: the connection ends")
    for label, text in (("no version", "GET /health\r\n\r\n"), ("nonsense", "\x00\x01\x02\r\n\r\n"),
                        ("no host", "GET /health HTTP/1.1\r\n\r\n"),
                        ("length that is no number", f"POST /health HTTP/1.1\r\n{host}Content-Length: x\r\n\r\n")):
        answer = server.raw(text.encode("latin-1"), close=True)
        check(answer is None or answer.status >= 400, f"{label}: refused", answer)
    many = "".join(f"x-{i}: {'y' * 100}\r\n" for i in range(5000))
    try:
        answer = server.raw(f"GET /health HTTP/1.1\r\n{host}{many}\r\n".encode())
        check(answer is None or answer.status in (413, 414, 431), "half a megabyte of headers: refused", answer)
    except ConnectionError:
        check(True, "half a megabyte of headers: refused")
    check_equal(server.ask("GET", "/health").status, 200, "it still answers")


def test_origins(server):
    def ask(path="/health", **headers):
        return server.ask("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    check_error(ask(Origin="https://evil.example"), 403, "origin_not_allowed", "another origin")
    for host in ("evil.example", "127.evil.example", "127.0.0.1.nip.io", f"127.0.0.1.nip.io:{server.port}",
                 "127.0.0.1.", "127.1", "localhost.evil.example", "128.0.0.1", "[::2]", "[::1].evil.example"):
        check_error(ask(Host=host), 403, "origin_not_allowed", f"another host: {host}")
    for host in ("localhost", "LOCALHOST", "127.0.0.1", "127.0.0.2", "[::1]"):
        check_equal([ask(Host=host).status, ask(Host=f"{host}:{server.port}").status], [200, 200], f"host {host}")
    check_equal(ask(Origin=f"http://127.0.0.1:{server.port}").status, 200, "its own origin")
    check_equal(ask(Origin=f"https://127.0.0.1:{server.port}").status, 200, "its own, behind a proxy that ends TLS")
    for other in (f"https://127.0.0.1:{server.port + 1}", "https://localhost", "ftp://127.0.0.1", "null", "https://"):
        check_error(ask(Origin=other, X_Forwarded_Proto="https", X_Forwarded_Host=other[8:]), 403,
                    "origin_not_allowed", f"not its own: {other}")
    allowed = ask(Origin="https://good.example")
    check_equal((allowed.status, allowed.headers.get("access-control-allow-origin")), (200, "https://good.example"),
                "an allowed origin")
    check("access-control-allow-origin" not in ask().headers, "no CORS headers without an origin")
    before = server.ask("OPTIONS", "/v1/models", headers={
        "Origin": "https://good.example", "Access-Control-Request-Method": "GET",
        "Access-Control-Request-Headers": "authorization, x-stainless-os"})
    check_equal(before.status, 204, "preflight")
    check_equal(before.headers.get("access-control-allow-headers"), "authorization, x-stainless-os", "its headers")


def test_keys():
    path = os.path.join(FOLDER, "keys")
    with open(path, "w", encoding="ascii") as stream:
        stream.write("# keys\n\nsecond\n")

    def status(server, key, target="/v1/models"):
        return server.ask("GET", target, headers={"Authorization": f"Bearer {key}"} if key else {}).status

    with Server("--model", MODEL, "--api-key", "first", "--api-key-file", path) as server:
        for key, want in (("first", 200), ("second", 200), ("third", 401), ("", 401), ("firs", 401), ("firstx", 401),
                          ("x" * 5000, 401)):
            check_equal(status(server, key), want, f"key {key[:10]!r}")
        check_equal(status(server, "", "/health"), 200, "health needs none")
        check_error(server.ask("GET", "/v1/models"), 401, "invalid_api_key", "no key")
        check_equal(server.ask("GET", "/health", headers={"Host": "any.example"}).status, 200, "any host with keys")
        with open(path, "w", encoding="ascii") as stream:
            stream.write("third\n")
        server.process.send_signal(signal.SIGHUP)
        for _ in range(100):
            if status(server, "third") == 200:
                break
        check_equal([status(server, key) for key in ("first", "second", "third")], [200, 401, 200], "keys after SIGHUP")
        check("first" not in server.stderr() and "third" not in server.stderr(), "no key in the log")


def speaks(server, version):
    """Whether it takes a client that knows no other version, and all that it ever had"""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():   # of old versions
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    with socket.create_connection(("127.0.0.1", server.port), 60) as s:
        try:
            context.wrap_socket(s).close()
            return True
        except ssl.SSLError:
            return False


def test_tls():
    pair, other = make_certificate("first"), make_certificate("second")
    if not pair:
        print("SKIP: server-routes TLS: no openssl to make a certificate")
        return
    with Server("--model", MODEL, "--tls-cert", pair[0], "--tls-key", pair[1], "--log-level", "info") as server:
        def certificate():
            with server.connect() as s:
                return s.getpeercert(True)
        seen = {version: speaks(server, version) for version in ("TLSv1", "TLSv1_1", "TLSv1_2", "TLSv1_3")}
        check_equal(seen, {"TLSv1": False, "TLSv1_1": False, "TLSv1_2": True, "TLSv1_3": True}, "versions of TLS")
        before = certificate()
        check_equal(server.ask("GET", "/health").json["status"], "ok", "health over TLS")
        answer = server.post({**QUICK, "stream": "true"}, sound(3))
        check_equal(answer.events[-1]["type"], "transcript.text.done", "a stream over TLS")
        for scheme, status in (("https", 200), ("http", 403)):
            origin = {"Origin": f"{scheme}://127.0.0.1:{server.port}"}
            check_equal(server.ask("GET", "/health", headers=origin).status, status, f"TLS: a page by {scheme}")
        with socket.create_connection(("127.0.0.1", server.port), 5) as s:   # plain HTTP
            s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            check(not s.recv(1000).startswith(b"HTTP"), "no HTTP without TLS")
        for old, new in zip(pair, other):
            shutil.copy(new, old)

        def reloads():
            return ["wrong" if "old certificate" in line else "read" for line in server.stderr().splitlines()
                    if "read again" in line or "old certificate" in line]
        server.process.send_signal(signal.SIGHUP)
        check(wait_until(lambda: certificate() != before), "another certificate after SIGHUP")
        with open(pair[0], "w", encoding="ascii") as stream:
            stream.write("nonsense")
        server.process.send_signal(signal.SIGHUP)
        check(wait_until(lambda: "--tls-cert" in server.stderr()), "a wrong certificate is reported")
        check_equal(server.ask("GET", "/health").status, 200, "and the old one stays")
        shutil.copy(other[0], pair[0])
        server.process.send_signal(signal.SIGHUP)
        check(wait_until(lambda: reloads()[-1] == "read"), "a right one again")
        check_equal(reloads(), ["read", "wrong", "read"], "no success is told where there was none")
    code, _, err = run("serve", "--port", "0", "--model", MODEL, "--tls-cert", other[0], "--tls-key", pair[0])
    check(code == 1 and "--tls-key" in err, "a key that is none", err)


def test_usage():
    for words, status, needle in (
            (["--host", "0.0.0.0"], 2, "--api-key"), (["--host", "127.x.example"], 2, "--api-key"),
            (["--host", "127.0.0.1.nip.io"], 2, "--api-key"), (["--tls-cert", "x"], 2, "--tls-key"),
            (["--no-auth", "--api-key", "k"], 2, "--no-auth"), (["--api-key", "a b"], 1, "--api-key"),
            (["--api-key-file", os.path.join(FOLDER, "none")], 1, "--api-key-file"),
            (["--model", MODEL, "--model", MODEL], 1, "two models"),
            (["--no-auth", "--host", "no.such.name.invalid"], 1, "--host"),
            (["--model", "/nowhere.pt"], 1, "nowhere.pt")):
        model = [] if "--model" in words else ["--model", MODEL]
        code, out, err = run("serve", "--port", "0", *model, *words)
        check_equal(code, status, f"{words}: exit status")
        check(needle in err and err.count("\n") == 1 and not out, f"{words}: one line with {needle!r}", err)


def main():
    other = make_model(sys.argv[2], "other.pt", "2")
    with Server("--model", MODEL, "--model", other, "--cors-origin", "https://good.example") as server:
        test_plain(server)
        test_errors(server)
        test_framing(server)
        test_origins(server)
    test_keys()
    test_tls()
    test_usage()
    done()


main()
