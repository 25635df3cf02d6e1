"""max_whisper/openai/normalizers - text made comparable, as openai-whisper's package of this name does it, for word
error rates that can be set beside published ones."""
from .basic import BasicTextNormalizer as BasicTextNormalizer
from .english import EnglishTextNormalizer as EnglishTextNormalizer
