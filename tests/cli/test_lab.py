"""tests/cli/test_lab.py PROGRAM [MAKE_CHECKPOINT] - verify, features and hybrid runs as a user meets them.

With MAKE_CHECKPOINT on a generated model; without, on tiny.en and the kept speech (golden).
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

from clitest import ROOT, check, check_equal, check_fails, done, model_path, run, skip

FOLDER = tempfile.mkdtemp()
SPEECH = os.path.join(ROOT, "tests", "data", "librivox-0870.wav")


def make_model():
    path = os.path.join(FOLDER, "small.pt")
    made = subprocess.run([sys.argv[2], "pt", "f32", path, "narrow", "1", "3"], capture_output=True, text=True,
                          check=False)
    check(made.returncode == 0, "make_checkpoint", made.stdout + made.stderr)
    return path


def verify(*words):
    code, out, err = run("verify", "--json", "--threads", "1", *words)
    check(out.startswith("{"), f"verify {words}: JSON", (code, out[:200], err))
    return code, json.loads(out) if out.startswith("{") else {}


def test_verify(model):
    code, report = verify("--model", model, SPEECH)
    check(code == 0 and report.get("holds") is True and report.get("injected") is None, "verify holds", report)
    ops = {op["op"]: op for op in report.get("ops", [])}
    check({"conv1d", "linear", "attention", "layer_norm", "gelu", "select"} <= set(ops), "every op", list(ops))
    for name, op in ops.items():
        check(op["checked"] >= min(op["outputs"], 4096) and op["of_bound"] <= 1 and op["bound"], f"op {name}", op)
    engines = report.get("engines", [])
    check(any(e["engine"] == "max" and e["device"] == "cpu" and e["verdict"] == "holds" and e["text_equal"]
              for e in engines), "engine max holds", engines)
    for engine in engines:
        if engine["verdict"] == "skipped":
            print(f"SKIP: cli-lab {engine['engine']} on {engine['device']}: {engine['skipped']}")
    code, report = verify("--model", model, "--engine", "max", "--device", "cpu", "--inject", "tanh-gelu", SPEECH)
    check(code == 1 and report.get("holds") is False and report.get("injected") == "tanh-gelu", "verify fails", report)
    engine = report.get("engines", [{}])[0]
    check_equal((engine.get("first_bad_stage"), engine.get("fault")), ("encoder.gelu1", "tanh GELU"), "it is named")
    code, out, _ = run("verify", "--ops-only", "--threads", "1", "--model", model, SPEECH)
    check(code == 0 and "everything holds" in out and "layer_norm" in out, "verify --ops-only", out)


def test_features(model):
    good, bad, like = (os.path.join(FOLDER, name + ".npz") for name in ("good", "bad", "like"))
    base = ["--model", model, "--device", "cpu", "--threads", "1"]
    code, out, _ = run("features", "extract", *base, "--engine", "cpu", "-o", good, "--json", SPEECH)
    report = json.loads(out)
    names = [stage["name"] for stage in report["stages"]]
    check(code == 0 and names[0] == "mel" and "encoder.ln_post" in names and "decoder.logits" in names, "stages", names)
    stage = report["stages"][1]
    check(len(stage["first"]) == 10 and stage["std"] > 0 and len(stage["shape"]) == 2, "statistics", stage)
    code, out, _ = run("features", "compare", *base, good, SPEECH)
    check(code == 0 and "No stage parts" in out, "a run against a dump", out[-300:])
    code, out, _ = run("features", "extract", *base, "--inject", "no-ln-post", "--like", good, "-o", bad, SPEECH)
    check(code == 0 and "injected: no-ln-post" in out, "an injected run says so", out[:200])
    code, out, _ = run("features", "diverge", *base, good, bad)
    check(code == 1 and "encoder.ln_post is the first that parts" in out and "missing operation" in out, "diverge", out)
    code, out, _ = run("features", "diverge", *base, "--json", good, bad)
    report = json.loads(out)
    check(code == 1 and report["injected"] == "no-ln-post" and report["first_bad_stage"] == "encoder.ln_post" and
          report["fault"] == "missing operation", "diverge --json", out[:300])
    code, out, _ = run("features", "extract", *base, "--fused", "--like", good, "-o", like, SPEECH)
    check(code == 0 and run("features", "compare", good, like)[0] == 0, "fused, what is left of it", out[-300:])
    text = json.loads(run("features", "extract", *base, "--json", SPEECH)[1])["run"]["text"]
    code, out, err = run("features", "decode", *base, good)
    check(code == 0 and out.strip() == text.strip(), "decode from saved features", (out, text, err))
    with open(os.path.join(FOLDER, "broken.npz"), "wb") as stream:
        with open(good, "rb") as whole:
            stream.write(whole.read(5000))
    check_fails(["features", "compare", os.path.join(FOLDER, "broken.npz"), good], 1, "broken.npz")


def test_hybrid(model):
    """Any pair of engines gives the same text"""
    texts = set()
    for encode in ("cpu", "max"):
        for decode in ("cpu", "max"):
            code, out, err = run("--model", model, "--device", "cpu", "--encode-engine", encode, "--decode-engine",
                                 decode, "--greedy", "--sample-len", "24", "--threads", "1", "-f", "txt", SPEECH)
            check(code == 0, f"{encode} and {decode}", err)
            texts.add(out)
    check_equal(len(texts), 1, "texts of the pairs")


MODEL = make_model() if len(sys.argv) > 2 else "tiny.en" if model_path("tiny.en") else skip("cli-lab", "no tiny.en")
test_verify(MODEL)
test_features(MODEL)
test_hybrid(MODEL)
shutil.rmtree(FOLDER)
done()
