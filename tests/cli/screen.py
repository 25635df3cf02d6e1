"""tests/cli/screen.py - a screen that understands what ncurses writes for an xterm, for tests that look at a page.

Invariants: a character outside of the screen, or a sequence that is not known here, is a fault that the test sees.
"""
import re
import unicodedata

SEQUENCE = re.compile("\x1b(?:\\[([?>=]?)([0-9;]*)([@-~])|[()]([0-9AB])|([=>78cDEHM])|\\][^\x07]*\x07)")
LINES = dict(zip("lqkxmj", "┌─┐│└┘"))   # of the line-drawing set


class Screen:
    def __init__(self, rows, columns):
        self.faults = []
        self.alternate = False      # the page, not the lines of the shell
        self.cursor_shown = True
        self.drawing = False
        self.rest = ""
        self.resize(rows, columns)

    def resize(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.cells = [[" "] * columns for _ in range(rows)]
        self.y = self.x = 0

    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.cells)

    def feed(self, text):
        text = self.rest + text
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                found = SEQUENCE.match(text, at)
                if not found:
                    if len(text) - at < 32:     # not all of it is here yet
                        break
                    self.faults.append("unknown sequence %r" % text[at:at + 12])
                    at += 1
                    continue
                self.obey(found)
                at = found.end()
            else:
                self.put(text[at])
                at += 1
        self.rest = text[at:]

    def put(self, char):
        if char == "\n":
            self.y = min(self.y + 1, self.rows - 1)
        elif char == "\r":
            self.x = 0
        elif char == "\b":
            self.x = max(self.x - 1, 0)
        elif char in "\x0e\x0f":
            self.drawing = char == "\x0e"
        elif char != "\x07":
            width = 2 if unicodedata.east_asian_width(char) in "WF" else 1
            if not self.alternate:
                return                          # plain lines scroll; they are not looked at here
            if self.x + width > self.columns or self.y >= self.rows:
                self.faults.append("%r at %d, %d is outside" % (char, self.y, self.x))
                return
            self.cells[self.y][self.x] = LINES.get(char, char) if self.drawing else char
            self.x += width

    def obey(self, found):
        private, numbers, command, charset = found.group(1), found.group(2), found.group(3), found.group(4)
        if charset:
            self.drawing = charset == "0"
            return
        if command is None:
            return
        values = [int(n) if n else 0 for n in (numbers or "").split(";")]
        first = max(values[0], 1)
        if private:
            if private == "?" and values[0] in (47, 1047, 1049):
                self.alternate = command == "h"
            if private == "?" and values[0] == 25:
                self.cursor_shown = command == "h"
        elif command == "H":
            self.y, self.x = first - 1, (max(values[1], 1) if len(values) > 1 else 1) - 1
        elif command == "d":
            self.y = first - 1
        elif command == "G":
            self.x = first - 1
        elif command in "ABCD":
            self.y += {"A": -first, "B": first}.get(command, 0)
            self.x += {"C": first, "D": -first}.get(command, 0)
        elif command == "J":
            self.erase(0 if values[0] == 2 else self.y * self.columns + self.x, self.rows * self.columns)
        elif command == "K":
            start = self.y * self.columns
            self.erase(start + (self.x if values[0] == 0 else 0),
                       start + (self.x + 1 if values[0] == 1 else self.columns))
        elif command == "X":
            start = self.y * self.columns + self.x
            self.erase(start, start + first)
        elif command in "P@":                   # characters taken out, or room made for them
            row = self.cells[self.y]
            if command == "P":
                row[self.x:] = row[self.x + first:] + [" "] * min(first, self.columns - self.x)
            else:
                row[self.x:] = ([" "] * first + row[self.x:])[:self.columns - self.x]
        elif command == "b":                    # the last character again
            char = self.cells[self.y][self.x - 1]
            for _ in range(first):
                self.put(char)
        elif command not in "mrhlt":
            self.faults.append("unknown command %r" % found.group(0))

    def erase(self, start, end):
        for place in range(start, min(end, self.rows * self.columns)):
            self.cells[place // self.columns][place % self.columns] = " "
