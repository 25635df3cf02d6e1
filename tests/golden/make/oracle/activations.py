"""Stages of the encoder, and the first logits, of a few clips: statistics and every Nth value.

Stages bear the names that the graph's taps have. Every stage is recorded time-major, [time][channel], whatever layout
the library keeps it in; index i of `values` is element i * stride of that array, flat. Statistics are in float64 over
the whole stage.
"""

import os

import numpy as np

from . import models
from .common import number, numbers, whisper_library, write_json_lines
from .clips import Clips

CLIPS = ["package:pocketsphinx-librivox-0870", "package:two_cities", "package:prompts-161s"]
MEL_STRIDE = 37
STAGE_STRIDE = 2003
LOGIT_STRIDE = 53


def stage_row(clip, stage, array, stride, digits=7):
    """array: float32, time-major"""
    flat = np.ascontiguousarray(array, np.float32).reshape(-1)
    wide = flat.astype(np.float64)
    return {
        "clip": clip,
        "stage": stage,
        "shape": list(array.shape),
        "mean": number(wide.mean(), 9),
        "std": number(wide.std(), 9),
        "min": number(flat.min(), 9),
        "max": number(flat.max(), 9),
        "l2": number(np.sqrt((wide * wide).sum()), 9),
        "stride": stride,
        "values": numbers(flat[::stride], digits),
    }


class GeluProxy:
    """Stands in for torch.nn.functional inside whisper.model, to see the two GELUs after the convolutions."""

    def __init__(self, real):
        self._real = real
        self.seen = []

    def __getattr__(self, name):
        return getattr(self._real, name)

    def gelu(self, *args, **kwargs):
        self.seen.append(self._real.gelu(*args, **kwargs))
        return self.seen[-1]


def encoder_stages(model, mel):
    """[(stage, array [time][channel])] of one window; mel: [1][n_mels][3000]"""
    import torch
    from whisper import model as library

    stages, hooks = {}, []

    def keep(name, value, transpose=False):
        value = value.detach()[0]
        stages[name] = (value.T if transpose else value).numpy().copy()

    def after(module, name, transpose=False):
        hooks.append(
            module.register_forward_hook(
                lambda _m, _i, out: keep(name, out if torch.is_tensor(out) else out[0], transpose)
            )
        )

    def before(module, name):
        hooks.append(module.register_forward_pre_hook(lambda _m, inputs: keep(name, inputs[0])))

    encoder = model.encoder
    after(encoder.conv1, "encoder.conv1", True)
    after(encoder.conv2, "encoder.conv2", True)
    before(encoder.blocks[0], "encoder.positions")
    for index, block in enumerate(encoder.blocks):
        prefix = f"encoder.blocks.{index}."
        after(block.attn_ln, prefix + "attn_ln")
        after(block.attn.query, prefix + "attn.q")
        after(block.attn.key, prefix + "attn.k")
        after(block.attn.value, prefix + "attn.v")
        after(block.attn, prefix + "attn")
        before(block.mlp_ln, prefix + "attn.residual")
        after(block.mlp, prefix + "mlp")
        after(block, prefix + "mlp.residual")
    after(encoder.ln_post, "encoder.ln_post")
    real = library.F
    library.F = proxy = GeluProxy(real)
    try:
        with torch.no_grad():
            encoder(mel)
    finally:
        library.F = real
        for hook in hooks:
            hook.remove()
    keep("encoder.gelu1", proxy.seen[0], True)
    keep("encoder.gelu2", proxy.seen[1], True)
    order = ["encoder." + name for name in ("conv1", "gelu1", "conv2", "gelu2", "positions")]
    order += [name for name in stages if name.startswith("encoder.blocks")] + ["encoder.ln_post"]
    return [(name, stages[name]) for name in order]


def synthetic_mel():
    """The old experiment's synthetic input: a seeded normal mel, [80][3000]"""
    np.random.seed(42)
    return (np.random.randn(80, 3000) * 20 - 40).astype(np.float32)


def first_logits_row(clip, model, features):
    """Logits after the start-of-transcript sequence of an English transcription, before any rule."""
    import torch
    from whisper.tokenizer import get_tokenizer

    tokenizer = get_tokenizer(
        model.is_multilingual, num_languages=model.num_languages, language="en", task="transcribe"
    )
    with torch.no_grad():
        logits = model.logits(torch.tensor([list(tokenizer.sot_sequence)]), features)[0, -1].numpy()
    row = stage_row(clip, "decoder.logits", logits[None, :], LOGIT_STRIDE)
    top = np.argsort(-logits)[:10]
    return {**row, "tokens": list(tokenizer.sot_sequence), "top": [[int(i), number(logits[i])] for i in top]}


def first_window(samples, n_mels):
    """The first window's mel as transcribe() cuts it, [n_mels][3000], content up to its end and then zeros; and how
    many frames of content the file has."""
    whisper = whisper_library()
    mel = whisper.log_mel_spectrogram(samples.astype(np.float32) / 32768.0, n_mels, padding=480000)
    content = mel.shape[-1] - 3000
    return whisper.pad_or_trim(mel[:, : min(3000, content)], 3000), content


def write(model_paths, clips, output):
    """output/MODEL/activations.jsonl: three clips' first windows, then the synthetic chain."""
    import torch

    torch.set_num_threads(1)
    for name, path in model_paths:
        model = models.load(path)
        rows = []
        for clip in CLIPS:
            samples = clips.samples(clip)
            mel, _ = first_window(samples, model.dims.n_mels)
            stages = encoder_stages(model, mel[None])
            rows.append({"clip": clip, **Clips.identity(samples)})
            rows += [stage_row(clip, stage, array, STAGE_STRIDE) for stage, array in stages]
            rows.append(first_logits_row(clip, model, torch.from_numpy(stages[-1][1])[None]))
        mel = synthetic_mel()
        rows.append(
            {"clip": "synthetic", "made_by": "numpy.random.seed(42); randn(80,3000)*20-40 as float32, [80][3000]"}
        )
        rows.append(stage_row("synthetic", "mel", mel.T, MEL_STRIDE, 9))
        rows += [
            stage_row("synthetic", stage, array, STAGE_STRIDE)
            for stage, array in encoder_stages(model, torch.from_numpy(mel)[None])
        ]
        write_json_lines(os.path.join(output, name, "activations.jsonl"), rows)


def write_mel(clips, output):
    """output/mel.jsonl: the first window of three clips at 80 and 128 bins, and the whole of a short one, unpadded."""
    import torch

    torch.set_num_threads(1)
    rows = []
    for clip in CLIPS:
        samples = clips.samples(clip)
        for n_mels in (80, 128):
            mel, content = first_window(samples, n_mels)
            row = stage_row(clip, f"mel{n_mels}", mel.numpy().T, MEL_STRIDE if n_mels == 80 else 4 * MEL_STRIDE + 1, 8)
            rows.append({**row, "content_frames": content, **Clips.identity(samples)})
    write_json_lines(os.path.join(output, "mel.jsonl"), rows)
