"""tests/cli/test_batch.py PROGRAM MAKE_CHECKPOINT - many files at once: the same bytes on both streams and in files as
one after another, in the order of the command line, whatever fails in between.

On a generated model, whose text is nonsense but the same every time.
"""
import json
import math
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

from clitest import PROGRAM, check, check_equal, check_fails, done, run, wav
from terminal import run_on_terminal

FOLDER = tempfile.mkdtemp()
MODEL = os.path.join(FOLDER, "narrow.pt")
SHORT = ["--model", MODEL, "--greedy", "--temperature-increment-on-fallback", "none", "--sample-len", "12",
         "--no-speech-threshold", "none"]
SECONDS = [33, 2, 61, 9, 5, 31, 17]


def sound(seconds, number):
    """A WAV file of a tone that comes and goes over noise, another for each number"""
    noise = random.Random(number).randbytes(16000 * seconds)
    pitch, pace = 0.05 + 0.09 * number, 3000 + 700 * number
    samples = [int(9000 * math.sin(i * pitch) * max(0, math.sin(i / pace))) + number * n for i, n in enumerate(noise)]
    data = struct.pack(f"<{len(samples)}h", *samples)
    return wav(len(samples))[:44] + data


def make_files():
    paths = []
    for i, seconds in enumerate(SECONDS):
        paths.append(os.path.join(FOLDER, f"{i}.wav"))
        with open(paths[-1], "wb") as stream:
            stream.write(sound(seconds, i))
    return paths


def read(path):
    with open(path, "rb") as stream:
        return stream.read()


def test_same(paths):
    """Every form of output, with bad files among the good ones: the streams of --batch 1."""
    bad = os.path.join(FOLDER, "bad.wav")
    with open(bad, "wb") as stream:
        stream.write(b"no sound" * 100)
    words = [paths[0], bad, *paths[1:4], os.path.join(FOLDER, "missing.wav"), *paths[4:]]
    batches = [[], ["--batch", "2"], ["--batch", "3", "--threads", "1"], ["--batch", "16", "--threads", "3"],
               ["--batch", "4"]]
    for form in ([], ["-f", "json"], ["-f", "srt"], ["--verbose", "False"]):
        want = run(*SHORT, *form, "--batch", "1", *words)
        check_equal(want[0], 1, f"{form}: exit status")
        check(len(want[1]) > 300 and "bad.wav" in want[2] and "missing.wav" in want[2] and "2 of 9" in want[2],
              f"{form}: one after another", want)
        for batch in batches[-1:] if form else batches:
            check_equal(run(*SHORT, *form, *batch, *words), want, f"{form} {batch}")
    alone = [run(*SHORT, path)[1] for path in paths]
    together = run(*SHORT, "--batch", "4", *paths)[1]
    check_equal(together, "\n".join(f"==> {path} <==\n{text}" for path, text in zip(paths, alone)), "each as alone")
    check_equal(len(set(alone)), len(alone), "seven different texts")


def test_json(paths):
    """A document a line, each that of the file alone."""
    code, out, err = run(*SHORT, "-f", "json", "--batch", "4", "--stats", *paths)
    check_equal(code, 0, "json of many")
    for path, line in zip(paths, out.splitlines(), strict=True):
        check_equal(json.loads(line), json.loads(run(*SHORT, "-f", "json", path)[1]), f"json of {path}")
    check_equal([json.loads(line)["file"] for line in err.splitlines()], paths, "--stats in order")


def test_folder(paths):
    """Files are those of one after another; all of them are there though one input is bad."""
    folders = [os.path.join(FOLDER, name) for name in ("one", "many")]
    for folder, batch in zip(folders, ("1", "5")):
        code, out, err = run(*SHORT, "-o", folder, "-f", "all", "--batch", batch, *paths[:3], "missing.wav", *paths[3:])
        check(code == 1 and out == "" and err.count("\n") == 3, f"--output-dir --batch {batch}", (code, out, err))
    names = sorted(os.listdir(folders[0]))
    check_equal(len(names), 5 * len(paths), "files of all")
    check_equal(sorted(os.listdir(folders[1])), names, "the same files")
    for name in names:
        check_equal(read(os.path.join(folders[1], name)), read(os.path.join(folders[0], name)), name)


def test_standard_input(paths):
    words = [paths[1], "-", paths[3]]
    want = run(*SHORT, "--batch", "1", *words, stdin=read(paths[0]))
    check(want[0] == 0 and "==> standard input <==" in want[1], "standard input among files", want)
    check_equal(run(*SHORT, "--batch", "4", *words, stdin=read(paths[0])), want, "standard input among files at once")
    words = [paths[1], "-", "--mel-reference", "running"]
    want = run(*SHORT, "--batch", "1", *words, stdin=read(paths[0]))
    check_equal(run(*SHORT, "--batch", "4", *words, stdin=read(paths[0])), want, "live, among files at once")


def test_refused(paths):
    """What is wrong with all of them is said once."""
    check_fails([*SHORT, *paths, "--language", "de"], 2, "English-only")
    check_fails(["--model", os.path.join(FOLDER, "nowhere.pt"), *paths], 1, "nowhere.pt")


def test_closed_pipe(paths):
    process = subprocess.Popen([PROGRAM, *SHORT, "--batch", "4", *paths], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    process.stdout.close()
    err = process.stderr.read()
    check_equal((process.wait(), err), (1, b""), "a closed pipe is quiet")


def start(words):
    return subprocess.Popen([PROGRAM, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_for(path):
    for _ in range(1000):
        if os.path.exists(path):
            return
        time.sleep(0.03)
    check(False, f"{path} was written")


def wait_until_caught(process, number):
    """Until the process has a handler for the signal"""
    for _ in range(1000):
        with open(f"/proc/{process.pid}/status", encoding="ascii", errors="replace") as stream:
            caught = next(int(line.split()[1], 16) for line in stream if line.startswith("SigCgt"))
        if caught >> (number - 1) & 1:
            return
        time.sleep(0.03)
    check(False, "the signal is caught")


def test_interrupt(paths):
    """Ctrl-C with standard input still open: what is finished is printed, what is not leaves nothing."""
    folder = os.path.join(FOLDER, "interrupted")
    process = start([*SHORT, "--batch", "4", "-o", folder, "-", paths[1], paths[3]])
    process.stdin.write(read(paths[4])[:60000])
    process.stdin.flush()
    wait_for(os.path.join(folder, "1.vtt"))
    wait_for(os.path.join(folder, "3.vtt"))
    process.send_signal(signal.SIGINT)
    status = process.wait(timeout=60)
    process.stdin.close()
    out, err = process.stdout.read().decode(), process.stderr.read().decode()
    check(status == 130 and err == "", "Ctrl-C while one waits for its pipe", (status, err))
    want = run(*SHORT, paths[1], paths[3])[1]
    check_equal(out, want, "what was finished")
    check_equal(sorted({name.split(".")[0] for name in os.listdir(folder)}), ["1", "3"], "files of those finished")
    process = start([*SHORT, "--batch", "4", "--sample-len", "60", "--beam-size", "10", *paths])
    wait_until_caught(process, signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    status = process.wait(timeout=60)
    process.stdin.close()
    err = process.stderr.read().decode()
    check(status == 128 + signal.SIGTERM and err.count("\n") == 1 and "--resume" in err,
          "a signal while all are at work", (status, err))
    process.stdout.close()
    process.stderr.close()


def test_progress(paths):
    try:
        os.close(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
    except OSError as error:   # a container without devpts
        print(f"SKIP: cli-batch, progress on a terminal: no pseudo-terminal ({error.strerror})")
        return
    words = [*SHORT, "--batch", "4", "--sample-len", "60", *paths]
    code, shown, printed = run_on_terminal(words)
    check_equal((code, printed), (0, run(*words)[1]), "many on a terminal")
    check("of 7 files" in shown and "of audio" in shown and "%" in shown and "left" in shown, "a bar for all of them",
          shown)
    check(shown.endswith("\r\x1b[K") and "\n" not in shown, "the bar is gone at the end", shown[-80:])
    for frame in shown.split("\r"):
        check(len(frame.replace("\x1b[K", "")) < 80, "a frame fits the terminal", frame)


def test_memory(paths):
    """A device with too little memory for the batch: the most that fit, said in one line; the same text."""
    words = [*SHORT, "--batch", "7", *paths]
    want = run(*words)
    check_equal((want[0], want[2]), (0, ""), "with all the memory there is")
    seen, limit, code = [], 1 << 28, 0
    while code == 0 and limit > 1000:
        code, out, err = run(*words, env={"MXW_DEVICE_MEMORY": str(limit)})
        if code == 0 and err:
            said = re.fullmatch(r"max-whisper: warning: batch of 7 sessions: .*: cpu: not enough memory: [0-9.]+ MiB "
                                r"asked, [0-9.]+ of [0-9.]+ MiB free \(MXW_DEVICE_MEMORY\); continuing with ([1-6]) at "
                                r"once\n", err)
            check(said, f"what is said with {limit} bytes", err)
            seen.append(int(said.group(1)) if said else 0)
        if code == 0:
            check_equal(out, want[1], f"the text with {limit} bytes")
        limit = limit * 7 // 8
    check(len(set(seen)) > 2 and seen == sorted(seen, reverse=True) and seen[-1] == 1, "fewer and fewer", seen)
    check(code == 1 and out == "" and err.count("\n") == 1 and "batch of 1 session: " in err, "not even one",
          (code, out, err))
    for limit, needle in (("300", "weights of graph encoder: cpu: not enough memory: "),
                          ("3x", "MXW_DEVICE_MEMORY: '3x'")):
        check_fails(words, 1, needle, env={"MXW_DEVICE_MEMORY": limit})
    code, out, err = run("devices", env={"MXW_DEVICE_MEMORY": "3G"})
    check("limited to 3.0 GiB (MXW_DEVICE_MEMORY)" in out, "devices says the limit", out)
    code, out, err = run("devices", env={"MXW_DEVICE_MEMORY": "3x"})
    check(code == 0 and err.count("\n") == 1 and "MXW_DEVICE_MEMORY: '3x' is not a number" in err,
          "devices says that the limit cannot be understood", (code, err))
    code, out, err = run("devices", "--json", env={"MXW_DEVICE_MEMORY": "3G"})
    check_equal(json.loads(out)["devices"][0]["memory_limit_bytes"], 3 << 30, "as JSON")


def main():
    try:
        subprocess.run([sys.argv[2], "pt", "f16", MODEL, "narrow", "1", "3"], check=True)
        paths = make_files()
        test_same(paths)
        test_json(paths)
        test_folder(paths)
        test_standard_input(paths)
        test_refused(paths)
        test_closed_pipe(paths)
        test_interrupt(paths)
        test_progress(paths)
        test_memory(paths)
    finally:
        shutil.rmtree(FOLDER)
    done()


main()
