"""bench/mixed/joined.py - recordings in which the language changes, made of clips of a speech collection.

In: a folder with manifest.jsonl (file, language, transcript, seconds; a line for each clip) and the ffmpeg command.
Out: blocks (about so many seconds of one language, whole clips, with their text) and recordings (blocks in random order
with a gap between them) as 16 kHz mono 16-bit WAV files in a work folder.
Invariants: the same folder gives the same bytes; a clip's silent edges are cut, so that a gap is as long as it says;
every block is equally loud; two blocks in a row are never in the same language; gaps differ in nothing else.
"""
import array
import json
import math
import os
import random
import subprocess
import sys
import wave

RATE = 16000
SEED = 18
INSIDE = 0.3                       # seconds between the clips of one block
LEVEL = -23.0                      # dBFS, root mean square of a block
LENGTHS = {3: (1.9, 4.4), 8: (6.0, 11.5), 20: (14.0, 27.0)}   # the shortest and the longest block of a length
GAPS = (0.0, 0.3, 1.0, 3.0)
# Languages that are heard together; a list that a user might give.
GROUPS = (("en", "de", "uk"), ("es", "fr", "ru", "zh"), ("cs", "nl", "pt", "ja"))
COUNTS = {3: 6, 8: 6, 20: 4}       # blocks in a recording
FRAME = RATE // 50
FLOOR = 35.0                       # dB below a clip's loudest frame: quieter edges are cut


class Clip:
    def __init__(self, row, folder):
        self.path, self.language, self.text = os.path.join(folder, row["file"]), row["language"], row["transcript"]
        self.samples = trim(decode(self.path))
        self.seconds = len(self.samples) / RATE


class Block:
    """Clips of one language, one after another"""
    def __init__(self, clips):
        self.language, self.text = clips[0].language, " ".join(clip.text for clip in clips)
        self.samples = array.array("h")
        for i, clip in enumerate(clips):
            self.samples.extend(silence(INSIDE if i else 0))
            self.samples.extend(clip.samples)
        self.samples = level(self.samples)
        self.seconds = len(self.samples) / RATE


def decode(path):
    raw = subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-i", path, "-f", "s16le", "-ac", "1", "-ar", str(RATE),
                          "-"], check=True, stdout=subprocess.PIPE).stdout
    return to_array(raw)


def to_array(raw):
    samples = array.array("h")
    samples.frombytes(raw)
    if sys.byteorder == "big":
        samples.byteswap()
    return samples


def power(samples):
    return sum(x * x for x in samples) / max(len(samples), 1)


def trim(samples):
    """Without its silent edges"""
    frames = [power(samples[i:i + FRAME]) for i in range(0, len(samples), FRAME)]
    loud = max(frames) * 10 ** (-FLOOR / 10)
    speaks = [i for i, value in enumerate(frames) if value > loud]
    return samples[speaks[0] * FRAME:(speaks[-1] + 1) * FRAME]


def level(samples):
    gain = 32768 * 10 ** (LEVEL / 20) / math.sqrt(power(samples))
    gain = min(gain, 32767 / max(max(samples), -min(samples)))
    return array.array("h", (int(max(-32768, min(32767, round(x * gain)))) for x in samples))


def silence(seconds):
    return array.array("h", bytes(2 * round(seconds * RATE)))


def write(path, samples):
    with wave.open(path, "wb") as out:
        out.setparams((1, 2, RATE, 0, "NONE", ""))
        out.writeframes(samples.tobytes())
    return path


def read_clips(folder):
    """language -> clips that have a text, in the manifest's order; of English, which has most, some of LibriSpeech"""
    clips = {}
    with open(os.path.join(folder, "manifest.jsonl"), encoding="utf-8") as stream:
        rows = [json.loads(line) for line in stream]
    rows = [row for row in rows if row["language"] != "none" and row.get("transcript") and row["seconds"] < 28]
    english = [row for row in rows if row["language"] == "en" and "librispeech" in row["set"]][::4]
    for row in english + [row for row in rows if row["language"] != "en"]:
        clips.setdefault(row["language"], []).append(Clip(row, folder))
    return clips


def make_block(draw, clips, length, fresh):
    """Clips drawn until the block is long enough, those not used yet first; None if they cannot fill it"""
    shortest, longest = LENGTHS[length]
    for _ in range(200):
        chosen, seconds = [], 0.0
        for clip in draw.sample(clips, len(clips)):
            after = seconds + clip.seconds + (INSIDE if chosen else 0)
            if after <= longest and (fresh is None or id(clip) in fresh):
                chosen.append(clip)
                seconds = after
            if seconds >= max(shortest, 0.85 * length):
                break
        if seconds >= shortest:
            return chosen
    return None


def make_blocks(clips, group, length):
    """The blocks of a recording: the group's languages in turn, shuffled, never twice in a row; those that have no
    clips for this length are left out"""
    draw = random.Random(f"{SEED} {group} {length}")
    unused = {language: {id(clip) for clip in clips[language]} for language in group}
    possible = [language for language in group if make_block(draw, clips[language], length, None)]
    blocks = []
    while len(blocks) < COUNTS[length]:
        turn = draw.sample(possible, len(possible))
        if blocks and turn[0] == blocks[-1].language:
            turn.append(turn.pop(0))
        for language in turn[:COUNTS[length] - len(blocks)]:
            chosen = make_block(draw, clips[language], length, unused[language])
            if not chosen:   # all were heard: begin again
                unused[language] = {id(clip) for clip in clips[language]}
                chosen = make_block(draw, clips[language], length, None)
            unused[language] -= {id(clip) for clip in chosen}
            blocks.append(Block(chosen))
    return blocks


def join(blocks, gap):
    """(samples, [(start, end) of each block in seconds])"""
    samples, spans = silence(0.5), []
    for i, block in enumerate(blocks):
        samples.extend(silence(gap if i else 0))
        spans.append((len(samples) / RATE, (len(samples) + len(block.samples)) / RATE))
        samples.extend(block.samples)
    samples.extend(silence(0.5))
    return samples, spans


def build(folder, work):
    """Writes everything into the work folder, unless it is there, and returns what it is:
    {"recordings": [{file, length, gap, languages, blocks: [{file, language, text, start, end}]}]}"""
    index = os.path.join(work, "recordings.json")
    if os.path.exists(index):
        with open(index, encoding="utf-8") as stream:
            return json.load(stream)
    os.makedirs(work, exist_ok=True)
    clips, recordings = read_clips(folder), []
    for number, group in enumerate(GROUPS):
        for length in LENGTHS:
            blocks = make_blocks(clips, group, length)
            files = [write(os.path.join(work, f"block-{number}-{length}-{i}.wav"), block.samples)
                     for i, block in enumerate(blocks)]
            for gap in GAPS:
                samples, spans = join(blocks, gap)
                path = write(os.path.join(work, f"joined-{number}-{length}-{gap:g}.wav"), samples)
                recordings.append({"file": path, "length": length, "gap": gap, "languages": list(group), "blocks": [
                    {"file": file, "language": block.language, "text": block.text, "start": start, "end": end}
                    for file, block, (start, end) in zip(files, blocks, spans)]})
    with open(index + ".part", "w", encoding="utf-8") as stream:
        json.dump({"recordings": recordings}, stream, indent=1, ensure_ascii=False)
    os.replace(index + ".part", index)
    return {"recordings": recordings}
