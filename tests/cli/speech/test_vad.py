"""tests/cli/speech/test_vad.py PROGRAM - `vad` on real speech: formats read back, options, pictures, refusals.

Needs the weights of speech detection (make model); the speech is in tests/data. Whether the regions are Silero's is the
business of tests/unit/vad.
"""
import json
import os
import re
import shutil
import struct
import sys
import tempfile
import wave
import xml.etree.ElementTree as xml

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from clitest import ROOT, check, check_equal, check_fails, done, run, skip, wav

SPEECH = os.path.join(ROOT, "tests", "data", "librivox-0870.wav")
CHUNK = 512
LINE = re.compile(r"^\[(\d\d):(\d\d)\.(\d{3}) --> (\d\d):(\d\d)\.(\d{3})\] speech (\d+\.\d\d) s$")
HAVE_CAIRO = os.path.exists(os.path.join(os.environ.get("MXW_MODULE_DIR", ""), "cairo.so"))


def weights():
    code, out, _ = run("model", "list", "--json")
    check_equal(code, 0, "model list")
    return json.loads(out)["vad"]["path"]


if not weights():
    skip("cli vad", "the weights silero-vad are not there (make model)")


def samples(path=SPEECH):
    with wave.open(path) as stream:
        return stream.readframes(stream.getnframes())


def vad(*words, stdin=b""):
    code, out, err = run("vad", *words, stdin=stdin)
    check_equal((code, err), (0, ""), f"vad {' '.join(words)[:80]}")
    return out


def regions_of(*words):
    """[(start, end)] in milliseconds, from JSON"""
    regions = json.loads(vad(*words, "-f", "json"))["regions"]
    return [(round(1000 * region["start"]), round(1000 * region["end"])) for region in regions]


def test_formats():
    """The four formats tell the same regions."""
    result = json.loads(vad(SPEECH, "-f", "json"))
    regions = [(round(1000 * r["start"]), round(1000 * r["end"])) for r in result["regions"]]
    n = len(samples()) // 2
    check_equal((result["file"], result["duration"]), (SPEECH, round(n / 16000, 3)), "file and duration")
    check(len(regions) >= 1 and all(a < b for a, b in regions), "regions", regions)
    check(all(a[1] <= b[0] for a, b in zip(regions, regions[1:])), "in order", regions)
    check(abs(result["speech"] - sum(b - a for a, b in regions) / 1000) < 0.01, "speech in all", result["speech"])
    for region in result["regions"]:
        first, end = region["samples"]
        check(0 <= first < end <= n and abs(first / 16000 - region["start"]) < 6e-4, "samples", region)
    check_equal(result["options"]["threshold"], 0.5, "options")
    lines = [LINE.match(line) for line in vad(SPEECH).splitlines()]
    if check(all(lines), "lines of text", lines):
        numbers = [[int(number) for number in line.groups()[:6]] for line in lines]
        check_equal([(60000 * a + 1000 * b + c, 60000 * d + 1000 * e + f) for a, b, c, d, e, f in numbers], regions,
                    "text")
        check(all(abs(float(line[7]) - (b - a) / 1000) < 0.006 for line, (a, b) in zip(lines, regions)), "durations")
    rttm = [line.split(" ") for line in vad(SPEECH, "-f", "rttm").splitlines()]
    check(all(row[:3] == ["SPEAKER", "librivox-0870", "1"] and row[5:] == ["<NA>", "<NA>", "speech", "<NA>", "<NA>"]
              for row in rttm), "rttm", rttm)
    told = [(float(row[3]), float(row[3]) + float(row[4])) for row in rttm]
    check(len(told) == len(regions) and all(abs(1000 * a - c) < 2 and abs(1000 * b - d) < 2
                                            for (a, b), (c, d) in zip(told, regions)), "rttm's times", told)
    labels = [line.split("\t") for line in vad(SPEECH, "-f", "audacity").splitlines()]
    check_equal([(round(1000 * float(a)), round(1000 * float(b)), c) for a, b, c in labels],
                [(a, b, "speech") for a, b in regions], "audacity's labels")
    return regions


def test_probabilities():
    result = json.loads(vad(SPEECH, "-f", "json", "--probabilities"))
    probabilities = result["probabilities"]
    check_equal((result["chunk"], len(probabilities)), (0.032, -(-len(samples()) // 2 // CHUNK)), "a value a chunk")
    check(all(0 <= p <= 1 for p in probabilities) and max(probabilities) > 0.9 > 0.1 > min(probabilities), "values")
    rows = [line.split(" ") for line in vad(SPEECH, "--probabilities").splitlines()]
    check(len(rows) == len(probabilities) and all(abs(float(row[1]) - p) < 1e-4 for row, p in zip(rows, probabilities)),
          "the same in text")
    check_equal([row[0] for row in rows[:3]], ["0.000", "0.032", "0.064"], "times")
    speech = [row[2:] == ["speech"] for row in rows]
    inside = [any(r["start"] <= (i + 0.5) * 0.032 < r["end"] for r in result["regions"]) for i in range(len(rows))]
    check_equal(speech, inside, "what lies in a region")
    check("probabilities" not in json.loads(vad(SPEECH, "-f", "json")), "none unless asked for")


def test_options(regions, folder):
    """Silero's parameters, under all their names; each does something."""
    for words in (["--vad-threshold", "0.5"], ["--threshold=0.5", "--neg_threshold", "0.35"],
                  ["--vad-min-silence-ms", "100", "--vad-pad-ms", "30", "--vad-min-speech-ms", "250"],
                  ["--min_silence_duration_ms", "100", "--speech_pad_ms", "30", "--max-speech-s", "none"]):
        check_equal(regions_of(SPEECH, *words), regions, f"{words}: the defaults")
    check(len(regions_of(SPEECH, "--min-silence-ms", "5000")) == 1, "--min-silence-ms joins")
    wide = regions_of(SPEECH, "--vad-speech-pad-ms", "0")
    check(sum(b - a for a, b in wide) < sum(b - a for a, b in regions), "--vad-pad-ms adds", wide)
    check_equal(regions_of(SPEECH, "--vad-min-speech-ms", "60000"), [], "--vad-min-speech-ms drops")
    cut = regions_of(SPEECH, "--vad-max-speech-s", "1.5")
    check(len(cut) > len(regions) and all(b - a <= 1600 for a, b in cut), "--vad-max-speech-s cuts", cut)
    check(regions_of(SPEECH, "--threshold", "0.9", "--neg-threshold", "0.89") != regions, "thresholds matter")
    data = samples()
    stereo = b"".join(data[i:i + 2] + b"\0\0" for i in range(0, len(data), 2))
    path = os.path.join(folder, "stereo.wav")
    with open(path, "wb") as stream:
        stream.write(wav(len(data) // 2, channels=2, data=stereo))
    check_equal(regions_of(path, "--channel", "left"), regions, "--channel left")
    check_equal(regions_of(path, "--channel", "2"), [], "--channel 2")
    check(vad(path, "--channel", "left", "-f", "rttm").startswith("SPEAKER stereo 1 "), "the channel in RTTM")
    os.remove(path)


def test_inputs(folder):
    """Standard input, several files, folders, an output folder; silence; what fails."""
    with open(SPEECH, "rb") as stream:
        check_equal(vad("-", stdin=stream.read()), vad(SPEECH), "standard input")
    inner = os.path.join(folder, "inner")
    os.mkdir(inner)
    shutil.copy(SPEECH, os.path.join(inner, "a b.wav"))
    silence = os.path.join(inner, "silence.wav")
    with open(silence, "wb") as stream:
        stream.write(wav(32000))
    check_equal(vad(silence), "", "silence has no regions")
    out = vad(inner)
    check_equal(out.count("==> "), 2, "a heading for each")
    check(out.startswith(f"==> {inner}/a b.wav <==\n[") and out.endswith(f"\n\n==> {silence} <==\n"), "headings", out)
    files = [json.loads(line)["file"] for line in vad(inner, "-f", "json").splitlines()]
    check_equal(files, [f"{inner}/a b.wav", silence], "a line of JSON for each")
    check("SPEAKER a_b 1 " in vad(inner, "-f", "rttm"), "no blanks in RTTM's names")
    target = os.path.join(folder, "out")
    for form in ("text", "json", "rttm", "audacity"):
        check_equal(vad(folder, "-r", "-f", form, "-o", target), "", f"{form} into files")
    check_equal(sorted(os.listdir(os.path.join(target, "inner"))),
                [f"{name}.vad.{end}" for name in ("a b", "silence") for end in ("json", "labels.txt", "rttm", "txt")],
                "names of files")
    with open(os.path.join(target, "inner", "a b.vad.txt"), encoding="utf-8") as stream:
        check_equal(stream.read(), vad(os.path.join(inner, "a b.wav")), "the same in a file")
    broken = os.path.join(folder, "broken.wav")
    with open(broken, "wb") as stream:
        stream.write(b"not a recording")
    check_fails(["vad", broken], 1, "broken.wav")
    check_fails(["vad", "no-such-file.wav"], 1, "no-such-file.wav")
    code, out, err = run("vad", broken, silence, "no-such-file.wav", SPEECH)
    check_equal((code, err.count("\n"), out.count("==> ")), (1, 3, 2), "the others are done")
    check("2 of 4 files failed" in err, "their number", err)


def test_pictures(folder):
    if not HAVE_CAIRO:
        print("SKIP: cli-vad pictures: the cairo module is not built")
        return
    path = os.path.join(folder, "plot.")
    for form in ("png", "svg", "pdf"):
        check_equal(vad(SPEECH, "--plot", path + form), vad(SPEECH), "regions are printed as well")
    with open(path + "png", "rb") as stream:
        head = stream.read(32)
    check(head[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">I", head[16:20])[0] == 2120, "a PNG, twice the size")
    root = xml.parse(path + "svg").getroot()
    check(root.tag.endswith("svg") and float(root.get("width").rstrip("pt")) == 1060, "an SVG", root.attrib)
    check(not any("nan" in value.lower() for element in root.iter() for value in element.attrib.values()), "finite")
    with open(path + "pdf", "rb") as stream:
        check(stream.read(5) == b"%PDF-", "a PDF")
    check_fails(["vad", SPEECH, "--plot", os.path.join(folder, "no", "x.png")], 1, "--plot: cannot write")
    check_fails(["vad", SPEECH, "--plot", path + "png"], 1, "--plot", "cairo", env={"MXW_MODULE_DIR": folder})


def test_weights(folder):
    check_fails(["vad", SPEECH, "--model-dir", folder], 1, "model fetch silero-vad")
    check_fails(["vad", SPEECH, "--vad-model", os.path.join(folder, "none.jit")], 1, "none.jit")
    check_fails(["vad", SPEECH, "--vad-model", SPEECH], 1, "librivox-0870.wav")
    check_equal(vad(SPEECH, "--vad-model", weights()), vad(SPEECH), "by path")
    code, out, _ = run("model", "inspect", "silero-vad", "--json")
    told = json.loads(out)
    check(code == 0 and told["file"] == weights() and 16000 in told["sample_rates"], "model inspect", out)
    check("speech detection" in run("model", "inspect", "silero-vad")[1], "inspect as text")
    check_fails(["model", "inspect", "silero-vad", "--model-dir", folder], 1, "model fetch silero-vad")


def main():
    folder = tempfile.mkdtemp()
    try:
        regions = test_formats()
        test_probabilities()
        test_options(regions, folder)
        test_inputs(folder)
        test_pictures(folder)
        test_weights(folder)
    finally:
        shutil.rmtree(folder)
    done()


main()
