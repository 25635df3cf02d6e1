"""max_whisper/openai/transcribe.py - transcribe(), as openai-whisper's module of this name has it: a recording of any
length into its dictionary of text, segments and language. The loop over windows is the library's."""
from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from .._errors import Error, check_names
from .._transcription import Transcription
from .._types import Progress, Segment
from ._arrays import float_array
from .audio import FRAMES_PER_SECOND
from .decoding import DecodingOptions, check_options, session_options
from .tokenizer import LANGUAGES, get_tokenizer
from .utils import format_timestamp, make_safe

if TYPE_CHECKING:
    from .model import Whisper


def _check_decode_options(given: dict[str, Any], temperatures: Sequence[float]) -> DecodingOptions:
    """The options, checked for each temperature: sampling has no beam, and the best path no candidates."""
    check_names("transcribe", given, [item.name for item in fields(DecodingOptions) if item.name != "temperature"])
    if given.get("prompt") is not None:
        raise ValueError("prompt: transcribe() gives each window the text before it; use initial_prompt")
    for temperature in temperatures:
        without = ("beam_size", "patience") if temperature > 0 else ("best_of",)
        options = DecodingOptions(**{name: value for name, value in given.items() if name not in without},
                                  temperature=temperature)
        check_options(options)
        if options.task == "lang_id":
            raise ValueError("task: 'lang_id' is for decode(); transcribe() takes 'transcribe' and 'translate'")
    return DecodingOptions(**given)


def _spoken(model: Whisper, options: DecodingOptions) -> str | None:
    """The language for the library: a code, or None to detect it; ValueError if it is unknown."""
    if options.language is None:
        return None
    code = get_tokenizer(True, num_languages=100, language=options.language).language
    if model.is_multilingual or code == "en":
        return code
    warnings.warn(f"{model!r} is an English-only model but language is {options.language!r}; using English instead",
                  stacklevel=4)
    return None


def _segment(segment: Segment) -> dict[str, Any]:
    made: dict[str, Any] = {
        "id": segment.id, "seek": segment.seek, "start": segment.start, "end": segment.end, "text": segment.text,
        "tokens": segment.tokens, "temperature": segment.temperature, "avg_logprob": segment.avg_logprob,
        "compression_ratio": segment.compression_ratio, "no_speech_prob": segment.no_speech_prob}
    if segment.words is not None or not segment.tokens:   # one that was cleared has them there, too
        made["words"] = [{"word": word.word, "start": word.start, "end": word.end, "probability": word.probability}
                         for word in segment.words or ()]
    return made


def _bar() -> Callable[[Progress], None] | None:
    """tqdm's bar over the frames of the recording, where tqdm is installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    bars: list[Any] = []

    def report(progress: Progress) -> None:
        if progress.stage != "text" or not progress.total:
            return
        if not bars:
            bars.append(tqdm(total=round(progress.total * FRAMES_PER_SECOND), unit="frames"))
        bars[0].update(round(progress.done * FRAMES_PER_SECOND) - bars[0].n)
    return report


def _run(work: Transcription, verbose: bool | None, detects: bool) -> tuple[list[dict[str, Any]], str, str]:
    """Segments, text and language; prints what verbose asks for."""
    if detects and verbose:
        print("Detecting language using up to the first 30 seconds. Use `--language` to specify the language")
    if detects and verbose is not None:
        print(f"Detected language: {LANGUAGES.get(work.info.language or '', '').title()}")
    segments = []
    for segment in work:
        if verbose:
            times = f"[{format_timestamp(segment.start)} --> {format_timestamp(segment.end)}]"
            print(make_safe(f"{times} {segment.text}"))
        segments.append(_segment(segment))
    result = work.result()
    return segments, result.text, result.language or "en"


def _samples(audio: Any) -> Any:
    """A path as it is; samples as an array, from a tensor too."""
    return audio if isinstance(audio, (str, os.PathLike)) or hasattr(audio, "read") else float_array(audio)


def transcribe(model: Whisper, audio: Any, *, verbose: bool | None = None,
               temperature: float | Sequence[float] = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
               compression_ratio_threshold: float | None = 2.4, logprob_threshold: float | None = -1.0,
               no_speech_threshold: float | None = 0.6, condition_on_previous_text: bool = True,
               initial_prompt: str | None = None, carry_initial_prompt: bool = False, word_timestamps: bool = False,
               prepend_punctuations: str = "\"'“¿([{-", append_punctuations: str = "\"'.。,，!！?？:：”)]}、",
               clip_timestamps: str | list[float] = "0", hallucination_silence_threshold: float | None = None,
               **decode_options: Any) -> dict[str, Any]:
    """Transcribes a file, or samples at 16 kHz: {"text", "segments", "language"}.

    verbose: True prints each segment, False shows a progress bar (with tqdm), None nothing. temperature: one, or those
    to try until the text passes the thresholds. decode_options: those of DecodingOptions, except prompt.
    """
    temperatures = (temperature,) if isinstance(temperature, (int, float)) else tuple(temperature)
    options = _check_decode_options(decode_options, temperatures)
    if decode_options.get("fp16") and model.model.device == "cpu":
        warnings.warn("FP16 is not supported on CPU; using FP32 instead", stacklevel=2)
    if word_timestamps and options.task == "translate":
        warnings.warn("Word-level timestamps on translations may not be reliable.", stacklevel=2)
    if hallucination_silence_threshold is not None and not word_timestamps:
        warnings.warn("hallucination_silence_threshold: nothing is done without word_timestamps=True", stacklevel=2)
        hallucination_silence_threshold = None
    tokenizer = get_tokenizer(model.is_multilingual, num_languages=model.num_languages, task=options.task)
    spoken = _spoken(model, options)
    try:
        work = model.model.transcribe(
            _samples(audio), language=spoken, temperature=temperatures,
            compression_ratio_threshold=compression_ratio_threshold, logprob_threshold=logprob_threshold,
            no_speech_threshold=no_speech_threshold, condition_on_previous_text=condition_on_previous_text,
            initial_prompt=initial_prompt, carry_initial_prompt=carry_initial_prompt, word_timestamps=word_timestamps,
            prepend_punctuations=prepend_punctuations, append_punctuations=append_punctuations,
            clip_timestamps=clip_timestamps, hallucination_silence_threshold=hallucination_silence_threshold,
            start_s=0.0, progress=_bar() if verbose is False else None, **session_options(options, tokenizer))
    except Error as error:
        if isinstance(error, (ValueError, MemoryError)) or not isinstance(audio, (str, os.PathLike)):
            raise
        raise RuntimeError(f"Failed to load audio: {error}") from error
    with work:
        segments, text, language = _run(work, verbose, model.is_multilingual and options.language is None)
    return {"text": text, "segments": segments, "language": options.language or language}
