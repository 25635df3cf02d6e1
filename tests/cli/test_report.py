"""tests/cli/test_report.py PROGRAM MAKE_CHECKPOINT - report, bench and bench --plot on a generated model.

The page is well formed, whole by itself, and its numbers are numbers; pictures are SVG or PNG of the right sizes.
"""
import base64
import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

from clitest import PROGRAM, ROOT, check, check_equal, check_fails, done, run

FOLDER = tempfile.mkdtemp()
MODEL = os.path.join(FOLDER, "narrow.pt")
SPEECH = os.path.join(ROOT, "tests", "data", "librivox-0870.wav")
SECTIONS = ["Engines", "Text and words", "Error by layer", "Engine cpu against float64, op by op",
            "Attention alignment", "Roofline of kernels", "Time by stage", "How this was made"]
PICTURES = ["words", "stages", "errors", "alignment", "roofline"]
HAVE_CAIRO = os.path.exists(os.path.join(os.environ.get("MXW_MODULE_DIR", ""), "cairo.so"))
FAST = ["--model", MODEL, "--beam-size", "none", "--runs", "1", "--warm-up", "0", "--threads", "1", "--quiet"]


def text_of(element):
    return "".join(element.itertext())


def check_picture(svg, name):
    root = xml.fromstring(svg)
    check(root.tag.endswith("svg") and float(root.get("width").rstrip("pt")) == 1060, f"{name}: an SVG of its width")
    for element in root.iter():
        for key, value in element.attrib.items():
            if key.endswith("href"):
                check(value.startswith(("#", "data:")), f"{name}: nothing from elsewhere", value[:80])
            check("nan" not in value.lower() or value.startswith("data:"), f"{name}: {key} is finite", value[:80])


def check_page(path):
    with open(path, encoding="utf-8") as stream:
        source = stream.read()
    check(source.startswith("<!DOCTYPE html>"), "an HTML page")
    page = xml.fromstring(source.split("\n", 1)[1])
    check_equal([text_of(h) for h in page.iter("h2")], SECTIONS, "sections")
    links = [value for element in page.iter() for key, value in element.attrib.items() if key in ("src", "href")]
    check(all(link.startswith("data:image/svg+xml;base64,") for link in links), "no address but pictures inside",
          [link[:60] for link in links])
    check("http" not in re.sub(r'src="data:[^"]*"', "", source), "no address of the network")
    if HAVE_CAIRO:
        check_equal(len(links), len(PICTURES), "pictures")
        for link, name in zip(links, ["stages", "words", "errors", "alignment", "roofline"]):
            svg = base64.b64decode(link.split(",", 1)[1])
            check_picture(svg, name)
            with open(os.path.join(os.path.dirname(path), f"COMPLETE_RESULTS-{name}.svg"), "rb") as stream:
                check(stream.read() == svg, f"{name}: the same beside the Markdown")
    return page


def check_numbers(page):
    """Every cell of a column of numbers is one, or empty, or several with a unit"""
    number = re.compile(r"^-?[0-9.]+(e[-+]?[0-9]+)?( ± [0-9.]+)?( %)?$")
    n = 0
    for table in page.iter("table"):
        columns = [text_of(th) for th in table.iter("th")]
        for tr in table.iter("tr"):
            cells = list(tr.iter("td"))
            if cells:
                check_equal(len(cells), len(columns), f"cells of {columns}")
            for name, td in zip(columns, cells):
                text = text_of(td)
                if td.get("class") == "n" and text and text != "not comparable":
                    n += 1
                    check(number.match(text), f"a number under {name}", text)
    check(n > 200, "many numbers", n)


def tables_of(page):
    """{first two columns: rows as dictionaries}"""
    found = {}
    for table in page.iter("table"):
        columns = [text_of(th) for th in table.iter("th")]
        rows = [dict(zip(columns, (text_of(td) for td in tr.iter("td")))) for tr in table.iter("tr")]
        found[tuple(columns[:2])] = [row for row in rows if row]
    return found


def check_contents(page):
    tables = tables_of(page)
    engines = {row["engine"]: row for row in tables["engine", "proof"]}
    check(engines["cpu"]["proof"].startswith("holds") and engines["max on cpu"]["proof"] == "holds", "proofs", engines)
    check_equal((engines["cpu"]["speed-up over cpu"], engines["max on cpu"]["text"]), ("1.00", "equal"), "engines")
    for name, row in engines.items():
        if row["proof"].startswith("skipped"):
            check(len(row["proof"]) > len("skipped: ") + 8 and row["median ms"] == "", f"{name} says why", row)
    made = {row["what"]: row["value"] for row in tables["what", "value"]}
    with open(MODEL, "rb") as stream:
        check_equal(made["model's SHA-256"], hashlib.sha256(stream.read()).hexdigest(), "the model's hash")
    check(json.loads(run("version", "--json")[1])["version"] == made["version"], "the version", made)
    stages = [row["stage"] for row in tables["stage", "relative"]]
    check("mel" in stages and "encoder.ln_post" in stages and "decoder.logits" in stages, "every layer", stages)
    kernels = tables["engine", "kernel"]
    check({row["engine"] for row in kernels} >= {"cpu", "max on cpu"}, "kernels of both", len(kernels))
    check(any(row["GFLOP/s"] and float(row["GFLOP/s"]) > 0 for row in kernels), "rates", kernels[:2])
    times = [row for row in tables["engine", "stage"] if row["engine"] == "max on cpu"]
    parts, total = sum(float(r["mean ± std"].split()[0]) for r in times[:-1]), times[-1]
    check(abs(parts - float(total["mean ± std"].split()[0])) < 0.1, "stages add up to the whole", (parts, total))
    manifest = json.loads(next(text_of(pre) for pre in page.iter("pre")))
    check(manifest["engine"] and manifest["version"] == made["version"], "the manifest", manifest)


def test_report():
    folder = os.path.join(FOLDER, "out")
    code, out, err = run("report", *FAST, "--runs", "2", "--output", folder, SPEECH)
    check_equal((code, err), (0, ""), "report")
    check_equal(out, f"{folder}/COMPLETE_RESULTS.md\n{folder}/COMPLETE_RESULTS.html\n", "what it wrote")
    page = check_page(os.path.join(folder, "COMPLETE_RESULTS.html"))
    check_numbers(page)
    check_contents(page)
    with open(os.path.join(folder, "COMPLETE_RESULTS.md"), encoding="utf-8") as stream:
        markdown = stream.read()
    check_equal(re.findall("^## (.*)$", markdown, re.MULTILINE), SECTIONS, "sections of the Markdown")
    for name in re.findall(r"!\[[^]]*\]\(([^)]*)\)", markdown):
        check(os.path.exists(os.path.join(folder, name)), f"the picture {name}")
    files = sorted(os.listdir(folder))
    check(not [name for name in files if name.endswith(".new")], "nothing half written", files)


def test_int8():
    """bench and report in 8 bits: what was measured is that, beside its own peak, and the proof holds"""
    records = {}
    for precision in ("exact", "int8"):
        code, out, err = run("bench", *FAST, "--json", "--precision", precision, SPEECH)
        records[precision] = json.loads(out) if check_equal((code, err), (0, ""), f"bench in {precision}") else {}
    got, exact = records["int8"], records["exact"]
    check_equal([got.get(key) for key in ("engine", "device", "precision")], ["max", "cpu", "int8"], "what was timed")
    check(got["machine"]["peak_int8_gops"] > 0 and got["stages"]["total"]["median_ms"] > 0, "rates and times", got)
    check(got["stages"]["step"]["unit_mb"] < exact["stages"]["step"]["unit_mb"], "a step reads less",
          (got["stages"]["step"], exact["stages"]["step"]))
    folder = os.path.join(FOLDER, "int8")
    code, _, err = run("report", *FAST, "--precision", "int8", "--output", folder, SPEECH)
    check_equal((code, err), (0, ""), "report in int8")
    page = check_page(os.path.join(folder, "COMPLETE_RESULTS.html"))
    check_numbers(page)
    tables = tables_of(page)
    row = next(row for row in tables["engine", "proof"] if row["engine"] == "max on cpu")
    check_equal((row["proof"], row["text"]), ("holds", "differs"), "another text is no fault in int8")
    kernels = [row["kernel"] for row in tables["engine", "kernel"] if row["engine"] == "max on cpu"]
    check(any("encoder fused_linear" in name and " int8 " in name for name in kernels), "kernels in 8 bits", kernels)
    manifest = json.loads(next(text_of(pre) for pre in page.iter("pre")))
    check_equal(manifest["precision"], "int8", "the manifest's precision")


def test_without_cairo():
    empty = os.path.join(FOLDER, "modules")
    os.makedirs(empty)
    folder = os.path.join(FOLDER, "plain")
    code, _, err = run("report", *FAST, "--output", folder, SPEECH, env={"MXW_MODULE_DIR": empty})
    check(code == 0 and err.count("\n") <= 1, "report without pictures", (code, err))
    with open(os.path.join(folder, "COMPLETE_RESULTS.html"), encoding="utf-8") as stream:
        source = stream.read()
    check(source.count("No picture of this") == 5 and "cairo module" in source, "each says why")
    err = check_fails(["bench", *FAST, "--plot", os.path.join(FOLDER, "x.svg"), SPEECH], 1, "--plot", "cairo",
                      env={"MXW_MODULE_DIR": empty})
    check(not os.path.exists(os.path.join(FOLDER, "x.svg")), "nothing is written", err)


def test_plot():
    saved, plot = os.path.join(FOLDER, "h.jsonl"), os.path.join(FOLDER, "plot.svg")
    words = ["bench", *FAST, "--save", saved, "--plot"]
    check_equal(run(*words, plot, SPEECH)[0], 0, "bench --plot")
    with open(plot, "rb") as stream:
        first = stream.read()
    check_picture(first, "plot")
    check_equal(run(*words, plot, SPEECH)[0], 0, "bench --plot with a history")
    with open(plot, "rb") as stream:
        second = stream.read()
    heights = [float(xml.fromstring(svg).get("height").rstrip("pt")) for svg in (first, second)]
    check(heights[1] > 1.8 * heights[0], "the history has a panel of its own", heights)
    image = os.path.join(FOLDER, "plot.png")
    check_equal(run(*words, image, SPEECH)[0], 0, "bench --plot as PNG")
    with open(image, "rb") as stream:
        head = stream.read(24)
    check(head[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">I", head[16:20])[0] == 2120, "a PNG, twice the size")


def test_together():
    code, out, err = run("bench", *FAST, "--json", "--batch", "2", SPEECH, SPEECH)
    records = [json.loads(line) for line in out.splitlines()]
    check(code == 0 and len(records) == 3, "two files and both together", (code, err, out[:200]))
    both = records[-1]
    check(both["together"] == 2 and both["n_runs"] == 1 and both["median_ms"] > 0 and
          abs(both["audio_s"] - 2 * records[0]["audio_s"]) < 0.01, "together", both)
    check("cold_ms" in records[0] and "cold_ms" not in records[1], "only the first is cold", records[0].keys())
    check(records[0]["cold_ms"] > records[0]["first_run_ms"] and records[0]["peak_memory_kib"] > 0, "cold", records[0])
    code, out, _ = run("bench", *FAST, "--batch", "2", SPEECH, SPEECH)
    check("2 files together, 2 at a time" in out and "\ncold: load" in out and "\nwarm: median" in out, "in words", out)


def test_benchmark():
    """tools/lab benchmark: every engine, its history, and one that fails"""
    history = os.path.join(FOLDER, "history.jsonl")
    env = dict(os.environ, MODEL=MODEL, FILE=SPEECH, MAX_WHISPER=PROGRAM, RESULT=history)

    def lab(*words):
        done_ = subprocess.run([os.path.join(ROOT, "tools", "lab"), *words, "--beam-size", "none", "--threads", "1"],
                               capture_output=True, text=True, env=env, check=False)
        return done_.returncode, done_.stdout
    code, out = lab("benchmark-json", "--runs", "1")
    engines = {record["engine"]: record for record in json.loads(out)["engines"]}
    check_equal((code, list(engines), engines["cpu"]["speed_up"]), (0, ["cpu", "gpu", "max"], 1.0), "benchmark-json")
    check(engines["max"]["real_time_factor"] > 0 and engines["max"]["peak_memory_kib"] > 0, "figures", engines["max"])
    if "skipped" in engines["gpu"]:
        print(f"SKIP: cli-report benchmark of engine gpu: {engines['gpu']['skipped']}")
    code, out = lab("benchmark", "--runs", "1", "--tolerance", "1000")
    check(code == 0 and out.count("not slower") == 2 and " ran, 0 failed" in out, "beside its history", out)
    with open(history, encoding="utf-8") as stream:
        check_equal(len(stream.readlines()), 4, "records of the history")
    code, out = lab("benchmark", "--runs", "0")
    check(code == 1 and "cpu     failed: " in out and "max     failed: " in out and "--runs" in out, "failures", out)


def test_make_targets():
    """What the laboratory is asked for by name is there, and `make help` lists it"""
    with open(os.path.join(ROOT, "Makefile"), encoding="utf-8") as stream:
        targets = set(re.findall("^([a-z-]+):.*## ", stream.read(), re.MULTILINE))
    asked = {"demo", "test-cpu", "test-gpu", "test-max", "benchmark", "benchmark-json", "debug-encoder",
             "compare-simple", "extract-features-cpu", "extract-features-gpu", "extract-features-max",
             "compare-features", "analyze-divergence", "test-fix", "validate-precision", "graph-test", "gpu-check",
             "verify", "report"}
    check_equal(asked - targets, set(), "targets")


def test_faults():
    check_fails(["report"], 2, "'report' needs an audio or video file")
    check_fails(["report", *FAST, os.path.join(FOLDER, "none.wav")], 1, "none.wav")
    check_fails(["report", *FAST, "--output", os.path.join(FOLDER, "no", "such"), SPEECH], 1, "--output", "no/such")
    check_fails(["report", "--model", os.path.join(FOLDER, "none.pt"), "--output", FOLDER, SPEECH], 1, "none.pt")
    check_fails(["report", "--runs", "0", SPEECH], 2, "--runs")
    check_fails(["bench", *FAST, "--plot", "x.jpg", SPEECH], 2, "--plot", "does not end in .svg, .png or .pdf")
    check_fails(["bench", *FAST, "--batch", "1000", SPEECH], 2, "--batch")
    if HAVE_CAIRO:
        check_fails(["bench", *FAST, "--plot", os.path.join(FOLDER, "no", "x.svg"), SPEECH], 1, "--plot", "x.svg")


try:
    subprocess.run([sys.argv[2], "pt", "f32", MODEL, "narrow", "1", "3"], check=True)
    test_faults()
    test_report()
    if HAVE_CAIRO:
        test_plot()
        test_without_cairo()
    else:
        print("SKIP: cli-report pictures: the cairo module is not built")
    test_together()
    test_int8()
    test_benchmark()
    test_make_targets()
finally:
    shutil.rmtree(FOLDER)
done()
