"""bench/formats/format_worker.py PEER MODEL WAV - one transcription by one peer, in its environment, for formats.py.

Out: one line of JSON, {"text": ..., "version": ...}. The recording is 16 kHz, mono, 16 bits; decoding is greedy."""
import json
import sys
import wave
from importlib.metadata import version

import numpy


def samples(path):
    with wave.open(path) as sound:
        return numpy.frombuffer(sound.readframes(sound.getnframes()), dtype=numpy.int16).astype(numpy.float32) / 32768


def whisper_cpp(model, audio):
    from pywhispercpp.model import Model
    whisper = Model(model, n_threads=2, print_progress=False, print_realtime=False, redirect_whispercpp_logs_to=None)
    return "".join(segment.text for segment in whisper.transcribe(audio)), version("pywhispercpp")


def transcribe_cpp(model, audio):
    import transcribe_cpp as library
    with library.Model(model) as opened, opened.session() as session:
        return session.run(audio).text, version("transcribe-cpp")


def faster_whisper(model, audio):
    from faster_whisper import WhisperModel
    segments, _ = WhisperModel(model, device="cpu", cpu_threads=2).transcribe(audio, beam_size=1)
    return "".join(segment.text for segment in segments), version("faster-whisper")


def transformers(model, audio):
    import torch
    from transformers import WhisperForConditionalGeneration, WhisperProcessor
    torch.set_num_threads(2)
    processor = WhisperProcessor.from_pretrained(model)
    whisper = WhisperForConditionalGeneration.from_pretrained(model, torch_dtype=torch.float32)
    features = processor(audio, sampling_rate=16000, return_tensors="pt").input_features
    tokens = whisper.generate(features, num_beams=1, do_sample=False)
    return processor.batch_decode(tokens, skip_special_tokens=True)[0], version("transformers")


PEERS = {"whisper.cpp": whisper_cpp, "transcribe.cpp": transcribe_cpp, "faster-whisper": faster_whisper,
         "transformers": transformers}

said, release = PEERS[sys.argv[1]](sys.argv[2], samples(sys.argv[3]))
print(json.dumps({"text": said.strip(), "version": release}))
