"""tests/cli/live/lines.py - a terminal whose lines scroll, for tests that look at the page of `live`.

Invariants: a character past the last column (but of a line of the log, which may wrap), or a sequence that is not
known here, is a fault that the test sees.
"""
import re
import unicodedata

SEQUENCE = re.compile("\x1b\\[([0-9;]*)([A-Za-z])")


def width_of(char):
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


class Lines:
    def __init__(self, columns):
        self.columns = columns
        self.rows = [""]        # the last one is where the cursor is
        self.grey = ""          # what of the last line is grey
        self.is_grey = False
        self.faults = []
        self.rest = ""

    def last(self):
        return self.rows[-1]

    def above(self):
        return self.rows[:-1]

    def feed(self, text):
        text, self.rest = self.rest + text, ""
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                found = SEQUENCE.match(text, at)
                if not found and len(text) - at < 12:
                    self.rest = text[at:]       # not all of it is here yet
                    return
                if not found:
                    self.faults.append(f"unknown sequence {text[at:at + 12]!r}")
                    at += 1
                    continue
                self.obey(found)
                at = found.end()
            else:
                self.put(text[at])
                at += 1

    def obey(self, found):
        if found.group(2) == "m":
            self.is_grey = found.group(1) == "90"
        elif found.group(2) != "K":             # the line is drawn first, and then cleared to its end
            self.faults.append(f"unknown command {found.group(0)!r}")

    def put(self, char):
        if char == "\r":
            self.rows[-1] = self.grey = ""
        elif char == "\n":
            self.rows.append("")
            self.grey = ""
        elif ord(char) < 32:
            self.faults.append(f"control character {char!r}")
        else:
            self.rows[-1] += char
            self.grey += char if self.is_grey else ""
            if sum(width_of(c) for c in self.rows[-1]) > self.columns and not self.rows[-1].startswith("max-whisper: "):
                self.faults.append(f"past column {self.columns}: {self.rows[-1]!r}")
