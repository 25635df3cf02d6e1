"""max_whisper/faster_whisper/transcribe.py - WhisperModel: faster-whisper's loop over windows, computed by the library.

Audio, speech detection, features and the language are done when transcribe() is called; the text of a window when its
first segment is asked for. compatibility: where the two peers differ, "openai" (openai-whisper) or "faster-whisper".
"""
from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from .._catalog import devices
from .._model import Model
from .._window import FRAMES, log_mel
from . import _words
from ._batched import BatchedInferencePipeline
from ._engine import EncoderOutput, Item, Key, Request, StorageView, Whisper, WhisperGenerationResult, key_of
from ._helpers import (COMPATIBILITIES, Bar, check_decoding, get_compression_ratio, get_suppressed_tokens,
                       restore_speech_timestamps, samples_from)
from ._types import Segment, TranscriptionInfo, TranscriptionOptions, Word
from ._words import merge_punctuations
from .audio import decode_audio, pad_or_trim
from .feature_extractor import FeatureExtractor
from .tokenizer import _LANGUAGE_CODES, Tokenizer, Vocabulary
from .utils import check_name, download_model, find_model, format_timestamp, get_end, get_logger
from .vad import SpeechTimestampsMap, VadOptions, collect_chunks, get_speech_timestamps

__all__ = [
    "BatchedInferencePipeline", "FeatureExtractor", "Segment", "SpeechTimestampsMap", "Tokenizer", "TranscriptionInfo",
    "TranscriptionOptions", "VadOptions", "WhisperModel", "Word", "collect_chunks", "decode_audio", "download_model",
    "format_timestamp", "get_compression_ratio", "get_ctranslate2_storage", "get_end", "get_logger",
    "get_speech_timestamps", "get_suppressed_tokens", "merge_punctuations", "pad_or_trim", "restore_speech_timestamps",
]

Features = npt.NDArray[np.float32]
Fallback = tuple[WhisperGenerationResult, float, float, float]
# compute_type: what it is on a GPU of compute capability 9.0, on another, and on a CPU
_PRECISIONS = {
    "default": ("exact", "exact", "exact"), "auto": ("exact", "exact", "exact"), "float32": ("exact", "exact", "exact"),
    "float16": ("f16", "f16", "exact"), "bfloat16": ("f16", "f16", "exact"), "int16": ("exact", "exact", "exact"),
    "int8": ("int8", "exact", "int8"), "int8_float32": ("int8", "exact", "int8"),
    "int8_float16": ("int8", "f16", "int8"), "int8_bfloat16": ("int8", "f16", "int8"),
}
default_compatibility = "openai"   # of models that are opened without saying; install_as() sets it


def set_compatibility(compatibility: str) -> None:
    """Whose algorithm it is in models that are opened without saying."""
    global default_compatibility
    if compatibility not in COMPATIBILITIES:
        raise ValueError(f"compatibility: {compatibility!r} is not one of {', '.join(COMPATIBILITIES)}")
    default_compatibility = compatibility


def get_ctranslate2_storage(segment: npt.ArrayLike) -> StorageView:
    """An array as encode() of .model takes it."""
    return StorageView.from_array(segment)


class WhisperModel:
    """A model. model_size_or_path: a name of available_models(), OWNER/NAME of the hub, a folder or a file in any
    format that max-whisper reads. A model that is on this machine is not fetched, whichever program put it there."""

    def __init__(self, model_size_or_path: str, device: str = "auto", device_index: int | list[int] = 0,
                 compute_type: str = "default", cpu_threads: int = 0, num_workers: int = 1,
                 download_root: str | None = None, local_files_only: bool = False,
                 files: dict[str, Any] | None = None, revision: str | None = None,
                 use_auth_token: str | bool | None = None, compatibility: str | None = None,
                 **model_kwargs: Any) -> None:
        self.logger = get_logger()
        self.compatibility = compatibility or default_compatibility
        if self.compatibility not in COMPATIBILITIES:
            raise ValueError(f"compatibility: {compatibility!r} is not one of {', '.join(COMPATIBILITIES)}")
        for name, value in model_kwargs.items():
            if name not in ("flash_attention", "tensor_parallel", "max_queued_batches"):
                raise TypeError(f"WhisperModel: there is no option {name!r}")
            if value:
                raise NotImplementedError(f"{name}: is CTranslate2's own, and has no counterpart here")
        where = self._device(device, device_index)
        options: dict[str, Any] = {"device": where, "threads": cpu_threads, "batch": max(num_workers, 1),
                                   "precision": self._precision(compute_type, where)}
        if files:
            model = self._from_memory(files, options)
        else:
            path = self._find(str(model_size_or_path), download_root, local_files_only, revision, use_auth_token)
            model = Model(path, **options)
        self.hf_tokenizer = Vocabulary(model)
        self.model = Whisper(model, self.hf_tokenizer, self._compute_type(options["precision"], model.info["device"]))
        self.feat_kwargs: dict[str, Any] = {"feature_size": model.dims["n_mels"]}
        self.feature_extractor = FeatureExtractor(**self.feat_kwargs)
        self.input_stride = 2
        self.num_samples_per_token = self.feature_extractor.hop_length * self.input_stride
        self.frames_per_second = self.feature_extractor.sampling_rate // self.feature_extractor.hop_length
        self.tokens_per_second = self.feature_extractor.sampling_rate // self.num_samples_per_token
        self.time_precision = 0.02
        self.max_length = 448

    @staticmethod
    def _device(device: str, index: int | list[int]) -> str:
        indices = list(index) if isinstance(index, (list, tuple)) else [index]
        if len(indices) != 1:
            raise NotImplementedError(f"device_index: {index}; a model is on one device: open one for each")
        return f"{device}:{indices[0]}" if device == "cuda" and indices[0] else device

    def _precision(self, compute_type: str, device: str) -> str:
        if compute_type not in _PRECISIONS:
            raise ValueError(f"Invalid compute type: {compute_type}")
        gpus = [one for one in devices() if one.usable and one.kind == "cuda" and device in ("auto", "cuda", one.id)]
        if device == "auto":
            device = "cuda" if gpus else "cpu"
        has_8_bits = bool(gpus) and gpus[0].features.startswith("sm_90,")
        precision = _PRECISIONS[compute_type][2 if device == "cpu" else 0 if has_8_bits else 1]
        if precision == "exact" and compute_type not in ("default", "auto", "float32"):
            self.logger.warning("compute_type %s: computed in float32 on %s, which is exact", compute_type, device)
        return precision

    @staticmethod
    def _compute_type(precision: str, device: str) -> str:
        """What .model says of a precision"""
        if precision == "int8":
            return "int8_float32" if device == "cpu" else "int8_float16"
        return "float16" if precision == "f16" else "float32"

    @staticmethod
    def _find(name: str, root: str | None, local_only: bool, revision: str | None, token: str | bool | None) -> str:
        if os.path.exists(name):
            return name
        check_name(name)
        found = None if revision else find_model(name, root)
        return found or download_model(name, None, local_only, root, revision, token)

    @staticmethod
    def _from_memory(files: dict[str, Any], options: dict[str, Any]) -> Model:
        """Files as the library reads them; they are gone as soon as the model is open."""
        taken: dict[str, Any] = dict(files)
        for name in ("tokenizer.json", "preprocessor_config.json"):
            files.pop(name, None)   # as faster-whisper does
        with tempfile.TemporaryDirectory(prefix="max-whisper-") as folder:
            for name, data in taken.items():
                with open(os.path.join(folder, os.path.basename(name)), "wb") as stream:
                    stream.write(data.read() if hasattr(data, "read") else data)
            return Model(folder, **options)

    @property
    def supported_languages(self) -> list[str]:
        """The codes of the languages that the model knows."""
        return list(_LANGUAGE_CODES) if self.model.is_multilingual else ["en"]

    # ---- transcription -------------------------------------------------------------------------------------------

    def transcribe(self, audio: str | BinaryIO | npt.NDArray[Any], language: str | None = None,
                   task: str = "transcribe", log_progress: bool = False, beam_size: int = 5, best_of: int = 5,
                   patience: float = 1, length_penalty: float = 1, repetition_penalty: float = 1,
                   no_repeat_ngram_size: int = 0,
                   temperature: float | list[float] | tuple[float, ...] = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0],
                   compression_ratio_threshold: float | None = 2.4, log_prob_threshold: float | None = -1.0,
                   no_speech_threshold: float | None = 0.6, condition_on_previous_text: bool = True,
                   prompt_reset_on_temperature: float = 0.5, initial_prompt: str | Iterable[int] | None = None,
                   prefix: str | None = None, suppress_blank: bool = True, suppress_tokens: list[int] | None = [-1],
                   without_timestamps: bool = False, max_initial_timestamp: float = 1.0,
                   word_timestamps: bool = False, prepend_punctuations: str = "\"'“¿([{-",
                   append_punctuations: str = "\"'.。,，!！?？:：”)]}、", multilingual: bool = False,
                   vad_filter: bool = False, vad_parameters: dict[str, Any] | VadOptions | None = None,
                   max_new_tokens: int | None = None, chunk_length: int | None = None,
                   clip_timestamps: str | list[float] = "0", hallucination_silence_threshold: float | None = None,
                   hotwords: str | None = None, language_detection_threshold: float | None = 0.5,
                   language_detection_segments: int = 1) -> tuple[Iterable[Segment], TranscriptionInfo]:
        """A generator of segments, and what is known about the recording. docs/python.md lists the options."""
        multilingual = self._check_multilingual(multilingual, task)
        frames = self._check_chunk_length(chunk_length)
        if hallucination_silence_threshold is not None and not word_timestamps:
            raise ValueError("hallucination_silence_threshold: needs word_timestamps")
        samples = samples_from(audio)
        rate = self.feature_extractor.sampling_rate
        duration = samples.shape[0] / rate
        self.logger.info("Processing audio with duration %s", format_timestamp(duration))
        chunks = used = None
        if vad_filter and clip_timestamps == "0":
            used = VadOptions(**vad_parameters) if isinstance(vad_parameters, dict) else vad_parameters or VadOptions()
            chunks = get_speech_timestamps(samples, used)
            samples = np.concatenate(collect_chunks(samples, chunks)[0], axis=0)
            self.logger.info("VAD filter removed %s of audio", format_timestamp(duration - samples.shape[0] / rate))
        elif vad_filter:
            self.logger.warning("vad_filter: has no effect beside clip_timestamps")
        features = self.feature_extractor(samples)
        begin = float((clip_timestamps.split(",")[0] or 0) if isinstance(clip_timestamps, str)
                      else (list(clip_timestamps) or [0])[0])
        language, probability, all_of_them = self._find_language(
            language, samples, features, begin, language_detection_segments, language_detection_threshold)
        tokenizer = Tokenizer(self.hf_tokenizer, self.model.is_multilingual, task=task, language=language)
        options = TranscriptionOptions(
            beam_size=beam_size, best_of=best_of, patience=patience, length_penalty=length_penalty,
            repetition_penalty=repetition_penalty, no_repeat_ngram_size=no_repeat_ngram_size,
            log_prob_threshold=log_prob_threshold, no_speech_threshold=no_speech_threshold,
            compression_ratio_threshold=compression_ratio_threshold,
            condition_on_previous_text=condition_on_previous_text,
            prompt_reset_on_temperature=prompt_reset_on_temperature,
            temperatures=list(temperature) if isinstance(temperature, (list, tuple)) else [temperature],
            initial_prompt=initial_prompt, prefix=prefix, suppress_blank=suppress_blank,
            suppress_tokens=get_suppressed_tokens(tokenizer, suppress_tokens) if suppress_tokens else suppress_tokens,
            without_timestamps=without_timestamps, max_initial_timestamp=max_initial_timestamp,
            word_timestamps=word_timestamps, prepend_punctuations=prepend_punctuations,
            append_punctuations=append_punctuations, multilingual=multilingual, max_new_tokens=max_new_tokens,
            clip_timestamps=clip_timestamps, hallucination_silence_threshold=hallucination_silence_threshold,
            hotwords=hotwords)
        self._key(tokenizer, options)   # an option that cannot be raises now
        segments: Iterable[Segment] = self._segments(features, tokenizer, options, log_progress, None, frames)
        if chunks:
            segments = restore_speech_timestamps(segments, chunks, rate)
        return segments, TranscriptionInfo(language, probability, duration, samples.shape[0] / rate, all_of_them,
                                           options, used)

    def _check_multilingual(self, multilingual: bool, task: str) -> bool:
        if task == "translate" and not self.model.is_multilingual:
            raise ValueError("task: translate needs a multilingual model")
        if multilingual and not self.model.is_multilingual:
            self.logger.warning("The current model is English-only but the multilingual parameter is set to True; "
                                "setting to False instead.")
        return bool(multilingual and self.model.is_multilingual)

    def _check_chunk_length(self, chunk_length: float | None) -> int:
        """Frames of a window."""
        if chunk_length is None:
            return self.feature_extractor.nb_max_frames
        if not 1 <= chunk_length <= 30:
            raise ValueError(f"chunk_length: {chunk_length} is not from 1 to 30 seconds, which a window can hold")
        return int(chunk_length * self.frames_per_second)

    # ---- the language --------------------------------------------------------------------------------------------

    def _find_language(self, language: str | None, samples: npt.NDArray[np.float32], features: Features, begin: float,
                       n_segments: int, threshold: float | None) -> tuple[str, float, list[tuple[str, float]] | None]:
        if language is not None:
            if not self.model.is_multilingual and language != "en":
                self.logger.warning("The current model is English-only but the language parameter is set to '%s'; "
                                    "using 'en' instead.", language)
                language = "en"
            return language, 1, None
        if not self.model.is_multilingual:
            return "en", 1, None
        if self.compatibility == "openai":   # hears the first 30 seconds, and silence after a shorter recording
            if features.shape[-1] <= FRAMES:
                features = log_mel(samples, self.model.n_mels, 30 * self.feature_extractor.sampling_rate)[:, :FRAMES]
        else:
            seek = int(begin * self.frames_per_second)
            features = features[..., seek if seek < features.shape[-1] - 1 else 0:]
        found = self.detect_language(features=features, language_detection_segments=n_segments,
                                     language_detection_threshold=0.5 if threshold is None else threshold)
        self.logger.info("Detected language '%s' with probability %.2f", found[0], found[1])
        return found

    def detect_language(self, audio: npt.NDArray[Any] | None = None, features: Features | None = None,
                        vad_filter: bool = False, vad_parameters: dict[str, Any] | VadOptions | None = None,
                        language_detection_segments: int = 1,
                        language_detection_threshold: float = 0.5) -> tuple[str, float, list[tuple[str, float]]]:
        """The language of samples or features, its probability, and those of all languages, best first. Windows are
        heard until one is sure; if none is, the one that most of them have."""
        assert audio is not None or features is not None, "Either `audio` or `features` must be provided."
        if language_detection_segments < 1:
            raise ValueError(f"language_detection_segments: {language_detection_segments} is not 1 or more")
        extractor = self.feature_extractor
        if audio is not None:
            samples = samples_from(audio)
            if vad_filter:
                chunks = get_speech_timestamps(samples, vad_parameters)
                samples = np.concatenate(collect_chunks(samples, chunks)[0], axis=0)
            features = extractor(samples[:language_detection_segments * extractor.n_samples])
        assert features is not None
        features = features[..., :language_detection_segments * extractor.nb_max_frames]
        votes: dict[str, list[float]] = {}
        probabilities: list[tuple[str, float]] = []
        for at in range(0, features.shape[-1], extractor.nb_max_frames):
            mel = pad_or_trim(features[..., at:at + extractor.nb_max_frames])
            probabilities = self.model.languages(self.model.items_of(mel)[0])
            language, probability = probabilities[0]
            if probability > language_detection_threshold:
                return language, probability, probabilities
            votes.setdefault(language, []).append(probability)
        language = max(votes, key=lambda code: len(votes[code]))
        return language, max(votes[language]), probabilities

    # ---- windows -------------------------------------------------------------------------------------------------

    def encode(self, features: npt.ArrayLike) -> EncoderOutput:
        """Windows of log-mel [n_mels, frames] or [batch, n_mels, frames], to be asked about."""
        return self.model.encode(features)

    def get_prompt(self, tokenizer: Tokenizer, previous_tokens: Sequence[int], without_timestamps: bool = False,
                   prefix: str | None = None, hotwords: str | None = None) -> list[int]:
        """The tokens before a window's text. Hotwords come first and are never cut away by the text before."""
        room = self.max_length // 2 - 1
        hints = tokenizer.encode(" " + hotwords.strip())[:room] if hotwords and not prefix else []
        left = room - len(hints)
        before = [*hints, *(list(previous_tokens)[-left:] if left else [])]
        prompt = [tokenizer.sot_prev, *before] if before else []
        prompt += tokenizer.sot_sequence
        if without_timestamps:
            prompt.append(tokenizer.no_timestamps)
        if prefix:
            if not without_timestamps:
                prompt.append(tokenizer.timestamp_begin)
            prompt += tokenizer.encode(" " + prefix.strip())[:room]
        return prompt

    def _key(self, tokenizer: Tokenizer, options: TranscriptionOptions) -> Key:
        """The library's options for these."""
        return key_of(task="translate" if tokenizer.task == tokenizer.translate else "transcribe",
                      without_timestamps=options.without_timestamps, beam_size=options.beam_size,
                      patience=options.patience, length_penalty=options.length_penalty, best_of=options.best_of,
                      repetition_penalty=options.repetition_penalty,
                      no_repeat_ngram_size=options.no_repeat_ngram_size, sample_len=options.max_new_tokens,
                      suppress_blank=options.suppress_blank, suppress_tokens=options.suppress_tokens,
                      max_initial_timestamp=options.max_initial_timestamp)

    def generate_with_fallback(self, encoder_output: Any, prompt: Sequence[int], tokenizer: Tokenizer,
                               options: TranscriptionOptions, number: int = 0) -> Fallback:
        """The text at the first temperature that gives a good one: result, mean log probability, temperature,
        compression ratio. number: of the window, for the sampling."""
        check_decoding(len(prompt), options.max_new_tokens, self.max_length)
        item: Item = self.model.items_of(encoder_output)[0]
        request: Request = self.model.take_apart(prompt)
        key = self._key(tokenizer, options)
        tried: list[Fallback] = []
        for attempt, temperature in enumerate(options.temperatures):
            text = self.model.text(item, key, request, temperature, number * len(options.temperatures) + attempt)
            result = self.model.result_of(text, request, options.length_penalty)
            ratio = get_compression_ratio(tokenizer.decode(result.sequences_ids[0]).strip())
            tried.append((result, text.avg_logprob, temperature, ratio))
            if not self._is_bad(text.avg_logprob, ratio, text.no_speech_prob, options):
                return tried[-1]
        if self.compatibility == "openai":
            return tried[-1]
        limit = options.compression_ratio_threshold
        fair = [one for one in tried if limit is not None and one[3] <= limit]
        best = max(fair or tried, key=lambda one: one[1])
        return (best[0], best[1], tried[-1][2], best[3])   # the prompt is reset as after the last temperature

    @staticmethod
    def _is_bad(logprob: float, ratio: float, no_speech: float, options: TranscriptionOptions) -> bool:
        unlikely = options.log_prob_threshold is not None and logprob < options.log_prob_threshold
        repeats = options.compression_ratio_threshold is not None and ratio > options.compression_ratio_threshold
        silent = options.no_speech_threshold is not None and no_speech > options.no_speech_threshold and unlikely
        return (unlikely or repeats) and not silent

    @staticmethod
    def is_silence(logprob: float, no_speech: float, options: TranscriptionOptions) -> bool:
        """Whether a window has no speech in it: it says so, and what was decoded is improbable."""
        if options.no_speech_threshold is None or no_speech <= options.no_speech_threshold:
            return False
        return options.log_prob_threshold is None or logprob <= options.log_prob_threshold

    def _split_segments_by_timestamps(self, tokenizer: Tokenizer, tokens: list[int], time_offset: float,
                                      segment_size: int, segment_duration: float,
                                      seek: int) -> tuple[list[dict[str, Any]], int, bool]:
        """Segments between pairs of timestamps, where the next window begins, and whether a single one ends it all."""
        first = tokenizer.timestamp_begin
        stamps = [token >= first for token in tokens]
        single_end = stamps[-2:] == [False, True]
        cuts = [i for i in range(1, len(tokens)) if stamps[i] and stamps[i - 1]]
        if not cuts:
            last = next((token for token in reversed(tokens) if token >= first), first)
            duration = (last - first) * self.time_precision if last != first else segment_duration
            segment = {"seek": seek, "start": time_offset, "end": time_offset + duration, "tokens": tokens}
            return [segment], seek + segment_size, single_end
        if single_end:
            cuts.append(len(tokens))
        segments = []
        for begin, end in zip([0, *cuts], cuts):
            part = tokens[begin:end]
            segments.append({"seek": seek, "start": time_offset + (part[0] - first) * self.time_precision,
                             "end": time_offset + (part[-1] - first) * self.time_precision, "tokens": part})
        step = segment_size if single_end else (tokens[cuts[-1] - 1] - first) * self.input_stride
        return segments, seek + step, single_end

    def generate_segments(self, features: Features, tokenizer: Tokenizer, options: TranscriptionOptions,
                          log_progress: bool = False, encoder_output: Any = None) -> Iterator[Segment]:
        """The segments of a recording's features."""
        return self._segments(features, tokenizer, options, log_progress, encoder_output,
                              self.feature_extractor.nb_max_frames)

    def _segments(self, features: Features, tokenizer: Tokenizer, options: TranscriptionOptions, log_progress: bool,
                  encoder_output: Any, window_frames: int) -> Iterator[Segment]:
        content_frames = features.shape[-1] - 1
        per_frame = self.feature_extractor.time_per_frame
        if isinstance(options.clip_timestamps, str):
            options.clip_timestamps = [float(time) for time in options.clip_timestamps.split(",") if time]
        points = [round(time * self.frames_per_second) for time in options.clip_timestamps] or [0]
        points += [content_frames] if len(points) % 2 else []
        all_tokens: list[int] = []
        if isinstance(options.initial_prompt, str):
            all_tokens += tokenizer.encode(" " + options.initial_prompt.strip())
        elif options.initial_prompt is not None:
            all_tokens += [int(token) for token in options.initial_prompt]
        reset_since = n_given = n_windows = seek = 0
        last_speech = 0.0
        bar = Bar(log_progress, content_frames * per_frame)
        for clip_begin, clip_end in zip(points[::2], points[1::2]):
            clip_end = min(clip_end, content_frames)
            seek = max(seek, clip_begin)
            while seek < clip_end:
                here, offset = seek, seek * per_frame
                size = min(window_frames, content_frames - seek, clip_end - seek)
                if encoder_output is None or seek > 0:
                    encoder_output = self.encode(pad_or_trim(features[:, seek:seek + size]))
                if options.multilingual:
                    code = self.model.languages(encoder_output.items[0])[0][0]
                    tokenizer.language, tokenizer.language_code = self.hf_tokenizer.token_to_id(f"<|{code}|>"), code
                prompt = self.get_prompt(tokenizer, all_tokens[reset_since:], options.without_timestamps,
                                         options.prefix if seek == 0 else None, options.hotwords)
                result, logprob, temperature, ratio = self.generate_with_fallback(encoder_output, prompt, tokenizer,
                                                                                  options, n_windows)
                n_windows += 1
                if self.is_silence(logprob, result.no_speech_prob, options):
                    seek += size
                    bar.add(size * per_frame)
                    continue
                found, seek, single_end = self._split_segments_by_timestamps(
                    tokenizer, result.sequences_ids[0], offset, size, size * per_frame, seek)
                if options.word_timestamps:
                    window = (offset, offset + size * per_frame, (here + window_frames) * per_frame)
                    seek, last_speech = self._add_words(found, tokenizer, encoder_output, options, seek, single_end,
                                                        window, content_frames, last_speech)
                for one in found:
                    text = tokenizer.decode(one["tokens"])
                    if one["start"] == one["end"] or not text.strip():
                        continue
                    all_tokens += one["tokens"]
                    n_given += 1
                    yield Segment(n_given, here, one["start"], one["end"], text, one["tokens"], logprob, ratio,
                                  result.no_speech_prob,
                                  [Word(**word) for word in one["words"]] if options.word_timestamps else None,
                                  temperature)
                if not options.condition_on_previous_text or temperature > options.prompt_reset_on_temperature:
                    reset_since = len(all_tokens)
                bar.add((min(content_frames, seek) - here) * per_frame)
        bar.close()

    # ---- words ---------------------------------------------------------------------------------------------------

    def _add_words(self, found: list[dict[str, Any]], tokenizer: Tokenizer, encoded: Any,
                   options: TranscriptionOptions, seek: int, single_end: bool, window: tuple[float, float, float],
                   content_frames: int, last_speech: float) -> tuple[int, float]:
        """Words into the segments of a window; where the next one begins, and where speech has ended so far."""
        fps = self.frames_per_second
        here = round(window[0] * fps)
        self.add_word_timestamps([found], tokenizer, encoded, round((window[1] - window[0]) * fps),
                                 options.prepend_punctuations, options.append_punctuations, last_speech)
        end = get_end(found)
        if not single_end and end is not None and end > window[0]:
            seek = round(end * fps)
        if options.hallucination_silence_threshold is not None:
            total = content_frames / fps
            goes_on, nothing = _words.skip_silence(found, options.hallucination_silence_threshold, window, total,
                                                   last_speech)
            if nothing:
                found.clear()
                return here + round((goes_on - window[0]) * fps), last_speech   # type: ignore[operator]
            seek = seek if goes_on is None else content_frames if goes_on == total else round(goes_on * fps)
        end = get_end(found)
        return seek, last_speech if end is None else end

    def add_word_timestamps(self, segments: list[list[dict[str, Any]]], tokenizer: Tokenizer, encoder_output: Any,
                            num_frames: int | list[int], prepend_punctuations: str, append_punctuations: str,
                            last_speech_timestamp: float) -> float:
        """Gives each segment (a list of them for each window) its "words"; returns where speech ends."""
        per_segment = [[[token for token in one["tokens"] if token < tokenizer.eot] for one in window]
                       for window in segments]
        alignments = self.find_alignment(tokenizer, [sum(tokens, []) for tokens in per_segment], encoder_output,
                                         num_frames)
        for window, tokens, alignment in zip(segments, per_segment, alignments):
            median, longest = _words.limit_sentence_ends(alignment)
            merge_punctuations(alignment, prepend_punctuations, append_punctuations)
            at = 0
            for one, own in zip(window, tokens):
                words, at = _words.take_words(alignment, at, len(own), window[0]["seek"] / self.frames_per_second)
                if words:
                    _words.fit_to_segment(words, one, median, longest, last_speech_timestamp)
                    last_speech_timestamp = one["end"]
                one["words"] = words
        return last_speech_timestamp

    def find_alignment(self, tokenizer: Tokenizer, text_tokens: list[list[int]], encoder_output: Any,
                       num_frames: int | list[int], median_filter_width: int = 7) -> list[list[dict[str, Any]]]:
        """The words of each window with their times in it: word, tokens, start, end, probability."""
        if not text_tokens:
            return []
        results = self.model.align(encoder_output, tokenizer.sot_sequence, text_tokens, num_frames,
                                   median_filter_width=median_filter_width)
        made = []
        for result, tokens in zip(results, text_tokens):
            begins = [time for i, (token, time) in enumerate(result.alignments)
                      if i == 0 or token != result.alignments[i - 1][0]]
            times = [time / self.tokens_per_second for time in begins]
            made.append(_words.words_of(tokenizer, tokens, times, result.text_token_probs) if tokens else [])
        return made
