"""Watches openai-whisper at work: every window that transcribe() decodes, with what was chosen and by how much.

Nothing is re-implemented. The library's own DecodingTask, decoders, filters and loop run unchanged; they are wrapped
so that their inputs and outputs are seen, and only the margins (how far a choice was from going the other way) are
computed here, from the same numbers.

A window's record: seek, size (mel frames), prompt, sot (tokens before the first decoded one, prompt included, are
`prompt` + `sot`), tokens, logprobs (of each token, then of end-of-text if it was chosen; after the filters),
sum_logprob, avg_logprob, no_speech_prob, compression_ratio, temperature, and margins {name: [value, step]}:
  token  greedy: best minus second best logit after the filters
  sum    |log of the timestamps' summed probability - best text log probability|, over all live sequences
  cut    beam: cumulative score of the last kept candidate against the first dropped one or against the nearest
         end-of-text that was kept; the cut of the finished list, and of the unfinished ones that fill it up
  rank   beam: the ranker's score of the winner minus that of the runner-up
"""

from contextlib import contextmanager

from .common import number, numbers, whisper_library


class Margin:
    """The smallest gap seen so far under each name, and the step it was seen at."""

    def __init__(self):
        self.least = {}

    def see(self, name, gap, step):
        if gap == gap and gap != float("inf") and (name not in self.least or gap < self.least[name][0]):
            self.least[name] = (gap, step)

    def record(self):
        return {name: [number(gap, 5), step] for name, (gap, step) in sorted(self.least.items())}


class FunctionalProxy:
    """Stands in for torch.nn.functional inside whisper.decoding, to see the log probabilities it computes."""

    def __init__(self, real):
        self._real = real
        self.last = None

    def __getattr__(self, name):
        return getattr(self._real, name)

    def log_softmax(self, *args, **kwargs):
        self.last = self._real.log_softmax(*args, **kwargs)
        return self.last


class Trace:
    """One call of transcribe() under watch."""

    def __init__(self):
        self.windows = []
        self.language = None
        self.slices = []  # (seek, size) as pad_or_trim saw them

    def window_slice(self, mel):
        """Where in the whole file's mel a window was cut: a slice of a row-major array tells it by its offset."""
        self.slices.append((mel.storage_offset() % mel.stride(0), int(mel.shape[-1])))


def watch_timestamp_rules(task, filter_, proxy, margins):
    real_apply = filter_.apply
    begin = task.tokenizer.timestamp_begin

    def apply(logits, tokens):
        proxy.last = None
        real_apply(logits, tokens)
        logprobs = proxy.last
        gaps = (logprobs[:, begin:].logsumexp(dim=-1) - logprobs[:, :begin].max(dim=-1).values).abs().tolist()
        for gap in gaps:
            margins.see("sum", gap, tokens.shape[1] - task.sample_begin)

    filter_.apply = apply


def watch_greedy(task, decoder, proxy, margins, history):
    real_update = decoder.update

    def update(tokens, logits, sum_logprobs):
        step = tokens.shape[1] - task.sample_begin
        if decoder.temperature == 0:
            best = logits[0].float().topk(2).values.tolist()
            margins.see("token", best[0] - best[1], step)
        result = real_update(tokens, logits, sum_logprobs)
        for row in range(tokens.shape[0]):
            parent, chosen = tuple(tokens[row].tolist()), int(result[0][row, -1])
            history[parent + (chosen,)] = history.get(parent, []) + [proxy.last[row, chosen].item()]
        return result

    decoder.update = update


def see_beam_cut(decoder, tokens, logprobs, sums, step, margins):
    """The cut of one step: candidates as the decoder ranks them, with one more a row so that a dropped one exists."""
    scores = {}
    values, indices = logprobs.topk(decoder.beam_size + 2)
    for row, (row_values, row_indices) in enumerate(zip((sums[:, None] + values).tolist(), indices.tolist())):
        prefix = tuple(tokens[row].tolist())
        for score, token in zip(row_values, row_indices):
            scores[prefix + (token,)] = score
    kept, ended = 0, []
    ranked = sorted(scores, key=scores.get, reverse=True)
    for place, sequence in enumerate(ranked):
        if sequence[-1] == decoder.eot:
            ended.append(scores[sequence])
            continue
        kept += 1
        if kept == decoder.beam_size:
            last = scores[sequence]
            if place + 1 < len(ranked):
                margins.see("cut", last - scores[ranked[place + 1]], step)
            for score in ended:
                margins.see("cut", score - last, step)
            break
    room = decoder.max_candidates - len(decoder.finished_sequences[0] if decoder.finished_sequences else {})
    ended.sort(reverse=True)
    if 0 < room < len(ended):
        margins.see("cut", ended[room - 1] - ended[room], step)


def watch_beam(task, decoder, proxy, margins, history):
    real_update, real_finalize = decoder.update, decoder.finalize

    def update(tokens, logits, sum_logprobs):
        before = sum_logprobs.clone()
        known = set(decoder.finished_sequences[0]) if decoder.finished_sequences else set()
        step = tokens.shape[1] - task.sample_begin
        logprobs = proxy._real.log_softmax(logits.float(), dim=-1)
        see_beam_cut(decoder, tokens, logprobs, before, step, margins)
        result = real_update(tokens, logits, sum_logprobs)
        rows = {tuple(tokens[row].tolist()): row for row in range(tokens.shape[0])}
        ended = [sequence for sequence in decoder.finished_sequences[0] if sequence not in known]
        for sequence in [tuple(row) for row in result[0].tolist()] + ended:
            parent = sequence[:-1]
            history[sequence] = history.get(parent, []) + [logprobs[rows[parent], sequence[-1]].item()]
        return result

    def finalize(preceding_tokens, sum_logprobs):
        room = decoder.beam_size - len(decoder.finished_sequences[0])
        live = sorted(sum_logprobs[0].tolist(), reverse=True)
        if 0 < room < len(live):
            margins.see("cut", live[room - 1] - live[room], preceding_tokens.shape[-1] - task.sample_begin)
        return real_finalize(preceding_tokens, sum_logprobs)

    decoder.update, decoder.finalize = update, finalize


def watch_ranker(task, margins, chosen):
    ranker, real_rank = task.sequence_ranker, task.sequence_ranker.rank

    def rank(tokens, sum_logprobs):
        selected = real_rank(tokens, sum_logprobs)
        winner = selected[0]
        chosen["sum_logprob"] = float(sum_logprobs[0][winner])
        rows = [tuple(sequence.tolist()) for sequence in tokens[0]]
        length = lambda n: n if ranker.length_penalty is None else ((5 + n) / 6) ** ranker.length_penalty  # noqa: E731
        score = [value / length(len(row)) if len(row) else float("nan") for value, row in zip(sum_logprobs[0], rows)]
        others = [s for s, row in zip(score, rows) if row != rows[winner] and s == s]
        if others and score[winner] == score[winner]:
            margins.see("rank", score[winner] - max(others), None)
        return selected

    ranker.rank = rank


def task_class(real_task, proxy, trace):
    """The library's DecodingTask, watched."""

    class WatchedTask(real_task):
        def __init__(self, model, options):
            super().__init__(model, options)
            self.margins, self.history, self.chosen = Margin(), {}, {}
            for filter_ in self.logit_filters:
                if type(filter_).__name__ == "ApplyTimestampRules":
                    watch_timestamp_rules(self, filter_, proxy, self.margins)
            watch = watch_beam if options.beam_size is not None else watch_greedy
            watch(self, self.decoder, proxy, self.margins, self.history)
            watch_ranker(self, self.margins, self.chosen)

        def run(self, mel):
            results = super().run(mel)
            result = results[0]
            start = tuple(self.initial_tokens)
            body = start + tuple(result.tokens)
            logprobs = self.history.get(body + (self.tokenizer.eot,)) or self.history.get(body, [])
            seek, size = trace.slices[-1]
            before = self.sot_index
            trace.windows.append(
                {
                    "seek": seek,
                    "size": size,
                    "prompt": list(start[:before]),
                    "sot": list(start[before:]),
                    "tokens": result.tokens,
                    "logprobs": numbers(logprobs, 6),
                    "sum_logprob": number(self.chosen["sum_logprob"]),
                    "avg_logprob": number(result.avg_logprob),
                    "no_speech_prob": number(result.no_speech_prob),
                    "compression_ratio": result.compression_ratio,
                    "temperature": result.temperature,
                    "margins": self.margins.record(),
                }
            )
            return results

    return WatchedTask


@contextmanager
def watching(model):
    """Within it, transcribe() of that model fills the Trace."""
    whisper_library()
    import sys

    from whisper import decoding

    loop = sys.modules["whisper.transcribe"]
    trace = Trace()
    real_task, real_functional, real_pad = decoding.DecodingTask, decoding.F, loop.pad_or_trim
    proxy = FunctionalProxy(real_functional)
    real_detect = model.detect_language

    def pad_or_trim(mel, *args, **kwargs):
        trace.window_slice(mel)
        return real_pad(mel, *args, **kwargs)

    def detect_language(mel, *args, **kwargs):
        token, probabilities = real_detect(mel, *args, **kwargs)
        best = sorted(probabilities.items(), key=lambda item: -item[1])[:2]
        trace.language = {
            "code": best[0][0],
            "probability": number(best[0][1]),
            "second": best[1][0],
            "second_probability": number(best[1][1]),
        }
        return token, probabilities

    decoding.DecodingTask = task_class(real_task, proxy, trace)
    decoding.F, loop.pad_or_trim, model.detect_language = proxy, pad_or_trim, detect_language
    try:
        yield trace
    finally:
        decoding.DecodingTask, decoding.F, loop.pad_or_trim = real_task, real_functional, real_pad
        del model.detect_language


def transcribe(model, samples, **options):
    """The record of one file: language, windows, segments, text. samples: int16."""
    import numpy as np
    import torch

    whisper = whisper_library()
    with watching(model) as trace, torch.no_grad():
        result = whisper.transcribe(model, samples.astype(np.float32) / 32768.0, fp16=False, **options)
    # a segment's probabilities are those of the window it came from: its seek tells which
    segments = [{key: s[key] for key in ("seek", "start", "end", "text", "tokens")} for s in result["segments"]]
    return {
        "language": result["language"],
        "detected": trace.language,
        "windows": trace.windows,
        "segments": segments,
        "text": result["text"],
    }
