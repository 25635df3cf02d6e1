"""Watches openai-whisper find word times: what each window was aligned with, and how firmly each boundary stands.

Nothing is re-implemented: transcribe(word_timestamps=True) runs unchanged and is looked at through wrappers. Only the
margins are computed here, from the very matrix that the library warps: how much dearer the cheapest path would be on
which a boundary lies more than one frame (20 ms) elsewhere.

A row: clip, samples, sha256, language; windows that were aligned: seek, size (mel frames), tokens (text alone), words
(their tokens' count), frames (of 20 ms: where each word begins, then where the last one ends), probabilities, margins
(of each frame); segments as the library gives them, words as [word, start, end, probability].
"""

import sys
from contextlib import contextmanager

from .common import number, whisper_library


def set_heads(model, name):
    """A file does not say which heads follow time; a released name does."""
    model.set_alignment_heads(whisper_library()._ALIGNMENT_HEADS[name])


def path_costs(x):
    """[rows + 1][columns + 1]: of the cheapest path from the first cell to each, as the library's warping adds them."""
    import numpy as np

    cost = np.full((x.shape[0] + 1, x.shape[1] + 1), np.inf)
    cost[0, 0] = 0
    for i in range(1, cost.shape[0]):
        above = np.minimum(cost[i - 1, 1:], cost[i - 1, :-1])
        run = np.inf
        for j in range(x.shape[1]):  # from the left, or from above
            run = min(run, above[j]) + x[i - 1, j]
            cost[i, j + 1] = run
    return cost


def boundary_margins(x, frames):
    """For each row: how much more the cheapest path costs that enters the row more than a frame from where it does."""
    import numpy as np

    forward, backward = path_costs(x), path_costs(x[::-1, ::-1])[::-1, ::-1]
    best, margins = forward[-1, -1], []
    for row, frame in enumerate(frames):
        enter = np.minimum(forward[row, 1:], forward[row, :-1]) + backward[row, :-1]
        enter[max(0, frame - 1) : frame + 2] = np.inf
        margins.append(float(enter.min() - best) if row else float("inf"))
    return margins


class Watch:
    def __init__(self):
        self.windows = []
        self.matrix = None


@contextmanager
def watching():
    whisper_library()
    from whisper import timing

    watch = Watch()
    loop = sys.modules["whisper.transcribe"]
    real_add, real_find, real_dtw = loop.add_word_timestamps, timing.find_alignment, timing.dtw

    def add_word_timestamps(**kwargs):
        watch.seek = kwargs["segments"][0]["seek"] if kwargs["segments"] else None
        return real_add(**kwargs)

    def find_alignment(model, tokenizer, text_tokens, mel, num_frames, **kwargs):
        watch.matrix = None
        words = real_find(model, tokenizer, text_tokens, mel, num_frames, **kwargs)
        frames = [round(word.start * 50) for word in words] + [round(word.end * 50) for word in words[-1:]]
        margins = []
        if words:
            ends = [0]
            for word in words:
                ends.append(ends[-1] + len(word.tokens))
            rows = [int(jump) for jump in watch.jumps]
            every = boundary_margins(watch.matrix, rows)
            margins = [number(min(every[end], 1e6), 4) for end in ends]
        watch.windows.append(
            {
                "seek": watch.seek,
                "size": num_frames,
                "tokens": list(text_tokens),
                "words": [len(word.tokens) for word in words],
                "frames": frames,
                "probabilities": [number(word.probability, 6) for word in words],
                "margins": margins,
            }
        )
        return words

    def dtw(x):
        import numpy as np

        text, time = real_dtw(x)
        watch.matrix = x.double().numpy()
        watch.jumps = time[np.pad(np.diff(text), (1, 0), constant_values=1).astype(bool)]
        return text, time

    loop.add_word_timestamps, timing.find_alignment, timing.dtw = add_word_timestamps, find_alignment, dtw
    try:
        yield watch
    finally:
        loop.add_word_timestamps, timing.find_alignment, timing.dtw = real_add, real_find, real_dtw


def transcribe(model, samples, **options):
    """The record of one file. samples: int16."""
    import numpy as np
    import torch

    whisper = whisper_library()
    with watching() as watch, torch.no_grad():
        result = whisper.transcribe(
            model, samples.astype(np.float32) / 32768.0, fp16=False, word_timestamps=True, **options
        )
    segments = []
    for segment in result["segments"]:
        row = {key: segment[key] for key in ("seek", "start", "end", "text", "tokens")}
        row["words"] = [
            [word["word"], float(word["start"]), float(word["end"]), number(word["probability"], 6)]
            for word in segment["words"]
        ]
        row["start"], row["end"] = float(row["start"]), float(row["end"])
        segments.append(row)
    return {"language": result["language"], "windows": watch.windows, "segments": segments, "text": result["text"]}


def align(model, samples, row):
    """The record of one file whose windows were decoded before: row is a line of greedy.jsonl. Each window's text is
    aligned where that run decoded it; nothing is decoded, so there are no segments."""
    import numpy as np
    import torch

    whisper = whisper_library()
    from whisper import timing
    from whisper.audio import HOP_LENGTH, N_FRAMES, N_SAMPLES

    tokenizer = whisper.tokenizer.get_tokenizer(
        model.is_multilingual, num_languages=model.num_languages, language=row["language"], task="transcribe"
    )
    mel = whisper.log_mel_spectrogram(samples.astype(np.float32) / 32768.0, model.dims.n_mels, padding=N_SAMPLES)
    with watching() as watch, torch.no_grad():
        for window in row["windows"]:
            text = [token for token in window["tokens"] if token < tokenizer.eot]
            segment = whisper.pad_or_trim(mel[:, window["seek"] : window["seek"] + window["size"]], N_FRAMES)
            if text and window["size"] * HOP_LENGTH > 0:
                watch.seek = window["seek"]
                timing.find_alignment(model, tokenizer, text, segment, window["size"])
    return {"language": row["language"], "windows": watch.windows}


# ---- words alone: no model, made-up paths ----------------------------------------------------------------------------

TEXTS = [
    ("en", " Hello, world! It's (quite) \"nice\" - isn't it? Mr. O'Neil's 3.14% of $5,000... yes."),
    ("en", " [Music] ¿Qué? «Oui» – “Non”… e.g. a.m./p.m. C++ & C# {x} <y> ~z^2"),
    ("en", " A  double  blank \n and\ttab , stray . marks ' \" ( alone ) - - -"),
    ("de", " Größe, Äpfel und Öl: „Straße“ – süß! Naïve café."),
    ("fr", " L'été, c'est l'amour ; n'est-ce pas ? « Oui ! »"),
    ("ru", " Привет, мир! Это — тест? Да, конечно."),
    ("hi", " नमस्ते दुनिया। यह एक परीक्षण है।"),
    ("zh", "今天天气很好，我们去公园散步吧！真的吗？是的。“你好”"),
    ("ja", "今日は、とても良い天気ですね。散歩に行きましょう！"),
    ("th", "สวัสดีชาวโลก นี่คือการทดสอบ"),
    ("yue", "你食咗飯未呀？我哋一齊去啦！"),
    ("ko", " 안녕하세요, 세계! 이것은 시험입니다."),
    ("en", " Emoji 😀👍🏽 and flags 🇩🇪 inside 👩‍👩‍👧 text."),
    ("ar", " مرحبا بالعالم! هذا اختبار، نعم."),
]
MARKS = [("\"'“¿([{-", "\"'.。,，!！?？:：”)]}、"), ("", ""), ("([", ".,"), ("-", "-?")]


def alignment_case(whisper, random, multilingual, language, tokens, marks):
    """One made-up alignment through the library's own splitting, cutting and joining."""
    from whisper import timing
    from whisper.tokenizer import get_tokenizer

    tokenizer = get_tokenizer(multilingual, num_languages=100, language=language, task="transcribe")
    steps = [random.choice([0, 1, 2, 5, 10, 20, 120]) for _ in tokens]
    frames = [sum(steps[:i]) for i in range(len(tokens) + 1)]
    probabilities = [round(random.random(), 4) for _ in tokens]
    words, word_tokens = tokenizer.split_to_word_tokens(tokens + [tokenizer.eot])
    ends = [sum(len(t) for t in word_tokens[:i]) for i in range(len(word_tokens))]
    found = [
        timing.WordTiming(word, part, frames[a] / 50, frames[b] / 50, sum(probabilities[a:b]) / (b - a))
        for word, part, a, b in zip(words, word_tokens, ends[:-1], ends[1:])
    ]
    real_find, real_merge, seen = timing.find_alignment, timing.merge_punctuations, []

    def merge(alignment, prepended, appended):
        real_merge(alignment, prepended, appended)
        seen.extend((w.word, len(w.tokens), float(w.start), float(w.end), float(w.probability)) for w in alignment)

    timing.find_alignment, timing.merge_punctuations = lambda *args, **kwargs: found, merge
    try:
        timing.add_word_timestamps(
            segments=[{"tokens": tokens, "seek": 0, "start": 0.0, "end": 1.0}],
            model=None,
            tokenizer=tokenizer,
            mel=None,
            num_frames=3000,
            prepend_punctuations=marks[0],
            append_punctuations=marks[1],
            last_speech_timestamp=0.0,
        )
    finally:
        timing.find_alignment, timing.merge_punctuations = real_find, real_merge
    return {
        "vocabulary": 51866 if multilingual else 51864,
        "language": language if multilingual else "en",
        "prepend": marks[0],
        "append": marks[1],
        "tokens": tokens,
        "frames": frames,
        "probabilities": probabilities,
        "words": [[w, n, start, end, number(p, 9)] for w, n, start, end, p in seen],
    }


def write_cases(path):
    """Texts of many languages, whole and cut off in the middle of characters; then random tokens."""
    import random as randomness

    from .common import write_json_lines

    whisper = whisper_library()
    from whisper.tokenizer import get_tokenizer

    random = randomness.Random(7)
    rows = []
    for language, text in TEXTS:
        for multilingual in (False, True):
            tokenizer = get_tokenizer(multilingual, num_languages=100, language=language, task="transcribe")
            tokens = tokenizer.encode(text)
            for marks in MARKS:
                cut = tokens if marks[0] else tokens[: random.randrange(1, len(tokens) + 1)]
                rows.append(alignment_case(whisper, random, multilingual, language, cut, marks))
    for count in range(60):
        multilingual = count % 2 == 1
        language = random.choice(["en", "zh", "ja", "de"]) if multilingual else "en"
        low = [random.randrange(0, 300) for _ in range(random.randrange(1, 40))]  # bytes and short pieces
        tokens = [t if random.random() < 0.6 else random.randrange(0, 50000) for t in low]
        rows.append(alignment_case(whisper, random, multilingual, language, tokens, MARKS[count % 4]))
    write_json_lines(path, rows)
