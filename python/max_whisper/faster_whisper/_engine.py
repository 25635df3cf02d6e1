"""max_whisper/faster_whisper/_engine.py - WhisperModel.model: the calls of ctranslate2.models.Whisper, on windows.

A window is encoded when something is asked about it, and stays in the window of the library that it was encoded in
until that one is needed for another. Options of decoding are fixed when the library opens a window, so windows are
kept by their options. Any number of threads may call.
"""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from .._errors import Error
from .._model import Model
from .._window import FRAMES, Window, WindowText
from .tokenizer import Vocabulary

Floats = npt.NDArray[np.float32]
Key = tuple[tuple[str, Any], ...]
T = TypeVar("T")


class Item:
    """One window: its log-mel, or the features that another encode() gave."""

    __slots__ = ("features", "mel")

    def __init__(self, mel: Floats | None = None, features: Floats | None = None) -> None:
        self.mel, self.features = mel, features


class StorageView:
    """An array on its way in."""

    def __init__(self, array: npt.ArrayLike) -> None:
        self._array = np.ascontiguousarray(array, dtype=np.float32)

    @classmethod
    def from_array(cls, array: Any) -> StorageView:
        """Anything that numpy takes."""
        return cls(array)

    @property
    def shape(self) -> list[int]:
        return list(self._array.shape)

    def __array__(self, dtype: Any = None, copy: Any = None) -> npt.NDArray[Any]:
        return self._array if dtype is None else self._array.astype(dtype)


class EncoderOutput(StorageView):
    """Windows to ask about; as an array their features, which are computed when they are looked at."""

    def __init__(self, engine: Whisper, items: list[Item]) -> None:
        self._engine, self.items = engine, items

    @property
    def shape(self) -> list[int]:
        dims = self._engine.dims
        return [len(self.items), dims["n_audio_ctx"], dims["n_audio_state"]]

    def __array__(self, dtype: Any = None, copy: Any = None) -> npt.NDArray[Any]:
        made = np.stack([self._engine.features_of(item) for item in self.items])
        return made if dtype is None else made.astype(dtype)


@dataclass
class WhisperGenerationResult:
    """The text of a window as tokens."""

    sequences: list[list[str]]
    sequences_ids: list[list[int]]
    scores: list[float]
    no_speech_prob: float
    logits: list[Any] = field(default_factory=list)


@dataclass
class WhisperAlignmentResult:
    """Where tokens are: pairs (index of the token, time in steps of 20 ms), and how probable each token is."""

    alignments: list[tuple[int, int]]
    text_token_probs: list[float]


@dataclass
class Request:
    """A prompt, taken apart."""

    previous: list[int]
    language: str | None
    task: str
    without_timestamps: bool
    begin: list[int]   # text that the window begins with


def refuse_unless(name: str, value: Any, only: Any, why: str) -> None:
    """NotImplementedError for an option that the engine does not have."""
    if value is not None and value != only:
        raise NotImplementedError(f"{name}: {value!r} is not supported, only {only!r}: {why}")


def key_of(*, task: str, without_timestamps: bool, beam_size: int = 5, patience: float = 1, length_penalty: float = 1,
           best_of: int = 5, repetition_penalty: float = 1, no_repeat_ngram_size: int = 0,
           sample_len: int | None = None, suppress_blank: bool = True,
           suppress_tokens: Iterable[int] | None = (-1,), max_initial_timestamp: float | None = 1.0) -> Key:
    """The library's options for faster-whisper's."""
    if repetition_penalty is not None and not repetition_penalty > 0:
        raise ValueError(f"repetition_penalty: {repetition_penalty} is not above 0")
    if beam_size < 1:
        raise ValueError(f"beam_size: {beam_size} is not 1 or more")
    if beam_size == 1 and patience not in (None, 1):
        raise ValueError(f"patience: {patience} needs a beam_size above 1")
    return tuple(sorted({
        "task": task, "without_timestamps": bool(without_timestamps), "beam_size": beam_size if beam_size > 1 else 0,
        "patience": float(patience) if beam_size > 1 and patience is not None else None, "best_of": best_of or 1,
        # 1 in faster-whisper is the plain mean, as none is here; other values are openai-whisper's penalty.
        "length_penalty": None if length_penalty in (None, 1) else float(length_penalty),
        "repetition_penalty": float(repetition_penalty or 1), "no_repeat_ngram_size": no_repeat_ngram_size or 0,
        "sample_len": sample_len or 0, "suppress_blank": bool(suppress_blank),
        "suppress_tokens": ",".join(str(int(token)) for token in suppress_tokens or ()),
        "max_initial_timestamp": max_initial_timestamp}.items()))


class _Held:
    """A window of the library, its options, and whom it has heard last."""

    def __init__(self, window: Window, key: Key) -> None:
        self.window, self.key, self.item = window, key, None   # type: Window, Key, Item | None


class Whisper:
    """A model behind the calls of ctranslate2.models.Whisper."""

    def __init__(self, model: Model, vocabulary: Vocabulary, compute_type: str) -> None:
        self._model, self._vocabulary = model, vocabulary
        self.dims: dict[str, int] = model.dims
        self.compute_type = compute_type
        self._idle: list[_Held] = []
        self._lock = threading.Lock()
        self._active = 0

    # ---- what it is ----------------------------------------------------------------------------------------------

    @property
    def is_multilingual(self) -> bool:
        return self._model.multilingual

    @property
    def n_mels(self) -> int:
        return self.dims["n_mels"]

    @property
    def num_languages(self) -> int:
        return int(self._model.info["n_languages"])

    @property
    def device(self) -> str:
        return self._model.device.split(":")[0]

    @property
    def device_index(self) -> list[int]:
        return [int((self._model.device.split(":") + ["0"])[1])]

    @property
    def num_workers(self) -> int:
        return self._model.batch

    @property
    def num_queued_batches(self) -> int:
        return 0

    @property
    def num_active_batches(self) -> int:
        return self._active

    @property
    def model_is_loaded(self) -> bool:
        return not self._model.closed

    @property
    def tensor_parallel(self) -> bool:
        return False

    def load_model(self, keep_cache: bool = False) -> None:
        """Nothing to do: a model stays loaded."""

    def unload_model(self, to_cpu: bool = False) -> None:
        """Not supported: a model is loaded as long as its WhisperModel lives."""
        raise NotImplementedError("unload_model: a model stays loaded; drop the WhisperModel instead")

    # ---- windows -------------------------------------------------------------------------------------------------

    @contextmanager
    def _hold(self, item: Item, key: Key | None) -> Iterator[Window]:
        """A window with these options (None: with any) that has heard the item."""
        with self._lock:
            fits = [held for held in self._idle if key is None or held.key == key]
            held = next((held for held in fits if held.item is item), fits[-1] if fits else None)
            if held:
                self._idle.remove(held)
            self._active += 1
        try:
            if held is None:
                options = dict(key if key is not None else key_of(task="transcribe", without_timestamps=False))
                held = _Held(self._model.window(**options), tuple(sorted(options.items())))
            if held.item is not item:
                held.item = None
                self._hear(held.window, item)
                held.item = item
            yield held.window
        except BaseException:
            if held:
                held.window.close()
                held = None
            raise
        finally:
            with self._lock:
                self._active -= 1
                if held:
                    self._idle.append(held)
                spare = self._idle[:-max(self._model.batch, 1)]
                del self._idle[:len(spare)]
            for old in spare:
                old.window.close()

    def _hear(self, window: Window, item: Item) -> None:
        if item.features is not None:
            window.set_features(item.features)
        else:
            window.hear(item.mel)   # type: ignore[arg-type]

    def features_of(self, item: Item) -> Floats:
        """The encoder's output [n_audio_ctx, n_audio_state]."""
        if item.features is None:
            with self._model.window() as window:
                item.features = window.encode(item.mel)   # type: ignore[arg-type]
        return item.features

    def make_room(self, batch: int) -> None:
        """So many windows at once, if no other transcription is under way; else as many as before."""
        if batch <= self._model.batch:
            return
        with self._lock:
            idle, self._idle = self._idle, []
        for held in idle:
            held.window.close()
        try:
            self._model.reserve(batch)
        except Error as error:
            if error.status != "E_STATE":
                raise

    def each(self, work: Callable[[Any], T], items: Sequence[Any]) -> list[T]:
        """work(item) of all of them, at the same time, in their order."""
        if len(items) < 2:
            return [work(item) for item in items]
        with ThreadPoolExecutor(len(items), "max-whisper") as pool:
            return list(pool.map(work, items))

    def items_of(self, features: Any) -> list[Item]:
        """Windows from what encode() gave, or from arrays: log-mel [batch, n_mels, frames], or features."""
        if isinstance(features, EncoderOutput):
            return features.items
        array = np.ascontiguousarray(features, dtype=np.float32)
        array = array[None] if array.ndim == 2 else array
        ctx, state = self.dims["n_audio_ctx"], self.dims["n_audio_state"]
        if array.ndim == 3 and array.shape[1:] == (ctx, state):
            return [Item(features=one) for one in array]
        if array.ndim != 3 or array.shape[1] != self.n_mels or not 1 <= array.shape[2] <= FRAMES:
            raise ValueError(f"Invalid input features shape: expected an input with shape ({len(array)}, "
                             f"{self.n_mels}, {FRAMES}), but got an input with shape {tuple(array.shape)} instead")
        return [Item(mel=one) for one in array]

    # ---- the calls -----------------------------------------------------------------------------------------------

    def encode(self, features: Any, to_cpu: bool = False) -> EncoderOutput:
        """Windows of log-mel, to be asked about."""
        return EncoderOutput(self, self.items_of(features))

    def languages(self, item: Item) -> list[tuple[str, float]]:
        """Codes and probabilities, best first."""
        if not self.is_multilingual:
            raise RuntimeError("detect_language can only be called on multilingual models")
        with self._hold(item, None) as window:
            return list(window.languages().items())

    def detect_language(self, features: Any) -> list[list[tuple[str, float]]]:
        """For each window [("<|en|>", probability), ...], best first."""
        items = self.items_of(features)
        return [[(f"<|{code}|>", p) for code, p in found] for found in self.each(self.languages, items)]

    def text(self, item: Item, key: Key, request: Request, temperature: float, number: int = 0) -> WindowText:
        """One decoding of one window."""
        with self._hold(item, key) as window:
            return window.decode(request.previous, language=request.language, temperature=temperature, number=number,
                                 begin=request.begin)

    def generate(self, features: Any, prompts: Sequence[Sequence[int | str]], *, asynchronous: bool = False,
                 beam_size: int = 5, patience: float = 1, num_hypotheses: int = 1, length_penalty: float = 1,
                 repetition_penalty: float = 1, no_repeat_ngram_size: int = 0, max_length: int = 448,
                 return_scores: bool = False, return_logits_vocab: bool = False, return_no_speech_prob: bool = False,
                 max_initial_timestamp_index: int = 50, suppress_blank: bool = True,
                 suppress_tokens: Iterable[int] | None = (-1,), sampling_topk: int = 1,
                 sampling_temperature: float = 1) -> list[WhisperGenerationResult]:
        """The best text of each window after its prompt."""
        refuse_unless("asynchronous", asynchronous, False, "call it on threads")
        refuse_unless("return_logits_vocab", return_logits_vocab, False, "logits are not kept")
        if sampling_topk not in (0, 1):
            raise NotImplementedError(f"sampling_topk: {sampling_topk} is not supported, only 0 (all) and 1 (the best)")
        sampled = sampling_topk == 0 and beam_size == 1
        if num_hypotheses != 1 and not sampled:
            raise NotImplementedError("num_hypotheses: only the best text is given")
        items = self.items_of(features)
        if len(prompts) != len(items):
            raise ValueError(f"prompts: {len(prompts)} of them for {len(items)} windows")

        def one(index: int) -> WhisperGenerationResult:
            request = self.take_apart(prompts[index])
            n_begun = len(request.begin) + (1 if request.begin and not request.without_timestamps else 0)
            n_before = len(prompts[index]) - n_begun
            n_new = min(max_length // 2, max_length - (n_before - 1)) - n_begun   # what it begins with counts, too
            key = key_of(task=request.task, without_timestamps=request.without_timestamps, beam_size=beam_size,
                         patience=patience, length_penalty=length_penalty, best_of=num_hypotheses,
                         repetition_penalty=repetition_penalty, no_repeat_ngram_size=no_repeat_ngram_size,
                         sample_len=max(n_new, 1), suppress_blank=suppress_blank, suppress_tokens=suppress_tokens,
                         max_initial_timestamp=max_initial_timestamp_index * 0.02)
            text = self.text(items[index], key, request, sampling_temperature if sampled else 0.0)
            return self.result_of(text, request, length_penalty)
        return self.each(one, range(len(items)))

    def result_of(self, text: WindowText, request: Request, length_penalty: float = 1) -> WhisperGenerationResult:
        """As CTranslate2 has it: text that was given to begin with is part of it."""
        ids = list(text.tokens)
        if request.begin:
            start = [] if request.without_timestamps else [self.id_of("<|0.00|>")]
            ids = [*start, *request.begin, *ids]
        score = text.avg_logprob * (len(text.tokens) + 1) / max(len(text.tokens), 1) ** (length_penalty or 1)
        return WhisperGenerationResult([[self._vocabulary.id_to_token(id) or "" for id in ids]], [ids], [score],
                                       text.no_speech_prob)

    def id_of(self, name: str) -> int:
        """The id of a token."""
        found = self._vocabulary.token_to_id(name)
        if found is None:
            raise ValueError(f"prompt: {name!r} is not a token")
        return found

    def take_apart(self, prompt: Sequence[int | str]) -> Request:
        """[<|startofprev|> text] <|startoftranscript|> [language task] [<|notimestamps|>] [<|0.00|>] [text]"""
        ids = [self.id_of(token) if isinstance(token, str) else int(token) for token in prompt]
        sot = self.id_of("<|startoftranscript|>")
        if sot not in ids:
            raise ValueError("prompt: it has no <|startoftranscript|>")
        at = ids.index(sot)
        previous = [token for token in ids[:at] if token != self.id_of("<|startofprev|>")]
        rest = [self._vocabulary.id_to_token(token) or "" for token in ids[at + 1:]]
        language, task, used = None, "transcribe", at + 1
        if self.is_multilingual:
            if len(rest) < 2 or rest[1] not in ("<|transcribe|>", "<|translate|>"):
                raise ValueError("prompt: a language and a task must follow <|startoftranscript|>")
            language, task, used = rest[0][2:-2], rest[1][2:-2], at + 3
        tail = ids[used:]
        without = tail[:1] == [self.id_of("<|notimestamps|>")]
        begin = tail[1:] if without or tail[:1] == [self.id_of("<|0.00|>")] else tail
        first_special = self.id_of("<|endoftext|>")
        if any(token >= first_special for token in begin):
            raise NotImplementedError("prompt: timestamps within the text that a window begins with")
        return Request(previous, language, task, without, begin)

    def align(self, features: Any, start_sequence: Sequence[int], text_tokens: Sequence[Sequence[int]],
              num_frames: int | Sequence[int], *, median_filter_width: int = 7) -> list[WhisperAlignmentResult]:
        """Where the tokens of each window's text are."""
        refuse_unless("median_filter_width", median_filter_width, 7, "the width of openai-whisper")
        items = self.items_of(features)
        frames = [num_frames] * len(items) if isinstance(num_frames, (int, np.integer)) else list(num_frames)
        language = self.take_apart(start_sequence).language

        def one(index: int) -> WhisperAlignmentResult:
            tokens = [int(token) for token in text_tokens[index]]
            if not tokens:
                return WhisperAlignmentResult([], [])
            with self._hold(items[index], None) as window:
                seconds, probabilities = window.align(tokens, int(frames[index]), language=language)
            times = np.round(seconds / 0.02).astype(int).tolist()
            path = [(i, t) for i in range(len(tokens)) for t in range(times[i], max(times[i + 1], times[i] + 1))]
            return WhisperAlignmentResult([*path, (len(tokens), times[-1])], probabilities.tolist())
        return self.each(one, range(len(items)))
