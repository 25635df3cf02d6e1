"""max_whisper/_transcription.py - a transcription on its way: an iterator of segments that becomes a result.

Work happens when a segment is asked for, with Python's lock released. One thread at a time may use it; cancel() may
come from any.
"""
from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

from . import _native
from ._audio import Recording
from ._progress import reporter
from ._types import Info, Result, Segment, result_of, segment_of


class Transcription:
    """What Model.transcribe() gives: iterate over it, or ask for result(). Also an asynchronous iterator."""

    def __init__(self, model: _native.Model, recording: Recording, options: dict[str, Any],
                 given: dict[str, Any]) -> None:
        self._recording = recording
        self._given = given
        self._report = reporter(given.get("progress"), recording.source)
        self._session = _native.Session(model, options, self._report, given.get("on_window"))
        self._records: Iterable[bytes] = given.get("resume") or ()
        self._segments: list[Segment] = []
        self._n_given = 0
        self._fed = False
        self._result: Result | None = None

    # ---- segments ------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Segment]:
        return self

    def __next__(self) -> Segment:
        if self._n_given == len(self._segments) and not self._advance():
            raise StopIteration
        self._n_given += 1
        return self._segments[self._n_given - 1]

    def __aiter__(self) -> AsyncIterator[Segment]:
        return self

    async def __anext__(self) -> Segment:
        if self._n_given == len(self._segments) and not await self._in_thread(self._advance):
            raise StopAsyncIteration
        self._n_given += 1
        return self._segments[self._n_given - 1]

    def _advance(self) -> bool:
        """Decodes until there is one more segment; False at the end."""
        if self._result is not None:
            return False
        try:
            if not self._fed:
                self._feed()
            item = self._session.next()
            if item:
                self._segments.append(segment_of(item))
                return True
            self._end()
            return False
        except BaseException:
            self.close()
            raise

    def _feed(self) -> None:
        self._recording.pour(self._session.feed, self._session.feed_audio)
        self._session.finish()
        for record in self._records:
            self._session.resume(record)
        self._fed = True

    def _end(self) -> None:
        result = result_of(self._session.result(), self._segments, self._recording.source)
        if self._given.get("manifest"):
            result.manifest = self._session.manifest()
        self._result = result
        self.close()

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        """In a thread of the loop's; a cancelled task stops the work, and is over only when that has stopped."""
        running = asyncio.get_running_loop().run_in_executor(None, work)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            self.cancel()
            await asyncio.wait([running])
            running.exception()   # has been seen
            raise

    # ---- the whole -----------------------------------------------------------------------------------------------

    @property
    def info(self) -> Info:
        """Language and duration; decodes the first segment if that was not done yet."""
        if self._result is None and not self._segments:
            self._advance()
        if self._result is not None:
            known = (self._result.language, self._result.language_probability, self._result.duration)
        else:
            item = self._session.result()
            known = (item[1], item[2], item[3])
        return Info(*known, self._recording.source, dict(self._given))

    def result(self) -> Result:
        """Everything, decoding what is left; segments that were iterated over already are part of it."""
        while self._result is None:
            self._advance()
        return self._result

    async def result_async(self) -> Result:
        """The same in an event loop."""
        result: Result = await self._in_thread(self.result)
        return result

    def cancel(self) -> None:
        """Stops the work, from any thread: the call that runs raises max_whisper.Cancelled within a step."""
        self._session.cancel()

    def close(self) -> None:
        """Frees the session; segments so far and a complete result stay."""
        self._session.close()
        self._recording.close()
        close = getattr(self._report, "close", None)
        if close:
            close()

    def __enter__(self) -> Transcription:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "complete" if self._result is not None else "under way" if self._fed else "not started"
        return f"Transcription({self._recording.source or 'samples'!r}, {state}, {len(self._segments)} segments so far)"

    def _repr_html_(self) -> str:
        return self.result()._repr_html_()
