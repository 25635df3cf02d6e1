"""max_whisper - speech to text: OpenAI's Whisper through an engine of its own, on CPU and CUDA.

    import max_whisper
    model = max_whisper.Model("tiny.en")
    print(model.transcribe("talk.mp3").result().text)

docs/python.md has the rest. All work is done by libmax_whisper, with Python's lock released.
"""
from . import graph, vad
from ._audio import decode_audio
from ._catalog import (Device, Microphone, ModelEntry, Verification, command, devices, fetch, formats, language_code,
                       languages, microphones, model_dir, models, verify)
from ._errors import Cancelled, Error, InvalidArgument, NotFound, OutOfMemory
from ._install import install_as
from ._live import Event, Live, LiveStats
from ._log import log_to
from ._model import Model
from ._native import version as __version__
from ._options import DecodeOptions, TranscribeOptions
from ._transcription import Transcription
from ._types import Info, Progress, Region, Result, Segment, Times, Token, Word
from ._window import Window, WindowText, log_mel, mel_filters

SAMPLE_RATE = 16000

__all__ = [
    "SAMPLE_RATE", "Cancelled", "DecodeOptions", "Device", "Error", "Event", "Info", "InvalidArgument", "Live",
    "LiveStats", "Microphone", "Model", "ModelEntry", "NotFound", "OutOfMemory", "Progress", "Region", "Result",
    "Segment", "Times", "Token", "TranscribeOptions", "Transcription", "Verification", "Window", "WindowText", "Word",
    "__version__", "command", "decode_audio", "devices", "fetch", "formats", "graph", "install_as", "language_code",
    "languages", "log_mel", "log_to", "mel_filters", "microphones", "model_dir", "models", "vad", "verify",
]
