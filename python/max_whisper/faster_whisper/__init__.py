"""max_whisper.faster_whisper - faster-whisper 1.2.1's names, calls and results, computed by max-whisper.

    from max_whisper.faster_whisper import WhisperModel
    segments, info = WhisperModel("base").transcribe("talk.mp3")

docs/python.md says where it differs. max_whisper.install_as("faster_whisper") puts it in the place of the real one.
"""
from .audio import decode_audio
from .transcribe import BatchedInferencePipeline, WhisperModel
from .utils import available_models, download_model, format_timestamp
from .version import __version__

__all__ = ["available_models", "decode_audio", "WhisperModel", "BatchedInferencePipeline", "download_model",
           "format_timestamp", "__version__"]
