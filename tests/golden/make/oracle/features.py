"""Every stage of one window of openai-whisper as .npz, under the names that max-whisper's taps have.

Arrays are float32, [time][channel]; `window.tokens` are the tokens that the decoder was forced over (those of
--like's dump, else the library's own greedy ones), `note.*` are bytes of text. `max-whisper features compare` and
`diverge` read it.
"""

import numpy as np

from . import models
from .activations import encoder_stages, first_window


def more_encoder_stages(model):
    """Hooks for what activations.py leaves out; fills and returns a dict while the encoder runs"""
    stages, hooks = {}, []

    def keep(name, value):
        stages[name] = value.detach()[0].numpy().copy()

    for index, block in enumerate(model.encoder.blocks):
        prefix = f"encoder.blocks.{index}."
        hooks += watch_block(block, prefix, keep, False)
    return stages, hooks


def watch_block(block, prefix, keep, is_decoder):
    """Hooks on the stages of a block that are inputs or results of a module"""
    hooks = []

    def after(module, name):
        hooks.append(
            module.register_forward_hook(
                lambda _m, _i, out, name=name: keep(prefix + name, out[0] if isinstance(out, tuple) else out)
            )
        )

    def before(module, name):
        hooks.append(module.register_forward_pre_hook(lambda _m, inputs, name=name: keep(prefix + name, inputs[0])))

    after(block.attn_ln, "attn_ln")
    after(block.attn.query, "attn.q")
    if not is_decoder:
        after(block.attn.key, "attn.k")
        after(block.attn.value, "attn.v")
    before(block.attn.out, "attn.heads")
    after(block.attn, "attn")
    if is_decoder:
        before(block.cross_attn_ln, "attn.residual")
        after(block.cross_attn_ln, "cross_attn_ln")
        after(block.cross_attn.query, "cross_attn.q")
        after(block.cross_attn.key, "cross_attn.k")
        after(block.cross_attn.value, "cross_attn.v")
        before(block.cross_attn.out, "cross_attn.heads")
        after(block.cross_attn, "cross_attn")
        before(block.mlp_ln, "cross_attn.residual")
    else:
        before(block.mlp_ln, "attn.residual")
    after(block.mlp_ln, "mlp_ln")
    after(block.mlp[0], "mlp.fc1")
    after(block.mlp[1], "mlp.gelu")
    after(block.mlp, "mlp")
    after(block, "mlp.residual")
    return hooks


def decoder_stages(model, features, initial, tokens):
    """{name: array} of the decoder forced over tokens after the initial ones"""
    import torch

    stages, hooks = {}, []

    def keep(name, value):
        stages[name] = value.detach()[0].numpy().copy()

    decoder = model.decoder
    hooks.append(decoder.blocks[0].register_forward_pre_hook(lambda _m, i: keep("decoder.embedding", i[0])))
    for index, block in enumerate(decoder.blocks):
        hooks += watch_block(block, f"decoder.blocks.{index}.", keep, True)
    hooks.append(decoder.ln.register_forward_hook(lambda _m, _i, out: keep("decoder.ln", out)))
    try:
        with torch.no_grad():
            logits = decoder(torch.tensor([list(initial) + list(tokens)]), features[None])[0].numpy()
    finally:
        for hook in hooks:
            hook.remove()
    picked = len(initial) - 1  # the first row that predicts
    stages["decoder.ln"] = stages["decoder.ln"][picked:]
    stages["decoder.logits"] = logits[picked:]
    return stages


def in_order(stages, n_layers):
    """Cross keys and values come before the decoder, as they are computed first"""
    cross = [f"decoder.blocks.{i}.cross_attn.{part}" for i in range(n_layers) for part in "kv"]
    return [(name, stages[name]) for name in cross] + [
        (name, array) for name, array in stages.items() if name not in cross
    ]


def write(name, path, samples, output, like=None, language="en"):
    """samples: int16 or float32 at 16 kHz"""
    import torch
    from whisper.decoding import DecodingOptions, decode
    from whisper.tokenizer import get_tokenizer

    torch.set_num_threads(1)
    model = models.load(path)
    mel, _ = first_window(samples, model.dims.n_mels)
    tokenizer = get_tokenizer(
        model.is_multilingual, num_languages=model.num_languages, language=language, task="transcribe"
    )
    more, hooks = more_encoder_stages(model)
    stages = dict(encoder_stages(model, mel[None]))
    for hook in hooks:
        hook.remove()
    stages.update(more)
    blocks = [stage for stage in more]
    order = ["encoder." + stage for stage in ("conv1", "gelu1", "conv2", "gelu2", "positions")]
    order += blocks + ["encoder.ln_post"]
    features = torch.from_numpy(stages["encoder.ln_post"])
    if like:
        tokens = [int(token) for token in np.load(like)["window.tokens"]]
    else:
        tokens = decode(model, features[None], DecodingOptions(language=language, fp16=False))[0].tokens
    decoder = decoder_stages(model, features, tokenizer.sot_sequence, tokens)
    arrays = {"mel": mel.numpy().T}
    arrays.update((stage, stages[stage]) for stage in order)
    arrays.update(in_order(decoder, model.dims.n_text_layer))
    arrays = {key: np.ascontiguousarray(array, np.float32) for key, array in arrays.items()}
    arrays["window.tokens"] = np.array(tokens, np.int32)
    notes = {"made_by": "openai-whisper", "model": name, "engine": "torch", "language": language,
             "heads": f"{model.dims.n_audio_head} {model.dims.n_text_head}"}
    arrays.update((f"note.{key}", np.frombuffer(text.encode(), np.uint8)) for key, text in notes.items())
    np.savez(output, **arrays)
    print(f"{output}: {len(arrays)} arrays, {len(tokens)} tokens")
