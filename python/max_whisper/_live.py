"""max_whisper/_live.py - transcription of a stream while it is spoken: calls, an iterator, an async iterator.

Samples go in, events come out: "partial" text may still change, "final" text does not. docs/live.md has the rest.
"""
from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from . import _native
from ._audio import Samples, samples_of
from ._errors import check_names
from ._options import session_options
from ._types import Result, Word, result_of, segment_of

Kind = Literal["speech_started", "partial", "final", "speech_stopped", "slower", "gap", "end", "speech_ended"]
BLOCK = 1600   # samples of a microphone at a time: 0.1 s


@dataclass(slots=True)
class Event:
    """Something that was heard. Times are seconds since the stream's first sample."""

    kind: Kind
    utterance: int
    start: float
    end: float
    text: str
    words: list[Word] = field(default_factory=list, repr=False)
    probability: float = field(default=0.0, repr=False)
    language: str | None = None
    language_probability: float | None = field(default=None, repr=False)
    heard: float = field(default=0.0, repr=False)
    ready: float = field(default=0.0, repr=False)
    step: float = field(default=0.0, repr=False)


@dataclass(slots=True)
class LiveStats:
    """Numbers of a stream so far."""

    fed: float
    speech: float
    n_utterances: int
    n_passes: int
    n_words: int
    n_words_dropped: int
    compute: float
    step: float
    level: float
    speech_probability: float
    silence: float


class Live:
    """A live stream: feed() samples, then take events(), again and again; finish() at the end. One thread at a time."""

    def __init__(self, model: _native.Model, options: dict[str, Any]) -> None:
        own = {name: options.pop(name) for name in list(options) if name in _native.LIVE_OPTIONS}
        check_names("live", options, (*_native.SESSION_OPTIONS, *_native.LIVE_OPTIONS))
        self._native = _native.Live(model, own, session_options(options, "live"))

    def feed(self, samples: npt.ArrayLike, rate: int | None = None) -> None:
        """Samples, any number of them; the model works in events()."""
        self._native.feed(samples_of(samples, rate))

    def events(self) -> Iterator[Event]:
        """What is ready now; runs the model when it is time for that."""
        while item := self._native.next():
            event = Event(*item)
            event.words = [Word(*word) for word in item[5]]
            yield event

    def gap(self, seconds: float) -> None:
        """Samples are missing here."""
        self._native.gap(seconds)

    def flush(self) -> None:
        """Ends the utterance now: everything said so far becomes final."""
        self._native.flush()

    def finish(self) -> None:
        """No more samples; take the last events afterwards."""
        self._native.finish()

    def result(self) -> Result:
        """All finals so far; needs keep_result=True."""
        item, segments = self._native.result()
        return result_of(item, [segment_of(segment) for segment in segments], None)

    @property
    def stats(self) -> LiveStats:
        """Numbers so far."""
        return LiveStats(*self._native.stats())

    def cancel(self) -> None:
        """Stops the call that runs, from any thread."""
        self._native.cancel()

    def close(self) -> None:
        """Frees the stream."""
        self._native.close()

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _microphone(device: str) -> Iterator[Samples]:
    """Blocks of a device until it ends."""
    audio = _native.Audio(None, None, None, None, 0, 0, device, 0, 1)
    while True:
        block = np.empty(BLOCK, np.float32)
        got = audio.read_into(block)
        if not got:
            return
        yield block[:got]


class Listening:
    """Events of a source of sound: iterate, with for or with async for. live is the stream itself."""

    def __init__(self, live: Live, source: Any, rate: int | None) -> None:
        self.live, self._source, self._rate = live, source, rate

    def __iter__(self) -> Iterator[Event]:
        if isinstance(self._source, AsyncIterable) and not isinstance(self._source, Iterable):
            raise TypeError("listen: the source is asynchronous; use async for")
        source = _microphone(self._source) if isinstance(self._source, str) else self._source
        with self.live as live:
            for block in source:
                live.feed(block, self._rate)
                yield from live.events()
            live.finish()
            yield from live.events()

    async def _blocks(self) -> AsyncIterator[Any]:
        if isinstance(self._source, AsyncIterable):
            async for block in self._source:
                yield block
            return
        source = iter(_microphone(self._source) if isinstance(self._source, str) else self._source)
        end = object()
        while (block := await asyncio.to_thread(next, source, end)) is not end:
            yield block

    async def __aiter__(self) -> AsyncIterator[Event]:
        live = self.live
        try:
            async for block in self._blocks():
                live.feed(block, self._rate)
                for event in await self._in_thread():
                    yield event
            live.finish()
            for event in await self._in_thread():
                yield event
        finally:
            live.close()

    async def _in_thread(self) -> list[Event]:
        """The events that are ready; a cancelled task stops the work first."""
        running = asyncio.get_running_loop().run_in_executor(None, lambda: list(self.live.events()))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            self.live.cancel()
            await asyncio.wait([running])
            running.exception()
            raise
