"""max_whisper/faster_whisper/version.py - the version of faster-whisper whose names and calls these are."""
__version__ = "1.2.1"
