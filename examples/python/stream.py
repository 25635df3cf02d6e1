#!/usr/bin/env python3
"""examples/python/stream.py MODEL FILE - a recording as if it were spoken now, in an event loop.

Shows: a live stream fed from an async source, final text as it comes. A microphone: model.listen("default").
"""
import asyncio
import sys
from collections.abc import AsyncIterator

import max_whisper


async def blocks(file: str) -> AsyncIterator[object]:
    """Half a second at a time, without waiting for the clock."""
    samples = max_whisper.decode_audio(file)
    for at in range(0, len(samples), 8000):
        await asyncio.sleep(0)
        yield samples[at:at + 8000]


async def main(name: str, file: str) -> None:
    """Prints final text, a line for each utterance."""
    async for event in max_whisper.Model(name).listen(blocks(file)):
        if event.kind == "final":
            print(event.text, end="", flush=True)
        if event.kind == "speech_stopped":
            print()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    asyncio.run(main(sys.argv[1], sys.argv[2]))
