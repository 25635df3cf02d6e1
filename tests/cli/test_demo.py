"""tests/cli/test_demo.py PROGRAM MAKE_CHECKPOINT - demo: the page in a pseudo-terminal, all its states in order,
resized, left early, with an engine that hangs; and plain lines elsewhere.

On a generated model, whose text is nonsense but the same every time.
"""
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

from clitest import PROGRAM, check, check_equal, check_fails, done, run, wav
from screen import Screen

FOLDER = tempfile.mkdtemp()
MODEL = os.path.join(FOLDER, "narrow.pt")
SOUND = os.path.join(FOLDER, "sound.wav")
LONG = os.path.join(FOLDER, "long.wav")
WORDS = ["demo", "--model", MODEL, "--beam-size", "none"]
STATES = ("waiting", "loading", "running", "done", "failed", "not here")
STATE = re.compile(f" ({'|'.join(STATES)}) ─┐")


def set_size(terminal, rows, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class Page:
    """The program on a pseudo-terminal of its own."""

    def __init__(self, *words, sound=None, rows=24, columns=100):
        self.end, self.terminal = pty.openpty()
        set_size(self.terminal, rows, columns)
        self.before = termios.tcgetattr(self.terminal)
        self.screen = Screen(rows, columns)
        self.all = ""
        self.seen = []      # states of the panels, as they changed
        self.process = subprocess.Popen([PROGRAM, *WORDS, *words, sound or SOUND], stdin=self.terminal,
                                        stdout=self.terminal, stderr=self.terminal, start_new_session=True,
                                        env=dict(os.environ, TERM="xterm", LC_ALL="C.UTF-8"))

    def read(self, seconds=0.2):
        """0 when nothing came in that time"""
        if not select.select([self.end], [], [], seconds)[0]:
            return 0
        got = os.read(self.end, 65536).decode("utf-8", "replace")
        self.all += got
        self.screen.feed(got)
        if self.screen.alternate:
            now = tuple(STATE.findall(self.screen.text()))
            if now and (not self.seen or self.seen[-1] != now):
                self.seen.append(now)
        return len(got)

    def until(self, condition, seconds=90):
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            if condition(self):
                return True
            self.read()
        return False

    def workers(self):
        out = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True,
                             check=False).stdout
        return [int(word) for word in out.split()]

    def ended(self, what, status):
        """It ends with the status, the terminal as it was, no process left."""
        children = self.workers()
        check(self.until(lambda page: page.process.poll() is not None, 60), f"{what}: it ends")
        while self.read(0.3):
            pass
        check_equal(self.process.poll(), status, f"{what}: exit status")
        check_equal(termios.tcgetattr(self.terminal), self.before, f"{what}: the terminal's settings")
        check(not self.screen.alternate, f"{what}: the page is gone")
        check(self.screen.cursor_shown, f"{what}: the cursor is back")
        check_equal(self.screen.faults[:3], [], f"{what}: nothing is written outside of the page")
        check_equal([pid for pid in children if os.path.exists(f"/proc/{pid}")], [], f"{what}: no process stays")
        os.close(self.end)
        os.close(self.terminal)
        return self.all


def test_page():
    page = Page("--engines", "cpu,max")
    shown = []
    check(page.until(lambda p: p.screen.alternate and "running" in p.screen.text()), "the page comes up")
    while page.process.poll() is None:
        page.read()
        if page.screen.alternate:
            shown.append(page.screen.text())
    text = page.ended("page", 0)
    ranks = [tuple(STATES.index(state) for state in states) for states in page.seen]
    check(all(len(states) == 2 for states in ranks), "two panels at any time", page.seen)
    check(all(all(b >= a for a, b in zip(*pair)) for pair in zip(ranks, ranks[1:])), "states only go on", page.seen)
    check_equal(page.seen[0][1], "waiting", "the second waits for the first")
    check(any(states[0] == "done" and states[1] in ("loading", "running") for states in page.seen),
          "the second begins when the first is done", page.seen)
    for words in ("cpu: ", "× real time", "encode", "step", "q: leave", "the text to match"):
        check(any(words in page_text for page_text in shown), f"the page has {words!r}", shown[-1:])
    for words in ("same text as cpu", "fastest: ", "× cpu"):
        check(words in text, f"the table has {words!r}", text[-900:])


def test_sizes():
    """Narrow: one above the other; too small: a word; and what is drawn never leaves the window."""
    page = Page("--engines", "cpu,max", sound=LONG, rows=40, columns=40)
    check(page.until(lambda p: p.screen.alternate and "waits for its turn" in p.screen.text()), "a narrow page")
    lines = page.screen.text().splitlines()
    check(sum("┌─ cpu" in line or "┌─ max" in line for line in lines) == 2, "panels one above the other", lines)
    for rows, columns in ((30, 120), (12, 30), (5, 20), (24, 80)):
        set_size(page.terminal, rows, columns)
        page.screen.resize(rows, columns)
        page.screen.faults.clear()      # what was drawn before it knew
        os.killpg(page.process.pid, signal.SIGWINCH)
        page.until(lambda p: False, 0.6)
    os.write(page.end, b"q")
    page.ended("sizes", 1)


def test_leave():
    page = Page("--engines", "cpu,max", sound=LONG)
    check(page.until(lambda p: "running" in p.screen.text() or "loading" in p.screen.text()), "it runs")
    os.write(page.end, b"q")
    check("left before it was done" in page.ended("q", 1), "q leaves")
    page = Page("--engines", "cpu,max", sound=LONG)
    check(page.until(lambda p: "running" in p.screen.text() or "loading" in p.screen.text()), "it runs")
    os.killpg(page.process.pid, signal.SIGINT)
    page.ended("Ctrl-C", 130)


def test_stuck():
    """A process that stands still is given up; the next engine goes on."""
    page = Page("--engines", "cpu,max", "--timeout", "2", sound=LONG)
    check(page.until(lambda p: "loading" in p.screen.text() or "running" in p.screen.text()), "it runs")
    os.kill(min(page.workers()), signal.SIGSTOP)
    check(page.until(lambda p: "no sign of life for 2 s" in p.all), "it says why", page.all[-900:])
    check(page.until(lambda p: p.seen[-1][1] == "running"), "the other goes on", page.seen)
    os.write(page.end, b"q")
    page.ended("stuck", 1)


def test_plain():
    code, out, err = run(*WORDS, SOUND)
    check_equal((code, err), (0, ""), "plain: exit status")
    check(out.startswith("cpu: begins\ncpu: done in "), "plain lines", out)
    check("gpu: not here: " in out or "gpu: done in " in out, "a missing GPU is no failure", out)
    check("same text as cpu" in out and "fastest: " in out and "\x1b" not in out, "plain table", out)
    code, out, _ = run("demo", "--engines", "max", "--model", os.path.join(FOLDER, "none.pt"), SOUND)
    check(code == 1 and "max: failed: " in out and "none.pt" in out, "a model that is not there", out)
    check_fails(["demo", os.path.join(FOLDER, "none.wav")], 1, "none.wav")
    check_fails(["demo", SOUND, "--engines", "cpu,mex"], 2, "--engines", "did you mean 'max'")
    check_fails(["demo", SOUND, "--engines", "cpu,cpu"], 2, "given twice")
    check_fails(["demo"], 2, "needs an audio or video file")


def main():
    try:
        subprocess.run([sys.argv[2], "pt", "f32", MODEL, "narrow", "1", "3"], check=True)
        for path, seconds in ((SOUND, 31), (LONG, 3600)):
            with open(path, "wb") as stream:
                stream.write(wav(16000 * seconds))
        test_plain()
        test_page()
        test_sizes()
        test_leave()
        test_stuck()
    finally:
        shutil.rmtree(FOLDER)
    done()


main()
