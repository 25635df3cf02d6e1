"""max_whisper/ray/_journal.py - the finished windows of a recording, kept in a store, so that a file of hours goes on.

In: records of windows, in order, as on_window gets them. Out: the same after a crash, for resume=.
A file "windows/KEY/NNNNNNNN" holds the records from number N on, those of one interval: stores that cannot append
keep it as well as a disk does. Invariants: each record has a checksum; what follows a gap or a damaged record is left
out. Two that work at the same recording write the same bytes, so neither can harm the other.
"""
from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Iterator

from ._store import Store

_HEAD = struct.Struct("<II")   # length, crc32


class Journal:
    """Of one recording, while one transcription runs."""

    def __init__(self, store: Store, key: str, interval_s: float, look: bool) -> None:
        """look: there may be records of an earlier attempt."""
        self._store, self._folder, self._interval = store, f"windows/{key}", interval_s
        self._waiting: list[bytes] = []
        self._next = 1              # number of the first one that waits
        self._written = time.monotonic()
        self._stored = look
        self._reading = False
        self.n_resumed = 0

    def stored(self) -> list[bytes]:
        """What is there, in order, up to the first gap."""
        records: list[bytes] = []
        for name in self._store.names(self._folder):
            if not name.isdigit() or int(name) != len(records) + 1:
                break
            data = self._store.read(f"{self._folder}/{name}")
            at = 0
            while at < len(data):
                head = data[at:at + _HEAD.size]
                if len(head) < _HEAD.size:
                    return records
                length, crc = _HEAD.unpack(head)
                record = data[at + _HEAD.size:at + _HEAD.size + length]
                if len(record) < length or zlib.crc32(record) != crc:
                    return records
                records.append(record)
                at += _HEAD.size + length
        return records

    def records(self) -> Iterator[bytes]:
        """For resume=. While the session takes them, it may refuse one: see refused()."""
        self._waiting, self._next, self.n_resumed = [], 1, 0
        if not self._stored:
            return
        self._reading = True
        for record in self.stored():
            yield record
            self.n_resumed += 1
        self._next = self.n_resumed + 1
        self._reading = False

    def refused(self) -> bool:
        """Whether the session did not take the last record: it belongs to another model, recording or version."""
        return self._reading

    def clear(self) -> None:
        """Forgets everything."""
        if self._stored:
            self._store.remove(self._folder)
        self._waiting, self._next, self._stored, self._reading, self.n_resumed = [], 1, False, False, 0
        self._written = time.monotonic()

    def add(self, record: bytes) -> None:
        """For on_window=. Reaches the store at the end of the interval."""
        self._waiting.append(bytes(record))
        if time.monotonic() - self._written < self._interval:
            return
        data = b"".join(_HEAD.pack(len(one), zlib.crc32(one)) + one for one in self._waiting)
        self._store.write(f"{self._folder}/{self._next:08d}", data)
        self._next += len(self._waiting)
        self._waiting = []
        self._stored = True
        self._written = time.monotonic()
