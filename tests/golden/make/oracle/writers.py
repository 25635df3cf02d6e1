"""openai-whisper's own output files for a few clips, byte for byte as its command line writes them.

The command line's options: beam 5, best_of 5, temperature 0; the fallback ladder is left out: chance has no part.
"""

import os

from . import models
from .common import whisper_library

CLIPS = ["two_cities", "endgame_nagg_nell", "pocketsphinx-librivox-0870", "pocketsphinx-cards-005"]


def write(model_paths, clips, output):
    """output/writers/MODEL/CLIP.{txt,srt,vtt,tsv,json}"""
    import numpy as np
    import torch

    whisper = whisper_library()
    from whisper.utils import get_writer

    torch.set_num_threads(1)
    for name, path in model_paths:
        model = models.load(path)
        folder = os.path.join(output, "writers", name)
        os.makedirs(folder, exist_ok=True)
        writer = get_writer("all", folder)
        for clip in CLIPS:
            samples = clips.samples("package:" + clip).astype(np.float32) / 32768.0
            language = "en" if not model.is_multilingual else None
            result = whisper.transcribe(
                model, samples, temperature=[0.0], fp16=False, beam_size=5, best_of=5, language=language
            )
            writer(
                result,
                clip + ".wav",
                highlight_words=False,
                max_line_count=None,
                max_line_width=None,
                max_words_per_line=None,
            )
