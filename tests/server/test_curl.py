"""tests/server/test_curl.py PROGRAM MAKE_CHECKPOINT - the curl lines of docs/server.md, as they stand there but for the
address and the recording, give the command line's text; and what a person at a shell sees of a refusal.

Skipped by name where there is no curl, or no model tiny.en: with every option at its default a generated model, which
finds no end, takes minutes.
"""
import array
import json
import os
import re
import shutil
import subprocess
import wave

from servertest import FOLDER, Server, check, check_equal, done, model_path, run, skip
from clitest import ROOT

ADDRESS, RECORDING, MODEL = "http://127.0.0.1:8000", "talk.mp4", "tiny.en"


def documented():
    with open(os.path.join(ROOT, "docs", "server.md"), encoding="utf-8") as stream:
        blocks = re.findall(r"^```sh\n(.*?)^```", stream.read(), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.startswith("curl ")]


def recording(path):
    """Speech in more than the MiB above which curl waits for 100-continue: each sample six times, on both sides"""
    with wave.open(os.path.join(ROOT, "tests", "data", "librivox-0870.wav")) as source:
        samples = array.array("h", source.readframes(source.getnframes()))
        rate = source.getframerate()
    with wave.open(path, "wb") as out:
        out.setnchannels(2)
        out.setsampwidth(2)
        out.setframerate(6 * rate)
        out.writeframes(array.array("h", (sample for sample in samples for _ in range(12))).tobytes())


def shell(line, server, path):
    """What a shell makes of such a line: (exit status, standard output)"""
    check(ADDRESS in line and f"@{RECORDING}" in line, f"address and recording: {line}")
    line = line.replace(ADDRESS, f"http://127.0.0.1:{server.port}").replace(RECORDING, path)
    ended = subprocess.run(["sh", "-c", line], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600)
    return ended.returncode, ended.stdout.decode()


def command_line(path, format_name):
    code, out, err = run("transcribe", "--model", MODEL, "--format", format_name, path)
    check_equal(code, 0, f"transcribe: {err}")
    return out


def test_lines(server, lines, path):
    text = json.loads(command_line(path, "json"))["text"].strip()
    check("dashwood" in text.lower(), "the text of the recording", text)
    formats, streams = 0, 0
    for line in lines:
        code, out = shell(line, server, path)
        check_equal(code, 0, f"exit status of {line}")
        asked = re.search(r"-F response_format=(\S+)", line)
        if "-F stream=true" in line:
            check(re.search(r"^curl .*-N\b", line), f"curl holds nothing back: {line}")
            events = [json.loads(block[6:]) for block in out.split("\n\n") if block.startswith("data: ")]
            check_equal("".join(event.get("delta", "") for event in events), text, f"deltas: {line}")
            check_equal((events[-1]["type"], events[-1]["text"]), ("transcript.text.done", text), f"the end: {line}")
            streams += 1
        elif asked:
            check_equal(out, command_line(path, asked[1]), f"output of {line}")
            formats += 1
        else:
            check_equal(json.loads(out)["text"], text, f"output of {line}")
    check(formats and streams, "the document has a format and a stream", lines)


def test_refused(server, line, path):
    code, out = shell(line.split(" #")[0] + " -F language=klingon", server, path)
    check_equal((code, json.loads(out)["error"]["param"]), (0, "language"), "a wrong field")
    large = os.path.join(FOLDER, "large.wav")
    with open(path, "rb") as stream, open(large, "wb") as out:
        out.write(stream.read() + bytes(20 << 20))
    for _ in range(5):   # the reason comes through, whatever curl was still sending
        code, out = shell(line, server, large)
        check_equal(code, 0, "curl's exit status for a refusal")
        check(out.startswith("{") and json.loads(out)["error"]["code"] == "file_too_large", "the reason", out[:300])


def main():
    if not shutil.which("curl"):
        skip("server-curl", "no curl on this machine")
    if not model_path(MODEL):
        skip("server-curl", f"no model {MODEL}")
    lines, path = documented(), os.path.join(FOLDER, RECORDING)
    check(lines, "docs/server.md has curl lines")
    recording(path)
    check(os.path.getsize(path) > 1 << 20, "a large file", os.path.getsize(path))
    with Server("--model", MODEL, "--max-upload", "10M") as server:
        test_lines(server, lines, path)
        test_refused(server, lines[0], path)
    done()


main()
