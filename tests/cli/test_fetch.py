"""tests/cli/test_fetch.py PROGRAM MAKE_CHECKPOINT - `model fetch` against a hub on this machine that breaks off,
stalls, lies and refuses; and the finding of models in other programs' caches. No network, no real model."""
import glob
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from clitest import PROGRAM, check, check_equal, check_fails, done, run, skip
from hub_server import COMMIT, Hub, send, send_file

MAKE = sys.argv[2]
TEMPORARY = tempfile.mkdtemp()
NONE = {name: "" for name in ("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "HF_ENDPOINT",
                              "MAX_WHISPER_HUB", "MAX_WHISPER_MODELS", "HF_HOME", "HF_HUB_CACHE",
                              "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME", "HF_TOKEN", "HF_TOKEN_PATH")}


def generate(kind, out, *words):
    subprocess.run([MAKE, kind, "f16", out, *words], check=True)
    return out


def files_of(folder):
    found = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as stream:
            found[name] = stream.read()
    return found


MODEL = files_of(generate("safetensors", os.path.join(TEMPORARY, "hf"), "small"))
BIN = files_of(generate("ct2", os.path.join(TEMPORARY, "ct2"), "small"))
os.mkdir(os.path.join(TEMPORARY, "ggml"))
generate("ggml", os.path.join(TEMPORARY, "ggml", "ggml-small.bin"), "small")
os.mkdir(os.path.join(TEMPORARY, "gguf"))
generate("gguf", os.path.join(TEMPORARY, "gguf", "whisper-small-F16.gguf"), "small")
generate("gguf", os.path.join(TEMPORARY, "gguf", "whisper-small-Q8_0.gguf"), "small")
WEIGHTS = MODEL["model.safetensors"]
ALL = dict(MODEL, **{"README.md": b"not wanted", "pytorch_model.bin": b"x" * 5000, "tokenizer.json": b"{}"})


class Case:
    """A hub with one model, and a fresh home."""

    def __init__(self, repositories=None):
        self.hub = Hub({"openai/whisper-small": dict(ALL)} if repositories is None else repositories)
        self.home = tempfile.mkdtemp(dir=TEMPORARY)
        self.models = os.path.join(self.home, ".cache", "max-whisper", "models")
        self.folder = os.path.join(self.models, "small")
        self.env = dict(NONE, HOME=self.home, MAX_WHISPER_HUB=self.hub.url)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.hub.stop()

    def fetch(self, *words):
        return run("model", "fetch", *(words or ("small",)), env=self.env, timeout=60)

    def succeeds(self, what, *words):
        code, out, err = self.fetch(*words)
        check(code == 0 and err == "", f"{what}: fetched", (code, out, err))
        check_equal(out, os.path.join(self.folder, "model.safetensors") + "\n", f"{what}: the path is printed")
        check(os.path.isdir(self.folder) and files_of(self.folder) == MODEL, f"{what}: the files, no more")
        self.nothing_left(what)

    def nothing_left(self, what):
        left = [name for name in os.listdir(self.models) if name.startswith(".") and not name.endswith(".lock")]
        check_equal(left, [], f"{what}: nothing else is left")

    def fails(self, what, *needles, status=1, words=("small",)):
        check_fails(["model", "fetch", *words], status, *needles, env=self.env, timeout=60)
        check(not os.path.exists(self.folder), f"{what}: no model appears")

    def parts(self):
        return glob.glob(os.path.join(self.models, ".small.fetch", "*.part"))


def cut_at(n):
    """The connection ends after n bytes of the answer."""
    def fault(request, data):
        send_file(request, data, upto=n)
        return True
    return fault


def http(code):
    def fault(request, _):
        send(request, code, b"no")
        return True
    return fault


def test_honest():
    with Case() as case:
        case.succeeds("honest")
        asked = [path for path, _ in case.hub.requests]
        check(any(f"/resolve/{COMMIT}/model.safetensors" in path for path in asked), "the commit is named", asked)
        check(not any("README" in path or "pytorch" in path for path in asked), "only what is needed", asked)
        before = len(case.hub.requests)
        case.succeeds("the second time")
        check_equal(len(case.hub.requests), before, "nothing is asked for the second time")
        case.succeeds("again", "small", "--again")
        check(len(case.hub.requests) > before, "--again asks")
        code, out, _ = run("model", "inspect", "small", "--json", env=case.env)
        check(code == 0 and json.loads(out)["file"].startswith(case.folder), "found by its name afterwards", out)


def test_broken():
    n = len(WEIGHTS)
    for what, faults, ranges in (
            ("breaks off", [cut_at(n // 3)], [None, n // 3]),
            ("breaks off at once", [cut_at(0)], [None, None]),
            ("breaks off often", [cut_at(k) for k in range(50, 600, 50)], None),
            ("500, then right", [http(500), http(503)], [None, None, None]),
            ("429, then right", [http(429)], [None, None])):
        with Case() as case:
            case.hub.faults = list(faults)
            case.succeeds(what)
            asked = [int(r[6:-1]) if r else None for _, r in case.hub.file_requests()]
            check(ranges is None or asked == ranges, f"{what}: what was asked for", asked)


def test_lies():
    n = len(WEIGHTS)
    wrong = bytes(reversed(WEIGHTS))

    def other_bytes(request, _):
        send_file(request, wrong)
        return True

    def longer(request, data):
        send_file(request, data + b"more")
        return True

    def shorter(request, data):   # a whole answer, it says
        send_file(request, data[:n // 2])
        return True

    def ignores_range(request, data):
        send(request, 200, data)
        return True

    def wrong_range(request, data):
        send(request, 206, data[5:], {"Content-Range": f"bytes 5-{n - 1}/{n}"})
        return True

    with Case() as case:
        case.hub.faults = [other_bytes]
        code, out, err = case.fetch("small", "--quiet")
        check(code == 0 and files_of(case.folder) == MODEL, "a wrong file once: fetched again", err)
    for what, faults in (("range ignored", [cut_at(n // 2), ignores_range]),
                         ("wrong range", [cut_at(n // 2), wrong_range]),
                         ("too long once", [longer]), ("too short once", [shorter])):
        with Case() as case:
            case.hub.faults = faults
            case.succeeds(what)
    for what, fault, needle in (("always another file", other_bytes, "its SHA-256 is "),
                                ("always too long", longer, f"larger than the {n} bytes that the hub states"),
                                ("never found", http(404), "HTTP 404"), ("forbidden", http(403), "HF_TOKEN"),
                                ("always broken", http(500), "HTTP 500")):
        with Case() as case:
            case.hub.faults = [fault] * 50
            case.fails(what, needle, case.hub.url, "model.safetensors", words=("small", "--quiet"))


def test_login():
    """HF_TOKEN: shown to the hub, to no server that it sends us to; what to do is said where it is wanted."""
    with Case() as case:
        case.hub.token, case.hub.cdn_host = "hf_right", "localhost"
        case.fails("private", "HTTP 401", "no such repository, or it is private or gated", "set HF_TOKEN",
                   "/settings/tokens")
        case.env["HF_TOKEN"] = "hf_wrong"
        case.fails("a wrong token", "HTTP 401", "wrong or has expired", "HF_TOKEN")
        check("hf_wrong" not in case.fetch()[2], "the token itself is not told")
        case.env["HF_TOKEN"] = "hf_right"
        case.hub.shown.clear()
        case.succeeds("private, with its token")
        to_hub = {shown for path, shown in case.hub.shown if not path.startswith("/cdn/")}
        to_others = {shown for path, shown in case.hub.shown if path.startswith("/cdn/")}
        check_equal((to_hub, to_others), ({"Bearer hf_right"}, {None}), "who was shown the token")
    with Case() as case:
        case.hub.token, case.hub.gated = "hf_right", True
        case.fails("gated", "HTTP 401", "is gated: accept its terms", "set HF_TOKEN", words=("small", "--quiet"))
        case.env["HF_TOKEN"] = "hf_of_another"
        case.fails("gated, not accepted", "HTTP 403", "accept the repository's terms", words=("small", "--quiet"))
        case.env["HF_TOKEN"] = "hf_right"
        case.succeeds("gated, accepted")
    with Case() as case:
        for bad in ("two\nlines", "two words", "x" * 600, "\u00e9"):
            case.env["HF_TOKEN"] = bad
            case.fails("no token", "HF_TOKEN", status=2)
        stored = os.path.join(case.home, "token")
        with open(stored, "w", encoding="utf-8") as stream:
            stream.write("hf_stored\n")
        case.env.update(HF_TOKEN="", HF_TOKEN_PATH=stored)   # stored for the public hub, not for this one
        case.succeeds("a stored token")
        check_equal({shown for _, shown in case.hub.shown}, {None}, "a stored token is not shown to a mirror")
    with Case() as case:   # the public hub, seen through a proxy of the test's own
        case.env.update(HF_TOKEN="hf_right", MAX_WHISPER_HUB="http://hub.example", http_proxy=case.hub.url)
        code, _, err = case.fetch("small")
        check("HF_TOKEN is not sent to http://hub.example" in err, "not over plain http", (code, err))
        check_equal({shown for _, shown in case.hub.shown}, {None}, "a token over plain http")


def test_lists():
    def no_sum(answer):
        for row in answer["siblings"]:
            row.pop("lfs", None)

    def bad_sum(answer):
        next(row for row in answer["siblings"] if "lfs" in row)["lfs"]["sha256"] = "../../x"

    def bad_size(answer):
        next(row for row in answer["siblings"] if "lfs" in row)["lfs"]["size"] = -1

    def nothing(answer):
        answer["siblings"] = [{"rfilename": "README.md", "size": 1}]

    def no_list(answer):
        del answer["siblings"]

    with Case() as case:   # the sum then comes with the answer's x-linked-etag
        case.hub.change_list = no_sum
        case.succeeds("no sums in the list")
    with Case() as case:
        case.hub.change_list = no_sum
        case.hub.faults = [lambda request, data: send_file(request, bytes(reversed(data))) or True] * 50
        case.fails("a wrong file by x-linked-etag", "its SHA-256 is ", words=("small", "--quiet"))
    for change, needle in ((bad_sum, "the SHA-256 of "), (bad_size, "the size of "),
                           (nothing, "neither model.safetensors nor model.bin"), (no_list, "not a file list")):
        with Case() as case:
            case.hub.change_list = change
            case.fails(change.__name__, needle, case.hub.url)
    with Case() as case:
        case.hub.list_faults = [http(500), http(500)]
        case.succeeds("a list after two 500")
    with Case() as case:
        case.hub.list_faults = [lambda request, _: send(request, 200, b"<html>") or True]
        case.fails("a page instead of a list", "not a file list")
    with Case({}) as case:
        case.fails("no such repository", "HTTP 404", "openai/whisper-small")


def test_not_a_model():
    """All sums are right, and yet it is no Whisper: it does not appear."""
    broken = bytearray(WEIGHTS)
    broken[20] ^= 0xff
    with Case({"openai/whisper-small": dict(MODEL, **{"model.safetensors": bytes(broken)})}) as case:
        case.fails("no Whisper", "openai/whisper-small")


def test_forms():
    """CTranslate2, a repository of one's own, a revision, shards, a mirror by option and by the other variable."""
    shards = os.path.join(TEMPORARY, "shards")
    half = {name: data for name, data in MODEL.items() if name != "model.safetensors"}
    half["model-00001-of-00001.safetensors"] = WEIGHTS
    header = json.loads(WEIGHTS[8:8 + int.from_bytes(WEIGHTS[:8], "little")])
    half["model.safetensors.index.json"] = json.dumps({"weight_map": {
        name: "model-00001-of-00001.safetensors" for name in header if name != "__metadata__"}}).encode()
    check(not os.path.exists(shards), "a name of its own")
    with Case({"Systran/faster-whisper-small": dict(BIN), "me/my.whisper": dict(BIN), "me/shards": half}) as case:
        code, out, err = case.fetch("small", "--format", "ct2")
        check(code == 0 and out == os.path.join(case.folder, "model.bin") + "\n", "ct2", err)
        code, out, err = case.fetch("me/my.whisper", "--revision", "v1.0")
        check(code == 0 and out == os.path.join(case.models, "me--my.whisper", "model.bin") + "\n", "OWNER/NAME", err)
        check(any(path.startswith("/api/models/me/my.whisper/revision/v1.0?") for path, _ in case.hub.requests),
              "the revision is asked for")
        code, _, err = run("model", "inspect", "me/my.whisper", env=case.env)
        check(code == 0, "found by OWNER/NAME afterwards", err)
        case.env.update(MAX_WHISPER_HUB="", HF_ENDPOINT=case.hub.url + "/")
        code, out, err = case.fetch("me/shards")
        check(code == 0 and out.endswith("/model.safetensors.index.json\n"), "shards, by HF_ENDPOINT", err)
        case.env.update(HF_ENDPOINT="http://127.0.0.1:1")
        elsewhere = os.path.join(case.home, "else", "where")
        code, out, err = case.fetch("me/shards", "--hub", case.hub.url, "--model-dir", elsewhere)
        check(code == 0 and out.startswith(elsewhere), "by --hub into --model-dir", err)


def test_no_network():
    with Case() as case:
        case.env["MAX_WHISPER_HUB"] = "http://127.0.0.1:1"
        case.fails("no network", "127.0.0.1", "by hand: put model.safetensors, config.json",
                   "http://127.0.0.1:1/openai/whisper-small", case.folder)
        case.env["MXW_MODULE_DIR"] = case.home
        case.fails("no module", "module curl is not installed", "by hand: put model.safetensors", case.folder)
    with Case() as case:
        case.fails("a wrong address", "does not start with https://", status=2, words=("small", "--hub", "ftp://x"))
        case.fails("a wrong revision", "--revision: 'a/b'", status=2, words=("small", "--revision", "a/b"))
        case.fails("a wrong name", "'smal' is neither a released model nor OWNER/NAME", status=2, words=("smal",))
        case.fails("leads out", "neither a released model", status=2, words=("../x",))


def test_stall():
    def hang(request, data):
        request.send_response(200)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data[:700])
        request.wfile.flush()
        time.sleep(8)
        return True

    with Case() as case:
        case.hub.faults = [hang]
        case.succeeds("stalled", "small", "--stall", "1")
        check_equal(case.hub.file_requests()[1][1], "bytes=700-", "it went on behind what had come")


def slow_start(case, n):
    """A fetch that waits behind n bytes of the weights, as a process."""
    def wait(request, data):
        request.send_response(200)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data[:n])
        request.wfile.flush()
        time.sleep(20)
        return True

    case.hub.faults = [wait]
    process = subprocess.Popen([PROGRAM, "model", "fetch", "small"], env=dict(os.environ, **case.env),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for _ in range(600):
        if any(os.path.getsize(part) == n for part in case.parts()):
            return process
        time.sleep(0.05)
    check(False, "a part appears")
    return process


def test_killed():
    """kill -9 in the middle: the next run goes on where it was. Two at once: the second says so."""
    with Case() as case:
        process = slow_start(case, 900)
        check_fails(["model", "fetch", "small"], 1, "is being fetched by another process", env=case.env)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        case.succeeds("after kill -9")
        check_equal(case.hub.file_requests()[-1][1], "bytes=900-", "it went on behind what had come")
    with Case() as case:
        process = slow_start(case, 800)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        stopped = process.returncode == 130 and b"stopped; the partial download is kept" in err
        check(stopped, "Ctrl-C", (process.returncode, err))
        case.hub.repositories["openai/whisper-small"]["model.safetensors"] = WEIGHTS[:-1] + b"\x01"
        code, _, err = case.fetch()
        check_equal((code, case.hub.file_requests()[-1][1]), (0, None), "a file that changed is fetched from the start")


def test_left_over():
    """A whole file that an earlier run left is used if it is the one, and fetched if it is another of its size."""
    for what, data, asked in (("the one", WEIGHTS, 0), ("another", bytes(len(WEIGHTS)), 1)):
        with Case() as case:
            work = os.path.join(case.models, ".small.fetch")
            os.makedirs(work)
            for leaf in ("model.safetensors", "stray.bin"):
                with open(os.path.join(work, leaf), "wb") as stream:
                    stream.write(data)
            case.succeeds(what)
            check_equal(len(case.hub.file_requests()), asked, f"{what}: requests for the weights")


def test_in_the_way():
    with Case() as case:
        os.makedirs(case.models)
        generate("pt", os.path.join(case.models, "small.pt"), "small")
        code, out, _ = case.fetch()
        check(code == 0 and out.endswith("/small.pt\n") and not case.hub.requests, "there is one already", out)
        check_fails(["model", "fetch", "small", "--again"], 1, "small.pt is in the way", env=case.env)


# ---- the caches of others -----------------------------------------------------------------------------------------

def test_silero():
    """Speech detection's weights: one file from GitHub, known by its SHA-256; no token goes there."""
    repository, leaf = "snakers4/silero-vad", "silero_vad.jit"
    with Case({repository: {leaf: b"x" * 2272526}}) as case:
        case.env["HF_TOKEN"] = "secret"
        case.folder = os.path.join(case.models, "silero-vad")
        code, _, err = case.fetch("silero-vad")
        check(code == 1 and "silero_vad.jit: its SHA-256 is" in err, "other bytes are refused", err)
        check(not os.path.exists(case.folder), "other bytes: nothing appears")
        case.fails("a revision", "neither revisions nor formats", status=2, words=("silero-vad", "--revision", "v5"))
        case.fails("a format", "neither revisions nor formats", status=2, words=("silero-vad", "--format", "ct2"))
        check(all(shown is None for _, shown in case.hub.shown), "no token is shown", case.hub.shown)
        case.hub.repositories[repository] = {}
        case.fails("not there", "silero-vad", words=("silero-vad",))
        case.env["MAX_WHISPER_HUB"] = "http://127.0.0.1:1"
        case.fails("no network", "by hand: put silero_vad.jit of the package silero-vad 6.2", words=("silero-vad",))
        case.env["MAX_WHISPER_HUB"] = case.hub.url
        real = json.loads(run("model", "list", "--json")[1])["vad"]["path"]
        if not real or os.path.basename(real) != leaf:
            print("model fetch silero-vad: the real file is not in the model folder: only refusals are tried")
            return
        with open(real, "rb") as stream:
            case.hub.repositories[repository] = {leaf: stream.read()}
        code, out, err = case.fetch("silero-vad")
        check_equal((code, out, err), (0, os.path.join(case.folder, leaf) + "\n", ""), "silero-vad is fetched")
        case.nothing_left("silero-vad")
        listed = json.loads(run("model", "list", "--json", env=case.env)[1])
        check_equal(listed["vad"]["path"], os.path.join(case.folder, leaf), "model list shows it")
        before = len(case.hub.requests)
        check_equal(case.fetch("silero-vad")[1], out, "the second time")
        check_equal(len(case.hub.requests), before, "nothing is asked for the second time")


def places(env):
    code, out, err = run("model", "list", "--json", env=env)
    check(code == 0, "model list", err)
    model = next(model for model in json.loads(out)["models"] if model["name"] == "small")
    return model["path"], [(place["path"], place["source"]) for place in model["places"]]


def hub_cache(folder, repository, kind, revision, main=True):
    """A repository as huggingface_hub keeps it: blobs, snapshots of links, refs."""
    top = os.path.join(folder, "models--" + repository.replace("/", "--"))
    snapshot = os.path.join(top, "snapshots", revision)
    os.makedirs(os.path.join(top, "blobs"), exist_ok=True)
    os.makedirs(os.path.join(top, "refs"), exist_ok=True)
    os.makedirs(snapshot)
    for name, data in files_of(os.path.join(TEMPORARY, kind)).items():
        blob = os.path.join(top, "blobs", hashlib.sha256(data).hexdigest())
        with open(blob, "wb") as stream:
            stream.write(data)
        os.symlink(os.path.join("..", "..", "blobs", os.path.basename(blob)), os.path.join(snapshot, name))
    if main:
        with open(os.path.join(top, "refs", "main"), "w", encoding="utf-8") as stream:
            stream.write(revision)
    return snapshot


def test_places():
    home = tempfile.mkdtemp(dir=TEMPORARY)
    env = dict(NONE, HOME=home)
    cache = os.path.join(home, ".cache")
    hub = os.path.join(cache, "huggingface", "hub")
    check_equal(places(env), (None, []), "nothing anywhere")
    check_fails(["model", "inspect", "small"], 1,
                "in the caches of openai-whisper, Hugging Face, faster-whisper, whisper.cpp, transcribe.cpp and "
                "MLX",
                "`max-whisper model fetch small`", env=env)
    want = []
    own = hub_cache(hub, "handy-computer/whisper-small-gguf", "gguf", "e" * 40)
    want.insert(0, (os.path.join(own, "whisper-small-F16.gguf"), "transcribe.cpp"))
    check_equal(places(env), (want[0][0], want), "transcribe.cpp's")
    code, out, _ = run("model", "inspect", "small-Q8_0", "--json", env=env)
    check(code == 0 and json.loads(out)["file"] == os.path.join(own, "whisper-small-Q8_0.gguf"), "small-Q8_0", out)
    cpp = hub_cache(hub, "ggerganov/whisper.cpp", "ggml", "d" * 40)
    want.insert(0, (os.path.join(cpp, "ggml-small.bin"), "whisper.cpp"))
    check_equal(places(env), (want[0][0], want), "whisper.cpp's on the hub")
    data = os.path.join(home, ".local", "share", "pywhispercpp", "models")
    os.makedirs(data)
    want.insert(0, (generate("ggml", os.path.join(data, "ggml-small.bin"), "small"), "whisper.cpp"))
    check_equal(places(env), (want[0][0], want), "pywhispercpp's before it")
    generate("ggml", os.path.join(data, "ggml-small-q5_1.bin"), "small")
    code, out, _ = run("model", "inspect", "small-q5_1", "--json", env=env)
    check(code == 0 and json.loads(out)["file"] == os.path.join(data, "ggml-small-q5_1.bin"), "small-q5_1", out)
    faster = hub_cache(hub, "Systran/faster-whisper-small", "ct2", "b" * 40)
    want.insert(0, (os.path.join(faster, "model.bin"), "faster-whisper"))
    check_equal(places(env), (want[0][0], want), "faster-whisper's")
    snapshot = hub_cache(hub, "openai/whisper-small", "hf", "a" * 40)
    want.insert(0, (os.path.join(snapshot, "model.safetensors"), "Hugging Face"))
    check_equal(places(env), (want[0][0], want), "Hugging Face's before it")
    os.makedirs(os.path.join(cache, "whisper"))
    want.insert(0, (generate("pt", os.path.join(cache, "whisper", "small.pt"), "small"), "openai-whisper"))
    check_equal(places(env), (want[0][0], want), "openai-whisper's before it")
    models = os.path.join(cache, "max-whisper", "models")
    os.makedirs(models)
    want.insert(0, (generate("pt", os.path.join(models, "small.pt"), "small"), "max-whisper"))
    check_equal(places(env), (want[0][0], want), "our own before it")
    code, out, _ = run("model", "list", env=env)
    for path, source in want:
        check(code == 0 and f"{path} ({source})\n" in out, f"model list shows {source}'s", out)
    code, out, _ = run("model", "inspect", "small", env=env)
    check(code == 0 and f"file        {want[0][0]}\n" in out, "inspect says which file", out)
    check_fails(["model", "inspect", "small", "--model-dir", home], 1,
                f"model 'small' is not in {home} (looked for small.pt and a folder small); `", env=env)
    code, out, _ = run("model", "inspect", "openai/whisper-small", "--json", env=env)
    check(code == 0 and json.loads(out)["file"] == want[2][0], "OWNER/NAME in Hugging Face's cache", out)


def test_cache_variables():
    for variables, below in (({"HF_HUB_CACHE": "{}"}, ""), ({"HF_HOME": "{}"}, "hub"),
                             ({"XDG_CACHE_HOME": "{}"}, "huggingface/hub"),
                             ({"HF_HUB_CACHE": "{}", "HF_HOME": "/nowhere"}, "")):
        home = tempfile.mkdtemp(dir=TEMPORARY)
        env = dict(NONE, HOME="/nowhere", **{key: value.format(home) for key, value in variables.items()})
        snapshot = hub_cache(os.path.join(home, below), "openai/whisper-small", "hf", "c" * 40)
        check_equal(places(env)[0], os.path.join(snapshot, "model.safetensors"), str(list(variables)))


def test_odd_caches():
    home = tempfile.mkdtemp(dir=TEMPORARY)
    env = dict(NONE, HOME=home)
    hub = os.path.join(home, ".cache", "huggingface", "hub")
    snapshot = hub_cache(hub, "openai/whisper-small", "hf", "d" * 40, main=False)
    check_equal(places(env)[0], os.path.join(snapshot, "model.safetensors"), "a snapshot without refs/main")
    refs = os.path.join(os.path.dirname(os.path.dirname(snapshot)), "refs", "main")
    for text in ("../../../..", "e" * 40, "", "x" * 500):
        with open(refs, "w", encoding="utf-8") as stream:
            stream.write(text)
        check_equal(places(env)[0], os.path.join(snapshot, "model.safetensors"), f"refs/main {text[:20]!r}")
    for blob in glob.glob(os.path.join(hub, "*", "blobs", "*")):
        os.unlink(blob)
    check_equal(places(env), (None, []), "links to nothing: a download that was not finished")


def main():
    module = os.path.join(os.environ.get("MXW_MODULE_DIR") or os.path.join(os.path.dirname(PROGRAM),
                                                                          "max-whisper-modules"), "curl.so")
    test_places()
    test_cache_variables()
    test_odd_caches()
    if not os.path.exists(module):
        shutil.rmtree(TEMPORARY)
        skip("model fetch", "the curl module is not built (libcurl)")
    for test in (test_honest, test_broken, test_lies, test_login, test_lists, test_not_a_model, test_forms,
                 test_no_network, test_stall, test_killed, test_left_over, test_in_the_way, test_silero):
        test()
    shutil.rmtree(TEMPORARY)
    done()


main()
