"""bench/report.py - the runs of bench/peers.py as tables: for the terminal, and as Markdown.

In: the result that peers.py collected. Out: text; save() writes PREFIX.json and PREFIX.md.
Invariants: every figure comes from the runs in the result; nothing is rounded in the JSON.
"""
import json
import os
import statistics

OURS = "max-whisper max"      # what ratios are against
OURS_ELSE = "max-whisper cpu"  # where it did not run
OURS_INT8 = "max-whisper int8"
WORDS = ("version", "model", "instructions", "reason")  # columns that are not numbers
HELD = {"native": "", "avx2": ", held to AVX2"}
REFERENCE = "openai-whisper f32"


def unique(values):
    return list(dict.fromkeys(values))


class Cell:
    """The runs of one engine on one recording of one model with one instruction set."""

    def __init__(self, runs):
        self.seconds = [run["seconds"] for run in runs]
        self.median, self.least = statistics.median(self.seconds), min(self.seconds)
        self.text, self.wer = runs[-1]["text"], runs[-1]["wer"]
        self.steady = len(set(run["text"] for run in runs)) == 1
        self.peak_mib = max(run["peak_kib"] for run in runs) / 1024


def cells(result, model, isa, audio, condition="alone"):
    """{engine: Cell}, in the order of the runs"""
    runs = [run for run in result["runs"]
            if (run["model"], run["isa"], run["audio"], run["condition"]) == (model, isa, audio, condition)]
    return {engine: Cell([run for run in runs if run["engine"] == engine])
            for engine in unique(run["engine"] for run in runs)}


def ours_among(row):
    return row.get(OURS) or row.get(OURS_ELSE)


def same(text, other):
    return " ".join(text.split()) == " ".join(other.split())


def ratio(cell, ours):
    return f"{cell.median / ours.median:.2f}" if ours else "–"


def speed_rows(result, model, isa, audio):
    seconds = next(item["seconds"] for item in result["audio"] if item["name"] == audio)
    row = cells(result, model, isa, audio)
    ours, ours_int8, reference = ours_among(row), row.get(OURS_INT8), row.get(REFERENCE)
    yield ["engine", "median s", "least s", "× real time", "times ours", "times ours int8", "words wrong",
           "characters", "text", "peak MiB"]
    for engine, cell in row.items():
        text = "–" if not reference else "same" if same(cell.text, reference.text) else "other"
        yield [engine, f"{cell.median:.3f}", f"{cell.least:.3f}", f"{seconds / cell.median:.1f}", ratio(cell, ours),
               ratio(cell, ours_int8), f"{100 * cell.wer:.1f} %", str(len(cell.text.strip())),
               text if cell.steady else "varies", f"{cell.peak_mib:.0f}"]


def start_rows(result, model, isa):
    yield ["engine", "load s", "ready s", "first text s", "version"]
    for row in result["engines"]:
        if (row["model"], row["isa"]) == (model, isa):
            yield [row["engine"], f"{row['load_s']:.3f}", f"{row['start_s']:.3f}", f"{row['first_result_s']:.3f}",
                   row["version"]]


def contention_rows(result, model, isa, audio):
    idle, busy = (cells(result, model, isa, audio, condition) for condition in ("beside idle", "beside busy"))
    yield ["engine", "alone s", "beside a busy process s", "slower by"]
    for engine in idle:
        if engine in busy:
            yield [engine, f"{idle[engine].median:.3f}", f"{busy[engine].median:.3f}",
                   f"{busy[engine].median / idle[engine].median:.2f}"]


def missing_rows(result):
    """Every engine that is in no table, or not in all, and why"""
    yield ["engine", "model", "instructions", "reason"]
    for item in result["skipped"]:
        yield [item["engine"], item["model"], item["isa"], item["reason"].replace("|", "/")]
    for engine, reason in result["left_out"].items():
        yield [engine, "any", "any", reason]


def sections(result):
    """(title, rows) of every table that has a row"""
    for title, rows in all_sections(result):
        rows = list(rows)
        if len(rows) > 1:
            yield title, rows


def all_sections(result):
    for model, isa in unique((row["model"], row["isa"]) for row in result["engines"]):
        held = HELD[isa]
        for item in result["audio"]:
            yield (f"{model}{held}, {item['name']}: {item['seconds']:.1f} s of speech",
                   speed_rows(result, model, isa, item["name"]))
        yield f"{model}{held}, from nothing to the first text (short recording)", start_rows(result, model, isa)
        for audio in unique(run["audio"] for run in result["runs"] if run["condition"] == "beside busy"):
            yield (f"{model}{held}, {audio}: beside another process that keeps a processor busy",
                   contention_rows(result, model, isa, audio))
    yield "What did not run", missing_rows(result)


def facts(result):
    """Lines that say what the figures are of"""
    m = result["machine"]
    yield f"max-whisper {result['revision']}, {result['date']}, `{result['command']}`"
    yield (f"{m['cpu']}, {m['cores']} processors ({' '.join(m['flags'])}), {m['memory_gib']} GiB, {m['system']}; load "
           f"{result['load_before']} before, {result.get('load_after')} after")
    yield (f"{result['threads']} threads; English, beam 5, temperature 0 without fallback; engines in turn, "
           f"{result['rounds']} runs each, model loaded and warm")
    for item in result["audio"]:
        what = f", {item['what']}" if item["what"] else ""
        yield f"{item['name']}: {item['seconds']:.1f} s, {item['words']} words{what}"


def as_columns(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        first, *rest = row
        padded = [first.ljust(widths[0])]
        for value, width, title in zip(rest, widths[1:], rows[0][1:]):
            padded.append(value.ljust(width) if title in WORDS else value.rjust(width))
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def as_text(result):
    parts = ["\n".join(facts(result))]
    parts += [f"{title}\n{as_columns(rows)}" for title, rows in sections(result)]
    return "\n" + "\n\n".join(parts) + "\n"


def as_markdown(result):
    parts = ["# Beside other engines, on the CPU", "\n".join(f"- {fact}" for fact in facts(result)),
             "Written by `make bench-peers` (`bench/peers.py`), never by hand. Every engine reads the same weights: "
             "the checkpoint itself or what `max-whisper model convert` made of it. `whisper.cpp` is the package "
             "index's build (AVX2), `whisper.cpp native` the same release compiled for this processor; `openvino` "
             "and `onnxruntime` read what optimum exports from our safetensors, and `openvino genai auto` chooses "
             "the precision itself.",
             "Times are seconds of a run from samples in memory to the last segment. *Times ours* is the median over "
             f"that of {OURS} ({OURS_ELSE} where it did not run), *times ours int8* over that of {OURS_INT8}, both "
             "with the same instruction set. *Words wrong* is the word error rate against the true transcript "
             f"(`bench/wer.py`); *text* compares with {REFERENCE}'s, white space aside."]
    for title, rows in sections(result):
        head, *body = ("| " + " | ".join(row) + " |" for row in rows)
        rule = "|---|" + "".join("---|" if title in WORDS else "---:|" for title in rows[0][1:])
        parts += [f"## {title}", "\n".join([head, rule, *body])]
    return "\n\n".join(parts) + "\n"


def save(result, prefix):
    os.makedirs(os.path.dirname(os.path.abspath(prefix)), exist_ok=True)
    as_json = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
    for extension, text in (("json", as_json), ("md", as_markdown(result))):
        part = f"{prefix}.{extension}.part"
        with open(part, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(part, f"{prefix}.{extension}")
