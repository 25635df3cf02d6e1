"""max_whisper/openai/timing.py - words and their times, as openai-whisper's module of this name has them."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ._arrays import is_tensor, tensor
from .tokenizer import Tokenizer

if TYPE_CHECKING:
    from .model import Whisper

_MEDIAN_WIDTH = 7   # what the engine computes with


def median_filter(x: Any, filter_width: int) -> Any:
    """The median of filter_width neighbours along the last axis; both ends are reflected."""
    if filter_width <= 0 or filter_width % 2 == 0:
        raise AssertionError("`filter_width` should be an odd number")
    half = filter_width // 2
    if x.shape[-1] <= half:
        return x
    values = x.detach().cpu().numpy() if is_tensor(x) else np.asarray(x)
    padded = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(half, half)], mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, filter_width, axis=-1)
    filtered = np.sort(windows, axis=-1)[..., half]
    return tensor(filtered) if is_tensor(x) else filtered


def backtrace(trace: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The path [2, n] through steps that were taken: 0 both ways, 1 down, 2 right."""
    i, j = trace.shape[0] - 1, trace.shape[1] - 1
    path = []
    while i > 0 or j > 0:
        path.append((i - 1, j - 1))
        step = 2 if i == 0 else 1 if j == 0 else trace[i, j]
        i -= step != 2
        j -= step != 1
    return np.array(path[::-1]).reshape(-1, 2).T


def dtw_cpu(x: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The cheapest path from the first to the last cell of a matrix of costs: [2, n] rows and columns."""
    n, m = x.shape
    cost = np.full((n + 1, m + 1), np.inf, np.float32)
    trace = np.full((n + 1, m + 1), -1, np.int8)
    cost[0, 0] = 0
    for diagonal in range(2, n + m + 1):   # cells of a diagonal do not depend on each other
        i = np.arange(max(1, diagonal - m), min(n, diagonal - 1) + 1)
        j = diagonal - i
        both, down, right = cost[i - 1, j - 1], cost[i - 1, j], cost[i, j - 1]
        step = np.where((both < down) & (both < right), 0, np.where((down < both) & (down < right), 1, 2))
        trace[i, j] = step
        cost[i, j] = x[i - 1, j - 1] + np.choose(step, (both, down, right))
    return backtrace(trace)


def dtw(x: Any) -> npt.NDArray[np.int64]:
    """dtw_cpu of an array or a tensor."""
    values = x.detach().cpu().numpy() if is_tensor(x) else np.asarray(x)
    return dtw_cpu(values.astype(np.float64))


@dataclass
class WordTiming:
    """A word in a window, in seconds from its begin."""

    word: str
    tokens: list[int]
    start: float
    end: float
    probability: float


def find_alignment(model: Whisper, tokenizer: Tokenizer, text_tokens: Sequence[int], mel: Any, num_frames: int, *,
                   medfilt_width: int = _MEDIAN_WIDTH, qk_scale: float = 1.0) -> list[WordTiming]:
    """Where the words of known text are in a window's log-mel."""
    from .decoding import prepare, windows_of
    if medfilt_width != _MEDIAN_WIDTH or qk_scale != 1.0:
        raise NotImplementedError(f"medfilt_width, qk_scale: the engine aligns with {_MEDIAN_WIDTH} and 1.0")
    items, encoded, _ = windows_of(model, mel)
    words, groups = tokenizer.split_to_word_tokens([*text_tokens, tokenizer.eot])
    if len(groups) <= 1:
        return []
    with model.model.window(task="translate" if tokenizer.task == "translate" else "transcribe") as window:
        prepare(window, items[0], encoded)
        times, probabilities = window.align(list(text_tokens), num_frames, language=tokenizer.language)
    ends = np.cumsum([len(group) for group in groups[:-1]]).tolist()
    return [WordTiming(word, group, float(times[begin]), float(times[end]), float(np.mean(probabilities[begin:end])))
            for word, group, begin, end in zip(words, groups, [0, *ends[:-1]], ends)]


def merge_punctuations(alignment: list[WordTiming], prepended: str, appended: str) -> None:
    """Gives punctuation to the word that it belongs to; what was given away stays, empty."""
    following = None
    for previous in reversed(alignment):
        if following is not None and previous.word.startswith(" ") and previous.word.strip() in prepended:
            following.word, following.tokens = previous.word + following.word, previous.tokens + following.tokens
            previous.word, previous.tokens = "", []
        else:
            following = previous
    last = None
    for word in alignment:
        if last is not None and not last.word.endswith(" ") and word.word in appended:
            last.word, last.tokens = last.word + word.word, last.tokens + word.tokens
            word.word, word.tokens = "", []
        else:
            last = word
