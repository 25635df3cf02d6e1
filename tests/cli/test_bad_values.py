"""tests/cli/test_bad_values.py PROGRAM - every option of every subcommand, as its help lists them, refuses a bad value:
exit status 2 and one line that names the option. An option that has no row here fails the test.
"""
import re

from clitest import check, check_equal, check_fails, done, run

COMMANDS = {   # and what must stand behind them
    "transcribe": ["x.wav"], "live": ["x.wav"], "serve": [], "vad": ["x.wav"], "language": ["x.wav"],
    "bench": ["x.wav"], "demo": ["x.wav"], "report": ["x.wav"], "verify": ["x.wav"], "features extract": ["x.wav"],
    "features compare": ["a.npz", "b.npz"], "features diverge": ["a.npz", "b.npz"], "features decode": ["a.npz"],
    "model list": [], "model fetch": ["tiny"], "model inspect": [],
    "model convert": ["tiny.en", "out.npz"], "model export": ["tiny.en", "out.npz"],
    "devices": [], "gpu-check": [], "graph dump": [], "graph test": [], "version": [], "help": [],
}
SWITCH = ["maybe", "", "2", "None"]
TRISTATE = ["maybe", "", "2"]
WORD = ["nonsense", "", "None,"]
NAME = [""]                       # of a file, a folder, a model: any but none
TEXT = [b"\xff\xfe", b"half \xc3", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xc0\x80"]   # any, in UTF-8
NUMBER = ["x", "", "nan", "inf", "1e999", "0x1", "1,5", "--", " 1 x"]
WHOLE = NUMBER + ["1.5", "99999999999999999999", "-99999999999"]

BAD = {
    "--model": NAME, "--model-dir": NAME, "--output-dir": NAME, "--trace": NAME, "--save": NAME, "--baseline": NAME,
    "--plot": NAME + ["x.jpg", "svg"],
    "--output": NAME, "--like": NAME, "--hub": NAME + ["ftp://x", "example.org"], "--revision": NAME + ["a/b", "a b"],
    "--initial-prompt": TEXT, "--prefix": TEXT, "--prepend-punctuations": TEXT, "--append-punctuations": TEXT,
    "--engine": WORD, "--encode-engine": WORD, "--decode-engine": WORD, "--precision": WORD, "--task": WORD,
    "--mel-reference": WORD, "--log-level": WORD, "--log-format": WORD, "--type": WORD,
    "--device": WORD + ["cuda:", "cuda:-1", "cuda:1x"], "--language": WORD + ["klingon"], "--format": WORD,
    "--engines": WORD + ["cpu,", "cpu,cup"], "--inject": WORD, "--channel": WORD + ["0", "256", "-1", "1.5"],
    "--output-name": ["", "a/b", "{stm}", "{", ".."], "--suppress-tokens": ["x", "1,x", "1,,2", "1.5"],
    "--clip-timestamps": ["x", "0,-5", "1,x", "nan"],
    "--threads": WHOLE + ["-1", "1025"], "--batch": WHOLE + ["-1", "257"], "--alternatives": WHOLE + ["-1", "33"],
    "--audio-track": WHOLE + ["0"], "--max-line-width": WHOLE + ["0"], "--max-line-count": WHOLE + ["0"],
    "--max-words-per-line": WHOLE + ["0"], "--beam-size": WHOLE + ["0", "101"], "--best-of": WHOLE + ["0"],
    "--seed": WHOLE + ["-1"], "--sample-len": WHOLE + ["0"], "--runs": WHOLE + ["0"], "--warm-up": WHOLE + ["-1"],
    "--starts": WHOLE + ["-1"], "--timeout": NUMBER + ["0"], "--stall": WHOLE + ["0"],
    "--hallucination-silence-threshold": NUMBER + ["-1"], "--patience": NUMBER + ["-1"],
    "--repetition-penalty": NUMBER + ["0", "-1", "101"], "--no-repeat-ngram-size": WHOLE + ["-1", "449"],
    "--length-penalty": NUMBER + ["-1", "2"], "--temperature": NUMBER + ["-0.5", "11"],
    "--max-initial-timestamp": NUMBER + ["-1"], "--temperature-increment-on-fallback": NUMBER + ["0", "-1"],
    "--compression-ratio-threshold": NUMBER, "--logprob-threshold": NUMBER, "--no-speech-threshold": NUMBER,
    "--tolerance": NUMBER + ["-1"], "--start": NUMBER + ["-1"],
    "--vad-threshold": NUMBER + ["0", "1.1", "-1"], "--vad-min-silence-ms": NUMBER + ["-1", "1000001"],
    "--vad-min-speech-ms": NUMBER + ["-1", "1000001"], "--vad-max-speech-s": NUMBER + ["0", "-1"],
    "--vad-pad-ms": NUMBER + ["-1", "100001"], "--vad-neg-threshold": NUMBER + ["0", "1.1"],
    "--vad-model": NAME, "--parallel": WHOLE + ["0", "257", "True"],
    "--guard": WORD + ["on", "True"], "--languages": WORD + ["klingon", "en,", "en,,de", "en,any", "auto"],
    "--microphone": NAME, "--save-audio": NAME, "--pace": NUMBER + ["-1", "1001"], "--sample-format": WORD + ["s17"],
    "--rate": WHOLE + ["0", "999", "768001"], "--channels": WHOLE + ["0", "65"], "--policy": WORD,
    "--pause-ms": NUMBER + ["99", "10001"], "--step-ms": NUMBER + ["19", "10001"],
    "--host": TEXT, "--port": WHOLE + ["-1", "65536"], "--concurrency": WHOLE + ["-1", "161"],
    "--queue": WHOLE + ["-1"],
    "--max-upload": ["", "x", "0", "-1", "2X", "2GB", "1e99"], "--max-connections": WHOLE + ["7", "30001"],
    "--idle-unload": NUMBER + ["-1"], "--drain-timeout": NUMBER + ["-1"], "--idle-timeout": NUMBER + ["0"],
    "--api-key": NAME, "--api-key-file": NAME,
    "--tls-cert": NAME, "--tls-key": NAME, "--cors-origin": ["", "x", "https://", "https://x/y"], "--access-log": NAME,
    "--realtime-sockets": WHOLE + ["-1", "10001"], "--realtime-idle": NUMBER + ["0"],
    "--realtime-expiry": NUMBER + ["0"],
    "--verbose": TRISTATE, "--fp16": TRISTATE, "--help": ["", "transcribe"],
}
SWITCHES = {
    "--stats", "--recursive", "--skip-existing", "--resume", "--without-timestamps", "--word-timestamps",
    "--highlight-words", "--greedy", "--suppress-blank", "--carry-initial-prompt", "--condition-on-previous-text",
    "--vad", "--probabilities", "--list-microphones", "--no-auth",
    "--quiet", "--json", "--tensors", "--plain", "--again", "--all", "--ops-only", "--fused",
}
# "--help help" is a wish for help; and these need no value behind a blank
ALONE = SWITCHES | {"--verbose", "--fp16", "--help", "--parallel"}


def options_of(command):
    """[(name, other names)] as help lists them"""
    code, out, _ = run("help", *command.split())
    check(code == 0, f"help {command}")
    lines = re.findall(r"^  (?:-\w, |    )(--[a-z0-9-]+)((?:, --[a-z-]+)*)", out, re.MULTILINE)
    return [(name, [other for other in others.split(", ") if other]) for name, others in lines]


def check_command(command, behind):
    options = options_of(command)
    check(len(options) >= 4, f"{command}: options", options)
    for name, others in options:
        known = name in BAD or name in SWITCHES
        if not check(known, f"{command} {name}: has bad values in this test's table"):
            continue
        words = [*command.split(), *behind]
        for value in BAD.get(name, SWITCH):
            for spelling in {name, "--" + name[2:].replace("-", "_"), *others}:
                value = value.encode() if isinstance(value, str) else value
                check_fails([*words, spelling.encode() + b"=" + value], 2, f"{name}: ")
        if name not in ALONE:
            check_fails([*words, name], 2, f"{name}: needs a value")


def test_all_are_here():
    section = run("--help")[1].split("\nSubcommands:\n")[1].split("\n\n")[0]
    check_equal(set(re.findall(r"^  ([a-z][a-z -]*[a-z])", section, re.MULTILINE)), set(COMMANDS), "subcommands")


test_all_are_here()
for a_command, its_words in COMMANDS.items():
    check_command(a_command, its_words)
done()
