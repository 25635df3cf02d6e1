"""max_whisper/openai/version.py - the version of openai-whisper whose API this is."""

__version__ = "20250625"
