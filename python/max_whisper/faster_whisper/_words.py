"""max_whisper/faster_whisper/_words.py - word times from token times, and what is wrong with words that nobody said.

openai-whisper's rules, which faster-whisper has as well. Words and segments are dictionaries here.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from .tokenizer import Tokenizer

Timing = dict[str, Any]
_SENTENCE_ENDS = ".。!！?？"
_PUNCTUATION = "\"'“¿([{-\"'.。,，!！?？:：”)]}、"


def words_of(tokenizer: Tokenizer, tokens: list[int], times: list[float], probabilities: list[float]) -> list[Timing]:
    """Words with their times: times has the begin of each token and the end of the last."""
    words, word_tokens = tokenizer.split_to_word_tokens([*tokens, tokenizer.eot])
    made, at = [], 0
    for word, ids in zip(words[:-1], word_tokens[:-1]):
        end = at + len(ids)
        made.append({"word": word, "tokens": ids, "start": times[at], "end": times[end],
                     "probability": float(np.mean(probabilities[at:end]))})
        at = end
    return made


def merge_punctuations(alignment: list[Timing], prepended: str, appended: str) -> None:
    """Joins punctuation to the word after it or before it; what was joined stays as an empty word."""
    following = len(alignment) - 1
    for i in range(len(alignment) - 2, -1, -1):
        word = alignment[i]["word"]
        if word.startswith(" ") and word.strip() in prepended:
            _join(alignment[following], alignment[i], before=True)
        else:
            following = i
    previous = 0
    for j in range(1, len(alignment)):
        if not alignment[previous]["word"].endswith(" ") and alignment[j]["word"] in appended:
            _join(alignment[previous], alignment[j], before=False)
        else:
            previous = j


def _join(word: Timing, punctuation: Timing, before: bool) -> None:
    for name in ("word", "tokens"):
        word[name] = punctuation[name] + word[name] if before else word[name] + punctuation[name]
    punctuation["word"], punctuation["tokens"] = "", []


def limit_sentence_ends(alignment: list[Timing]) -> tuple[float, float]:
    """Words at the end of a sentence are not longer than twice the median; the median and that."""
    durations = np.array([word["end"] - word["start"] for word in alignment])
    durations = durations[durations.nonzero()]
    median = min(0.7, float(np.median(durations))) if len(durations) else 0.0
    longest = median * 2
    for before, word in zip(alignment, alignment[1:]) if len(durations) else ():
        if word["end"] - word["start"] > longest:
            if word["word"] in _SENTENCE_ENDS:
                word["end"] = word["start"] + longest
            elif before["word"] in _SENTENCE_ENDS:
                word["start"] = word["end"] - longest
    return median, longest


def take_words(alignment: list[Timing], at: int, n_tokens: int, offset: float) -> tuple[list[Timing], int]:
    """The words of the next n_tokens tokens, on the recording's clock; and where the next segment's begin."""
    words, used = [], 0
    while at < len(alignment) and used < n_tokens:
        timing = alignment[at]
        if timing["word"]:
            words.append({"word": timing["word"], "start": round(offset + timing["start"], 2),
                          "end": round(offset + timing["end"], 2), "probability": timing["probability"]})
        used += len(timing["tokens"])
        at += 1
    return words, at


def fit_to_segment(words: list[Timing], segment: dict[str, Any], median: float, longest: float,
                   last_speech: float) -> None:
    """Words and segment agree on where it begins and ends; the first words after a pause are not too long."""
    first, last = words[0], words[-1]
    second = words[1] if len(words) > 1 else None
    too_long = first["end"] - first["start"] > longest or (
        second is not None and second["end"] - first["start"] > longest * 2)
    if first["end"] - last_speech > median * 4 and too_long:
        if second is not None and second["end"] - second["start"] > longest:
            first["end"] = second["start"] = max(second["end"] / 2, second["end"] - longest)
        first["start"] = max(0, first["end"] - longest)
    if segment["start"] < first["end"] and segment["start"] - 0.5 > first["start"]:
        first["start"] = max(0, min(first["end"] - median, segment["start"]))
    else:
        segment["start"] = first["start"]
    if segment["end"] > last["start"] and segment["end"] + 0.5 < last["end"]:
        last["end"] = max(last["start"] + median, segment["end"])
    else:
        segment["end"] = last["end"]


def _anomaly(word: Timing) -> float:
    duration = word["end"] - word["start"]
    score = 1.0 if word.get("probability", 0.0) < 0.15 else 0.0
    if duration < 0.133:
        score += (0.133 - duration) * 15
    if duration > 2.0:
        score += duration - 2.0
    return score


def is_anomaly(segment: dict[str, Any] | None) -> bool:
    """Whether the first words of a segment are improbable, or too short or too long, as invented ones are."""
    if segment is None or not segment["words"]:
        return False
    words = [word for word in segment["words"] if word["word"] not in _PUNCTUATION][:8]
    score = sum(map(_anomaly, words))
    return score >= 3 or score + 0.01 >= len(words)


def next_with_words(segments: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The first segment that has words."""
    return next((segment for segment in segments if segment["words"]), None)


def skip_silence(segments: list[dict[str, Any]], threshold: float, window: tuple[float, float, float],
                 total: float, last_speech: float) -> tuple[float | None, bool]:
    """hallucination_silence_threshold: cuts segments that nobody said, in silence. window: its begin, the end of its
    audio, its end if it were full. Where to go on, in seconds (None: as it was); and whether nothing of it is kept."""
    begin, audio_end, full_end = window
    first = next_with_words(segments)
    if first is not None and is_anomaly(first) and first["start"] - begin > threshold:
        return first["start"], True
    before = last_speech
    for i, segment in enumerate(segments):
        if not segment["words"]:
            continue
        if is_anomaly(segment):
            following = next_with_words(segments[i + 1:])
            next_start = following["words"][0]["start"] if following else audio_end
            silent_before = (segment["start"] - before > threshold or segment["start"] < threshold
                             or segment["start"] - begin < 2.0)
            silent_after = (next_start - segment["end"] > threshold or is_anomaly(following)
                            or full_end - segment["end"] < 2.0)
            if silent_before and silent_after:
                goes_on = total if total - segment["end"] < threshold else max(begin + 1, segment["start"])
                segments[i:] = []
                return goes_on, False
        before = segment["end"]
    return None, False
