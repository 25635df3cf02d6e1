"""max_whisper/openai/utils.py - results as files, and small helpers, as openai-whisper's module of this name has them.

The writers take the dictionaries of transcribe(), also such that a program has made or changed.
"""
from __future__ import annotations

import json
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO

system_encoding = sys.getdefaultencoding()

_LONG_PAUSE = 3.0    # seconds after which a cue ends, where cues need not end with segments
_NO_LIMIT = 1000     # characters in a line, words in a cue


def make_safe(string: str) -> str:
    """The text with "?" for what the system's encoding cannot write."""
    return string.encode(system_encoding, errors="replace").decode(system_encoding)


def exact_div(x: int, y: int) -> int:
    """x / y, which must be a whole number."""
    if x % y:
        raise AssertionError(f"{x} is not a multiple of {y}")
    return x // y


def str2bool(string: str) -> bool:
    """"True" or "False"; ValueError for anything else."""
    if string not in ("True", "False"):
        raise ValueError(f"Expected one of {{'True', 'False'}}, got {string}")
    return string == "True"


def optional_int(string: str) -> int | None:
    """A whole number, or "None"."""
    return None if string == "None" else int(string)


def optional_float(string: str) -> float | None:
    """A number, or "None"."""
    return None if string == "None" else float(string)


def compression_ratio(text: str) -> float:
    """How often the text repeats itself: its bytes over those that zlib makes of them."""
    data = text.encode("utf-8")
    return len(data) / len(zlib.compress(data))


def format_timestamp(seconds: float, always_include_hours: bool = False, decimal_marker: str = ".") -> str:
    """01:02.345; with hours if there are any, or always."""
    if seconds < 0:
        raise AssertionError("non-negative timestamp expected")
    minutes, milliseconds = divmod(round(seconds * 1000.0), 60_000)
    hours, minutes = divmod(minutes, 60)
    head = f"{hours:02d}:" if always_include_hours or hours else ""
    return f"{head}{minutes:02d}:{milliseconds // 1000:02d}{decimal_marker}{milliseconds % 1000:03d}"


def get_start(segments: Sequence[dict[str, Any]]) -> float | None:
    """Where the first word begins, else the first segment; None without segments."""
    for segment in segments:
        for word in segment["words"]:
            return float(word["start"])
    return segments[0]["start"] if segments else None


def get_end(segments: Sequence[dict[str, Any]]) -> float | None:
    """Where the last word ends, else the last segment; None without segments."""
    for segment in reversed(segments):
        for word in reversed(segment["words"]):
            return float(word["end"])
    return segments[-1]["end"] if segments else None


class ResultWriter:
    """Writes results into a folder, each as a file with the name of its recording."""

    extension: str

    def __init__(self, output_dir: str) -> None:
        self.output_dir = output_dir

    def __call__(self, result: dict[str, Any], audio_path: str, options: dict[str, Any] | None = None,
                 **kwargs: Any) -> None:
        name = os.path.splitext(os.path.basename(audio_path))[0]
        with open(os.path.join(self.output_dir, f"{name}.{self.extension}"), "w", encoding="utf-8") as file:
            self.write_result(result, file=file, options=options, **kwargs)

    def write_result(self, result: dict[str, Any], file: TextIO, options: dict[str, Any] | None = None,
                     **kwargs: Any) -> None:
        """What a format does."""
        raise NotImplementedError


class WriteTXT(ResultWriter):
    """A line for each segment."""

    extension = "txt"

    def write_result(self, result: dict[str, Any], file: TextIO, options: dict[str, Any] | None = None,
                     **kwargs: Any) -> None:
        for segment in result["segments"]:
            print(segment["text"].strip(), file=file, flush=True)


def _cues(segments: Sequence[dict[str, Any]], max_line_width: int, max_line_count: int | None,
          max_words_per_line: int, keep_segments: bool) -> Iterator[list[dict[str, Any]]]:
    """The words of each cue; lines are broken inside of the words."""
    cue: list[dict[str, Any]] = []
    width, n_lines = 0, 1
    last = get_start(segments) or 0.0
    for segment in segments:
        for i, original in enumerate(segment["words"]):
            word = dict(original)
            pause = not keep_segments and word["start"] - last > _LONG_PAUSE
            must_end = keep_segments and i % max_words_per_line == 0 and bool(cue)
            if width and width + len(word["word"]) <= max_line_width and not pause and not must_end:
                width += len(word["word"])
            else:
                word["word"] = word["word"].strip()
                full = max_line_count is not None and (pause or n_lines >= max_line_count)
                if must_end or (cue and full):
                    yield cue
                    cue, n_lines = [], 1
                elif width:
                    n_lines += 1
                    word["word"] = "\n" + word["word"]
                width = len(word["word"].strip())
            cue.append(word)
            last = word["start"]
    if cue:
        yield cue


class SubtitlesWriter(ResultWriter):
    """Cues with times: of segments or, where there are words, of as many words as the options allow."""

    always_include_hours: bool
    decimal_marker: str

    def iterate_result(self, result: dict[str, Any], options: dict[str, Any] | None = None, *,
                       max_line_width: int | None = None, max_line_count: int | None = None,
                       highlight_words: bool = False,
                       max_words_per_line: int | None = None) -> Iterator[tuple[str, str, str]]:
        """(start, end, text) of each cue."""
        options = options or {}
        max_line_width = max_line_width or options.get("max_line_width")
        max_line_count = max_line_count or options.get("max_line_count")
        highlight_words = highlight_words or options.get("highlight_words", False)
        max_words_per_line = max_words_per_line or options.get("max_words_per_line")
        segments = result["segments"]
        if not segments or "words" not in segments[0]:
            for segment in segments:
                yield (self.format_timestamp(segment["start"]), self.format_timestamp(segment["end"]),
                       segment["text"].strip().replace("-->", "->"))
            return
        keep_segments = max_line_count is None or max_line_width is None
        for cue in _cues(segments, max_line_width or _NO_LIMIT, max_line_count, max_words_per_line or _NO_LIMIT,
                         keep_segments):
            if highlight_words:
                yield from self._highlighted(cue)
            else:
                yield (self.format_timestamp(cue[0]["start"]), self.format_timestamp(cue[-1]["end"]),
                       "".join(word["word"] for word in cue))

    def _highlighted(self, cue: list[dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
        """The cue once for each word, which is underlined while it is spoken; and plain in between."""
        texts = [word["word"] for word in cue]
        last = self.format_timestamp(cue[0]["start"])
        for i, word in enumerate(cue):
            start, end = self.format_timestamp(word["start"]), self.format_timestamp(word["end"])
            if last != start:
                yield last, start, "".join(texts)
            underlined = re.sub(r"^(\s*)(.*)$", r"\1<u>\2</u>", texts[i])
            yield start, end, "".join([*texts[:i], underlined, *texts[i + 1:]])
            last = end

    def format_timestamp(self, seconds: float) -> str:
        return format_timestamp(seconds, self.always_include_hours, self.decimal_marker)


class WriteVTT(SubtitlesWriter):
    """WebVTT."""

    extension = "vtt"
    always_include_hours = False
    decimal_marker = "."

    def write_result(self, result: dict[str, Any], file: TextIO, options: dict[str, Any] | None = None,
                     **kwargs: Any) -> None:
        print("WEBVTT\n", file=file)
        for start, end, text in self.iterate_result(result, options, **kwargs):
            print(f"{start} --> {end}\n{text}\n", file=file, flush=True)


class WriteSRT(SubtitlesWriter):
    """SubRip."""

    extension = "srt"
    always_include_hours = True
    decimal_marker = ","

    def write_result(self, result: dict[str, Any], file: TextIO, options: dict[str, Any] | None = None,
                     **kwargs: Any) -> None:
        for i, (start, end, text) in enumerate(self.iterate_result(result, options, **kwargs), 1):
            print(f"{i}\n{start} --> {end}\n{text}\n", file=file, flush=True)


class WriteTSV(ResultWriter):
    """A table: start and end in whole milliseconds, text."""

    extension = "tsv"

    def write_result(self, result: dict[str, Any], file: TextIO, options: dict[str, Any] | None = None,
                     **kwargs: Any) -> None:
        print("start", "end", "text", sep="\t", file=file)
        for segment in result["segments"]:
            print(round(1000 * segment["start"]), round(1000 * segment["end"]),
                  segment["text"].strip().replace("\t", " "), sep="\t", file=file, flush=True)


class WriteJSON(ResultWriter):
    """The dictionary itself."""

    extension = "json"

    def write_result(self, result: dict[str, Any], file: TextIO, options: dict[str, Any] | None = None,
                     **kwargs: Any) -> None:
        json.dump(result, file)


_WRITERS: dict[str, type[ResultWriter]] = {
    "txt": WriteTXT, "vtt": WriteVTT, "srt": WriteSRT, "tsv": WriteTSV, "json": WriteJSON}


def get_writer(output_format: str, output_dir: str) -> Callable[..., None]:
    """What writes results in a format ("txt", "vtt", "srt", "tsv", "json", or "all") into a folder."""
    if output_format != "all":
        return _WRITERS[output_format](output_dir)
    writers = [kind(output_dir) for kind in _WRITERS.values()]

    def write_all(result: dict[str, Any], file: str, options: dict[str, Any] | None = None, **kwargs: Any) -> None:
        for writer in writers:
            writer(result, file, options, **kwargs)
    return write_all
