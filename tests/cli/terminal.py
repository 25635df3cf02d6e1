"""tests/cli/terminal.py - the program with its standard error on a pseudo-terminal."""
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios

from clitest import PROGRAM


def run_on_terminal(words, columns=80):
    """(exit status, what the terminal got) with standard error on a pseudo-terminal"""
    main_end, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([PROGRAM, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=terminal,
                               env=dict(os.environ, TERM="xterm"))
    os.close(terminal)
    shown, printed = b"", b""
    open_ends = {main_end, process.stdout.fileno()}
    while open_ends:
        for end in select.select(list(open_ends), [], [], 300)[0]:
            try:
                got = os.read(end, 65536)
            except OSError:  # how a pseudo-terminal ends
                got = b""
            if not got:
                open_ends.discard(end)
            elif end == main_end:
                shown += got
            else:
                printed += got
    os.close(main_end)
    return process.wait(), shown.decode("utf-8", "replace"), printed.decode("utf-8", "replace")
