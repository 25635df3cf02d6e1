"""max_whisper/openai/decoding.py - text of one window of 30 seconds, as openai-whisper's module of this name has it."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .._window import Floats, Window
from ._arrays import float_array, tensor
from .audio import N_FRAMES
from .tokenizer import Tokenizer, get_tokenizer

if TYPE_CHECKING:
    from .model import Whisper

_TASKS = ("transcribe", "translate", "lang_id")


@dataclass(frozen=True)
class DecodingOptions:
    """How a window is decoded. fp16 is accepted and changes nothing: the precision is chosen by load_model()."""

    task: str = "transcribe"                    # or "translate", into English, or "lang_id"
    language: str | None = None                 # None: it is detected
    temperature: float = 0.0
    sample_len: int | None = None               # tokens at most
    best_of: int | None = None                  # candidates, at a temperature above 0
    beam_size: int | None = None                # at temperature 0; None: greedy
    patience: float | None = None               # of the beam search
    length_penalty: float | None = None
    prompt: str | list[int] | None = None       # the text before
    prefix: str | list[int] | None = None       # the text that the window begins with
    suppress_tokens: str | Iterable[int] | None = "-1"
    suppress_blank: bool = True
    without_timestamps: bool = False
    max_initial_timestamp: float | None = 1.0
    fp16: bool = True


@dataclass(frozen=True)
class DecodingResult:
    """What a window came to."""

    audio_features: Any
    language: str
    language_probs: dict[str, float] | None = None
    tokens: list[int] = field(default_factory=list)
    text: str = ""
    avg_logprob: float = float("nan")
    no_speech_prob: float = float("nan")
    temperature: float = float("nan")
    compression_ratio: float = float("nan")


# ---- options ---------------------------------------------------------------------------------------------------------

def check_options(options: DecodingOptions) -> None:
    """ValueError for options that exclude each other, as in the reference."""
    if options.task not in _TASKS:
        raise ValueError(f"task: {options.task!r} is not one of {', '.join(_TASKS)}")
    if options.beam_size is not None and options.best_of is not None:
        raise ValueError("beam_size and best_of can't be given together")
    if options.temperature == 0 and options.best_of is not None:
        raise ValueError("best_of with greedy sampling (T=0) is not compatible")
    if options.patience is not None and options.beam_size is None:
        raise ValueError("patience requires beam_size to be given")
    if options.length_penalty is not None and not 0 <= options.length_penalty <= 1:
        raise ValueError("length_penalty (alpha) should be a value between 0 and 1")


def text_of_prefix(prefix: str | list[int] | None, tokenizer: Tokenizer) -> str | None:
    """The prefix as text; ValueError for tokens that the text would not become again."""
    if prefix is None or isinstance(prefix, str):
        return prefix or None
    text = tokenizer.decode(prefix)
    if tokenizer.encode(" " + text.strip()) != list(prefix):
        raise ValueError(f"prefix: the tokens {list(prefix)} are not those of a text; give the text")
    return text or None


def session_options(options: DecodingOptions, tokenizer: Tokenizer) -> dict[str, Any]:
    """What the library's session takes for these, apart from language, prompt and temperature."""
    suppress = options.suppress_tokens
    if suppress is not None and not isinstance(suppress, str):
        suppress = ",".join(str(int(token)) for token in suppress)
    return {
        "task": options.task,
        "sample_len": options.sample_len or 0,
        "best_of": options.best_of or 1,
        "beam_size": options.beam_size or 0,
        "patience": options.patience,
        "length_penalty": options.length_penalty,
        "prefix": text_of_prefix(options.prefix, tokenizer),
        "suppress_tokens": suppress or "",
        "suppress_blank": bool(options.suppress_blank),
        "without_timestamps": bool(options.without_timestamps),
        "max_initial_timestamp": options.max_initial_timestamp or None,   # 0 is no limit there
    }


# ---- windows ---------------------------------------------------------------------------------------------------------

def windows_of(model: Whisper, mel: Any) -> tuple[Floats, bool, bool]:
    """Log-mels [n, n_mels, 3000] or features [n, n_audio_ctx, n_audio_state]; whether they are features, and whether
    there was but one, without its axis. ValueError for any other shape."""
    array = float_array(mel)
    single = array.ndim == 2
    if single:
        array = array[None]
    dims = model.dims
    if array.ndim == 3 and array.shape[1:] == (dims.n_audio_ctx, dims.n_audio_state):
        return array, True, single
    if array.ndim == 3 and array.shape[1:] == (dims.n_mels, N_FRAMES):
        return array, False, single
    raise ValueError(f"mel: incorrect audio shape {tuple(array.shape)}: expected {dims.n_mels} by {N_FRAMES} "
                     "(pad_or_trim, log_mel_spectrogram with the model's n_mels)")


def prepare(window: Window, item: Floats, encoded: bool) -> Floats:
    """Puts a log-mel or features into a window; its features."""
    if not encoded:
        return window.encode(item)
    window.set_features(item)
    return item


def _probabilities(window: Window, tokenizer: Tokenizer) -> dict[str, float]:
    known = window.languages()
    return {code: known.get(code, 0.0) for code in tokenizer.all_language_codes}


def detect_language(model: Whisper, mel: Any, tokenizer: Tokenizer | None = None) -> tuple[Any, Any]:
    """The token of the most probable language, and the probabilities of all by their codes; lists of them for several
    windows. ValueError for an English-only model."""
    if tokenizer is None:
        tokenizer = get_tokenizer(model.is_multilingual, num_languages=model.num_languages)
    if tokenizer.language is None or tokenizer.language_token not in tokenizer.sot_sequence:
        raise ValueError("This model doesn't have language tokens so it can't perform lang id")
    items, encoded, single = windows_of(model, mel)
    probabilities = []
    with model.model.window() as window:
        for item in items:
            prepare(window, item, encoded)
            probabilities.append(_probabilities(window, tokenizer))
    best = [tokenizer.to_language_token(max(known, key=lambda code: known[code])) for known in probabilities]
    tokens = tensor(np.array(best, np.int64))
    return (tokens[0], probabilities[0]) if single else (tokens, probabilities)


def _decode_one(window: Window, tokenizer: Tokenizer, options: DecodingOptions, features: Any,
                number: int) -> DecodingResult:
    language = tokenizer.language
    if language is not None and (options.language is None or options.task == "lang_id"):
        probabilities = _probabilities(window, tokenizer)
        language = max(probabilities, key=lambda code: probabilities[code])
        if options.task == "lang_id":
            return DecodingResult(tensor(features), language, probabilities)
    prompt = options.prompt or []
    if isinstance(prompt, str):
        prompt = tokenizer.encode(" " + prompt.strip())
    made = window.decode([int(token) for token in prompt], language=language, temperature=options.temperature,
                         number=number)
    return DecodingResult(tensor(features), options.language or language or "en", None, made.tokens, made.text,
                          made.avg_logprob, made.no_speech_prob, options.temperature, made.compression_ratio)


def decode(model: Whisper, mel: Any, options: DecodingOptions = DecodingOptions(), **kwargs: Any) -> Any:
    """A DecodingResult for a log-mel of 30 seconds [n_mels, 3000] (or its features, of embed_audio); a list of them for
    several, [n, n_mels, 3000]. kwargs: options to change."""
    if kwargs:
        options = replace(options, **kwargs)
    check_options(options)
    tokenizer = get_tokenizer(model.is_multilingual, num_languages=model.num_languages,
                              language=options.language or "en", task=options.task)
    if options.task == "lang_id" and tokenizer.language is None:
        raise ValueError("This model doesn't have language tokens so it can't perform lang id")
    items, encoded, single = windows_of(model, mel)
    made = session_options(options, tokenizer)
    if options.task == "lang_id":
        made["task"] = "transcribe"
    with model.model.window(**made) as window:
        results = [_decode_one(window, tokenizer, options, prepare(window, item, encoded), number)
                   for number, item in enumerate(items)]
    return results[0] if single else results
