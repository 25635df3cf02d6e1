"""tests/cli/live/test_live_page.py PROGRAM DRIVER - the page of `live` in a pseudo-terminal: finals scroll and never
change, the partial is grey in the last line, nothing wraps at any width and in any script, log lines stand above.

The page is driven without a model by DRIVER; with tiny.en and the weights of speech detection also by PROGRAM.
"""
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from clitest import PROGRAM, ROOT, check, check_equal, done, model_path, run, wav
from lines import Lines

SPEECH = os.path.join(ROOT, "tests", "data", "librivox-0870.wav")
FOLDER = tempfile.mkdtemp()
SOUND = os.path.join(FOLDER, "sound.wav")
DRIVER = [os.path.abspath(sys.argv[2]), SOUND, "{calls}", "{answers}"]
STATUS = r"\[[ █▌]{10}\] \d+:\d\d( delay \d+\.\d s)?  "


class Page:
    def __init__(self, command, columns=80, **variables):
        self.end, self.terminal = pty.openpty()
        self.resize(columns)
        self.screen = Lines(columns)
        self.all = ""
        calls, self.calls = os.pipe()
        self.answers, answers = os.pipe()
        environment = {"TERM": "xterm", "LC_ALL": "C.UTF-8", "PATH": os.environ.get("PATH", ""), **variables}
        environment.update((name, os.environ[name]) for name in os.environ if name.startswith(("MXW_", "LD_", "HOME",
                                                                                              "MAX_", "XDG_")))
        self.process = subprocess.Popen(
            [str(word).format(calls=calls, answers=answers) for word in command], stdin=self.terminal,
            stdout=self.terminal, stderr=self.terminal, start_new_session=True, env=environment,
            pass_fds=(calls, answers), preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(calls)
        os.close(answers)

    def resize(self, columns):
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        if hasattr(self, "screen"):
            self.screen.columns = 1000          # what was drawn before is of another width
            self.call("note")
            self.screen.columns = columns

    def read(self, seconds=0.2):
        got = b""
        while select.select([self.end], [], [], 0 if got else seconds)[0]:
            try:
                got += os.read(self.end, 65536)
            except OSError:
                break
        text = got.decode("utf-8", "replace")
        self.all += text
        self.screen.feed(text.replace("\r\n", "\n"))
        return len(got)

    def call(self, line):
        """And what stands there once it is done"""
        os.write(self.calls, line.encode() + b"\n")
        while not select.select([self.answers], [], [], 0.02)[0]:
            self.read(0)
        os.read(self.answers, 1)
        self.read(0.3)
        return self.screen.last()

    def close(self, status=0):
        os.close(self.calls)
        while self.process.poll() is None:
            self.read()
        while self.read(0.2):
            pass
        check_equal(self.process.returncode, status, "exit status")
        check_equal(self.screen.faults, [], "faults on the screen")
        check_equal(self.screen.last(), "", "the last line is gone")
        for end in (self.end, self.terminal, self.answers):
            os.close(end)


def test_page():
    page = Page(DRIVER)
    check("listening" in page.call("note"), "it says that it listens", page.screen.rows)
    last = page.call("partial 1.0  ask not")
    check(re.fullmatch(STATUS + "ask not", last), "a partial in the last line", last)
    check_equal(page.screen.grey, "ask not", "is grey")
    last = page.call("final 0.5 1.2  Ask not")
    check(re.fullmatch(STATUS + "Ask not", last), "a final", last)
    check_equal((page.screen.grey, page.screen.above()), ("", []), "is not grey, and waits for its line")
    last = page.call("partial 2.0  what your")
    check(re.fullmatch(STATUS + "Ask not what your", last), "both", last)
    check_equal(page.screen.grey, "what your", "and one is grey")
    page.call("final 1.2 3.0  what your country can do for you,")
    page.call("final 3.0 5.0  ask what you can do for your country. And then some more,")
    check_equal(page.screen.above(), ["[00:00.500] Ask not what your country can do for you, ask what you can do for"],
                "a line that is full scrolls, with its time")
    page.call("break")
    check_equal(page.screen.above()[1:], ["            your country. And then some more,"],
                "the rest when the utterance ends")
    page.call("partial 7.0  more")
    page.call("log this is slow")
    check_equal(page.screen.above()[2:], ["max-whisper: warning: this is slow"], "the log stands above")
    for _ in range(100):
        if not page.screen.last():
            page.read(0.1)
    check(page.screen.last().endswith("more"), "and the last line is there again", page.screen.last())
    page.call("final 3700.0 3701.0  One hour.")
    page.close()
    check_equal(page.screen.above()[3:], ["[01:01:40.000] One hour."], "what is pending is printed at the end")


def test_long():
    """Of a text that is too long the end is shown, in any script and at any width."""
    for columns in (120, 80, 43, 30, 12, 5, 2):
        page = Page(DRIVER, columns)
        for piece in ("word " * 60, "日本語" * 50, "é" * 300, "e\u0301" * 200, "🎤" * 90):
            last = page.call("partial 9.0 " + piece + "end")
            check(columns < 12 or last.endswith("end"), f"{columns} columns: the end is shown", last)
            check(columns < 12 or "…" in last, f"{columns} columns: what is left out is marked", last)
        page.call("final 1.0 9.0 " + "日本語" * 40)
        page.call("final 1.0 9.0  " + "word " * 40)
        page.call("break")
        shown = "".join(re.sub(r"^(\[[0-9:.]+\] | +)", "", line) for line in page.screen.above())
        check_equal(shown.replace(" ", ""), "日本語" * 40 + "word" * 40, f"{columns} columns: finals are all there")
        page.close() if columns >= 30 else page.process.kill()


def test_resized():
    page = Page(DRIVER, 100)
    page.call("partial 1.0 " + "word " * 30)
    for columns in (60, 25, 90):
        page.resize(columns)
        last = page.call("partial 2.0 " + "word " * 30 + "end")
        check(last.endswith("end"), f"resized to {columns}", last)
    page.call("final 1.0 2.0  all of it\tin one line")
    page.call("break")
    page.close()
    check_equal(page.screen.above(), ["[00:01.000] all of it in one line"], "control characters are blanks")


def test_plain():
    """Without UTF-8 and without colours."""
    page = Page(DRIVER, 80, LC_ALL="C", NO_COLOR="1")
    page.call("partial 1.0 " + "word " * 30 + "end")
    page.close()
    check("\x1b[90m" not in page.all and "█" not in page.all and "<" in page.all, "plain characters", page.all[-200:])


def test_program():
    """Whole: the same text as elsewhere; Ctrl-C from the keyboard."""
    if not model_path("tiny.en") or not json.loads(run("model", "list", "--json")[1])["vad"]["path"]:
        print("SKIP: live in a terminal: tiny.en or the weights silero-vad are not there (make model)")
        return
    command = [PROGRAM, "live", SPEECH, "--greedy", "--step-ms", "600", "--pace"]
    page = Page([*command, "0"], 60)
    page.close()
    text = " ".join(re.sub(r"^(\[[0-9:.]+\] | +)", "", line) for line in page.screen.above())
    code, out, _ = run(*command[1:], "0")
    check_equal((code, text.split()), (0, out.split()), "the page has the text")
    check("\x1b[90m" in page.all, "with partials on the way")
    page = Page([*command, "1"], 80)
    limit = time.monotonic() + 120
    while "ohn" not in page.screen.last() and time.monotonic() < limit and page.process.poll() is None:
        page.read()
    os.write(page.end, b"\x03")
    page.close()
    said = " ".join(page.screen.above())
    check(re.search(r"\[00:0\d\.\d{3}\] .*John", said) and "^C" not in said.split("John")[0], "Ctrl-C", said)


with open(SOUND, "wb") as sound:
    sound.write(wav(16000 * 12, data=b"\x00\x10\x00\xf0" * 8000 * 12))
test_page()
test_long()
test_resized()
test_plain()
test_program()
done()
