#!/usr/bin/env python3
"""bench/languages.py [OPTION...] - recordings in which the language changes: ours beside faster-whisper.

    PYTHON bench/languages.py --out docs/results/languages.md

In: a Python with faster-whisper (or --no-peer), the program, the model base, silero-vad, a speech collection
(../shared/data beside the project). Out: tables for blocks of about 3, 8 and 20 s and gaps of 0 to 3 s: the share of
time with the right language, the delay of a switch, the error rate of the blocks beside that of the same blocks alone
with their language given, blocks that were translated; and whether single-language recordings keep their text.
Invariants: every system hears the same samples; what was computed is kept in the work folder and not computed again.
"""
import argparse
import json
import os
import subprocess
import sys
import textwrap
import time

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "mixed"))
import joined  # noqa: E402
import machine  # noqa: E402
import mixed_text  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ALL = "cs,de,en,es,fr,ja,nl,pt,ru,uk,zh"
GRID = 0.01   # seconds


# ---- ours ---------------------------------------------------------------------------------------------------------

class Ours:
    def __init__(self, options):
        self.program, self.work, self.model = options.program, options.work, options.model

    def run(self, name, files, arguments):
        """Transcribes those that are not done yet into FOLDER/name, and gives {file: its JSON}"""
        folder = os.path.join(self.work, name)
        os.makedirs(folder, exist_ok=True)
        results = {file: os.path.join(folder, os.path.basename(file)[:-4] + ".json") for file in files}
        missing = [file for file in files if not os.path.exists(results[file])]
        for file in missing:
            subprocess.run([self.program, file, "--model", self.model, "--format", "json", "--output-dir", folder,
                            "--quiet", *arguments], check=True, stdin=subprocess.DEVNULL)
        return {file: read_json(path) for file, path in results.items()}

    def mixed(self, recordings, name="ours", languages=None, extra=("--vad",)):
        found = {}
        for recording in recordings:
            listed = languages or ",".join(recording["languages"])
            found.update(self.run(name, [recording["file"]], ["--languages", listed, *extra]))
        return {file: {"text": result["text"], "spans": [(r["start"], r["end"], r["language"])
                                                          for r in result["regions"]]}
                for file, result in found.items()}

    def alone(self, blocks):
        found = {}
        for block in blocks:
            found.update(self.run("ours-alone", [block["file"]], ["--language", block["language"], "--vad"]))
        return {file: result["text"] for file, result in found.items()}


def read_json(path):
    with open(path, encoding="utf-8") as stream:
        return json.load(stream)


# ---- faster-whisper -----------------------------------------------------------------------------------------------

class Faster:
    """WhisperModel.transcribe with multilingual=True, the rest by default; its windows' languages are noted on the way,
    since its segments do not tell."""

    def __init__(self, options):
        self.work, self.path, self.model = options.work, options.peer_model, None

    def load(self):
        from faster_whisper import WhisperModel
        self.model = WhisperModel(self.path, device="cpu", cpu_threads=2, local_files_only=True)
        plain = self.model.generate_with_fallback
        self.windows = []

        def noted(encoder_output, prompt, tokenizer, options):
            frame = sys._getframe(1).f_locals
            self.windows.append((frame["seek"] / 100, tokenizer.language_code))
            return plain(encoder_output, prompt, tokenizer, options)
        self.model.generate_with_fallback = noted

    def run(self, name, file, **arguments):
        folder = os.path.join(self.work, name)
        path = os.path.join(folder, os.path.basename(file)[:-4] + ".json")
        if not os.path.exists(path):
            if not self.model:
                self.load()
            os.makedirs(folder, exist_ok=True)
            self.windows.clear()
            segments, info = self.model.transcribe(file, **arguments)
            text = "".join(segment.text for segment in segments)
            ends = [start for start, _ in self.windows[1:]] + [info.duration]
            spans = [(start, end, language) for (start, language), end in zip(self.windows, ends)]
            with open(path + ".part", "w", encoding="utf-8") as stream:
                json.dump({"text": text, "spans": spans}, stream, ensure_ascii=False)
            os.replace(path + ".part", path)
        return read_json(path)

    def mixed(self, recordings):
        return {recording["file"]: self.run("faster", recording["file"], multilingual=True) for recording in recordings}

    def alone(self, blocks):
        return {block["file"]: self.run("faster-alone", block["file"], language=block["language"])["text"]
                for block in blocks}


# ---- measures -----------------------------------------------------------------------------------------------------

def timeline(spans, seconds):
    """The language of each 10 ms; in a pause between two spans that of the nearer one"""
    count = int(seconds / GRID) + 2
    line, spans = [None] * count, sorted(spans)
    for i, (start, end, language) in enumerate(spans):
        first = 0 if i == 0 else (spans[i - 1][1] + start) / 2 / GRID
        last = count if i + 1 == len(spans) else (end + spans[i + 1][0]) / 2 / GRID
        for j in range(round(first), min(round(last), count)):
            line[j] = language
    return line


def measure_time(recording, spans):
    """(10 ms that are right, all, [delay of each switch in s, None: it was missed])"""
    right = count = 0
    delays = []
    line = timeline(spans, recording["blocks"][-1]["end"])
    for number, block in enumerate(recording["blocks"]):
        steps = range(round(block["start"] / GRID), round(block["end"] / GRID))
        good = [i for i in steps if line[i] == block["language"]]
        right, count = right + len(good), count + len(steps)
        if number > 0:
            delays.append((good[0] - steps[0]) * GRID if good else None)
    return right, count, delays


class Row:
    """The measures of one system on the recordings of one length and gap"""

    def __init__(self):
        self.right = self.count = self.errors = self.alone = self.tokens = self.translated = self.blocks = 0
        self.delays, self.wrong = [], []

    def add(self, recording, found, alone):
        right, count, delays = measure_time(recording, found["spans"])
        self.right, self.count, self.delays = self.right + right, self.count + count, self.delays + delays
        truth = [block["text"] for block in recording["blocks"]]
        for block, (errors, tokens, heard) in zip(recording["blocks"], mixed_text.by_block(truth, found["text"])):
            (errors_alone, _, _), = mixed_text.by_block([block["text"]], alone[block["file"]])
            self.errors, self.alone, self.tokens = self.errors + errors, self.alone + errors_alone, self.tokens + tokens
            self.blocks += 1
            if mixed_text.is_translated(block["language"], heard, errors, tokens):
                self.translated += 1
                self.wrong.append((os.path.basename(recording["file"]), block["language"], heard))

    def cells(self):
        heard = sorted(delay for delay in self.delays if delay is not None)
        missed = len(self.delays) - len(heard)
        late = f"{heard[len(heard) // 2]:.2f} / {heard[len(heard) * 9 // 10]:.2f}" if heard else "-"
        rate, alone = (100 * errors / self.tokens for errors in (self.errors, self.alone))
        return [f"{100 * self.right / self.count:.1f} %", late, f"{missed} of {len(self.delays)}", f"{rate:.1f} %",
                f"{alone:.1f} %", f"{rate - alone:+.1f}", f"{self.translated} of {self.blocks}"]


def together(recordings, found, alone, chosen):
    row = Row()
    for recording in recordings:
        if chosen(recording):
            row.add(recording, found[recording["file"]], alone)
    return row


# ---- single languages ---------------------------------------------------------------------------------------------

def plain_part(result):
    """What must not change: everything but the fields of languages"""
    return {"text": result["text"], "language": result["language"],
            "segments": [{key: value for key, value in segment.items() if not key.startswith("language")}
                         for segment in result["segments"]]}


def single_files(folder):
    """The longest clip of each language, and three of English, each under two minutes"""
    with open(os.path.join(folder, "manifest.jsonl"), encoding="utf-8") as stream:
        rows = [json.loads(line) for line in stream]
    rows = [row for row in rows if row["language"] != "none" and row["seconds"] < 120]
    rows.sort(key=lambda row: (row["language"], -row["seconds"], row["file"]))
    return [(row["language"], os.path.join(folder, row["file"])) for i, row in enumerate(rows)
            if sum(other["language"] == row["language"] for other in rows[:i]) < (3 if row["language"] == "en" else 1)]


def measure_single(ours, options):
    """[(language, seconds option, unchanged, plain language, languages heard)]"""
    found = []
    for language, file in single_files(options.folder):
        wav = os.path.join(options.work, "single-" + os.path.basename(file).rsplit(".", 1)[0] + ".wav")
        if not os.path.exists(wav):
            joined.write(wav, joined.decode(file))
        for name, extra in (("vad", ["--vad"]), ("plain", [])):
            before = ours.run("single-" + name, [wav], extra)[wav]
            after = ours.run("single-languages-" + name, [wav], ["--languages", ALL, *extra])[wav]
            found.append((language, name, plain_part(before) == plain_part(after), before["language"],
                          sorted({region["language"] for region in after["regions"]})))
    return found


# ---- the page -----------------------------------------------------------------------------------------------------

HEAD = ("| blocks | gap | system | time right | switch late: median / 90 % (s) | missed | error rate | alone | "
        "points | translated |\n|---|---|---|---|---|---|---|---|---|---|")


def table(recordings, systems):
    lines = [HEAD]
    for length in joined.LENGTHS:
        for gap in joined.GAPS:
            for name, found, alone in systems:
                row = together(recordings, found, alone, lambda r: r["length"] == length and r["gap"] == gap)
                lines.append(f"| {length} s | {gap:g} s | {name} | " + " | ".join(row.cells()) + " |")
    for name, found, alone in systems:
        row = together(recordings, found, alone, lambda r: r["length"] >= 8 and r["gap"] > 0)
        lines.append(f"| **8, 20 s** | **0.3 to 3 s** | **{name}** | " + " | ".join(row.cells()) + " |")
    return lines


def lists_table(recordings, found):
    """The same recordings with other lists: only the share of time"""
    lines = ["| list | 3 s | 8 s | 20 s |", "|---|---|---|---|"]
    for name, spans in found:
        cells = []
        for length in joined.LENGTHS:
            sums = [measure_time(r, spans[r["file"]]["spans"])[:2] for r in recordings if r["length"] == length]
            cells.append(f"{100 * sum(right for right, _ in sums) / sum(count for _, count in sums):.1f} %")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def by_language(recordings, spans):
    """[(language, share of time)] on blocks of 8 s and more with pauses"""
    sums = {}
    for recording in recordings:
        if recording["length"] < 8 or recording["gap"] == 0:
            continue
        line = timeline(spans[recording["file"]]["spans"], recording["blocks"][-1]["end"])
        for block in recording["blocks"]:
            steps = range(round(block["start"] / GRID), round(block["end"] / GRID))
            good, count = sums.get(block["language"], (0, 0))
            sums[block["language"]] = (good + sum(line[i] == block["language"] for i in steps), count + len(steps))
    return [(language, 100 * good / count) for language, (good, count) in sorted(sums.items())]


def fill(text):
    return textwrap.fill(text, 124)


MEASURES = """Time right: of the blocks' time, in steps of 10 ms; a pause that is in no region counts with the nearer
one. Switch late: from the first sample of a block to the first moment at which its language is the one said; missed:
never within the block. Error rate: words (characters of Chinese and Japanese) wrong, missing and added, over those
spoken, all blocks together; text is divided among blocks by the alignment with the fewest errors; Whisper's normaliser
for languages other than English, without diacritics and with simplified Chinese characters, for all. Alone: each block
as a file of its own with its language given, by the same system. Translated: """


def head(options, recordings):
    here, seconds = machine.describe(), sum(recording["blocks"][-1]["end"] for recording in recordings)
    groups = "; ".join(", ".join(group) for group in joined.GROUPS)
    return (f"`PYTHON bench/languages.py --out docs/results/languages.md`; model {options.model}; {here['cpu']}, "
            f"{here['cores']} cores; faster-whisper 1.2.1. {len(recordings)} recordings, {seconds / 60:.0f} minutes, "
            "of clips of the development set: blocks in one language each, of about 3, 8 and 20 s, in random order, "
            "with gaps of digital silence between them (clips inside a block: 0.3 s), silent edges of clips cut, all "
            f"blocks equally loud. Three groups: {groups} (a language without clips of that length is left out). Ours: "
            "`--vad --languages` with the group as the list. faster-whisper: `multilingual=True`, the rest by default; "
            "it takes no list.")


def single_part(single):
    unchanged = sum(same for _, _, same, _, _ in single)
    lines = ["## Single languages", "",
             fill("The longest clip of each language (of English three), with all eleven languages listed, with and "
                  "without `--vad`, against the same run without `--languages`, which detects the language from the "
                  "first 30 s: every field of every segment but language and its probability is the same in "
                  f"{unchanged} of {len(single)} runs."), ""]
    return lines + [f"- {language}, {name}: plain detection says {before}, the stretches {', '.join(after)}"
                    for language, name, same, before, after in single if not same]


def page(options, recordings, systems, lists, single):
    name, found, alone = systems[0]
    criterion = " ".join(mixed_text.is_translated.__doc__.split()).replace("Whether a block", "a block")
    shares = ", ".join(f"{language} {share:.1f} %" for language, share in by_language(recordings, found))
    translated = f"- translated by {name}: "
    wrong = together(recordings, found, alone, lambda r: r["length"] >= 8 and r["gap"] > 0).wrong
    lines = ["# Languages that change within a recording", "", fill(head(options, recordings)), "",
             *table(recordings, systems), "", fill(" ".join((MEASURES + criterion).split())), "",
             "## By language, and with other lists", "",
             fill(f"{name}, blocks of 8 s and more with pauses: {shares}."), "",
             "The share of time that is right on the recordings with gaps of 0.3 s, by what is listed:", "",
             *lists_table([r for r in recordings if r["gap"] == 0.3], lists), "", *single_part(single),
             *[translated + f"{file}, {language}: {' '.join(heard)[:80]}" for file, language, heard in wrong]]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(prog="bench/languages.py", description="Languages that change.")
    parser.add_argument("--folder", default=os.path.join(os.path.dirname(ROOT), "shared", "data"), help="the speech")
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "max-whisper"))
    parser.add_argument("--model", default="base")
    parser.add_argument("--peer-model", default=os.path.expanduser("~/.cache/max-whisper/models/base"),
                        help="a CTranslate2 folder")
    parser.add_argument("--no-peer", action="store_true", help="without faster-whisper")
    parser.add_argument("--work", default=os.path.join(ROOT, "build", "languages"), help="where results are kept")
    parser.add_argument("--out", help="a page; else standard output")
    options = parser.parse_args()
    recordings = joined.build(options.folder, options.work)["recordings"]
    blocks = [block for recording in recordings if recording["gap"] == 0 for block in recording["blocks"]]
    ours, started = Ours(options), time.time()
    listed = ours.mixed(recordings)
    systems = [("max-whisper", listed, ours.alone(blocks))]
    some = [recording for recording in recordings if recording["gap"] == 0.3]
    lists = [("the group's", listed), ("all eleven", ours.mixed(some, "ours-eleven", ALL)),
             ("any", ours.mixed(some, "ours-any", "any"))]
    single = measure_single(ours, options)
    if not options.no_peer:
        faster = Faster(options)
        systems.append(("faster-whisper", faster.mixed(recordings), faster.alone(blocks)))
    text = page(options, recordings, systems, lists, single)
    print(f"{time.time() - started:.0f} s", file=sys.stderr)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as stream:
            stream.write(text)
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
