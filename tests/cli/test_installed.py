"""tests/cli/test_installed.py PROGRAM BUILD - the library as installed: what is there, what it exports, and its
examples, built through pkg-config and run.

Those that transcribe need tiny.en and the package speech (make model, tools/fetch-speech).
"""
import array
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import wave

from clitest import ROOT, check, check_equal, done, model_path, run, speech_path

FOLDER = tempfile.mkdtemp()
HEADERS = sorted(os.listdir(os.path.join(ROOT, "include", "max_whisper")))
MODEL = model_path("tiny.en")
CLIPS = [speech_path(name) for name in ("beckett.wav", "pocketsphinx-goforward.wav", "two_cities.wav")]
ENV = {name: value for name, value in os.environ.items() if name != "MXW_MODULE_DIR"}   # the installed modules count


def installed(*tails):
    """The one installed file of each of these endings"""
    found = []
    for tail in tails:
        hits = [os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(FOLDER, "root"))
                for name in names if os.path.join(folder, name).endswith(tail)]
        check_equal(len(hits), 1, f"installed: {tail}")
        found += hits[:1]
    return found


def call(name, *words, stdin=b"", status=0):
    made = subprocess.run([os.path.join(FOLDER, name), *words], input=stdin, capture_output=True, env=ENV, check=False)
    check_equal(made.returncode, status, f"{name}: exit status ({made.stderr.decode()})")
    return made.stdout.decode(), made.stderr.decode()


def read(path):
    with open(path, "rb") as stream:
        return stream.read()


def test_files():
    commands = ["transcribe", "demo", "bench", "model", "devices", "gpu-check", "graph", "version", "help"]
    installed("/include/max_whisper.h", *(f"/include/max_whisper/{name}" for name in HEADERS), "/bin/max-whisper",
              "/pkgconfig/max-whisper.pc", "/man1/max-whisper.1",
              "/man3/max_whisper.3", "/bash-completion/completions/max-whisper", "/max-whisper-modules/ffmpeg.so",
              *(f"/man1/max-whisper-{command}.1" for command in commands))


def test_symbols():
    """What is exported is what the headers declare, no more and no less."""
    library, = installed("/libmax_whisper.so.0")
    listed = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    exported = {line.split()[-1].split("@")[0] for line in listed.splitlines()}
    declared = set()
    for header in installed(*(f"/include/max_whisper/{name}" for name in HEADERS)):
        with open(header, encoding="utf-8") as stream:
            declared |= set(re.findall(r"^MXW_API[^;(]*?(\w+)\(", stream.read(), re.MULTILINE))
    check(len(declared) > 80, "the headers were read", len(declared))
    check_equal(exported, declared, "exported symbols")


def test_transcribe(path):
    command, = installed("/bin/max-whisper")
    library = os.path.dirname(installed("/libmax_whisper.so.0")[0])
    want = subprocess.run([command, path, "--model", MODEL, "-f", "tsv"], capture_output=True, text=True, check=True,
                          env=dict(ENV, LD_LIBRARY_PATH=library)).stdout.splitlines()[1:]
    out, err = call("transcribe", path, MODEL)
    lines = [re.fullmatch(r"\[ *([\d.]+) to +([\d.]+)\] ?(.*)", line) for line in out.splitlines()]
    check(err == "" and lines and all(lines), "transcribe", (out, err))
    got = [(round(float(line[1]) * 1000), round(float(line[2]) * 1000), line[3].strip()) for line in lines]
    told = [(int(start), int(end), text.strip()) for start, end, text in (line.split("\t") for line in want)]
    check_equal([one for one in got if one[2]], [one for one in told if one[2]], "the text of the command line")
    check("missing.wav" in call("transcribe", os.path.join(FOLDER, "missing.wav"), status=1)[1], "a missing file")


def test_pipe(path):
    with wave.open(path) as stream:
        check_equal((stream.getnchannels(), stream.getframerate()), (1, 48000), f"{path}: mono, 48 kHz")
        high = array.array("h", stream.readframes(stream.getnframes()))
    samples = array.array("h", [sum(high[i:i + 3]) // 3 for i in range(0, len(high), 3)]).tobytes()
    process = subprocess.Popen([os.path.join(FOLDER, "pipe"), MODEL], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               env=ENV)
    process.stdin.write(samples[:31 * 32000])
    process.stdin.flush()
    first = process.stdout.readline()   # while the pipe is open: it waits for no end
    check(b"best of times" in first, "text before the end", first)
    process.stdin.write(samples[31 * 32000:])
    process.stdin.close()
    rest = process.stdout.read()
    process.stdout.close()
    check(process.wait() == 0 and len(rest.splitlines()) >= 1, "and after it", rest)


def test_live():
    with wave.open(os.path.join(ROOT, "tests", "data", "librivox-0870.wav")) as stream:
        samples = stream.readframes(stream.getnframes())
    process = subprocess.Popen([os.path.join(FOLDER, "live"), MODEL], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=ENV)
    process.stdin.write(samples[:6 * 32000])
    process.stdin.flush()
    lines = [process.stdout.readline().decode()]
    while lines[-1] and not (lines[-1].startswith("  ") and "Dashwood" in lines[-1]):
        lines.append(process.stdout.readline().decode())   # while the pipe is open, and nobody pauses
    check(any(line.startswith("~ ") for line in lines) and "Dashwood" in lines[-1], "text while it is spoken", lines)
    out, err = process.communicate(samples[6 * 32000:])
    lines += out.decode().splitlines(keepends=True)
    final = "".join(line[9:].rstrip("\n") for line in lines if line.startswith("  "))
    check(process.returncode == 0 and not err and "leisure to consider" in final and final.endswith("do for them."),
          "all of it, once", (final, err))


def test_many(paths):
    missing = os.path.join(FOLDER, "missing.wav")
    out, err = call("many", MODEL, "3", *paths[:1], missing, *paths[1:], status=1)
    check(out == f"{len(paths)} of {len(paths) + 1} files done\n" and err.count("\n") == 1 and missing in err, "many",
          (out, err))
    together = [read(f"{path}.srt") for path in paths]
    for path in paths:
        call("many", MODEL, "1", path)
    check_equal([read(f"{path}.srt") for path in paths], together, "each as alone")
    check(len(set(together)) == len(paths) and all(together), "different texts")


def test_life():
    out, err = call("life", "4")
    worlds = re.split(r"generation \d\n", out)[1:]
    check(err == "" and len(worlds) == 5 and all(world.count("#") == 5 for world in worlds), "life", out)
    rows = worlds[0].splitlines()
    moved = ["." * len(rows[0])] + ["." + row[:-1] for row in rows[:-1]]
    check_equal(worlds[4].splitlines(), moved, "a glider moves by one cell in four generations")


def main():
    try:
        made = subprocess.run([os.path.join(ROOT, "tools", "examples"), sys.argv[2], FOLDER], capture_output=True,
                              text=True, check=False)
        if not check(made.returncode == 0, "the examples are built", made.stdout + made.stderr):
            done()
        test_files()
        test_symbols()
        test_life()
        if MODEL and all(CLIPS):
            paths = [shutil.copy(clip, FOLDER) for clip in CLIPS]
            test_transcribe(paths[0])
            test_pipe(paths[2])
            if json.loads(run("model", "list", "--json")[1])["vad"]["path"]:
                test_live()
            else:
                print("SKIP: installed, the example live: the weights silero-vad are not there (make model)")
            test_many(paths[:2])
        else:
            print("SKIP: installed, examples that transcribe: the model tiny.en or the package speech is not there")
    finally:
        shutil.rmtree(FOLDER)
    done()


main()
