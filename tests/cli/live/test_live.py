"""tests/cli/live/test_live.py PROGRAM - `live` on real speech: text and events, files and pipes of every kind, what is
written and when, Ctrl-C. Needs tiny.en and the weights of speech detection (make model); the speech is in tests/data.
"""
import array
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time
import wave

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from clitest import PROGRAM, ROOT, check, check_equal, check_fails, done, model_path, run, skip, wav

SPEECH = os.path.join(ROOT, "tests", "data", "librivox-0870.wav")
KINDS = {"speech_started", "partial", "final", "speech_stopped", "slower", "gap", "end"}
FAST = ["--pace", "0", "--greedy", "--step-ms", "600", "--condition-on-previous-text", "False"]
FOLDER = tempfile.mkdtemp()
ONCE = os.path.join(FOLDER, "once.wav")     # "And Mr. John Dashwood had then leisure", in 3 seconds
TWICE = os.path.join(FOLDER, "twice.wav")   # and again after a pause
OFTEN = os.path.join(FOLDER, "often.wav")   # and again, for minutes: longer than a test listens on a busy machine
CLIP_BYTES = 3 * 32000

if not model_path("tiny.en"):
    skip("cli live", "tiny.en is not there (make model)")
if not json.loads(run("model", "list", "--json")[1])["vad"]["path"]:
    skip("cli live", "the weights silero-vad are not there (make model)")


def samples(path=None):
    with wave.open(path or ONCE) as stream:
        return stream.readframes(stream.getnframes())


def live(*words, stdin=b""):
    code, out, err = run("live", *words, stdin=stdin)
    check_equal((code, err), (0, ""), f"live {' '.join(words)[:80]}")
    return out


def events_of(*words, stdin=b""):
    return [json.loads(line) for line in live(*words, "--format", "jsonl", stdin=stdin).splitlines()]


def plain(text):
    return re.sub(r"[^a-z' ]", "", text.lower()).split()


def text_of(events):
    return "".join(event["text"] for event in events if event["kind"] == "final")


def test_text():
    """A line for each utterance that is no longer: the words that the file has, twice."""
    lines = live(*FAST, TWICE).splitlines()
    check_equal(len(lines), 2, "two utterances")
    for line in lines:
        check(line == line.strip() and line, "no blanks around a line", line)
        check("john dashwood had" in " ".join(plain(line)), "the words of the file", line)
    check_equal(live(*FAST, "--format", "txt", TWICE).splitlines(), lines, "--format txt")


def test_lines():
    """A speaker without a pause that counts: sentences, and pieces of them, while the utterance goes on."""
    path = os.path.join(FOLDER, "sentences.wav")
    with open(path, "wb") as stream:
        stream.write(wav(0, data=samples(SPEECH) + samples(SPEECH.replace("0870", "0880")) + samples(SPEECH)))
    words = [*FAST, "--pause-ms", "10000", path]
    lines, events = live(*words).splitlines(), events_of(*words)
    check_equal([event["kind"] for event in events].count("speech_stopped"), 1, "one utterance")
    check(len(lines) > 2 and max(map(len, lines)) <= 100, "lines", lines)
    check(any(line.endswith(".") for line in lines[:-1]), "some are whole sentences", lines)
    check_equal(" ".join(lines).split(), text_of(events).split(), "all of the text, word by word")


def check_order(events):
    """Kinds in an order that makes sense, on a clock that does not go back."""
    inside, first, ready = False, 0.0, 0.0
    for event in events:
        kind = event["kind"]
        check(kind in KINDS, "a kind", kind)
        check(event["start"] <= event["end"] + 1e-9 and event["ready_s"] >= ready, "times", event)
        ready = event["ready_s"]
        if kind in ("speech_started", "speech_stopped"):
            check(inside == (kind == "speech_stopped"), "speech starts and stops in turn", event)
            inside = kind == "speech_started"
        if kind in ("partial", "final"):
            check(inside, "words are said within an utterance", event)
            check_equal("".join(word["word"] for word in event["words"]), event["text"], "words are the text")
        if kind == "final":
            check(event["start"] >= first and event["text"], "finals follow each other", event)
            first = event["start"]
    check_equal([event["kind"] for event in events].count("end"), 1, "one end")
    check_equal(events[-1]["kind"], "end", "at the end")


def test_events():
    events = events_of(*FAST, TWICE)
    check_order(events)
    kinds = [event["kind"] for event in events]
    check_equal(kinds.count("speech_stopped"), 2, "utterances")
    check(kinds.count("partial") > 3 and kinds.count("final") > 2, "partials and finals", kinds)
    check_equal({event["utterance"] for event in events if event["kind"] == "final"}, {0, 1}, "numbers of utterances")
    check_equal(" ".join(text_of(events).split()), " ".join(live(*FAST, TWICE).split()), "finals are the lines")
    check_equal(events_of(*FAST, TWICE), events, "the same events every time")
    last = events_of(*FAST, "--pause-ms", "3000", TWICE)
    check_equal([event["kind"] for event in last].count("speech_stopped"), 1, "--pause-ms: one utterance")
    other = events_of(*FAST, "--policy", "alignatt", ONCE)
    check_order(other)
    check("john dashwood had" in " ".join(plain(text_of(other))), "--policy alignatt", text_of(other))


def test_pipes():
    """The same events from a file, a pipe, and plain samples that lose nothing."""
    events = events_of(*FAST, ONCE)
    pcm = array.array("h", samples())
    with open(ONCE, "rb") as stream:
        check_equal(events_of(*FAST, "-", stdin=stream.read()), events, "a pipe")
    shapes = {
        ("--sample-format", "s16"): pcm.tobytes(),
        ("--rate", "16000"): pcm.tobytes(),
        ("--channels", "1"): pcm.tobytes(),
        ("--sample-format", "f32"): array.array("f", [value / 32768 for value in pcm]).tobytes(),
        ("--sample-format", "f64"): array.array("d", [value / 32768 for value in pcm]).tobytes(),
        ("--sample-format", "s32"): array.array("i", [value << 16 for value in pcm]).tobytes(),
        ("--sample-format", "s24"): b"".join((value << 8 & 0xFFFFFF).to_bytes(3, "little") for value in pcm),
    }
    for words, data in shapes.items():
        check_equal(events_of(*FAST, *words, "-", stdin=data), events, f"plain samples: {' '.join(words)}")
    stereo = array.array("h", [value for sample in pcm for value in (sample, sample)])
    got = events_of(*FAST, "--channels", "2", "-", stdin=stereo.tobytes())
    check_equal(plain(text_of(got)), plain(text_of(events)), "two channels")
    half = array.array("h", [(a + b) // 2 for a, b in zip(pcm[::2], pcm[1::2])])
    got = events_of(*FAST, "--rate", "8000", "-", stdin=half.tobytes())
    check("had then" in text_of(got).lower(), "8 kHz", text_of(got))
    small = bytes((value >> 8) + 128 for value in pcm)
    check("dashwood" in text_of(events_of(*FAST, "--sample-format", "u8", "-", stdin=small)).lower(), "u8")


def test_rate_changes():
    """A pipe whose rate changes twice on the way: each change is told at its place, and nothing is missing."""
    if not shutil.which("ffmpeg"):
        print("SKIP: a stream whose rate changes: no ffmpeg to make it")
        return
    stream = b""
    for rate in (16000, 44100, 24000):
        stream += subprocess.run(["ffmpeg", "-v", "error", "-i", ONCE, "-af", "apad=pad_dur=1.2", "-ar", str(rate),
                                  "-c:a", "aac", "-f", "adts", "-"], capture_output=True, check=True).stdout
    events = events_of(*FAST, "-", stdin=stream)
    changes = [event for event in events if event["kind"] == "rate_changed"]
    check_equal([event["rate"] for event in changes], [44100, 24000], "the rates from there on")
    for number, event in enumerate(changes, 1):
        check(abs(event["start"] - 4.2 * number) < 1 and event["end"] == event["start"], "and where", event)
    events = [event for event in events if event["kind"] != "rate_changed"]
    check_order(events)
    lines = {}
    for event in events:
        if event["kind"] == "final":
            lines.setdefault(event["utterance"], []).append(event)
    check_equal(len(lines), 3, "an utterance at each rate")
    for number, finals in lines.items():
        check("john dashwood had" in " ".join(plain(text_of(finals))), "the words at every rate", finals)
        check(abs(finals[0]["start"] - 4.2 * number) < 1, "times go on as if the rate were one", finals[0]["start"])


def test_hole():
    """Timestamps that skip five seconds between two utterances: an event, and times are those of the source."""
    if not shutil.which("ffmpeg"):
        print("SKIP: a stream with a hole: no ffmpeg to make it")
        return
    for form, codec in (("matroska", "pcm_s16le"), ("mpegts", "mp2")):
        stream = subprocess.run(["ffmpeg", "-v", "error", "-i", TWICE, "-af", "asetpts=PTS+gte(T\\,3.6)*5/TB", "-c:a",
                                 codec, "-f", form, "-"], capture_output=True, check=True).stdout
        sound = os.path.join(FOLDER, "hole.wav")
        code, out, err = run("live", *FAST, "--format", "jsonl", "--save-audio", sound, "-", stdin=stream)
        events = [json.loads(line) for line in out.splitlines()]
        check_equal(code, 0, f"{form} with a hole")
        check_order(events)
        gaps = [event for event in events if event["kind"] == "gap"]
        check_equal([gap["cause"] for gap in gaps], ["source"], "one gap")
        check(abs(gaps[0]["start"] - 3.7) < 0.2 and abs(gaps[0]["end"] - gaps[0]["start"] - 5) < 0.1, "its place", gaps)
        check(re.fullmatch(r"max-whisper: warning: 5\.0 s of sound are missing at 00:03\.\d+: the source left them "
                           r"out\n", err), "which is said", err)
        finals = {number: [event for event in events if event["kind"] == "final" and event["utterance"] == number]
                  for number in (0, 1)}
        for number, first in ((0, 0.3), (1, 9.6)):
            check("john dashwood had" in " ".join(plain(text_of(finals[number]))), "the words around it", finals)
            check(abs(finals[number][0]["start"] - first) < 0.7, "at their times", finals[number][0])
        check_equal(len(samples(sound)), 2 * round(16000 * events[-1]["end"]), "the saved sound is as long")


def test_as_it_comes():
    """A pipe without --pace: text, whatever the clock says."""
    code, out, _ = run("live", "--greedy", "-", stdin=wav(0, data=samples()))
    check(code == 0 and "dashwood" in out.lower(), "a pipe on its own clock", out)
    code, out, _ = run("live", "--greedy", "--pace", "8", ONCE)
    check(code == 0 and "dashwood" in out.lower(), "--pace 8", out)


def test_silence():
    path = os.path.join(FOLDER, "silence.wav")
    with open(path, "wb") as stream:
        stream.write(wav(32000))
    check_equal(live(*FAST, path), "", "silence has no text")
    check_equal([event["kind"] for event in events_of(*FAST, path)], ["end"], "and one event")
    code, out, err = run("live", *FAST, "--rate", "16000", "-")
    check_equal((code, out), (0, ""), "no samples at all")
    check("has no samples" in err and err.count("\n") == 1, "which is said", err)


def test_bad_pipes():
    check_fails(["live", *FAST, "-"], 1, "standard input: is empty")
    check_fails(["live", *FAST, "-"], 1, "standard input", stdin=b"this is no sound\n" * 500)
    with open(os.path.join(FOLDER, "x"), "wb") as stream:
        closed = subprocess.run([PROGRAM, "live", *FAST, "-"], stdin=stream, capture_output=True, text=True,
                                timeout=120, check=False)
    check_equal((closed.returncode, closed.stdout), (1, ""), "standard input that cannot be read")
    check(closed.stderr.startswith("max-whisper: standard input: cannot be read: ") and closed.stderr.count("\n") == 1,
          "one line", closed.stderr)
    closed = subprocess.run(["sh", "-c", '"$@" <&-', "sh", PROGRAM, "live", *FAST, "-"], capture_output=True, text=True,
                            timeout=120, check=False)
    check_equal((closed.returncode, closed.stdout, closed.stderr),
                (1, "", "max-whisper: standard input: cannot be read: it is not open for reading\n"),
                "standard input that is closed")
    check_fails(["live", *FAST, "--language", "de", ONCE], 2, "tiny.en")


def test_files():
    folder, sound = os.path.join(FOLDER, "out", "inner"), os.path.join(FOLDER, "kept.wav")
    lines = live(*FAST, "--output-dir", folder, "--save-audio", sound, TWICE).splitlines()
    check_equal(sorted(os.listdir(folder)), sorted("twice." + name for name in ("txt", "srt", "vtt", "tsv", "json")),
                "the five formats")
    with open(os.path.join(folder, "twice.txt"), encoding="utf-8") as stream:
        check_equal(" ".join(stream.read().split()), " ".join(lines), "txt")
    with open(os.path.join(folder, "twice.json"), encoding="utf-8") as stream:
        result = json.load(stream)
    check_equal(" ".join(result["text"].split()), " ".join(lines), "json")
    check(all(a["end"] <= b["start"] + 0.02 for a, b in zip(result["segments"], result["segments"][1:])), "in order")
    check_equal(samples(sound), samples(TWICE), "the sound, sample for sample")
    quiet = live(*FAST, "--quiet", "-f", "srt,jsonl", "-o", folder, "--output-name", "n-{model}.{format}", ONCE)
    check_equal(quiet, "", "--quiet with files prints nothing")
    check({"n-tiny.en.srt", "n-tiny.en.jsonl"} <= set(os.listdir(folder)), "--output-name", os.listdir(folder))
    live(*FAST, "-o", folder, "-f", "txt", "--rate", "16000", "-", stdin=samples())
    names = [name for name in os.listdir(folder) if re.fullmatch(r"live-\d{8}-\d{6}\.txt", name)]
    check_equal(len(names), 1, "a stream's file has date and time")
    check_fails(["live", *FAST, "-o", TWICE, ONCE], 1, "--output-dir")
    check_fails(["live", *FAST, "--save-audio", FOLDER, ONCE], 1, "--save-audio")


def test_overwritten():
    """No text takes the place of the sound, whatever is in its name."""
    path = os.path.join(FOLDER, "heard-en.wav")
    shutil.copy(ONCE, path)
    for name in ("{stem}.wav", "heard-{language}.wav"):
        code, out, err = run("live", *FAST, "-o", FOLDER, "-f", "txt", "--output-name", name, path)
        check(code == 1 and f"--output-dir: {path} is the file that is heard" in err, f"--output-name {name}", err)
        with open(path, "rb") as stream:
            code, _, err = run("live", *FAST, "-o", FOLDER, "-f", "txt", "--output-name",
                               name.replace("{stem}", "heard-en"), "-", stdin=stream)
        check(code == 1 and "is the file that is heard" in err, f"--output-name {name} of standard input", err)
    check_equal(samples(path), samples(ONCE), "the sound is as it was")


class Running:
    """The program at its own pace."""

    def __init__(self, *words, **options):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([PROGRAM, "live", "--greedy", *words], stdout=subprocess.PIPE,
                                        stderr=self.errors, **options)

    def end(self):
        """What comes after the lines that were read; communicate() would forget what is in the buffer."""
        if self.process.stdin:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass
        out = b"" if self.process.stdout.closed else self.process.stdout.read()
        self.process.wait(timeout=120)
        self.errors.seek(0)
        return self.process.returncode, out.decode(), self.errors.read().decode()


def wait_for(condition, seconds=120):
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if condition():
            return True
        time.sleep(0.02)
    return False


def test_whole_at_any_moment():
    """What is read while it is written is always whole; Ctrl-C writes the rest and says where."""
    folder, sound = os.path.join(FOLDER, "grows"), os.path.join(FOLDER, "grows.wav")
    path = os.path.join(folder, "often.json")
    texts, lengths = set(), []
    running = Running("-o", folder, "-f", "json,srt", "--save-audio", sound, "--log-level", "info", OFTEN)

    def look():
        if os.path.exists(path):
            with open(path, encoding="utf-8") as stream:
                texts.add(json.load(stream)["text"])
        if os.path.exists(sound) and os.path.getsize(sound) >= 44:
            with wave.open(sound) as stream:
                lengths.append(stream.getnframes())
                check(len(stream.readframes(1 << 30)) >= 2 * lengths[-1], "samples that the header promises")
        return len(texts) >= 2 and max(texts, key=len).count(" ") > 6

    check(wait_for(look), "text comes while the file is replayed", texts)
    running.process.send_signal(signal.SIGINT)
    code, out, err = running.end()
    look()
    check_equal(code, 0, "Ctrl-C: exit status")
    check(len(texts) >= 2 and lengths == sorted(lengths) and lengths[-1] > 16000, "the files grew", (texts, lengths))
    check_equal(" ".join(max(texts, key=len).split()), " ".join(out.split()), "the file has all that was printed")
    for name in ("often.json", "often.srt", "grows.wav"):
        check(re.search(rf"wrote .*{name}\n", err), f"it says where {name} is", err)
    check(lengths[-1] < len(samples(OFTEN)) // 2, "it ended early")


def write_all(pipe, data):
    try:
        pipe.write(data)
    except BrokenPipeError:
        pass    # nobody reads the rest


def waits_in(pipe):
    """Bytes that nobody has read yet"""
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


def test_stopped_pipe():
    """Ctrl-C while a pipe has nothing to give."""
    running = Running("--format", "jsonl", "--rate", "16000", "-", stdin=subprocess.PIPE)
    running.process.stdin.write(samples())
    running.process.stdin.flush()
    check(wait_for(lambda: not waits_in(running.process.stdin)), "the pipe is read")   # what is left in it is not heard
    first = json.loads(running.process.stdout.readline())
    running.process.send_signal(signal.SIGINT)
    check(wait_for(lambda: running.process.poll() is not None), "it does not wait for the pipe")
    code, out, err = running.end()
    events = [first] + [json.loads(line) for line in out.splitlines()]
    check_equal((code, events[-1]["kind"]), (0, "end"), "exit status and last event")
    check("dashwood" in text_of(events).lower(), "what was heard is printed", (out, err))


def test_hung_up():
    """A terminal that closes hangs up, twice: the open utterance is heard to its end, and is in the file."""
    folder = os.path.join(FOLDER, "hung")
    running = Running("--format", "jsonl", "-o", folder, "--rate", "16000", "-", stdin=subprocess.PIPE)
    running.process.stdin.write(samples())
    running.process.stdin.flush()
    check(wait_for(lambda: not waits_in(running.process.stdin)), "the pipe is read")
    running.process.send_signal(signal.SIGHUP)
    running.process.send_signal(signal.SIGHUP)
    code, out, err = running.end()
    check_equal(code, 0, f"exit status after SIGHUP ({err})")
    names = os.listdir(folder)
    check_equal(len(names), 1, "a file")
    with open(os.path.join(folder, names[0]), encoding="utf-8") as stream:
        check("dashwood" in stream.read().lower(), "with the utterance")
    ignoring = subprocess.Popen(["sh", "-c", "trap '' HUP; exec \"$@\"", "sh", PROGRAM, "live", "--greedy", "--rate",
                                 "16000", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    ignoring.stdin.write(samples())
    ignoring.stdin.flush()
    check(wait_for(lambda: not waits_in(ignoring.stdin)), "the pipe is read")
    ignoring.send_signal(signal.SIGHUP)
    out, _ = ignoring.communicate(bytes(40000) + samples(), timeout=120)
    check_equal((ignoring.returncode, out.decode().lower().count("dashwood")), (0, 2), "nohup: it goes on")


def test_stopped_while_behind():
    """Ctrl-C when much has come at once: what was read is heard, what was not is not, and it says so."""
    running = Running("--format", "jsonl", "--rate", "16000", "--log-level", "info", "-", stdin=subprocess.PIPE)
    writer = threading.Thread(target=write_all, args=(running.process.stdin, samples(OFTEN)))
    writer.start()
    first = json.loads(running.process.stdout.readline())
    running.process.send_signal(signal.SIGINT)
    code, out, err = running.end()
    writer.join()
    events = [first] + [json.loads(line) for line in out.splitlines()]
    check_equal((code, events[-1]["kind"]), (0, "end"), "exit status and last event")
    check(re.search(r"ending: \d+ s that have come are still to be heard; Ctrl-C again stops at once\n", err),
          "is said", err)
    check(1 < events[-1]["end"] < 200, "what had come is heard, and no more", events[-1])


def test_second_signal():
    """It may be done before the second one comes; then once more."""
    for _ in range(10):
        running = Running("--format", "jsonl", TWICE)
        running.process.stdout.readline()
        running.process.send_signal(signal.SIGINT)
        time.sleep(0.02)
        running.process.send_signal(signal.SIGINT)
        code = running.end()[0]
        if code != 0:
            break
    check_equal(code, 130, "the second Ctrl-C stops at once")


def test_reader_gone():
    running = Running("--pace", "0", "--format", "jsonl", TWICE)
    running.process.stdout.readline()
    running.process.stdout.close()
    check_equal(running.end(), (1, "", ""), "a reader that goes away ends it quietly")


def test_too_slow():
    """A microphone that nobody can keep up with: what was lost is told, and is silence in the saved sound."""
    if not os.path.exists(os.path.join(os.environ.get("MXW_MODULE_DIR", ""), "avdevice.so")):
        print("SKIP: a fast device: the avdevice module is not built")
        return
    sound = os.path.join(FOLDER, "fast.wav")
    running = Running("--format", "jsonl", "--save-audio", sound, "--microphone", f"lavfi:amovie={OFTEN}:loop=0")
    events, gaps = [], []
    while not gaps and len(events) < 1000:
        line = running.process.stdout.readline()
        if not check(line, "a device goes on"):
            break
        events.append(json.loads(line))
        gaps = [event for event in events if event["kind"] == "gap"]
    running.process.send_signal(signal.SIGINT)
    code, out, err = running.end()
    events += [json.loads(line) for line in out.splitlines()]
    check_equal((code, events[-1]["kind"]), (0, "end"), "Ctrl-C ends it")
    check_order(events)
    gaps = [event for event in events if event["kind"] == "gap"]
    check({gap["cause"] for gap in gaps} == {"slow"} and gaps[0]["end"] > gaps[0]["start"] + 1, "gaps", gaps)
    said = re.findall(r"([0-9.]+) s of sound are missing at [0-9:.]+: this machine is too slow\n", err)
    check(len(said) == len(gaps) and all(abs(float(seconds) - gap["end"] + gap["start"]) < 0.06
                                         for seconds, gap in zip(said, gaps)), "are said", (said, gaps))
    check_equal(os.path.getsize(sound), 44 + 2 * round(16000 * events[-1]["end"]), "the saved sound is as long")
    with wave.open(sound) as stream:
        stream.setpos(int(16000 * gaps[0]["start"]) + 2)
        check(not any(stream.readframes(16000)), "with silence in the gap")


def test_device():
    """FFmpeg's file reader as a microphone that never ends."""
    if not os.path.exists(os.path.join(os.environ.get("MXW_MODULE_DIR", ""), "avdevice.so")):
        print("SKIP: devices: the avdevice module is not built")
        return
    endless = f"lavfi:amovie={TWICE}:loop=0,asetpts=N/SR/TB,arealtime"
    running = Running("--format", "jsonl", "--microphone", endless)
    text = ""
    while "john" not in text.lower() and len(text) < 2000:
        line = running.process.stdout.readline()
        if not check(line, "a device goes on"):
            break
        text += text_of([json.loads(line)])
    running.process.send_signal(signal.SIGINT)
    code, out, err = running.end()
    check(code == 0 and '"end"' in out.splitlines()[-1], "Ctrl-C ends a device", (code, out[-200:], err))


with wave.open(SPEECH) as speech, open(ONCE, "wb") as once, open(TWICE, "wb") as twice:
    said = speech.readframes(CLIP_BYTES // 2)
    once.write(wav(0, data=said))
    twice.write(wav(0, data=said + bytes(40000) + said + bytes(20000)))
with open(OFTEN, "wb") as often:
    often.write(wav(0, data=(said + bytes(40000)) * 60))
for test in sys.argv[2:] or [name for name in list(globals()) if name.startswith("test_")]:
    globals()[test]()
shutil.rmtree(FOLDER)
done()
