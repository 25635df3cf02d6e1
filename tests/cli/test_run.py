"""tests/cli/test_run.py PROGRAM - whole runs with the real model: standard output, files, pipes, bad files, progress.

Needs tiny.en and the package speech (make model, tools/fetch-speech).
"""
import array
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import wave

from clitest import PROGRAM, check, check_equal, check_fails, done, model_path, run, skip, speech_path, wav
from terminal import run_on_terminal

MODEL = model_path("tiny.en")
CLIP = speech_path("beckett.wav")
LONG_CLIP = speech_path("two_cities.wav")
if not MODEL:
    skip("cli runs", "the model tiny.en is not there (make model)")
if not CLIP or not LONG_CLIP:
    skip("cli runs", "the package speech is not there (tools/fetch-speech)")

LINE = re.compile(r"^\[\d\d:\d\d\.\d{3} --> \d\d:\d\d\.\d{3}\] \S.*$")
FAST = ["--greedy", "--temperature-increment-on-fallback", "none"]
FORMATS = ["json", "srt", "tsv", "txt", "vtt"]


def read(path):
    with open(path, "rb") as stream:
        return stream.read()


def test_lines():
    """Timed lines, the same with the subcommand and from a pipe."""
    code, out, err = run(CLIP, *FAST)
    check(code == 0 and err == "", "a plain run", (code, err))
    lines = out.splitlines()
    check(len(lines) > 0 and all(LINE.match(line) for line in lines), "timed lines", out)
    check_equal(run("transcribe", *FAST, CLIP), (code, out, err), "transcribe is the same")
    check_equal(run("-", *FAST, stdin=read(CLIP)), (code, out, err), "standard input is the same")
    check_equal(run(CLIP, *FAST, "--threads", "1"), (code, out, err), "one thread is the same")
    check_equal(run(CLIP, *FAST, "--model", MODEL), (code, out, err), "the model by its path is the same")
    return lines


def test_formats(folder, lines):
    """A format on standard output is what the file holds; text is that of the lines."""
    out_dir = os.path.join(folder, "deep", "er")
    code, out, err = run(CLIP, *FAST, "--format", "all", "--output-dir", out_dir)
    check_equal((code, out, err), (0, "", ""), "files instead of standard output")
    check_equal(sorted(os.listdir(out_dir)), [f"beckett.{name}" for name in FORMATS], "the files")
    for name in ("srt", "json"):
        printed = subprocess.run([PROGRAM, CLIP, *FAST, "-f", name], capture_output=True, check=False)
        check_equal(printed.returncode, 0, f"--format {name}")
        saved = read(os.path.join(out_dir, f"beckett.{name}"))
        check_equal(printed.stdout, saved, f"--format {name} on standard output")
    text = read(os.path.join(out_dir, "beckett.txt")).decode()
    check_equal(text.splitlines(), [line.split("] ", 1)[1] for line in lines], "txt is the lines' text")
    result = json.loads(read(os.path.join(out_dir, "beckett.json")))
    check_equal(list(result), ["text", "segments", "language"], "json's keys")
    code, out, _ = run(CLIP, *FAST, "--verbose", "False")
    check_equal((code, out), (0, text), "--verbose False prints the text")


def test_trace(folder):
    """Ops lie within the run of their graph, one after the other, and nearly fill it."""
    path = os.path.join(folder, "trace.json")
    for engine in ("cpu", "max"):
        code, _, err = run(CLIP, *FAST, "--engine", engine, "--trace", path)
        check_equal((code, err), (0, ""), f"--trace with engine {engine}")
        events = json.loads(read(path))["traceEvents"]
        check({event["cat"] for event in events} == {"encoder", "cross", "decoder"}, "the graphs", events[:2])
        runs = [event for event in events if event["name"] == "run" and event["cat"] == "encoder"]
        ops = [event for event in events if event["name"] != "run" and event["cat"] == "encoder"]
        check(runs and all(event["args"]["kernel"] and event["args"]["shape"] for event in ops), "what ran", ops[:2])
        total, parts = sum(event["dur"] for event in runs), sum(event["dur"] for event in ops)
        check(0.5 * total < parts <= total, "the ops are the run", (parts, total))
        first = runs[0]
        inside = [event for event in ops if first["ts"] <= event["ts"] <= first["ts"] + first["dur"]]
        check(len(inside) * len(runs) == len(ops), "ops lie within their run", (len(inside), len(ops)))


def test_folder_without_format(folder):
    out_dir = os.path.join(folder, "all")
    code, out, _ = run(CLIP, *FAST, "-o", out_dir)
    check(code == 0 and LINE.match(out.splitlines()[0]), "--output-dir alone: lines too", out)
    check_equal(sorted(os.listdir(out_dir)), [f"beckett.{name}" for name in FORMATS], "--output-dir alone: all formats")
    code, out, _ = run(CLIP, *FAST, "-q", "--output_dir", out_dir)
    check_equal((code, out), (0, ""), "--output-dir --quiet: no lines")
    code, out, _ = run("-", *FAST, "-f", "txt,tsv", "-o", os.path.join(folder, "pipe"), stdin=read(CLIP))
    check_equal(sorted(os.listdir(os.path.join(folder, "pipe"))), ["stdin.tsv", "stdin.txt"], "files of standard input")


def test_nothing_on_disk(folder):
    quiet = os.path.join(folder, "empty")
    os.mkdir(quiet)
    code, _, _ = run(CLIP, *FAST, cwd=quiet)
    check_equal((code, os.listdir(quiet)), (0, []), "nothing is written unless asked")


def test_several(folder, lines):
    """Bad files among good ones: each a line, the others done, exit 1."""
    bad = {name: os.path.join(folder, name) for name in ("text.wav", "cut.wav", "empty.wav", "riff.wav")}
    for path, content in ((bad["text.wav"], b"this is not sound at all\n" * 40), (bad["cut.wav"], read(CLIP)[:30]),
                          (bad["empty.wav"], b""), (bad["riff.wav"], b"RIFF\xff\xff\xff\xffWAVEfmt \xff\xff\xff\xff")):
        with open(path, "wb") as stream:
            stream.write(content)
    missing = os.path.join(folder, "missing.wav")
    os.mkdir(os.path.join(folder, "nothing"))
    names = [missing, *bad.values(), os.path.join(folder, "nothing")]
    code, out, err = run(names[0], CLIP, *names[1:], *FAST)
    check_equal(code, 1, "bad files among good ones: exit status")
    check_equal(out.splitlines(), [f"==> {CLIP} <=="] + lines, "the good one is done")
    said = err.splitlines()
    check_equal(len(said), 2 * len(names) + 1, f"a line each, and all of them again at the end ({err})")
    for name, line in zip(names, said):
        check(line.startswith("max-whisper: ") and name in line, f"{name} is named", line)
    check(f"{len(names)} of {len(names) + 1}" in said[len(names)], "the summary counts", said)
    check_equal([line.replace(":   ", ": ", 1) for line in said[len(names) + 1:]], said[:len(names)], "the summary")
    for name in names:
        check_fails([name, *FAST], 1, name)
    code, out, err = run(CLIP, *FAST, "-f", "json", os.path.join(os.path.dirname(CLIP), ".", "beckett.wav"))
    check_equal((code, len([json.loads(line) for line in out.splitlines()])), (0, 2), "json of two files, a line each")


def test_bad_models(folder):
    cut = os.path.join(folder, "cut.pt")
    with open(cut, "wb") as stream:
        stream.write(read(MODEL)[:1 << 20])
    text = os.path.join(folder, "text.pt")
    with open(text, "wb") as stream:
        stream.write(b"no model\n" * 1000)
    for path in (cut, text, os.path.join(folder, "nowhere.pt")):
        check_fails(["--model", path, CLIP], 1, path)
        check_fails(["model", "inspect", path], 1, path)
    check_fails(["--model", "tiny-en", CLIP], 2, "'tiny-en'", "did you mean 'tiny.en'")
    check_fails(["--language", "de", CLIP], 2)
    check_fails(["--engine", "gpu", CLIP], 1)


def test_stats():
    code, _, err = run(CLIP, *FAST, "--stats")
    stats = json.loads(err)
    check(code == 0 and stats["fallbacks"] == 0 and stats["model"] == "tiny.en", "--stats", err)
    stages = [stats[name] for name in ("audio_ms", "mel_ms", "encode_ms", "decode_ms", "words_ms")]
    check(all(stage >= 0 for stage in stages) and stats["load_ms"] > 0, "--stats: the stages", err)
    check(abs(sum(stages) - stats["total_ms"]) <= 0.05 * stats["total_ms"], "--stats: the stages add up", err)
    check(abs(stats["audio_s"] - 9.97) < 0.5 and stats["windows"] >= 1, "--stats: the recording", err)
    code, _, err = run(CLIP, *FAST, "--log-level", "debug", "--log-format", "json")
    lines = [json.loads(line) for line in err.splitlines()]
    check(code == 0 and len(lines) > 0 and all({"level", "component", "message"} <= set(line) for line in lines),
          "--log-format json", err[:2000])


def test_inspect(folder):
    code, out, err = run("model", "inspect", "--json", "--tensors")
    info = json.loads(out)
    check(code == 0 and err == "", "model inspect", err)
    counts = [info[name] for name in ("n_tensors", "n_encoder_tensors", "n_decoder_tensors")]
    check_equal(counts, [167, 67, 100], "its tensors")
    dims = info["dims"]
    check_equal((dims["n_audio_state"], dims["n_vocab"], info["size"]), (384, 51864, "tiny.en"), "its size")
    sums = [tensor["crc32"] for tensor in info["tensors"]]
    check(len(sums) == 167 and all(re.fullmatch("[0-9a-f]{8}", one) for one in sums), "their checksums", sums)
    code, out, _ = run("model", "inspect", MODEL)
    check(code == 0 and "encoder 67 + decoder 100" in out and info["checksum"] in out, "model inspect PATH", out)
    target = os.path.join(folder, "tiny.npz")
    check_equal(run("model", "export", "tiny.en", target), (0, "", ""), "model export")
    check(read(target)[:2] == b"PK" and os.path.getsize(target) > 1 << 20, "the .npz")
    target = os.path.join(folder, "tiny.bin")
    check_equal(run("model", "export", "tiny.en", target, "--format", "ggml"), (0, "", ""), "model export as ggml")
    check(read(target)[:4] == b"lmgg" and os.path.getsize(target) == 77704698, "the ggml file", read(target)[:4])
    check_fails(["model", "export", "tiny.en", os.path.join(folder, "no", "x.npz")], 1, "x.npz")
    for which in ("encoder", "cross", "decoder", "force"):
        code, out, _ = run("graph", "dump", which)
        check(code == 0 and len(out.splitlines()) > 5, f"graph dump {which}", out[:300])


def samples_of(path):
    """The 16-bit samples of a plain WAV file"""
    with wave.open(path) as stream:
        check_equal((stream.getnchannels(), stream.getframerate()), (1, 16000), f"{path}: mono, 16 kHz")
        return array.array("h", stream.readframes(stream.getnframes()))


def test_channels(folder, lines):
    """One channel of two gives what it gives as a file of its own."""
    speech = samples_of(CLIP)
    both = array.array("h", [value for sample in speech for value in (0, sample)])
    path = os.path.join(folder, "two.wav")
    with open(path, "wb") as stream:
        stream.write(wav(0, channels=2, data=both.tobytes()))
    for which in ("right", "2"):
        code, out, err = run(path, *FAST, "--channel", which)
        check_equal((code, out.splitlines(), err), (0, lines, ""), f"--channel {which}")
    code, out, _ = run(path, *FAST, "--channel", "left", "--audio-track", "1")
    check(code == 0 and out.splitlines() != lines, "--channel left: silence", out)
    code, out, err = run("-", *FAST, "--channel", "right", stdin=read(path))
    check_equal((code, out.splitlines(), err), (0, lines, ""), "--channel right of standard input")


def test_late_sound(folder, lines):
    """Sound that begins after the picture is timed from where it begins."""
    path = os.path.join(folder, "late.mkv")
    made = shutil.which("ffmpeg") and subprocess.run(
        ["ffmpeg", "-v", "quiet", "-nostdin", "-f", "lavfi", "-i", "testsrc=s=64x48:r=5:d=2", "-itsoffset", "61.5",
         "-i", CLIP, "-map", "0", "-map", "1", "-c:v", "mpeg4", "-c:a", "copy", path], check=False).returncode == 0
    if not made:
        print("SKIP: cli-runs, late sound: no ffmpeg command that makes a film")
        return

    def later(match):
        minutes, seconds = int(match.group(1)), float(match.group(2)) + 61.5
        return f"{minutes + int(seconds // 60):02}:{seconds % 60:06.3f}"

    want = [re.sub(r"(\d\d):(\d\d\.\d{3})", later, line.split("]")[0]) + "]" + line.split("]", 1)[1] for line in lines]
    code, out, err = run(path, *FAST)
    check_equal((code, out.splitlines(), err), (0, want, ""), "late sound")
    code, out, err = run(path, *FAST, "--clip-timestamps", "61.5")
    check_equal((code, out.splitlines(), err), (0, want, ""), "late sound, clipped on its own clock")


def test_bench(folder):
    saved = os.path.join(folder, "bench.jsonl")
    options = ["--runs", "2", "--warm-up", "0", "--beam-size", "none", "--starts", "1", "--save", saved]
    code, out, err = run("bench", CLIP, "--json", *options)
    check(code == 0 and err == "", "bench", (code, err))
    report = json.loads(out)
    check_equal((report["model"], report["engine"], len(report["runs"])), ("tiny.en", "max", 2), "what bench ran")
    check(report["same_text"] and report["peak_memory_kib"] > 50000 and report["first_run_ms"] > 0, "its facts", report)
    check(report["machine"]["peak_gflops"] > 1 and report["machine"]["peak_read_gbs"] > 0.1, "the machine", report)
    check(0 < report["start"]["least_ms"] < 60000, "the start", report["start"])
    for one in report["runs"]:
        parts = sum(one[name] for name in ("mel", "encode", "cross", "prompt", "step", "other"))
        check(abs(parts - one["total"]) <= 0.01 * one["total"], "the stages add up", one)
        check(one["windows"] == 1 and one["steps"] > 5 and one["rows"] == one["steps"], "a window of greedy steps", one)
        check(one["other"] < 0.5 * one["total"], "most of the time is told by stage", one)
    encode = report["stages"]["encode"]
    check(abs(encode["unit_gflop"] - 36.94) < 0.01, "the encoder's work", encode)
    check(abs(encode["gflops"] * encode["least_ms"] / 1000 - encode["unit_gflop"]) < 0.01, "its rate", encode)
    check_equal([json.loads(line) for line in read(saved).decode().splitlines()], [report], "what was saved")
    code, out, err = run("bench", CLIP, "--runs", "1", "--warm-up", "0", "--beam-size", "none")
    check(code == 0 and err == "" and out.count("\n") > 10, "bench as a table", (code, out, err))
    for name in ("mel", "encode", "cross", "prompt", "step", "other", "total", "peak memory", "in registers"):
        check(name in out, f"{name} in the table", out)
    check_fails(["bench", os.path.join(folder, "none.wav")], 1, "none.wav")


def test_silence():
    code, out, err = run("-", *FAST, stdin=wav(16000))
    check(code == 0 and err == "", "a second of silence", (code, out, err))
    check_fails(["-", *FAST], 1, "standard input", stdin=b"")


def test_progress(folder, lines):
    try:
        os.close(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
    except OSError as error:   # a container without devpts
        print(f"SKIP: cli-runs, progress on a terminal: no pseudo-terminal ({error.strerror})")
        return
    code, shown, printed = run_on_terminal([CLIP, "--beam-size", "5", "--temperature-increment-on-fallback", "none"])
    check_equal(code, 0, "a run on a terminal")
    check(all(LINE.match(line) for line in printed.splitlines()), "its standard output is clean", printed)
    check("%" in shown and "[" in shown and "beckett.wav" in shown, "a bar with its name", shown)
    check(shown.endswith("\r\x1b[K"), "the bar is gone at the end", shown[-80:])
    check("\n" not in shown, "the bar never scrolls", shown)
    for frame in shown.split("\r"):
        check(len(frame.replace("\x1b[K", "")) < 80, "a frame fits the terminal", frame)
    _, shown, _ = run_on_terminal([CLIP, *FAST], columns=20)
    check(max(len(frame.replace("\x1b[K", "")) for frame in shown.split("\r")) < 20, "a narrow terminal", shown)
    for quiet in (["--quiet"], ["--verbose", "None"]):
        code, shown, printed = run_on_terminal([CLIP, *FAST, *quiet, "-f", "txt"])
        check_equal((code, shown), (0, ""), f"{quiet}: no bar")
    missing = os.path.join(folder, "missing.wav")
    code, shown, _ = run_on_terminal([missing])
    check(code == 1 and shown.count("\n") == 1 and missing in shown, "an error on a terminal", shown)


def test_closed_pipe():
    """A reader that goes away: no complaint, not exit 0 (the text was not delivered)."""
    process = subprocess.Popen([PROGRAM, CLIP, *FAST], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    err = process.stderr.read()
    check_equal((process.wait(), err), (1, b""), "a closed pipe is quiet")
    if os.path.exists("/dev/full"):
        with open("/dev/full", "wb") as full:
            process = subprocess.run([PROGRAM, CLIP, *FAST], stdout=full, stderr=subprocess.PIPE, check=False)
        err = process.stderr.decode()
        check(process.returncode == 1 and err.count("\n") == 1 and "standard output" in err, "a full disk is told", err)


def repeat(source, target, times):
    """A WAV file of what another one says, several times over."""
    with wave.open(source, "rb") as clip, wave.open(target, "wb") as longer:
        longer.setparams(clip.getparams())
        longer.writeframes(clip.readframes(clip.getnframes()) * times)


def test_interrupt():
    """Ctrl-C: exit 130, whether it waits for a pipe or works; nothing half-written. A file is under way once its first
    line is there, and long enough that no machine is through with the rest by then."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as sounds:
        long = os.path.join(sounds, "long.wav")
        repeat(LONG_CLIP, long, 20)
        for words, sound in ((["-"], read(CLIP)[:100000]), (["-", "--mel-reference", "running"], read(CLIP)[:100000]),
                             (["-"], b""), ([long, "--beam-size", "20"], b"")):
            process = subprocess.Popen([PROGRAM, *words, "-o", folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
            process.stdin.write(sound)
            process.stdin.flush()
            if words[0] == "-":
                time.sleep(1)
            else:
                process.stdout.readline()
            process.send_signal(signal.SIGINT)
            status = process.wait(timeout=120)  # the pipe to it is still open
            process.stdin.close()
            err = process.stderr.read().decode()
            told = err == "" if words[0] == "-" else "run the same command" in err
            check(status == 130 and told, f"Ctrl-C: {words}", (status, err))
            process.stdout.close()
            process.stderr.close()
        check_equal(os.listdir(folder), [], "Ctrl-C leaves no files")


def test_live():
    code, out, err = run("-", *FAST, "--mel-reference", "running", stdin=read(CLIP))
    check(code == 0 and err == "" and LINE.match(out.splitlines()[0]), "--mel-reference running", (out, err))


def main():
    folder = tempfile.mkdtemp()
    try:
        lines = test_lines()
        test_formats(folder, lines)
        test_trace(folder)
        test_folder_without_format(folder)
        test_nothing_on_disk(folder)
        test_several(folder, lines)
        test_bad_models(folder)
        test_stats()
        test_inspect(folder)
        test_channels(folder, lines)
        test_late_sound(folder, lines)
        test_bench(folder)
        test_silence()
        test_progress(folder, lines)
        test_closed_pipe()
        test_interrupt()
        test_live()
    finally:
        shutil.rmtree(folder)
    done()


main()
