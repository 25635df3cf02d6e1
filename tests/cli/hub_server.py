"""tests/cli/hub_server.py - a hub on this machine for tests: honest unless a test tells it how to misbehave.

A Hub serves repositories from memory: api/models/OWNER/NAME/revision/REV with sizes and SHA-256, and
OWNER/NAME/resolve/REV/FILE, which redirects large files to /cdn/…, as the real one does, and so does GitHub's
OWNER/NAME/raw/…/FILE. `faults` is a list of functions, each taking a request for a large file's bytes (one is used up
by each such request) and returning True if it answered itself.
"""
import hashlib
import http.server
import json
import threading

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    def __init__(self, repositories, large=1000):
        self.repositories = repositories   # {"openai/whisper-tiny": {"config.json": b"..."}}
        self.large = large                 # files from this size on have a SHA-256 and lie on the CDN
        self.faults = []                   # of file requests, in order
        self.list_faults = []              # of list requests
        self.requests = []                 # (path, Range header) of everything that was asked for
        self.change_list = None            # changes the list before it is sent
        self.token = None                  # who may see the files; others are refused as the hub refuses them
        self.gated = False                 # the list is open, the files are not
        self.cdn_host = "127.0.0.1"
        self.shown = []                    # (path, Authorization header)
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                hub.requests.append((self.path, self.headers.get("Range")))
                hub.shown.append((self.path, self.headers.get("Authorization")))
                self.close_connection = True
                try:
                    hub.answer(self)
                except (BrokenPipeError, ConnectionResetError):
                    pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def file_requests(self):
        return [request for request in self.requests if request[0].startswith("/cdn/")]

    def answer(self, request):
        parts = request.path.split("?")[0].strip("/").split("/")
        if self.refuses(request, parts):
            return
        if parts[:2] == ["api", "models"]:
            self.answer_list(request, "/".join(parts[2:4]))
        elif parts[0] == "cdn":
            fault = self.faults.pop(0) if self.faults else None
            data = self.repositories["/".join(parts[1:3])][parts[3]]
            if not (fault and fault(request, data)):
                send_file(request, data)
        elif len(parts) == 5 and parts[2] == "resolve":
            self.answer_file(request, "/".join(parts[:2]), parts[4])
        elif len(parts) > 4 and parts[2] == "raw":   # as GitHub
            self.answer_file(request, "/".join(parts[:2]), parts[-1])
        else:
            send(request, 404, b"nothing here")

    def refuses(self, request, parts):
        shown = request.headers.get("Authorization")
        if self.token is None or parts[0] == "cdn" or shown == f"Bearer {self.token}":
            return False
        if self.gated and parts[0] == "api":
            return False
        if self.gated:
            send(request, 403 if shown else 401, b"{}", {"X-Error-Code": "GatedRepo"})
        else:
            send(request, 401, b"{}", {"X-Error-Code": "RepoNotFound"})
        return True

    def answer_list(self, request, name):
        fault = self.list_faults.pop(0) if self.list_faults else None
        if fault and fault(request, b""):
            return
        files = self.repositories.get(name)
        if files is None:
            send(request, 404, b"{}")
            return
        siblings = []
        for leaf, data in files.items():
            row = {"rfilename": leaf, "size": len(data), "blobId": "0" * 40}
            if len(data) >= self.large:
                row["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 135}
            siblings.append(row)
        answer = {"id": name, "sha": COMMIT, "siblings": siblings}
        if self.change_list:
            self.change_list(answer)
        send(request, 200, json.dumps(answer).encode(), {"Content-Type": "application/json"})

    def answer_file(self, request, name, leaf):
        data = self.repositories.get(name, {}).get(leaf)
        if data is None:
            send(request, 404, b"Entry not found")
        elif len(data) >= self.large:
            cdn = self.url.replace("127.0.0.1", self.cdn_host)
            send(request, 302, b"Found", {"Location": f"{cdn}/cdn/{name}/{leaf}",
                                          "X-Linked-ETag": f'"{hashlib.sha256(data).hexdigest()}"'})
        else:
            send(request, 200, data)


def send(request, code, body, headers=None, length=None):
    request.send_response(code)
    for key, value in (headers or {}).items():
        request.send_header(key, value)
    request.send_header("Content-Length", str(len(body) if length is None else length))
    request.send_header("Connection", "close")
    request.end_headers()
    request.wfile.write(body)


def etag_of(data):
    return '"' + hashlib.md5(data).hexdigest() + '"'


def send_file(request, data, length=None, upto=None):
    """The file or the rest of it, as asked for; length: a lie about it, upto: stop there."""
    start = 0
    wanted = request.headers.get("Range")
    condition = request.headers.get("If-Range")
    if wanted and (condition is None or condition == etag_of(data)):
        start = int(wanted[len("bytes="):].rstrip("-"))
    if start >= len(data) and start:
        send(request, 416, b"", {"Content-Range": f"bytes */{len(data)}"})
        return
    headers = {"ETag": etag_of(data)}
    if start:
        headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
    body = data[start:upto]
    send(request, 206 if start else 200, body, headers, len(data) - start if length is None else length)
