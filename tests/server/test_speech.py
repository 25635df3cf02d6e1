"""tests/server/test_speech.py PROGRAM MAKE_CHECKPOINT [N] - the server's text of speech is that of the command line: N
recordings one by one, and with 16 clients at once. Recordings without a header, which the command line knows by their
names alone, are made WAV files first: to the server a name says nothing.
"""
import json
import os
import shutil
import subprocess
import sys
import threading

from servertest import FOLDER, Server, check_equal, done, model_path, run, skip, speech_path

COUNT = int(sys.argv[3]) if len(sys.argv) > 3 else 6
CLIENTS = 16
if not model_path("tiny.en"):
    skip("server-speech", "no model tiny.en")
FOLDERS = ["/usr/share/pocketsphinx/test/data", "/usr/share/asterisk/sounds/en_US_f_Allison"]


def with_header(path):
    if path.endswith(".wav"):
        return path
    made = os.path.join(FOLDER, path.strip("/").replace("/", "-") + ".wav")
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", path, made], check=True, stdin=subprocess.DEVNULL)
    return made


def recordings():
    """Paths of COUNT recordings; of many, a long one too"""
    found = []
    suffixes = (".wav", ".g722") if shutil.which("ffmpeg") else (".wav",)
    for folder in FOLDERS:
        for place, _, names in sorted(os.walk(folder)):
            found += [os.path.join(place, name) for name in sorted(names)
                      if name.endswith(suffixes) and os.path.getsize(os.path.join(place, name)) > 20000]
    if len(found) < 2:
        skip("server-speech", "no recordings of speech; tools/setup test installs them")
    found = [with_header(path) for path in found[:COUNT]]
    long_one = speech_path("two_cities.wav") if COUNT > 10 else None
    return found + ([long_one] if long_one else [])


def main():
    paths = recordings()
    wanted = []
    for path in paths:
        code, out, err = run("transcribe", "--model", "tiny.en", "--format", "json", path)
        check_equal(code, 0, f"{path}: {err}")
        wanted.append(json.loads(out)["text"].strip())
    files = []
    for path in paths:
        with open(path, "rb") as stream:
            files.append((os.path.basename(path), stream.read()))
    with Server("--model", "tiny.en") as server:
        alone = [server.post({"model": "tiny.en"}, file, timeout=600).json.get("text") for file in files]
        check_equal(alone, wanted, "one by one")
        together = [None] * CLIENTS

        def ask(i):
            together[i] = server.post({"model": "tiny.en"}, files[i % len(files)], timeout=600).json.get("text")
        for start in range(0, max(len(files), CLIENTS), CLIENTS):
            threads = [threading.Thread(target=ask, args=(i,)) for i in range(CLIENTS)]
            files = files[start % len(files):] + files[:start % len(files)]
            wanted = wanted[start % len(wanted):] + wanted[:start % len(wanted)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            check_equal(together, [wanted[i % len(wanted)] for i in range(CLIENTS)], f"{CLIENTS} clients at once")
    done()


main()
