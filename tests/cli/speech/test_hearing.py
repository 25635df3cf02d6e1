"""tests/cli/speech/test_hearing.py PROGRAM - transcribe with --vad, --parallel, --guard and --languages: what is
printed and written, on real speech with tiny.en, and that nothing is where nobody asked.

Needs tiny.en and the weights of speech detection (make model); the speech is in tests/data.
"""
import json
import os
import pty
import random
import shutil
import subprocess
import sys
import tempfile
import wave

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from clitest import PROGRAM, ROOT, check, check_equal, check_fails, done, model_path, run, skip, wav

if not model_path("tiny.en") or not json.loads(run("model", "list", "--json")[1])["vad"]["path"]:
    skip("cli hearing", "the model tiny.en or the weights silero-vad are not there (make model)")

FOLDER = tempfile.mkdtemp()
GAP_S = 25
FAST = ["--greedy", "--temperature-increment-on-fallback", "none"]
PLAIN_KEYS = {"id", "seek", "start", "end", "text", "tokens", "temperature", "avg_logprob", "compression_ratio",
              "no_speech_prob"}


def speech():
    with wave.open(os.path.join(ROOT, "tests", "data", "librivox-0870.wav")) as stream:
        return stream.readframes(stream.getnframes())


def save(name, data, channels=1):
    path = os.path.join(FOLDER, name)
    with open(path, "wb") as stream:
        stream.write(wav(len(data) // 2 // channels, channels=channels, data=data))
    return path


SPEECH = speech()
SPEECH_S = len(SPEECH) / 32000
TWICE = save("twice.wav", SPEECH + bytes(32000 * GAP_S) + SPEECH)   # the same sentence, silence between
SILENCE = save("silence.wav", bytes(32000 * 5))


def transcribe(*words, path=TWICE):
    code, out, err = run(path, *FAST, *words)
    check_equal((code, err), (0, ""), f"{words}")
    return out


def result_of(*words, path=TWICE):
    return json.loads(transcribe(*words, "-f", "json", path=path))


def test_off():
    """Without the options there is nothing of them."""
    result = result_of()
    check_equal(set(result), {"text", "segments", "language"}, "keys of the result")
    check(all(set(segment) == PLAIN_KEYS for segment in result["segments"]), "keys of segments", result)
    full = json.loads(transcribe("-f", "json-full"))
    check(not {"regions", "skipped", "words_suspected"} & set(full) and "vad_ms" not in full["times"], "json-full")
    check(not [key for key in full["manifest"]["options"] if key.startswith("vad") or key in
               ("guard", "parallel", "languages")], "the manifest")
    check_equal(transcribe("-f", "csv").splitlines()[0], "start,end,text", "csv")
    check_equal(transcribe("-f", "tsv").splitlines()[0], "start\tend\ttext", "tsv")
    code, _, err = run(TWICE, *FAST, "--stats", "-f", "txt")
    check(code == 0 and not {"regions", "skipped_s", "vad_ms"} & set(json.loads(err)), "--stats", err)


def test_vad():
    """Silence is skipped, and times stay those of the file."""
    result = result_of("--vad")
    check_equal(result["text"].count("prudently in his power"), 2, "the sentence, twice")
    starts = [segment["start"] for segment in result["segments"]]
    check(starts and starts[0] < SPEECH_S and SPEECH_S + GAP_S - 1 < starts[-1] < 2 * SPEECH_S + GAP_S, "times", starts)
    check(all(segment["start"] < SPEECH_S + 1 or segment["start"] > SPEECH_S + GAP_S - 1
              for segment in result["segments"]), "nothing in the silence", result["segments"])
    regions = result["regions"]
    check(len(regions) == 2 and regions[0]["end"] < SPEECH_S + 0.5 and regions[1]["start"] > SPEECH_S + GAP_S - 0.5,
          "regions", regions)
    check(GAP_S - 2 < result["skipped"] < GAP_S + 3, "seconds skipped", result["skipped"])
    check_equal(set(result), {"text", "segments", "language", "regions", "skipped"}, "keys")
    lines = [json.loads(line) for line in transcribe("--vad", "-f", "jsonl").splitlines()]
    check_equal(lines, result["segments"], "jsonl has the segments, and nothing else")
    full = json.loads(transcribe("--vad", "-f", "json-full"))
    check_equal((full["regions"], full["skipped"]), (regions, result["skipped"]), "json-full")
    check(full["times"]["vad_ms"] > 0 and full["manifest"]["options"]["vad"] is True, "times and manifest")
    code, _, err = run(TWICE, *FAST, "--vad", "--stats", "-f", "txt")
    stats = json.loads(err)
    check_equal((code, stats["regions"], stats["skipped_s"], stats["words_suspected"]), (0, 2, result["skipped"], 0),
                "--stats")
    check(stats["vad_ms"] > 0, "--stats: vad_ms", stats)
    check_equal(transcribe("--vad", "-f", "txt"), "".join(s["text"].strip() + "\n" for s in result["segments"]), "txt")
    return result


def test_vad_options(result):
    for words in (["--vad_filter", "True"],
                  ["--vad", "--vad-threshold", "0.5", "--vad_min_silence_duration_ms", "2000"],
                  ["--vad", "--vad_speech_pad_ms", "400", "--vad-min-speech-duration-ms", "0"]):
        check_equal(result_of(*words), result, f"{words}: the same")
    padded = result_of("--vad", "--vad-pad-ms", "1500")
    check(padded["regions"][0]["end"] > result["regions"][0]["end"], "--vad-pad-ms", padded["regions"])
    check(len(result_of("--vad", "--vad-min-silence-ms", "60000")["regions"]) == 1, "--vad-min-silence-ms joins")
    check_equal(result_of("--vad", "--vad-min-speech-ms", "60000")["segments"], [], "--vad-min-speech-ms drops")
    check(len(result_of("--vad", "--vad-max-speech-s", "3")["regions"]) > 2, "--vad-max-speech-s cuts")
    for words in (["--vad"], ["--parallel"]):
        silent = result_of(*words, path=SILENCE)
        check_equal((silent["text"], silent["segments"], silent["regions"]), ("", [], []), f"{words}: silence")
        check(abs(silent["skipped"] - 5) < 0.01, "all of it is skipped", silent)
        check_equal(transcribe(*words, path=SILENCE), "", "no lines")


def test_parallel():
    """The number of pieces decoded together changes nothing."""
    plain = transcribe("--parallel", "-f", "json")
    for words in (["--parallel=1"], ["--parallel", "2"], ["--vad", "--parallel", "5"], ["--parallel", "--batch", "3"]):
        check_equal(transcribe(*words, "-f", "json"), plain, f"{words}: the same bytes")
    result = json.loads(plain)
    check(len(result["regions"]) == 2 and result["skipped"] > GAP_S - 2, "--parallel implies --vad", result)
    both = os.path.join(FOLDER, "both")
    code, _, err = run(TWICE, SILENCE, *FAST, "--parallel", "-f", "json", "-o", both)
    check_equal((code, err), (0, ""), "several files")
    with open(os.path.join(both, "twice.json"), encoding="utf-8") as stream:
        check_equal(stream.read(), plain, "several files: the same bytes")


def test_channels():
    """Regions of both channels, each with its number."""
    gap = bytes(len(SPEECH))
    left, right = SPEECH + gap, gap + SPEECH
    data = b"".join(left[i:i + 2] + right[i:i + 2] for i in range(0, len(left), 2))
    result = result_of("--vad", "--channel", "split", path=save("stereo.wav", data, 2))
    check_equal([region["channel"] for region in result["regions"]], [1, 2], "regions of both")
    check_equal({segment["speaker"] for segment in result["segments"]}, {"left", "right"}, "speakers")
    check(abs(result["skipped"] - 2 * SPEECH_S) < 3, "skipped of both", result["skipped"])


def test_channels_guarded():
    """Split, in lanes and with the guard: each channel as it is alone, and what nobody said is gone from both."""
    source, gap = random.Random(1), bytes(32000 * 5)
    bursts = b"".join((source.randint(-9000, 9000) if i // 6000 % 2 else 0).to_bytes(2, "little", signed=True)
                      for i in range(16000 * 8))
    left, right = SPEECH + gap + bursts, bursts + gap + SPEECH
    path = save("bursts.wav", b"".join(left[i:i + 2] + right[i:i + 2] for i in range(0, len(left), 2)), 2)
    words = ["--parallel", "--guard", "drop", "--vad-threshold", "0.01", "--no-speech-threshold", "none", "--quiet"]
    split = result_of(*words, "--channel", "split", path=path)
    suspected = 0
    for number in (1, 2):
        alone = result_of(*words, "--channel", str(number), path=path)
        of_channel = {"channel": number, "speaker": ("left", "right")[number - 1]}
        want = [{**segment, **of_channel} for segment in alone["segments"]]
        got = [segment for segment in split["segments"] if segment["channel"] == number]
        check_equal([{**segment, "id": 0} for segment in got], [{**segment, "id": 0} for segment in want],
                    f"channel {number} as it is alone")
        check("prudently in his power" in alone["text"], f"channel {number} keeps its sentence", alone)
        check(alone.get("words_suspected", 0) > 0, f"channel {number} has words that nobody said", alone)
        suspected += alone.get("words_suspected", 0)
    check_equal(split.get("words_suspected"), suspected, "words of both that were left out")
    check_equal({region["channel"] for region in split["regions"]}, {1, 2}, "regions of both")


def on_terminal(*words, env=None):
    """What a terminal gets as standard output"""
    main_end, terminal = pty.openpty()
    process = subprocess.Popen([PROGRAM, *words], stdin=subprocess.DEVNULL, stdout=terminal, stderr=subprocess.DEVNULL,
                               env={**os.environ, "TERM": "xterm", "NO_COLOR": "", **(env or {})})
    os.close(terminal)
    shown = b""
    while True:
        try:
            got = os.read(main_end, 65536)
        except OSError:   # how a pseudo-terminal ends
            got = b""
        if not got:
            break
        shown += got
    os.close(main_end)
    check_equal(process.wait(), 0, f"{words}: exit status")
    return shown.decode("utf-8", "replace").replace("\r\n", "\n")


def test_guard():
    """Silence makes Whisper say something; the guard says so, and why."""
    silence = save("longer.wav", bytes(32000 * 10))
    any_text = ["--no-speech-threshold", "none"]
    plain = result_of(*any_text, path=silence)
    if not check(plain["text"].strip(), "silence makes text", plain):
        return
    marked = result_of(*any_text, "--guard", "mark", path=silence)
    check_equal(marked["text"], plain["text"], "mark: the text stays")
    for segment in marked["segments"]:
        check(0.5 <= segment["suspicion"] <= 1 and segment["reasons"], "mark: suspicion and reasons", segment)
        check(not set(segment) - PLAIN_KEYS - {"suspicion", "reasons"}, "mark: keys", segment)
    check(marked["words_suspected"] >= 1 and marked["skipped"] == 0, "mark: the number of words", marked)
    words = result_of(*any_text, "--guard", "mark", "--word-timestamps", path=silence)["segments"][0]["words"]
    check(all(0.5 <= word["suspicion"] <= 1 and word["reasons"] for word in words), "mark: words", words)
    lines = transcribe(*any_text, "--guard", "mark", "-f", "jsonl", path=silence).splitlines()
    check_equal([json.loads(line) for line in lines], marked["segments"], "mark: jsonl")
    code, out, err = run(silence, *FAST, *any_text, "--guard", "drop", "-f", "json")
    dropped = json.loads(out)
    check_equal((code, dropped["text"], dropped["segments"]), (0, "", []), "drop: nothing is left")
    check_equal(dropped["words_suspected"], marked["words_suspected"], "drop: the number of words")
    check(err.count("\n") == 1 and "longer.wav: the guard left out" in err, "drop: one line about it", err)
    check_equal(run(silence, *FAST, *any_text, "--guard", "drop", "--quiet"), (0, "", ""), "drop: --quiet")
    speech_ = save("speech.wav", SPEECH)
    marked = result_of("--guard", "mark", path=speech_)
    check_equal(marked["text"], result_of(path=speech_)["text"], "speech stays")
    check(all(0 < s["suspicion"] < 0.5 and s["reasons"] == [] for s in marked["segments"]), "speech", marked)
    check("words_suspected" not in marked, "no words to tell of", marked)
    check_equal(transcribe("--guard", "drop", path=speech_), transcribe(path=speech_), "drop: speech stays")
    grey = on_terminal(silence, *FAST, *any_text, "--guard", "mark", "-q")
    bare = grey.replace("\033[90m", "").replace("\033[0m", "")
    check("\033[90m" in grey and bare == transcribe(*any_text, path=silence), "grey on a terminal", grey)
    for words, env in ((["--guard", "mark"], {"TERM": "dumb"}), (["--guard", "mark"], {"NO_COLOR": "1"}),
                       (["--guard", "off"], {})):
        check("\033" not in on_terminal(silence, *FAST, *any_text, "-q", *words, env=env), f"{words}: no colours")
    check("\033" not in transcribe(*any_text, "--guard", "mark", path=silence), "no colours into a pipe")


def test_refusals():
    os.symlink(model_path("tiny.en"), os.path.join(FOLDER, "tiny.en.pt"))
    for words in (["--vad"], ["--parallel"], ["--guard", "mark"]):
        check_fails([TWICE, *words, "--model-dir", FOLDER], 1, "model fetch silero-vad")
    check_fails([TWICE, "--vad", "--vad-model", TWICE], 1, "twice.wav")


def main():
    try:
        test_off()
        result = test_vad()
        test_vad_options(result)
        test_parallel()
        test_channels()
        test_channels_guarded()
        test_guard()
        test_refusals()
    finally:
        shutil.rmtree(FOLDER)
    done()


main()
