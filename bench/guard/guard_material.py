"""bench/guard/guard_material.py - the sounds that the guard against invented text is fitted and measured on.

In: Debian packages (apt-get download; nothing is installed), generated noise, the development set's manifest.
Out: 16 kHz mono 16-bit WAV clips in the cache folder and material.jsonl, a line for each: id, half ("fit" or "test"),
class, condition, seconds, and for speech its true text and language.
Invariants: the halves share no class of sounds, no package and no speaker; which is in which is fixed by the tables
below. Random numbers have fixed seeds: made again, a clip has the same bytes.
"""
import fnmatch
import glob
import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
import wave

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "lib"))
from fetchlib import cache_folder, say  # noqa: E402

RATE = 16000
SHORT_S, LONG_S = 5, 30

# Sounds out of packages: half, class, kind, package, patterns below usr/share (and what is left out), seconds at most.
# lint: table
NOT_SPOKEN = "*voice*", "*tavern*", "*inn_*", "*meal_*", "*ration_*", "*main_square*", "*lobby*", "*choir*", "*vox*"
HUMAN = ("*human-*", "*dwarf-*", "*orc-*", "*ogre-*", "*goblin-*", "*ghoul*", "*zombie*", "*groan*", "*ugg*", "*wail*",
         "*mermaid*", "*mermen*", "*elf-hit*", "*lich-*", "*troll-*")
PACKAGED = [
    ("fit", "wesnoth-music", "music", "wesnoth-1.16-music", ["*.ogg"], [], 600),
    ("fit", "fillets-music", "music", "fillets-ng-data", ["*/fillets-ng/music/*.ogg"], [], 300),
    ("fit", "wesnoth-sounds", "everyday", "wesnoth-1.16-data", ["*/sounds/*.ogg", "*/sounds/*.wav"], HUMAN, 420),
    ("fit", "wesnoth-voices", "human", "wesnoth-1.16-data", ["*/core/sounds/" + name for name in HUMAN],
     ["*canter*"], 300),
    ("fit", "sonic-pi", "everyday", "sonic-pi-samples", ["*.flac"], ["*choir*", "*voxy*", "*robot*", "*phone*"], 300),
    ("fit", "colobot", "everyday", "colobot-common-sounds", ["*/sounds/*.wav"], [], 240),
    ("fit", "minetest", "everyday", "minetest-data", ["*.ogg"], ["*devtest*"], 240),
    ("fit", "oxygen", "everyday", "oxygen-sounds", ["*.ogg"], [], 150),
    ("fit", "horizons", "everyday", "unknown-horizons", ["*/audio/sounds/*.ogg"], NOT_SPOKEN, 120),
    ("test", "warzone-music", "music", "warzone2100-music", ["*.ogg", "*.opus"], [], 1200),
    ("test", "moh-music", "music", "asterisk-moh-opsound-wav", ["*.wav"], [], 600),
    ("test", "widelands-music", "music", "widelands-data", ["*/music/*.ogg"], [], 600),
    ("test", "lomiri", "music", "lomiri-sounds", ["*.ogg"], [], 240),
    ("test", "stamps", "everyday", "tuxpaint-stamps-default", ["*/animals/*.ogg", "*/household/*.ogg", "*/hobbies/*.ogg",
     "*/naturalforces/*.ogg", "*/vehicles/*.ogg", "*/seasonal/newyears/*.ogg"], ["*_desc*"], 600),
    ("test", "widelands", "everyday", "widelands-data", ["*/data/sound/*.ogg", "*/critters/*.ogg"], NOT_SPOKEN, 420),
    ("test", "scratch", "everyday", "scratch", ["*/Sounds/Animal/*", "*/Sounds/Effects/*", "*/Sounds/Electronic/*",
     "*/Sounds/Percussion/*"], [], 300),
    ("test", "scratch-human", "human", "scratch", ["*/Sounds/Human/*"], ["*PartyNoise*"], 120),
    ("test", "opensfx", "everyday", "openttd-opensfx", ["*/opensfx.cat"], [], 300),
    ("test", "simutrans", "everyday", "simutrans-pak64", ["*.wav"], [], 150),
    ("test", "freedesktop", "everyday", "sound-theme-freedesktop", ["*.oga"], ["*audio-channel*", "*audio-test*"], 150),
    ("test", "freeciv", "everyday", "freeciv-data", ["*/stdsounds/*.ogg"], [], 90),
    ("test", "buckle", "clicks", "bucklespring-data", ["*.wav"], [], 120),
]
# Generated sounds: half, class, kind, seconds of each clip.
GENERATED = [
    ("fit", "zeros", "silence", [5, 30, 60]),
    ("fit", "white", "noise", [5, 5, 5, 30, 30, 30, 120]),
    ("fit", "brown", "noise", [5, 5, 5, 30, 30, 120]),
    ("fit", "blue", "noise", [5, 5, 30, 60]),
    ("fit", "line", "noise", [5, 5, 5, 30, 30, 60]),
    ("fit", "hum50", "hum", [5, 5, 5, 30, 30, 60]),
    ("fit", "metronome", "clicks", [5, 5, 30, 60]),
    ("fit", "dtmf", "clicks", [5, 5, 30]),
    ("test", "dither", "silence", [5, 30, 60, 300]),
    ("test", "room", "silence", [5, 5, 30, 60, 120]),
    ("test", "pink", "noise", [5, 5, 5, 5, 30, 30, 30, 120, 300, 300]),
    ("test", "violet", "noise", [5, 5, 5, 30, 30, 120]),
    ("test", "velvet", "noise", [5, 5, 5, 30, 30, 120]),
    ("test", "wind", "noise", [5, 5, 5, 5, 30, 30, 30, 120, 300]),
    ("test", "hum60", "hum", [5, 5, 5, 5, 30, 30, 120, 300]),
    ("test", "crackle", "clicks", [5, 5, 5, 30, 30, 120]),
    ("test", "callprogress", "clicks", [5, 5, 5, 30, 30, 60]),
]
# Development set: which half a speaker or a source is in. LibriSpeech's speakers alternate, in the order of their
# names; the chapter is one of them (777, test).
SOURCES = {"fleurs-5lang/en": "fit", "ljspeech-32/en": "fit", "asterisk-core-8k/en": None, "formats-derived/en": None,
           "earnings22-fleurs-clips/en": "test", "misc/en": "test", "fleurs-5lang/de": "fit", "kerstin-cc0/de": "fit",
           "fleurs-5lang/es": "fit", "es-cajal-dd/es": "fit", "fillets-cs/cs": "fit", "ru-hse-phrases/ru": "fit",
           "fleurs-5lang/fr": "test", "fleurs-5lang/pt": "test", "nathalie-cc0/nl": "test", "asterisk-uk/uk": "test",
           "asterisk-core-8k/ru": "test", "asterisk-core-8k/es": "test"}
# lint: end
SNRS = 20, 10, 5, 0
OVER = {"fit": ["white", "wesnoth-music", "line"], "test": ["pink", "warzone-music", "wind"]}
AROUND_S = 5, 15, 30, 60, 120


# ---- samples -------------------------------------------------------------------------------------------------------

def decode(path, data=None):
    """Any file as samples in [-1, 1]; None if it is not sound"""
    done = subprocess.run(["ffmpeg", "-v", "error", "-i", path, "-ac", "1", "-ar", str(RATE), "-f", "f32le", "-"],
                          input=data or b"", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    samples = np.frombuffer(done.stdout, dtype="<f4")
    return samples if done.returncode == 0 and samples.size else None


def save(path, samples):
    with wave.open(path + ".part", "wb") as out:
        out.setparams((1, 2, RATE, 0, "NONE", ""))
        out.writeframes((np.clip(samples, -1, 1) * 32767).round().astype("<i2").tobytes())
    os.rename(path + ".part", path)


def rms(samples):
    return float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))) + 1e-12)


def to_db(samples, db):
    """Scaled to an RMS of so many dB of full scale"""
    return samples * (10 ** (db / 20) / rms(samples))


def seed_of(name):
    return np.random.default_rng(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little"))


def coloured(random, n, power):
    """Noise whose amplitude is proportional to frequency ** power"""
    spectrum = np.fft.rfft(random.standard_normal(n))
    frequency = np.fft.rfftfreq(n, 1 / RATE)
    frequency[0] = frequency[1]
    return np.fft.irfft(spectrum * np.maximum(frequency, 20) ** power, n)


def tones(n, frequencies, on_s, off_s):
    """A sum of sines, switched on and off"""
    t = np.arange(n) / RATE
    wave_ = sum(np.sin(2 * np.pi * f * t) for f in frequencies)
    return wave_ * ((t % (on_s + off_s)) < on_s)


def impulses(random, n, at):
    out = np.zeros(n)
    click = random.standard_normal(80) * np.exp(-np.arange(80) / 16)
    for i in at:
        end = min(n, int(i) + 80)
        out[int(i):end] += click[:end - int(i)] * random.uniform(0.3, 1)
    return out


def generate(name, random, n, db):
    powers = {"white": 0, "pink": -0.5, "brown": -1, "blue": 0.5, "violet": 1}
    t = np.arange(n) / RATE
    if name in powers:
        return to_db(coloured(random, n, powers[name]), db)
    if name == "zeros":
        return np.zeros(n)
    if name == "dither":
        return (random.random(n) - random.random(n)) / 32767
    if name == "room":
        return to_db(coloured(random, n, -0.7) + 0.2 * np.sin(2 * np.pi * 120 * t), -68 + (db + 60) / 8)
    if name == "line":
        spectrum = np.fft.rfft(random.standard_normal(n))
        frequency = np.fft.rfftfreq(n, 1 / RATE)
        return to_db(np.fft.irfft(spectrum * ((frequency > 300) & (frequency < 3400)), n), db)
    if name == "velvet":
        return to_db((random.random(n) < 0.03) * random.choice([-1.0, 1.0], n), db)
    if name == "wind":
        slow = np.interp(t, np.arange(0, t[-1] + 2, 0.7), random.uniform(0.05, 1, int((t[-1] + 2) / 0.7) + 1)[
            :len(np.arange(0, t[-1] + 2, 0.7))])
        return to_db(coloured(random, n, -0.8) * slow, db)
    if name in ("hum50", "hum60"):
        base = int(name[3:])
        hum = sum(random.uniform(0.2, 1) / k * np.sin(2 * np.pi * base * k * t + random.uniform(0, 6))
                  for k in range(1, 16))
        return to_db(hum, db) + to_db(coloured(random, n, -0.3), db - 25)
    if name == "metronome":
        return impulses(random, n, np.arange(0, n, RATE * 60 / random.uniform(50, 180))) * 10 ** (db / 40)
    if name == "crackle":
        return impulses(random, n, random.uniform(0, n, int(n / RATE * random.uniform(2, 12)))) * 10 ** (db / 40)
    if name == "dtmf":
        keys = [(a, b) for a in (697, 770, 852, 941) for b in (1209, 1336, 1477)]
        out = np.zeros(n)
        for i in range(0, n - RATE // 4, RATE // 4):
            a, b = keys[random.integers(len(keys))]
            out[i:i + RATE // 6] = tones(RATE // 6, (a, b), 1, 0)
        return to_db(out, max(db, -40))
    kinds = [((440, 480), 2, 4), ((480, 620), 0.5, 0.5), ((350, 440), 9, 0.1), ((425,), 1, 4), ((1400, 2060), 0.1, 0.1)]
    return to_db(tones(n, *kinds[random.integers(len(kinds))]), max(db, -40))   # callprogress


# ---- packages ------------------------------------------------------------------------------------------------------

def unpacked(folder, package):
    """The folder with a package's files, downloaded if it is not there"""
    place = os.path.join(folder, "packages", package)
    if not os.path.isdir(place):
        downloads = os.path.join(folder, "downloads")
        os.makedirs(downloads, exist_ok=True)
        say(f"{package}: downloading")
        subprocess.run(["apt-get", "download", "-qq", package], cwd=downloads, check=True)
        file = sorted(glob.glob(os.path.join(downloads, package + "_*.deb")))[-1]
        os.makedirs(os.path.dirname(place), exist_ok=True)
        subprocess.run(["dpkg-deb", "-x", file, place + ".part"], check=True)
        os.rename(place + ".part", place)
    return place


def files_of(place, patterns, left_out):
    found = []
    for folder, _, names in sorted(os.walk(place)):
        for name in sorted(names):
            path = os.path.join(folder, name)
            if any(fnmatch.fnmatch(path, p) for p in patterns) and not any(fnmatch.fnmatch(path, p) for p in left_out):
                found.append(path)
    return found


def riffs(path):
    """The WAV files inside another file (OpenTTD's sounds)"""
    with open(path, "rb") as stream:
        data = stream.read()
    at, sounds = data.find(b"RIFF"), []
    while at >= 0:
        size = int.from_bytes(data[at + 4:at + 8], "little") + 8
        sounds.append((f"{len(sounds):02d}", decode("-", data[at:at + size])))
        at = data.find(b"RIFF", at + size)
    return sounds


def shaped(samples, index):
    """A short sound as a clip of 5 s: followed by silence, or repeated with pauses, in turn; a long one is cut."""
    n = SHORT_S * RATE
    if samples.size > LONG_S * RATE:
        start = (samples.size - LONG_S * RATE) // 2
        return samples[start:start + LONG_S * RATE]
    if samples.size >= n:
        return samples
    pause = np.zeros(RATE // 2, dtype=samples.dtype)
    copies = max(1, n // (samples.size + pause.size)) if index % 2 else 1
    body = np.concatenate([np.concatenate([samples, pause]) for _ in range(copies)])[:n]
    return np.concatenate([body, np.zeros(n - body.size, dtype=body.dtype)])


def typed(sounds, random, seconds):
    """Key strokes at the pace of typing"""
    out, at = np.zeros(seconds * RATE), 0
    while at < out.size:
        sound = sounds[random.integers(len(sounds))]
        end = min(out.size, at + sound.size)
        out[at:end] += sound[:end - at]
        at += int(random.uniform(0.08, 0.5) * RATE)
    return out


def spread(items, n):
    """n of the items, evenly"""
    return items if len(items) <= n else [items[i * len(items) // n] for i in range(n)]


def packaged_sounds(folder, class_, package, patterns, left_out, seconds):
    """(name, samples) of a class, of so many seconds in all"""
    files = files_of(unpacked(folder, package), patterns, left_out)
    if package == "openttd-opensfx":
        sounds = [sound for path in files for sound in riffs(path)]
    else:
        wanted = seconds // SHORT_S
        sounds = [(os.path.splitext(os.path.basename(path))[0], decode(path)) for path in spread(files, wanted)]
    sounds = [(name, s) for name, s in sounds if s is not None and s.size >= RATE // 20]
    if class_ == "buckle":
        keys = [s for _, s in sounds]
        return [(f"typed{i}", typed(keys, seed_of(f"typed{i}"), n)) for i, n in enumerate((5, 5, 30, 60))]
    clips, total = [], 0
    if "music" in class_:   # long files: 30 s out of the middle; the first two whole, up to 5 minutes
        clips = [(name + "-long", s[:300 * RATE]) for name, s in sounds if s.size > 60 * RATE][:1]
        total = sum(s.size for _, s in clips) / RATE
    for i, (name, s) in enumerate(sounds):
        clip = shaped(s, i)
        if total + clip.size / RATE > seconds:
            continue
        clips.append((name, clip))
        total += clip.size / RATE
    return clips


# ---- what there is -------------------------------------------------------------------------------------------------

class Material:
    def __init__(self, folder):
        self.folder, self.lines, self.pools = folder, [], {}
        os.makedirs(os.path.join(folder, "clips"), exist_ok=True)

    def add(self, half, class_, kind, name, samples, **more):
        name = re.sub(r"[^A-Za-z0-9_.+-]", "_", f"{half}-{class_}-{name}")
        path = os.path.join("clips", name + ".wav")
        save(os.path.join(self.folder, path), samples)
        self.lines.append({"id": name, "path": path, "half": half, "class": class_, "kind": kind,
                           "seconds": round(len(samples) / RATE, 3), **more})

    def add_sounds(self):
        for half, class_, kind, package, patterns, left_out, seconds in PACKAGED:
            clips = packaged_sounds(self.folder, class_, package, patterns, left_out, seconds)
            self.pools[class_] = [s for _, s in clips]
            for name, samples in clips:
                self.add(half, class_, kind, name, samples)
        for half, class_, kind, lengths in GENERATED:
            self.pools[class_] = []
            for i, seconds in enumerate(lengths):
                random = seed_of(f"{class_}{i}")
                db = -60 + 50 * ((i * 3) % len(lengths)) / max(1, len(lengths) - 1)
                samples = generate(class_, random, seconds * RATE, db)
                self.pools[class_].append(samples)
                self.add(half, class_, kind, f"{i}-{seconds}s{round(db)}dB", samples)

    # ---- speech ----

    def say(self, half, source, condition, name, samples, entry, **more):
        self.add(half, f"{source}-{condition}", "speech", name, samples, condition=condition, source=source,
                 text=entry["text"], language=entry["language"], **more)

    def background(self, half, class_, name, n):
        pool = [s for s in self.pools[class_] if rms(s) > 1e-4] or self.pools[class_]
        random = seed_of(name)
        sound = np.tile(pool[random.integers(len(pool))], 1)
        sound = np.tile(sound, n // sound.size + 2)
        start = random.integers(sound.size - n)
        return sound[start:start + n]

    def conditions(self, half, source, name, samples, entry):
        for db in (-20, -35):
            self.say(half, source, f"quiet{-db}", name, samples * 10 ** (db / 20), entry)
        over = OVER[half]
        for i, snr in enumerate(SNRS):
            class_ = over[(i + len(name) + sum(map(ord, name))) % len(over)]
            noise = self.background(half, class_, name + str(snr), samples.size)
            mixed = samples + noise * (rms(samples) / rms(noise) / 10 ** (snr / 20))
            self.say(half, source, f"snr{snr}", name, mixed / max(1, np.abs(mixed).max()), entry, over=class_)
        self.say(half, source, "telephone", name, telephone(samples), entry)

    def embed(self, half, items):
        classes = [c for h, c, *_ in PACKAGED if h == half] + [c for h, c, *_ in GENERATED if h == half]
        for i, class_ in enumerate(classes):
            name, samples, entry = items[(i * 7) % len(items)]
            seconds = AROUND_S[i % len(AROUND_S)]
            sound = self.background(half, class_, f"around-{name}", seconds * RATE)
            before = int(sound.size * seed_of(name).uniform(0.2, 0.8))
            joined = np.concatenate([sound[:before], samples, sound[before:]])
            span = [round(before / RATE, 3), round((before + samples.size) / RATE, 3)]
            self.say(half, "embedded", "embedded", f"{class_}-{name}", joined, entry, over=class_, span=span)

    def add_speech(self, data):
        speakers, items = {}, {"fit": [], "test": []}
        with open(os.path.join(data, "manifest.jsonl"), encoding="utf-8") as stream:
            entries = [json.loads(line) for line in stream]
        names = sorted({e["file"].split("/")[2] for e in entries if e["set"] == "librispeech-dev-clean"})
        speakers = {name: ("fit", "test")[i % 2] for i, name in enumerate(names)}
        for e in entries:
            half = speakers.get(e["file"].split("/")[2]) if e["set"] == "librispeech-dev-clean" else \
                "test" if e["set"] == "librispeech-longform" else SOURCES.get(e["set"] + "/" + e["language"])
            if not half or not e.get("transcript"):
                continue
            samples = decode(os.path.join(data, e["file"]))
            if samples is None:
                continue
            entry = {"text": e["transcript"], "language": e["language"]}
            name = os.path.splitext(os.path.basename(e["file"]))[0] + "-" + e["file"].split("/")[1]
            source = "chapter" if e["set"] == "librispeech-longform" else \
                "libri" if e["set"] == "librispeech-dev-clean" else "other" if e["language"] == "en" else e["language"]
            self.say(half, source, "clean", name, samples, entry)
            if e["language"] == "en" and source != "other":
                self.conditions(half, source, name, samples, entry)
                if source == "libri":
                    items[half].append((name, samples, entry))
        for half in ("fit", "test"):
            self.embed(half, items[half])

    def add_prompts(self):
        """Telephone prompts, short phrases among them (test)"""
        place = unpacked(self.folder, "asterisk-core-sounds-en")
        texts = glob.glob(place + "/usr/share/doc/*/core-sounds-en.txt.gz")[0]
        with gzip.open(texts, "rt", errors="replace") as stream:
            said = dict(line.strip().split(": ", 1) for line in stream if ": " in line and not line.startswith(";"))
        sounds = glob.glob(unpacked(self.folder, "asterisk-core-sounds-en-wav") + "/usr/share/asterisk/sounds/*")[0]
        spelt = "letters", "phonetic", "digits"
        spoken = [(n, t) for n, t in sorted(said.items()) if not re.search(r"[\[(<]", t) and not n.startswith(spelt)]
        for name, text in spread(spoken, 200):
            path = os.path.join(sounds, name + ".wav")
            samples = decode(path) if os.path.exists(path) else None
            if samples is not None:
                entry = {"text": text, "language": "en"}
                self.say("test", "prompts", "telephone", name, samples, entry)
                self.say("test", "prompts", "quiet35", name, samples * 10 ** (-35 / 20), entry)

    def add_names(self):
        """Names of things, said by many (fit)"""
        stamps = files_of(unpacked(self.folder, "tuxpaint-stamps-default"), ["*_desc.ogg"], ["*/alphabets/*"])
        for path in spread(stamps, 120):
            text = path[:-len("_desc.ogg")] + ".txt"
            samples = decode(path)
            if samples is None or not os.path.exists(text):
                continue
            with open(text, encoding="utf-8", errors="replace") as stream:
                entry = {"text": stream.readline().strip(), "language": "en"}
            self.say("fit", "stamps-said", "clean", os.path.basename(path)[:-len("_desc.ogg")], samples, entry)


def telephone(samples):
    """8 kHz, 300 to 3400 Hz, mu-law: and back to 16 kHz"""
    done = subprocess.run(["ffmpeg", "-v", "error", "-f", "f32le", "-ar", str(RATE), "-ac", "1", "-i", "-", "-af",
                           "highpass=f=300,lowpass=f=3400", "-ar", "8000", "-acodec", "pcm_mulaw", "-f", "wav", "-"],
                          input=samples.astype("<f4").tobytes(), stdout=subprocess.PIPE, check=True)
    done = subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-i", "-", "-ar", str(RATE), "-f", "f32le", "-"],
                          input=done.stdout, stdout=subprocess.PIPE, check=True)
    return np.frombuffer(done.stdout, dtype="<f4")


def make(folder, data):
    material = Material(folder)
    material.add_sounds()
    material.add_speech(data)
    material.add_prompts()
    material.add_names()
    with open(os.path.join(folder, "material.jsonl.part"), "w", encoding="utf-8") as out:
        for line in material.lines:
            out.write(json.dumps(line, ensure_ascii=False) + "\n")
    os.rename(os.path.join(folder, "material.jsonl.part"), os.path.join(folder, "material.jsonl"))
    return material.lines


def read(folder):
    with open(os.path.join(folder, "material.jsonl"), encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def cache():
    return cache_folder("MAX_WHISPER_GUARD", "guard")


if __name__ == "__main__":
    made = make(cache(), sys.argv[1])
    for half in ("fit", "test"):
        quiet = [m for m in made if m["half"] == half and m["kind"] != "speech"]
        speech = [m for m in made if m["half"] == half and m["kind"] == "speech"]
        print(f"{half}: {len(quiet)} clips without speech, {sum(m['seconds'] for m in quiet) / 3600:.2f} h; "
              f"{len(speech)} with, {sum(len(m['text'].split()) for m in speech)} words, "
              f"{sum(m['seconds'] for m in speech) / 60:.0f} min")
