"""tests/server/test_metrics.py PROGRAM MAKE_CHECKPOINT - GET /metrics: every line of it as Prometheus reads it, every
metric in the table of docs/server.md, and each number moved by what was done, and by that alone.
"""
import base64
import json
import math
import os
import re
import signal
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "realtime"))
from servertest import (FOLDER, QUICK, ROOT, Server, check, check_equal, done, form, make_model, run,  # noqa: E402
                        sound, wait_until, wav)
from websocket import CLOSE, TEXT, Socket, frame, tone  # noqa: E402

MODEL = make_model(sys.argv[2])
ODD = 'o"d\\d\nd'   # what must be escaped in a label
POST = {"route": "/v1/audio/transcriptions", "method": "POST"}
SLOW = {**QUICK, "beam_size": "5", "sample_len": "224", "suppress_blank": "false"}
SAMPLE = re.compile(r'(max_whisper_[a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*"(?:,|(?=\})))*)\})? (\S+)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"')


# ---- reading --------------------------------------------------------------------------------------------------------

class Page:
    """One answer: `families` {name: (type, help)}, `samples` {(name, labels): value}; the rules are checked as it is
    read, and only what breaks one is reported"""

    def __init__(self, server):
        answer = server.ask("GET", "/metrics")
        check_equal((answer.status, answer.headers["content-type"]), (200, "text/plain; version=0.0.4; charset=utf-8"),
                    "the page")
        self.families, self.samples, self.wrong = {}, {}, []
        check(answer.text.endswith("\n"), "a line feed at the end")
        name = help_of = None
        for line in answer.text.splitlines():
            if line.startswith("# HELP "):
                help_of, _, text = line[7:].partition(" ")
                self.expect(text and help_of not in self.families, line)
            elif line.startswith("# TYPE "):
                name, _, kind = line[7:].partition(" ")
                self.expect(name == help_of and kind in ("counter", "gauge", "histogram"), line)
                self.expect((kind == "counter") == name.endswith("_total"), line)
                self.families[name] = kind
            else:
                self.take(name, line)
        for family, kind in self.families.items():
            if kind == "histogram":
                self.check_histogram(family)
        check_equal(self.wrong, [], "lines that break the rules")

    def expect(self, truth, line):
        if not truth:
            self.wrong.append(line)

    def take(self, family, line):
        """A sample belongs to the family above it"""
        match = SAMPLE.fullmatch(line)
        if not match or not family:
            return self.expect(False, line)
        name, labels, value = match[1], LABEL.findall(match[2] or ""), match[3]
        tails = ("_bucket", "_sum", "_count") if self.families[family] == "histogram" else ("",)
        key = (name, tuple((a, re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], b)) for a, b in labels))
        self.expect(name in [family + tail for tail in tails] and key not in self.samples, line)
        self.expect(len({a for a, _ in labels}) == len(labels), line)
        self.expect(math.isfinite(float(value)) and float(value) >= 0, line)
        self.samples[key] = float(value)
        return None

    def check_histogram(self, family):
        series = {}
        for (name, labels), value in self.samples.items():
            if name == family + "_bucket":
                self.expect(labels[-1][0] == "le", labels)
                series.setdefault(labels[:-1], []).append((float(labels[-1][1]), value))
        for labels, buckets in series.items():
            edges, counts = [edge for edge, _ in buckets], [n for _, n in buckets]
            total, n = (self.samples.get((family + tail, labels), -1) for tail in ("_sum", "_count"))
            self.expect(edges == sorted(set(edges)) and edges[-1] == math.inf, (family, labels, edges))
            self.expect(counts == sorted(counts) and counts[-1] == n, (family, labels, counts, n))
            each = [b - a for a, b in zip([0] + counts, counts)]   # what is in a bucket lies between its edges
            least = sum(k * edge for k, edge in zip(each, [0] + edges))
            most = sum(k * edge for k, edge in zip(each, edges) if k)
            self.expect(least <= total * (1 + 1e-8) and total <= most * (1 + 1e-8),
                        (family, labels, least, total, most))
        for kind in ("_sum", "_count"):
            self.expect({labels for name, labels in self.samples if name == family + kind} == set(series),
                        family + kind)

    def get(self, name, **labels):
        """The sum over the series that have these labels"""
        return sum(value for (key, pairs), value in self.samples.items()
                   if key == f"max_whisper_{name}" and labels.items() <= dict(pairs).items())

    def labels(self, family):
        return {tuple(a for a, _ in labels if a != "le") for name, labels in self.samples
                if name in (family, family + "_bucket", family + "_sum", family + "_count")}


def documented():
    """{name: (type, labels)} of the table in docs/server.md"""
    with open(os.path.join(ROOT, "docs", "server.md"), encoding="utf-8") as stream:
        section = stream.read().split("\n## Metrics\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines()
            if line.startswith("| `max_whisper_")]
    return {row[0].strip("`"): (row[1], {tuple(re.findall(r"`([a-z_]+)`", row[2]))}) for row in rows}


# ---- what moves -----------------------------------------------------------------------------------------------------

class Moved:
    """What happened between two pages"""

    def __init__(self, before, after):
        self.before, self.after = before, after

    def __call__(self, name, **labels):
        return self.after.get(name, **labels) - self.before.get(name, **labels)


def post(server, sent, fields, file):
    body, kind = form(fields, file)
    sent.append(len(body))
    return server.ask("POST", POST["route"], body, {"Content-Type": kind})


def counted(server, before, n):
    """The page once n more recordings have ended, which is counted when their answers are with the clients"""
    wait_until(lambda: Moved(before, page := Page(server))("recordings_total") >= n and
               page.get("recordings_inside") == 0)
    return Page(server)


def near(got, want, what):
    check(abs(got - want) <= 1e-6 * max(abs(want), 1e-9), f"{what}: {want}", got)


def test_recordings(server):
    began, sent = time.monotonic(), []
    first = Page(server)
    for _ in range(3):
        check_equal(post(server, sent, QUICK, sound(5)).status, 200, "a recording")
    greedy = counted(server, first, 3)
    check_equal(post(server, sent, {**QUICK, "beam_size": "3"}, sound(5)).status, 200, "one with beams")
    beams = counted(server, first, 4)
    check_equal(post(server, sent, {**QUICK, "model": ODD}, sound(3)).status, 200, "one by the other model")
    check_equal(post(server, sent, QUICK, b"no sound at all").status, 400, "one that is none")
    check_equal(server.ask("GET", "/nowhere").status, 404, "no route")
    last, wall_s = counted(server, first, 6), time.monotonic() - began
    moved = Moved(first, last)
    for labels, n in (({**POST, "status": "200"}, 5), ({**POST, "status": "400"}, 1),
                      ({"route": "other", "method": "any", "status": "404"}, 1)):
        check_equal(moved("request_seconds_count", **labels), n, f"requests {labels}")
        check(0 < moved("request_seconds_sum", **labels) < n * wall_s, f"their seconds {labels}")
    check_equal(moved("received_bytes_total"), sum(sent), "bytes of the bodies")
    for model, n, audio_s, failed in (("narrow", 4, 20, 1), (ODD, 1, 3, 0)):
        check_equal([moved("recordings_total", model=model, outcome=name) for name in ("done", "failed", "cancelled")],
                    [n, failed, 0], f"{model}: recordings")
        near(moved("audio_seconds_total", model=model, kind="recording"), audio_s, f"{model}: seconds of sound")
        check_equal(moved("audio_seconds_total", model=model, kind="live"), 0, f"{model}: none of them live")
        for name in ("queue_seconds", "transcription_seconds", "real_time_factor"):
            check_equal(moved(f"{name}_count", model=model), n, f"{model}: {name}")
        took_s = moved("transcription_seconds_sum", model=model)
        near(moved("real_time_factor_sum", model=model) * audio_s / n, took_s, f"{model}: time by duration")
        check(0 < took_s <= moved("work_seconds_total", model=model, kind="recording") * (1 + 1e-6) < wall_s,
              f"{model}: seconds of work", (took_s, moved("work_seconds_total", model=model), wall_s))
    check(moved("request_seconds_sum", **POST, status="200") >=
          (moved("transcription_seconds_sum") + moved("queue_seconds_sum")) * (1 - 1e-6), "a request holds its work")
    check_equal((first.get("model_loaded", model=ODD), last.get("model_loaded", model=ODD)), (0, 1), "loaded")
    check_equal([moved("model_loads_total", model=name) for name in ("narrow", ODD)], [0, 1], "loads")
    sizes = [[page.get("model_weight_bytes", model=name) for name in ("narrow", ODD)] for page in (first, last)]
    check(sizes[0][0] > 10000 and sizes[0][1] == 0, "weights of the model that is loaded", sizes)
    check_equal(sizes[1], [sizes[0][0]] * 2, "and of the other one, which has as many, once it is")
    test_stages(Moved(first, greedy), Moved(greedy, beams), Moved(beams, last))
    check(0 < moved("uptime_seconds") < wall_s, "uptime", (moved("uptime_seconds"), wall_s))


def test_stages(greedy, beams, rest):
    """Runs, and what is in them: one row in each step of one recording, three with three beams"""
    for stage in ("encode", "cross", "prompt", "step"):
        labels = {"model": "narrow", "stage": stage}
        check(greedy("stage_runs_total", **labels) >= 3, f"{stage}: runs")
        check(greedy("stage_items_total", **labels) >= greedy("stage_runs_total", **labels), f"{stage}: items")
    step = {"model": "narrow", "stage": "step"}
    check_equal(greedy("stage_items_total", **step), greedy("stage_runs_total", **step), "a row in each step")
    check_equal(beams("stage_items_total", **step), 3 * beams("stage_runs_total", **step), "three rows in each step")
    check_equal(rest("stage_runs_total", **step), 0, "steps of the other model are its own")
    check(rest("stage_runs_total", model=ODD, stage="step") > 0, "which has some")


def hold(server, fields, file, short=0):
    body, kind = form(fields, file)
    s = server.connect()
    s.sendall((f"POST {POST['route']} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\n"
               f"Content-Length: {len(body)}\r\n\r\n").encode() + body[:len(body) - short])
    return s


def test_gauges(server):
    def shows(connections=0, **wanted):
        page = Page(server)
        return page.get("connections") >= connections and \
            all(page.get(f"recordings_{name}") == n for name, n in wanted.items())
    long_file, before = wav(0, data=sound(30)[44:] * 40), Page(server)
    held = [hold(server, SLOW, long_file) for _ in range(3)]
    check(wait_until(lambda: shows(uploading=0, running=2, waiting=1, inside=3)), "two run, one waits")
    held.append(hold(server, SLOW, long_file, 1))
    check(wait_until(lambda: shows(uploading=1, running=2, waiting=1, inside=4)), "one is not whole")
    check(wait_until(lambda: shows(connections=5)), "connections")
    for s in held:
        s.close()
    check(wait_until(lambda: shows(uploading=0, running=0, waiting=0, inside=0)), "all left")
    moved = Moved(before, counted(server, before, 3))
    check_equal(moved("recordings_total", outcome="cancelled"), 3, "cancelled")
    check_equal(moved("request_seconds_count", **POST, status="499"), 4, "clients that left")
    check_equal((moved("audio_seconds_total"), moved("real_time_factor_count")), (0, 0), "no sound of theirs counts")
    resident = Page(server).get("resident_memory_bytes") / 1024
    check(abs(resident - server.rss_kib()) < 32 << 10, "resident memory", (resident, server.rss_kib()))


def has_speech_detection():
    return json.loads(run("model", "list", "--json")[1])["vad"]["path"]


def vanish(server, n):
    """Clients that go, without a word, while they are written to: they broke no rule"""
    for _ in range(n):
        check(wait_until(lambda: Page(server).get("sockets") == 0), "a free place")
        with Socket(server) as s:
            check_equal(s.event()["type"], "session.created", "a socket")
            s.socket.sendall(frame(TEXT, b"nonsense") * 1000)
            s.event()
            s.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))   # a reset
    check(wait_until(lambda: Page(server).get("sockets") == 0), "all are gone")


def test_sockets(server):
    before = Page(server)
    with Socket(server) as s:
        check_equal(s.event()["type"], "session.created", "a socket")
        with Socket(server) as other:
            check_equal(other.status, 503, "no second one")
        s.send({"type": "nonsense"})
        check_equal(s.event()["type"], "error", "an error")
        check_equal(Page(server).get("sockets"), 1, "one is open")
        second = base64.b64encode(tone(1)).decode()
        for _ in range(4):
            s.send({"type": "input_audio_buffer.append", "audio": second})
        if has_speech_detection():
            check(wait_until(lambda: Moved(before, Page(server))("audio_seconds_total", kind="live") >= 1),
                  "live sound")
        else:
            print("SKIP: server-metrics, sound of a live socket: "
                  "silero-vad is not there (tools/fetch-model silero-vad)")
        s.socket.sendall(frame(TEXT, b"{}", masked=False))
        s.rest_of()
        check_equal(s.closed[0], 1002, "a frame that breaks the rules")
    check(wait_until(lambda: Page(server).get("sockets") == 0), "its place is free")
    with Socket(server) as s:
        check_equal(s.event()["type"], "session.created", "another socket, which closes as it should")
        s.socket.sendall(frame(CLOSE, b"\x03\xe8"))
        s.rest_of()
    check(wait_until(lambda: Page(server).get("sockets") == 0), "closed")
    vanish(server, 20)
    last = Page(server)
    moved = Moved(before, last)
    check_equal([moved(f"sockets_{name}_total") for name in ("opened", "refused", "dropped")], [22, 1, 1], "sockets")
    check(moved("socket_messages_total") >= 1 and moved("socket_events_total") >= 2, "messages and events")
    check(moved("socket_errors_total") >= 1, "errors")
    check_equal(last.get("socket_waiting_bytes"), 0, "nothing waits")
    check_equal(moved("audio_seconds_total", kind="recording"), 0, "no recording")


def test_names(server):
    page = Page(server)
    printed = {name: (kind, page.labels(name)) for name, kind in page.families.items()}
    table = documented()
    check(len(table) > 20, "the table was read", len(table))
    for name in sorted(set(printed) | set(table)):
        check_equal(table.get(name), printed.get(name), f"docs/server.md: {name}")
    check_equal(page.get("build_info", version=run("version")[1].split()[1]), 1, "the version")


def test_drain(server):
    s = hold(server, QUICK, sound(5), 10)
    check(wait_until(lambda: Page(server).get("recordings_uploading") == 1), "one is under way")
    check_equal(Page(server).get("draining"), 0, "not draining")
    server.process.send_signal(signal.SIGTERM)
    check(wait_until(lambda: Page(server).get("draining") == 1), "draining")
    s.close()


def main():
    make_model(sys.argv[2], ODD + ".pt", "2")
    with Server("--model", MODEL, "--model", os.path.join(FOLDER, ODD + ".pt"), "--concurrency", "2",
                "--realtime-sockets", "1") as server:
        test_recordings(server)
        test_gauges(server)
        test_sockets(server)
        test_names(server)
        test_drain(server)
    done()


main()
