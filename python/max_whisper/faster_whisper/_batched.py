"""max_whisper/faster_whisper/_batched.py - BatchedInferencePipeline: stretches of speech, decoded together.

Each stretch of at most 30 seconds stands for itself: no text before it. batch_size of them are on threads, which the
library merges into batches; results do not depend on batch_size.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ._engine import EncoderOutput
from ._helpers import (Bar, check_decoding, get_compression_ratio, get_suppressed_tokens, restore_speech_timestamps,
                       samples_from)
from ._types import Segment, TranscriptionInfo, TranscriptionOptions, Word
from .audio import pad_or_trim
from .tokenizer import Tokenizer
from .utils import format_timestamp
from .vad import Chunk, VadOptions, collect_chunks, get_speech_timestamps

if TYPE_CHECKING:
    from .transcribe import WhisperModel

Pieces = tuple[list[npt.NDArray[Any]], list[dict[str, Any]]]


class BatchedInferencePipeline:
    """Transcribes with a WhisperModel, several stretches of speech at a time."""

    def __init__(self, model: WhisperModel) -> None:
        self.model = model
        self.last_speech_timestamp = 0.0

    def transcribe(self, audio: str | BinaryIO | npt.NDArray[Any], language: str | None = None,
                   task: str = "transcribe", log_progress: bool = False, beam_size: int = 5, best_of: int = 5,
                   patience: float = 1, length_penalty: float = 1, repetition_penalty: float = 1,
                   no_repeat_ngram_size: int = 0,
                   temperature: float | list[float] | tuple[float, ...] = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0],
                   compression_ratio_threshold: float | None = 2.4, log_prob_threshold: float | None = -1.0,
                   no_speech_threshold: float | None = 0.6, condition_on_previous_text: bool = True,
                   prompt_reset_on_temperature: float = 0.5, initial_prompt: str | Iterable[int] | None = None,
                   prefix: str | None = None, suppress_blank: bool = True, suppress_tokens: list[int] | None = [-1],
                   without_timestamps: bool = True, max_initial_timestamp: float = 1.0,
                   word_timestamps: bool = False, prepend_punctuations: str = "\"'“¿([{-",
                   append_punctuations: str = "\"'.。,，!！?？:：”)]}、", multilingual: bool = False,
                   vad_filter: bool = True, vad_parameters: dict[str, Any] | VadOptions | None = None,
                   max_new_tokens: int | None = None, chunk_length: int | None = None,
                   clip_timestamps: list[dict[str, float]] | None = None,
                   hallucination_silence_threshold: float | None = None, batch_size: int = 8,
                   hotwords: str | None = None, language_detection_threshold: float | None = 0.5,
                   language_detection_segments: int = 1) -> tuple[Iterable[Segment], TranscriptionInfo]:
        """A generator of segments, and what is known about the recording. docs/python.md lists the options."""
        model = self.model
        multilingual = model._check_multilingual(multilingual, task)
        model._check_chunk_length(chunk_length)
        if hallucination_silence_threshold is not None:
            raise NotImplementedError("hallucination_silence_threshold: is not for stretches that stand for "
                                      "themselves; use WhisperModel.transcribe")
        if batch_size < 1:
            raise ValueError(f"batch_size: {batch_size} is not 1 or more")
        samples = samples_from(audio)
        rate = model.feature_extractor.sampling_rate
        duration = samples.shape[0] / rate
        model.logger.info("Processing audio with duration %s", format_timestamp(duration))
        longest = chunk_length or model.feature_extractor.chunk_length
        used = None
        if clip_timestamps:
            clips: list[Chunk] = [{"start": int(clip["start"] * rate), "end": int(clip["end"] * rate)}
                                  for clip in clip_timestamps]
            pieces = self._clips(samples, clips, rate)
        else:
            used = self._vad_options(vad_parameters, longest) if vad_filter else None
            clips = self._speech(samples, used, duration, longest)
            pieces = collect_chunks(samples, clips, max_duration=longest)
        heard = sum(clip["end"] - clip["start"] for clip in clips) / rate
        model.logger.info("VAD filter removed %s of audio", format_timestamp(max(duration - heard, 0.0)))
        features = [model.feature_extractor(piece)[..., :-1] for piece in pieces[0]] if heard else []
        speech = np.concatenate(pieces[0]) if heard else samples[:0]
        whole = model.feature_extractor(speech[:language_detection_segments * model.feature_extractor.n_samples])
        language, probability, all_of_them = model._find_language(
            language, speech, whole, 0.0, language_detection_segments, language_detection_threshold)
        tokenizer = Tokenizer(model.hf_tokenizer, model.model.is_multilingual, task=task, language=language)
        temperatures = list(temperature) if isinstance(temperature, (list, tuple)) else [temperature]
        options = TranscriptionOptions(
            beam_size=beam_size, best_of=best_of, patience=patience, length_penalty=length_penalty,
            repetition_penalty=repetition_penalty, no_repeat_ngram_size=no_repeat_ngram_size,
            log_prob_threshold=log_prob_threshold, no_speech_threshold=no_speech_threshold,
            compression_ratio_threshold=compression_ratio_threshold, condition_on_previous_text=False,
            prompt_reset_on_temperature=prompt_reset_on_temperature,
            temperatures=temperatures[:1] if model.compatibility == "faster-whisper" else temperatures,
            initial_prompt=initial_prompt, prefix=prefix, suppress_blank=suppress_blank,
            suppress_tokens=get_suppressed_tokens(tokenizer, suppress_tokens) if suppress_tokens else suppress_tokens,
            without_timestamps=without_timestamps, max_initial_timestamp=max_initial_timestamp,
            word_timestamps=word_timestamps, prepend_punctuations=prepend_punctuations,
            append_punctuations=append_punctuations, multilingual=multilingual, max_new_tokens=max_new_tokens,
            clip_timestamps=clips, hallucination_silence_threshold=None, hotwords=hotwords)
        model._key(tokenizer, options)   # an option that cannot be raises now
        mels = [pad_or_trim(one) for one in features]
        segments: Iterable[Segment] = self._generate(mels, tokenizer, pieces[1], batch_size, options, log_progress)
        if not clip_timestamps:
            segments = restore_speech_timestamps(segments, clips, rate)
        return segments, TranscriptionInfo(language, probability, duration, heard, all_of_them, options, used)

    @staticmethod
    def _vad_options(given: dict[str, Any] | VadOptions | None, longest: float) -> VadOptions:
        if given is None:
            return VadOptions(max_speech_duration_s=longest, min_silence_duration_ms=160)
        if isinstance(given, dict):
            return VadOptions(**{**given, "max_speech_duration_s": longest})
        return given

    @staticmethod
    def _speech(samples: npt.NDArray[np.float32], options: VadOptions | None, duration: float,
                longest: float) -> list[Chunk]:
        if options:
            return get_speech_timestamps(samples, options)
        if duration < longest:
            return [{"start": 0, "end": samples.shape[0]}]
        raise RuntimeError("No clip timestamps found. Set 'vad_filter' to True or provide 'clip_timestamps'.")

    def _clips(self, samples: npt.NDArray[np.float32], clips: list[Chunk], rate: int) -> Pieces:
        about = []
        for i, clip in enumerate(clips):
            seconds = (clip["end"] - clip["start"]) / rate
            if seconds > 30:
                self.model.logger.warning("Segment %d is longer than 30 seconds, only the first 30 seconds will be "
                                          "transcribed", i)
            about.append({"offset": clip["start"] / rate, "duration": seconds, "segments": [clip]})
        return [samples[clip["start"]:clip["end"]] for clip in clips], about

    def _generate(self, mels: list[npt.NDArray[np.float32]], tokenizer: Tokenizer, about: list[dict[str, Any]],
                  batch_size: int, options: TranscriptionOptions, log_progress: bool) -> Iterator[Segment]:
        self.model.model.make_room(min(batch_size, len(mels)))
        bar = Bar(log_progress, sum(one["duration"] for one in about))
        n_given = 0
        for at in range(0, len(mels), batch_size):
            metadata = about[at:at + batch_size]
            for window, one in zip(self.forward(np.stack(mels[at:at + batch_size]), tokenizer, metadata, options),
                                   metadata):
                for segment in window:
                    n_given += 1
                    words = [Word(**word) for word in segment["words"]] if options.word_timestamps else None
                    yield Segment(n_given, segment["seek"], round(segment["start"], 3), round(segment["end"], 3),
                                  segment["text"], segment["tokens"], segment["avg_logprob"],
                                  segment["compression_ratio"], segment["no_speech_prob"], words,
                                  segment["temperature"])
                bar.add(one["duration"])
        bar.close()
        self.last_speech_timestamp = 0.0

    def forward(self, features: npt.NDArray[np.float32], tokenizer: Tokenizer, chunks_metadata: list[dict[str, Any]],
                options: TranscriptionOptions) -> list[list[dict[str, Any]]]:
        """The segments of each window, as dictionaries."""
        model = self.model
        encoded, outputs = self.generate_segment_batched(features, tokenizer, options)
        windows, sizes = [], []
        for about, output in zip(chunks_metadata, outputs):
            sizes.append(min(int(ceil(about["duration"]) * model.frames_per_second), 3000))
            found, _, _ = model._split_segments_by_timestamps(tokenizer, output["tokens"], about["offset"], sizes[-1],
                                                              about["duration"], 0)
            own = {name: output[name] for name in ("avg_logprob", "no_speech_prob", "temperature")}
            seek = int(about["offset"] * model.frames_per_second)
            made = []
            for one in found:
                text = tokenizer.decode(one["tokens"])
                ratio = get_compression_ratio(text)
                made.append({**one, **own, "text": text, "seek": seek, "compression_ratio": ratio})
            windows.append([] if output["silent"] else made)
        if options.word_timestamps:
            kept = [i for i, window in enumerate(windows) if window]
            self.last_speech_timestamp = model.add_word_timestamps(
                [windows[i] for i in kept], tokenizer, EncoderOutput(model.model, [encoded.items[i] for i in kept]),
                [sizes[i] for i in kept], options.prepend_punctuations, options.append_punctuations,
                self.last_speech_timestamp)
        return windows

    def generate_segment_batched(self, features: npt.NDArray[np.float32], tokenizer: Tokenizer,
                                 options: TranscriptionOptions) -> tuple[EncoderOutput, list[dict[str, Any]]]:
        """The windows, and what was decoded from each."""
        model = self.model
        given = options.initial_prompt
        previous = (tokenizer.encode(" " + given.strip()) if isinstance(given, str)
                    else [int(token) for token in given or ()])
        encoded = model.encode(features)

        def one(index: int) -> dict[str, Any]:
            prompt = model.get_prompt(tokenizer, previous, options.without_timestamps, options.prefix,
                                      options.hotwords)
            check_decoding(len(prompt), options.max_new_tokens, model.max_length)
            item = encoded.items[index]
            if options.multilingual:
                code = model.model.languages(item)[0][0]
                prompt[prompt.index(tokenizer.sot) + 1] = model.model.id_of(f"<|{code}|>")
            result, logprob, temperature, _ = model.generate_with_fallback(EncoderOutput(model.model, [item]), prompt,
                                                                           tokenizer, options, index)
            silent = model.compatibility == "openai" and model.is_silence(logprob, result.no_speech_prob, options)
            return {"tokens": result.sequences_ids[0], "avg_logprob": logprob, "temperature": temperature,
                    "no_speech_prob": result.no_speech_prob, "silent": silent}
        return encoded, model.model.each(one, range(len(encoded.items)))
