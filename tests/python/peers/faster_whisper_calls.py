"""Calls of faster-whisper's API, and what they give, as JSON: run with the real one, or with MXW_PEER=ours.

    faster_whisper_calls.py MODEL FOLDER-OF-AUDIO OUT.json

MXW_PEER_VAD: weights of Silero's network for ours (silero_of_faster_whisper.py), instead of its own.
"""
import functools
import json
import os
import sys

import numpy as np

if os.environ.get("MXW_PEER") == "ours":
    import max_whisper
    max_whisper.install_as("faster_whisper", compatibility=os.environ.get("MXW_PEER_COMPATIBILITY"))
    if os.environ.get("MXW_PEER_VAD"):
        max_whisper.vad.Detector = functools.partial(max_whisper.vad.Detector, model=os.environ["MXW_PEER_VAD"])

from faster_whisper import BatchedInferencePipeline, WhisperModel, decode_audio
from faster_whisper.vad import VadOptions, get_speech_timestamps


def shown(segments, info, words=False):
    """What is compared."""
    segments = list(segments)
    made = {"language": info.language, "probability": round(info.language_probability, 3),
            "ids": [segment.id for segment in segments], "text": [segment.text for segment in segments],
            "times": [[round(segment.start, 2), round(segment.end, 2)] for segment in segments],
            "after_vad": round(info.duration_after_vad, 2)}
    if words:
        made["words"] = [[word.word, round(word.start, 2), round(word.end, 2)] for segment in segments
                         for word in segment.words]
    return made


def calls(model, folder):
    """(name, function) of each."""
    batched = BatchedInferencePipeline(model)
    names = ("jfk.flac", "hotwords.mp3", "multilingual.mp3")
    audio = {name: decode_audio(os.path.join(folder, name)) for name in names}
    jfk = audio["jfk.flac"]
    left, right = decode_audio(os.path.join(folder, "stereo_diarization.wav"), split_stereo=True)
    gap = np.concatenate([jfk, np.zeros(5 * 16000, np.float32), jfk])
    yield "words", lambda: shown(*model.transcribe(jfk, word_timestamps=True), words=True)
    yield "prefix", lambda: shown(*model.transcribe(jfk, prefix="And so my fellow Americans"))
    yield "vad", lambda: shown(*model.transcribe(gap, vad_filter=True, vad_parameters={"speech_pad_ms": 200}))
    yield "speech", lambda: get_speech_timestamps(gap, VadOptions(min_silence_duration_ms=500))
    yield "repetition", lambda: shown(*model.transcribe(left, repetition_penalty=1.2, beam_size=1, temperature=0.0))
    yield "n-grams", lambda: shown(*model.transcribe(gap, no_repeat_ngram_size=3, beam_size=1, temperature=0.0))
    yield "left", lambda: shown(*model.transcribe(left))
    yield "right", lambda: shown(*model.transcribe(right, beam_size=1, temperature=0.0))
    yield "hotwords", lambda: shown(*model.transcribe(audio["hotwords.mp3"], hotwords="ComfyUI"))
    yield "multilingual", lambda: shown(*model.transcribe(
        audio["multilingual.mp3"], multilingual=True, without_timestamps=True, condition_on_previous_text=False))
    yield "clip", lambda: shown(*model.transcribe(gap, clip_timestamps="16", language="en"))
    yield "batched", lambda: shown(*batched.transcribe(gap, word_timestamps=True, language="en"))
    yield "batched clips", lambda: shown(*batched.transcribe(
        gap, clip_timestamps=[{"start": 0.0, "end": 11.0}, {"start": 16.0, "end": 27.0}]))
    yield "no speech", lambda: shown(*model.transcribe(np.zeros(16000, np.float32), vad_filter=True, language="en"))
    yield "tokens", lambda: model.hf_tokenizer.encode(" Hello, naïve 東京", add_special_tokens=False).ids


def main():
    name, folder, out = sys.argv[1:4]
    model = WhisperModel(name, device="cpu", compute_type="float32", cpu_threads=2)
    made = {}
    for what, call in calls(model, folder):
        made[what] = call()
    with open(out, "w", encoding="utf-8") as stream:
        json.dump(made, stream, ensure_ascii=False, indent=1)


if __name__ == "__main__":
    main()
