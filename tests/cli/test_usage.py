"""tests/cli/test_usage.py PROGRAM - a wrong command line: exit 2, one line, the nearest right word. No model needed."""
import json
import os
import subprocess
import tempfile

from clitest import PROGRAM, check, check_equal, check_fails, done, run, wav

NEEDS_SPEECH = "requires --vad, --parallel, --guard or --languages"
# words, pieces of the one line
WRONG = [
    (["--modle", "base", "x.wav"], ["'--modle'", "did you mean '--model'"]),
    (["--beam_sise=3", "x.wav"], ["did you mean '--beam-size'"]),
    (["--lang", "de", "x.wav"], ["did you mean '--language'"]),
    (["--prompt", "x", "x.wav"], ["did you mean '--initial-prompt'"]),
    (["--output", "x", "x.wav"], ["did you mean '--output-"]),
    (["--quite", "x.wav"], ["did you mean '--quiet'"]),
    (["--xyzzyplugh", "x.wav"], ["'--xyzzyplugh'", "--help"]),
    (["--" + "a" * 5000, "x.wav"], ["unknown option"]),
    (["--mod", "x.wav"], ["unknown option '--mod'", "did you mean '--model'"]),
    (["-z", "x.wav"], ["'-z'"]),
    (["-qz", "x.wav"], ["'-z'"]),
    (["--bad\nname", "x.wav"], ["--bad?name"]),
    (["--beam-size", "x", "x.wav"], ["--beam-size: 'x' is not a whole number from 1 to 100"]),
    (["--beam-size", "0", "x.wav"], ["--beam-size: '0'"]),
    (["--beam-size", "2.5", "x.wav"], ["--beam-size: '2.5'"]),
    (["--beam-size", "99999999999999999999", "x.wav"], ["--beam-size"]),
    (["--beam-size", "", "x.wav"], ["--beam-size: ''"]),
    (["--best-of", "-1", "x.wav"], ["--best-of: '-1'"]),
    (["--threads", "-1", "x.wav"], ["--threads: '-1' is not a whole number from 0 to 1024"]),
    (["--threads", "none", "x.wav"], ["--threads: 'none'"]),
    (["--precision", "f32", "x.wav"], ["--precision: 'f32'"]),
    (["--batch", "257", "x.wav"], ["--batch: '257' is not a whole number from 0 to 256"]),
    (["--batch", "-2", "x.wav"], ["--batch: '-2'"]),
    (["--temperature", "hot", "x.wav"], ["--temperature: 'hot' is not a number from 0 to 10"]),
    (["--temperature", "nan", "x.wav"], ["--temperature: 'nan'"]),
    (["--temperature", "0x1", "x.wav"], ["--temperature: '0x1'"]),
    (["--temperature", "1e999", "x.wav"], ["--temperature: '1e999'"]),
    (["--temperature", "-0.5", "x.wav"], ["--temperature: '-0.5'"]),
    (["--length-penalty", "2", "x.wav"], ["--length-penalty: '2' is not a number from 0 to 1, or none"]),
    (["--temperature-increment-on-fallback", "0", "x.wav"], ["--temperature-increment-on-fallback: '0'"]),
    (["--patience", "1", "--greedy", "x.wav"], ["--patience", "--greedy"]),
    (["--seed", "-1", "x.wav"], ["--seed: '-1'"]),
    (["--task", "translat", "x.wav"], ["--task", "did you mean 'translate'"]),
    (["--engine", "cup", "x.wav"], ["--engine: 'cup' is not one of cpu, gpu, max; did you mean 'cpu'"]),
    (["--device", "cuda:x", "x.wav"], ["--device: 'cuda:x'", "cuda:N"]),
    (["--device", "gpu0", "x.wav"], ["--device: 'gpu0'"]),
    (["--language", "germn", "x.wav"], ["--language", "did you mean 'german'"]),
    (["--language", "klingon", "x.wav"], ["--language: unknown language 'klingon'"]),
    (["--format", "str", "x.wav"], ["--format", "did you mean 'srt'"]),
    (["--format", "txt,pdf", "x.wav"], ["--format: unknown format 'pdf'"]),
    (["--format", "", "x.wav"], ["--format: unknown format ''"]),
    (["--format", "txt,srt", "x.wav"], ["--format", "--output-dir"]),
    (["--output_format", "all", "x.wav"], ["--format", "--output-dir"]),
    (["--mel-reference", "runing", "x.wav"], ["did you mean 'running'"]),
    (["--channel", "middle", "x.wav"],
     ["--channel: 'middle' is not all, left, right, split or a number from 1 to 255"]),
    (["--channel", "rigth", "x.wav"], ["did you mean 'right'"]),
    (["--channel", "0", "x.wav"], ["--channel: '0'"]),
    (["--channel", "-1", "x.wav"], ["--channel: '-1'"]),
    (["--channel", "2x", "x.wav"], ["--channel: '2x'"]),
    (["--channel", "256", "x.wav"], ["--channel: '256'"]),
    (["--channel", "split", "-"], ["--channel: split reads the recording once per channel", "standard input"]),
    (["--channel", "splt", "x.wav"], ["did you mean 'split'"]),
    (["--audio-track", "0", "x.wav"], ["--audio-track: '0' is not a whole number from 1 to 1000, or none"]),
    (["--audio-track", "left", "x.wav"], ["--audio-track: 'left'"]),
    (["--log-level", "loud", "x.wav"], ["--log-level: 'loud' is not one of error, warn, info, debug"]),
    (["--log-format", "jsn", "x.wav"], ["did you mean 'json'"]),
    (["--suppress-tokens", "1,x", "x.wav"], ["--suppress-tokens: '1,x'"]),
    (["--clip-timestamps", "0,-5", "x.wav"], ["--clip-timestamps: '0,-5'"]),
    (["--verbose=maybe", "x.wav"], ["--verbose: 'maybe' is not True, False or None"]),
    (["--suppress-blank=2", "x.wav"], ["--suppress-blank: '2' is not True or False"]),
    (["--word_timestamps=maybe", "x.wav"], ["--word-timestamps: 'maybe' is not True or False"]),
    (["--max_line_width", "40", "x.wav"], ["--max-line-width: requires --word-timestamps"]),
    (["--max_line_count", "2", "x.wav"], ["--max-line-count: requires --word-timestamps"]),
    (["--max_words_per_line", "2", "x.wav"], ["--max-words-per-line: requires --word-timestamps"]),
    (["--highlight_words", "True", "x.wav"], ["--highlight-words: requires --word-timestamps"]),
    (["--hallucination_silence_threshold", "2", "x.wav"],
     ["--hallucination-silence-threshold: requires --word-timestamps"]),
    (["--word-timestamps", "--max-line-width", "0", "x.wav"], ["--max-line-width: '0'"]),
    (["--word-timestamps", "--hallucination-silence-threshold=-1", "x.wav"], ["'-1'"]),
    (["--alternatives", "33", "x.wav"], ["--alternatives: '33'"]),
    (["--output-name", "a/{stem}", "x.wav"], ["--output-name: 'a/{stem}' is not a file name"]),
    (["--output-name", "{stm}", "x.wav"], ["--output-name: '{stm}' has an unknown field"]),
    (["--output-name", "{stem}", "-o", "out", "x.wav"],
     ["--output-name: '{stem}' gives the files of 5 formats the same name"]),
    (["--output-name", "text.txt", "-f", "txt", "-o", "out", "x.wav", "y.wav"], ["would write the same files"]),
    (["x.wav", "--model"], ["--model: needs a value"]),
    (["x.wav", "--model", "--quiet"], ["--model: needs a value"]),
    (["x.wav", "-o"], ["--output-dir: needs a value (DIR)"]),
    (["--quiet"], ["needs an audio or video file"]),
    (["transcribe"], ["'transcribe' needs an audio or video file"]),
    (["-", "-"], ["standard input"]),
    (["--output-dir", "out", "a/x.wav", "b/x.mp3"], ["'a/x.wav'", "'b/x.mp3'"]),
    (["transcrib", "x.wav"], ["'transcrib'", "did you mean 'transcribe'"]),
    (["devics"], ["did you mean 'devices'"]),
    (["frobnicate"], ["'frobnicate' is neither a file nor a subcommand"]),
    (["--quiet", "devices"], ["'devices' must come before its options"]),
    (["x.wav", "--vad-threshold", "0.4"], [f"--vad-threshold: {NEEDS_SPEECH}"]),
    (["x.wav", "--vad_min_silence_duration_ms", "500"], [f"--vad-min-silence-ms: {NEEDS_SPEECH}"]),
    (["x.wav", "--vad-model", "y.jit"], [f"--vad-model: {NEEDS_SPEECH}"]),
    (["x.wav", "--vad-treshold", "0.4"], ["did you mean '--vad-threshold'"]),
    (["x.wav", "--vad-filtr"], ["unknown option '--vad-filtr'"]),
    (["x.wav", "--paralel"], ["did you mean '--parallel'"]),
    (["x.wav", "--parallel=many"], ["--parallel", "from 1 to 256, auto or none"]),
    (["x.wav", "--guard", "mak"], ["--guard", "did you mean 'mark'"]),
    (["x.wav", "--languages", "en,gemran"], ["--languages", "did you mean 'german'"]),
    (["x.wav", "--languages", "en,any"], ["--languages", "'any' cannot be in a list"]),
    (["x.wav", "--languages", "en,de", "--language", "de"], ["--languages: not together with --language (de)"]),
    (["vad"], ["'vad' needs an audio or video file"]),
    (["vad", "x.wav", "--format", "rtm"], ["--format", "did you mean 'rttm'"]),
    (["vad", "x.wav", "--format", "srt"], ["--format", "text, json, rttm, audacity"]),
    (["vad", "x.wav", "--probabilities", "-f", "rttm"], ["--probabilities", "use text or json"]),
    (["vad", "x.wav", "--threshold", "0.3", "--neg-threshold", "0.4"], ["--vad-neg-threshold: 0.4 is above"]),
    (["vad", "x.wav", "y.wav", "--plot", "x.png"], ["--plot: a picture shows one recording"]),
    (["vad", "x.wav", "--plot", "x.jpg"], ["--plot", ".png, .svg or .pdf"]),
    (["vad", "x.wav", "--channel", "split"], ["--channel"]),
    (["vad", "-", "-"], ["standard input (-) is given twice"]),
    (["vad", "a/x.wav", "b/x.mp3", "-o", "out"], ["'a/x.wav' and 'b/x.mp3' would write the same file"]),
    (["vda"], ["did you mean 'vad'"]),
    (["language"], ["'language' needs an audio or video file"]),
    (["language", "x.wav", "--languages", "en,frnch"], ["--languages", "did you mean 'french'"]),
    (["language", "x.wav", "--language", "en"], ["did you mean '--languages'"]),
    (["bench"], ["'bench' needs an audio or video file"]),
    (["bench", "x.wav", "--runs", "0"], ["--runs"]),
    (["bench", "x.wav", "--starts", "many"], ["--starts"]),
    (["bench", "x.wav", "--beam-size", "0"], ["--beam-size"]),
    (["bench", "x.wav", "--rns", "3"], ["did you mean '--runs'"]),
    (["bnch"], ["did you mean 'bench'"]),
    (["model"], ["'model' needs one of: list, fetch, inspect, convert, export"]),
    (["model", "inspct"], ["did you mean 'model inspect'"]),
    (["model", "zzz"], ["available: list, fetch, inspect, convert, export"]),
    (["model", "export", "tiny.en"], ["'model export' needs a model and the file to write"]),
    (["model", "convert", "tiny.en"], ["'model convert' needs a model and the file or folder to write"]),
    (["model", "convert", "tiny.en", "x"], ["--format is needed", "'x'"]),
    (["model", "convert", "tiny.en", "x.bin", "--format", "ggfu"], ["--format", "did you mean 'gguf'"]),
    (["model", "convert", "tiny.en", "x.bin", "--type", "int8"], ["--type", "format ggml has no int8"]),
    (["model", "convert", "tiny.en", "x.npz", "--type", "q5_0"], ["--type", "format npz has no q5_0"]),
    (["model", "inspect", "a", "b"], ["unexpected argument 'b'"]),
    (["model", "inspect", "tiny.em"], ["did you mean 'tiny.en'"]),
    (["model", "list", "--jsn"], ["did you mean '--json'"]),
    (["graph", "dump", "encodr"], ["did you mean 'encoder'"]),
    (["graph", "tst"], ["did you mean 'graph test'"]),
    (["features"], ["'features' needs one of: extract, compare, diverge, decode"]),
    (["features", "extrct"], ["did you mean 'features extract'"]),
    (["features", "compare", "a.npz"], ["'features compare' needs two dumps"]),
    (["features", "compare", "a.wav", "b.npz"], ["'a.wav': the first argument must be a dump"]),
    (["features", "extract", "--inject", "db-mal"], ["did you mean 'db-mel'"]),
    (["verify", "--inject", "nothing"], ["unknown fault 'nothing'"]),
    (["verify", "--engine", "mx"], ["--engine"]),
    (["verfy"], ["did you mean 'verify'"]),
    (["x.wav", "--encode-engine", "gpu2"], ["--encode-engine"]),
    (["devices", "--model", "x"], ["unknown option '--model'"]),
    (["devices", "all"], ["unexpected argument 'all'"]),
    (["gpu-check", "--engine", "gpu"], ["unknown option '--engine'"]),
    (["gpu-chek"], ["did you mean 'gpu-check'"]),
    (["version", "--jsom"], ["did you mean '--json'"]),
    (["help", "devics"], ["did you mean 'devices'"]),
    (["help", "x.wav"], ["unknown subcommand 'x.wav'"]),
]

# words that are right: the only complaint is about the file, and the exit status is 1
RIGHT = [
    [], ["--beam_size", "3"], ["--beam-size=none"], ["--best_of", "None"],
    ["--temperature_increment_on_fallback", "None"], ["--temperature-increment-on-fallback", "none"],
    ["--verbose", "None"], ["--verbose", "False"], ["--greedy", "True"], ["--suppress_tokens", "-1"],
    ["--suppress_tokens", ""], ["--suppress_tokens=11,13"], ["--logprob_threshold", "-1.0"], ["--language", "German"],
    ["--language", "castilian"], ["--language", "EN"], ["--language", "None"], ["-l", "auto"],
    ["--condition_on_previous_text", "False"], ["--fp16", "False"], ["--word_timestamps", "False"],
    ["--word-timestamps"], ["--word-timestamps=true"], ["--word_timestamps", "True"], ["--word-timestamps=false"],
    ["--word-timestamps", "--highlight_words", "True", "--max_line_width", "42", "--max_line_count", "2"],
    ["--word-timestamps", "--hallucination_silence_threshold", "2.0"], ["--format", "json-full"], ["-f", "ass"],
    ["--output-name", "{stem}.{language}.{model}.{format}", "-o", "."],
    ["--highlight_words", "False"], ["--max_line_width", "None"], ["--hallucination_silence_threshold", "None"],
    ["--prepend_punctuations", "("], ["--threads", "2"], ["--clip_timestamps", "0,10,20"],
    ["--clip-timestamps", "1.5"], ["--patience", "2.0"], ["--length_penalty", "0.5"], ["--initial_prompt", "--hello"],
    ["--seed", "4294967295"], ["--no_speech_threshold", "None"], ["--compression_ratio_threshold", "none"],
    ["--device", "cuda:1"], ["-q"], ["-fsrt"], ["-f=srt"], ["-qf", "srt"], ["--model", "x", "--model", "tiny.en"],
    ["--task=translate"], ["--sample_len", "448"], ["--without_timestamps", "--max_initial_timestamp", "None"],
    ["--carry_initial_prompt", "yes"], ["--prefix", "x"], ["--mel_reference", "running"], ["--stats"],
    ["--log_level", "error"], ["--vad"], ["--vad_filter", "True"], ["--vad_filter", "False"], ["--parallel"],
    ["--vad", "--vad-threshold", "0.4", "--vad_min_silence_duration_ms", "500", "--vad-min-speech-duration-ms", "100",
     "--vad_max_speech_duration_s", "30", "--vad_speech_pad_ms", "200"], ["--vad", "--vad-max-speech-s", "none"],
    ["--parallel=8", "--vad-threshold=0.6"], ["--parallel", "16"], ["--parallel", "none"], ["--guard", "off"],
    ["--guard", "mark", "--vad-pad-ms", "0"], ["--guard=drop"], ["--languages", "en,German,uk"], ["--languages", "any"],
    ["--languages", "None", "--language", "de"], ["--languages=de", "--language", "auto"],
]


def test_wrong():
    for words, needles in WRONG:
        check_fails(words, 2, *needles)


def test_right():
    for words in RIGHT:
        check_fails(words + ["no-such-file.wav"], 1, "no-such-file.wav")
        check_fails(["transcribe", "no-such-file.wav"] + words, 1, "no-such-file.wav")
    check_fails(["--", "--no-such-file"], 1, "--no-such-file")


def test_help():
    code, out, err = run()
    check(code == 2 and out == "" and "Usage" in err, "no words: short usage on standard error", (code, out, err))
    for words in (["--help"], ["-h"], ["help"]):
        code, out, err = run(*words)
        check(code == 0 and err == "" and "Subcommands:" in out and "--beam-size N" in out, f"{words}", err)
        check(max(map(len, out.splitlines())) <= 100, f"{words}: no line is too long")
    for words in (["devices", "--help"], ["help", "devices"], ["model", "list", "-h"], ["help", "model", "list"],
                  ["help", "model"], ["graph", "--help"], ["transcribe", "--model", "x", "--help"],
                  ["x.wav", "--help"]):
        code, out, err = run(*words)
        right = out.startswith(("Usage: max-whisper", "max-whisper turns"))
        check(code == 0 and err == "" and right, f"{words}", (code, out, err))


def test_version():
    code, out, err = run("--version")
    check(code == 0 and err == "" and out.startswith("max-whisper 0."), "--version", (code, out, err))
    check_equal(run("version"), (code, out, err), "version is --version")
    code, out, _ = run("version", "--json")
    check(code == 0 and json.loads(out)["name"] == "max-whisper", "version --json", out)


def check_gpu(accelerators):
    """Where no GPU can be used: one line that says why, exit 1; where one can: it is used."""
    code, out, err = run("gpu-check", "--json")
    told = json.loads(out)
    check_equal(told["usable"], accelerators > 0, "gpu-check: usable")
    check_equal(code, 0 if accelerators else 1, "gpu-check: exit status")
    check_equal(told["engines"]["max"] != "cpu", accelerators > 0, "gpu-check: engine max")
    check_equal(run("gpu-check")[0], code, "gpu-check as lines")
    if accelerators:
        return
    check(err.count("\n") == 1 and told["reason"] in err, "gpu-check: one line", err)
    for words in (["graph", "test", "--engine", "gpu"], ["graph", "test", "--engine", "gpu", "--device", "cuda:1"]):
        check_fails(words, 1, "engine gpu needs a CUDA device", "device cuda")
    code, out, err = run("graph", "test", "--engine", "max", "--log-level", "info")
    check(code == 0 and "engine max runs on the CPU: device cuda: " in err, "engine max says that it uses the CPU", err)
    code, out, err = run("graph", "test", "--engine", "gpu", env={"MXW_MODULE_DIR": "no-such-folder"})
    check(code == 1 and out == "" and "module cuda is not installed" in err, "no module", (code, out, err))


def test_reports():
    code, out, _ = run("devices", "--json")
    devices = json.loads(out)
    check(code == 0 and devices["devices"][0]["id"] == "cpu" and devices["devices"][0]["usable"], "devices --json", out)
    code, out, _ = run("devices")
    check(code == 0 and out.startswith("cpu"), "devices", out)
    check_gpu(devices["accelerator_count"])
    with tempfile.TemporaryDirectory() as folder:
        code, out, _ = run("model", "list", "--json", "--model-dir", folder)
        listed = json.loads(out)
        check(code == 0 and listed["model_dir"] == folder, "model list: the folder", out)
        check(all(model["path"] is None for model in listed["models"]), "model list: nothing is there", out)
        check("tiny.en" in [model["name"] for model in listed["models"]], "model list: names", out)
        code, out, _ = run("model", "list", env={"MAX_WHISPER_MODELS": folder})
        check(code == 0 and folder in out, "model list: the folder of the environment", out)
        for words in (["model", "inspect", "--model-dir", folder], ["graph", "dump", "--model-dir", folder],
                      ["model", "export", "base", os.path.join(folder, "x.npz"), "--model-dir", folder],
                      ["--model-dir", folder, "-"]):
            check_fails(words, 1, folder, "`max-whisper model fetch ", stdin=wav(16000))
        check_equal(os.listdir(folder), [], "a failed export leaves nothing")


def test_graph():
    for device, unable in ((["--engine", "max", "--device", "cpu"], "device cpu"), (["--engine", "cpu"], "engine cpu")):
        for precision, needs in (("f16", ""), ("f8", ": expected a GPU of compute capability 9.0")):
            code, out, err = run("graph", "test", *device, "--precision", precision)
            line = f"precision {precision} is not supported by {unable}" + (needs if unable == "device cpu" else "")
            check(code == 1 and line in err and err.count("\n") == 1, f"{precision} on a processor", (code, err))
    code, out, err = run("graph", "test", "--engine", "cpu", "--precision", "int8")
    check(code == 1 and "precision int8 is not supported by engine cpu: expected engine max" in err, "int8",
          (code, err))
    code, out, err = run("graph", "test", "--quiet")
    check(code == 0 and err == "" and out.endswith("MAX Graph ready\n"), "graph test", (code, out, err))
    check("100 of 100 runs bit-identical" in out and "accelerator_count" in out, "graph test: what it found", out)
    code, out, err = run("graph", "test", "-q", "--threads", "2", "--json")
    found = json.loads(out)
    check(code == 0 and found["identical_runs"] == 100 and found["max_difference"] < 1e-5, "graph test --json", out)
    for engine in ("gpu", "max"):
        code, out, err = run("graph", "test", "-q", "--engine", engine)
        check(code == 0 or err.count("\n") == 1, f"graph test --engine {engine}: runs, or says why not", err)


def test_output_folder():
    with tempfile.TemporaryDirectory() as folder:
        blocked = os.path.join(folder, "file")
        with open(blocked, "w", encoding="utf-8"):
            pass
        check_fails(["--output-dir", os.path.join(blocked, "x"), "x.wav"], 1, "--output-dir", blocked)
        check_fails(["--output-dir", blocked, "x.wav"], 1, "--output-dir", blocked)


def closed(redirection, *words):
    done = subprocess.run(["sh", "-c", f'"$@" {redirection}', "sh", PROGRAM, *words], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def test_closed():
    """What the caller has closed is neither waited for nor mistaken for a file that is opened later."""
    for words in (["-"], ["--channel", "left", "-"]):
        check_equal(closed("<&-", *words), (1, "", "max-whisper: standard input: is not open for reading\n"),
                    f"{words}: standard input is closed")
    for words in (["--help"], ["version"], ["model", "list"], ["devices", "--json"]):
        code, _, err = closed(">&-", *words)
        check_equal((code, err), (1, "max-whisper: standard output: is not open for writing\n"),
                    f"{words}: standard output is closed")
    check_equal(closed("2>&-", "no-such-file.wav"), (1, "", ""), "standard error is closed")
    check_equal(closed("<&- >&- 2>&-", "no-such-file.wav"), (1, "", ""), "all are closed")


def test_json_messages():
    code, out, err = run("--log-format", "json", "no-such-file.wav", "no-such-file-2.wav")
    lines = [json.loads(line) for line in err.splitlines()]
    check(code == 1 and out == "" and len(lines) == 5, "--log-format json: a line for each file, and a summary", err)
    check(all(line["level"] == "error" for line in lines), "their level", err)
    check("no-such-file.wav" in lines[0]["message"], "their message", err)


def test_failures_are_counted():
    code, out, err = run("no-such-1.wav", "no-such-2.wav", "no-such-3.wav")
    lines = err.splitlines()
    check(code == 1 and out == "" and len(lines) == 7, "three missing files", err)
    check(all(f"no-such-{i + 1}.wav" in lines[i] for i in range(3)) and "3 of 3" in lines[3], "named and counted", err)


def test_missing_channels():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "two.wav")
        with open(path, "wb") as stream:
            stream.write(wav(16000, channels=2))
        check_fails([path, "--channel", "3"], 1, f"{path}: has 2 channels, so there is no channel 3")
        check_fails([path, "--audio-track", "2"], 1, f"{path}: has 1 audio track, so there is no track 2")
        check_fails([path, "--channel", "split", "--audio-track", "2"], 1, f"{path}: has 1 audio track")
        check_fails(["no-such-file.wav", "--channel", "split"], 1, "no-such-file.wav")
        check_fails(["-", "--channel", "right"], 1, "standard input: has 1 channel, so there is no channel 2",
                    stdin=wav(16000))


test_wrong()
test_right()
test_help()
test_version()
test_reports()
test_graph()
test_output_folder()
test_closed()
test_json_messages()
test_missing_channels()
test_failures_are_counted()
done()
