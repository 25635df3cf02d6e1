"""tests/cli/live/test_live_usage.py PROGRAM [BUSY_ALSA] - `live` on a wrong command line, without a microphone, with
one that is in use, with a file that is not there: one line, before any model is opened. The machine's own sound system
is kept away by its variables.
"""
import os
import pty
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from clitest import PROGRAM, check, check_equal, check_fails, done, run, wav

FOLDER = tempfile.mkdtemp()
SOUND = os.path.join(FOLDER, "sound.wav")
SILENT = {"PULSE_SERVER": "unix:/nonexistent", "ALSA_CONFIG_PATH": "/dev/null"}
HAVE_DEVICES = os.path.exists(os.path.join(os.environ.get("MXW_MODULE_DIR", ""), "avdevice.so"))

WRONG = [   # words, pieces of the line
    (["--format", "srt", SOUND], ["--format: 'srt' needs --output-dir"]),
    (["--format", "txt,jsonl", SOUND], ["--format", "--output-dir"]),
    (["--format", "srt,txt", "--output-dir", FOLDER, "--output-name", "x", SOUND], ["--output-name", "{format}"]),
    (["--pace", "1"], ["--pace", "microphone"]),
    (["--pace", "2", "-"], ["--pace", "standard input"]),
    (["--rate", "8000", SOUND], ["--rate", "only of standard input"]),
    (["--channels", "2", SOUND], ["--channels"]),
    (["--sample-format", "s16", SOUND], ["--sample-format"]),
    (["--sample-format", "s16"], ["--sample-format", "live -"]),
    (["--channels", "2"], ["--channels", "live -"]),
    (["--sample-format", "s61", "-"], ["--sample-format: 's61'", "did you mean 's16'"]),
    (["--microphone", "pulse", SOUND], ["--microphone"]),
    (["--language", "de", "--languages", "de,en", SOUND], ["--languages", "--language"]),
    (["--save-audio", SOUND, SOUND], ["--save-audio", "the file that is heard"]),
    (["--pollicy", "agreement"], ["did you mean '--policy'"]),
    ([SOUND, "other.wav"], ["unexpected argument 'other.wav'"]),
]


def test_wrong():
    for words, needles in WRONG:
        check_fails(["live", *words], 2, *needles, env=SILENT)


def test_no_microphone():
    if not HAVE_DEVICES:
        check_fails(["live"], 1, "libavdevice")
        return
    check_fails(["live"], 1, "no microphone can be opened", "pulse: ", "alsa: ", env=SILENT)
    check_fails(["live", "--microphone", "alsa:nosuch"], 1, "alsa:nosuch: ", env=SILENT)
    check_fails(["live", "--microphone", "pulse:nosuch"], 1, "pulse:nosuch: ", env=SILENT)
    check_fails(["live", "--microphone", "telephone"], 1, "no input device 'telephone'", env=SILENT)
    check_fails(["live", "--microphone", "lavfi:sine=sample_rate=44100", "--rate", "8000"], 1, "at 8000 Hz",
                env=SILENT)
    check_fails(["live", "--list-microphones"], 1, "no microphones were found", env=SILENT)


def test_busy():
    """A device that another program has, which is what a library in the place of ALSA's says."""
    if not HAVE_DEVICES or not sys.argv[2:]:
        print("SKIP: a device in use: the avdevice module or the library to be preloaded is not built")
        return
    busy = dict(SILENT, LD_PRELOAD=os.path.abspath(sys.argv[2]))
    check_fails(["live", "--microphone", "alsa:hw:7"], 1, "alsa:hw:7: is in use by another program (", "hw:7", env=busy)
    check_fails(["live"], 1, "no microphone can be opened", "alsa: is in use by another program (", env=busy)


def test_files():
    check_fails(["live", os.path.join(FOLDER, "nosuch.wav")], 1, "nosuch.wav: no such file")
    check_fails(["live", FOLDER], 1, "is a folder")
    text = os.path.join(FOLDER, "text.wav")
    with open(text, "w", encoding="utf-8") as stream:
        stream.write("no sound\n" * 100)
    check_fails(["live", text], 1, "text.wav")


def test_overwritten():
    """The file that is heard, by any name, is never the one that is written."""
    linked = os.path.join(FOLDER, "linked.wav")
    os.link(SOUND, linked)
    with open(SOUND, "rb") as stream:
        before = stream.read()
    for path in (SOUND, linked):
        check_fails(["live", "--save-audio", path, SOUND], 2, "--save-audio", "the file that is heard")
        with open(SOUND, "rb") as stream:
            check_fails(["live", "--save-audio", path, "-"], 2, "--save-audio", "the file that is heard", stdin=stream)
    with open(SOUND, "rb") as stream:
        check(stream.read() == before, "the sound is as it was")


def test_terminal():
    """A terminal as standard input is a mistake, not sound."""
    main_end, terminal = pty.openpty()
    made = subprocess.run([PROGRAM, "live", "-"], stdin=terminal, capture_output=True, text=True, timeout=60,
                          check=False)
    check_equal((made.returncode, made.stdout), (2, ""), "live - in a terminal")
    check("standard input is a terminal" in made.stderr and made.stderr.count("\n") == 1, "one line", made.stderr)
    os.close(main_end)
    os.close(terminal)


def test_help():
    code, out, _ = run("help", "live")
    check(code == 0 and "[FILE|-]" in out and "--save-audio" in out, "help live", out[:200])


with open(SOUND, "wb") as sound:
    sound.write(wav(16000))
test_wrong()
test_no_microphone()
test_busy()
test_files()
test_overwritten()
test_terminal()
test_help()
done()
