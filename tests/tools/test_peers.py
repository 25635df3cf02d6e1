"""The side-by-side without its peers: how workers are asked, what tables say, what truths are."""
import argparse
import json
import os
import sys
import tempfile
import textwrap
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "bench"), os.path.join(ROOT, "bench", "peers"), os.path.join(ROOT, "tools", "lib")]
import engines     # noqa: E402
import environments  # noqa: E402
import forms       # noqa: E402
import recordings  # noqa: E402
import report      # noqa: E402
import venvlib     # noqa: E402

# Answers "ready", then what each line asks for.
FAKE = """
    import json, sys, time
    print(json.dumps({"ready": True, "load_s": 0.5, "version": "fake 1"}), flush=True)
    for line in sys.stdin:
        word = line.strip()
        if word == "hang":
            time.sleep(60)
        if word == "die":
            sys.exit(3)
        if word == "fail":
            print(json.dumps({"error": "ValueError: no such thing"}), flush=True)
        else:
            print(json.dumps({"seconds": 1.5, "text": word, "peak_kib": 2048}), flush=True)
"""


class FakeWorker(engines.Worker):
    def command(self, model_path):
        return [sys.executable, model_path]


class WorkerTest(unittest.TestCase):
    def setUp(self):
        self.settings = argparse.Namespace(threads=1, timeout=20, build="none",
                                           cpus=sorted(os.sched_getaffinity(0))[:1])
        place = tempfile.NamedTemporaryFile("w", suffix=".py", delete=False)
        place.write(textwrap.dedent(FAKE))
        place.close()
        self.script = place.name
        self.addCleanup(os.unlink, place.name)

    def start(self, script=None):
        worker = FakeWorker(engines.Engine("fake", None, "own"), self.settings)
        self.addCleanup(worker.close)
        worker.start(script or self.script)
        return worker

    def test_answers(self):
        worker = self.start()
        self.assertEqual((worker.load_s, worker.version), (0.5, "fake 1"))
        self.assertGreater(worker.start_s, 0)
        self.assertEqual(worker.run("hello")["text"], "hello")
        self.assertEqual(worker.run("again")["peak_kib"], 2048)

    def test_error_leaves_it_usable(self):
        worker = self.start()
        with self.assertRaisesRegex(engines.WorkerError, "no such thing"):
            worker.run("fail")
        self.assertEqual(worker.run("hello")["text"], "hello")

    def test_reason_of_many_lines(self):
        self.assertEqual(engines.one_line("RuntimeError: a.cpp:1:\n\nb.cpp:2:\nnot here\n"),
                         "RuntimeError: a.cpp:1: … not here")
        self.assertEqual(engines.one_line("once"), "once")
        self.assertEqual(engines.one_line("\n"), "failed without a reason")

    def test_end(self):
        worker = self.start()
        with self.assertRaisesRegex(engines.WorkerError, "ended with status 3"):
            worker.run("die")

    def test_silence(self):
        worker = self.start()
        self.settings.timeout = 0.2
        with self.assertRaisesRegex(engines.WorkerError, "no answer within 0.2 s"):
            worker.run("hang")
        process = worker.process
        worker.close()
        self.assertIsNotNone(process.poll())

    def test_does_not_start(self):
        with self.assertRaisesRegex(engines.WorkerError, "ended with status"):
            self.start("/no/such/script")
        worker = engines.Worker(engines.Engine("ours", None, "own", engine="cpu", precision="exact"), self.settings)
        with self.assertRaises(engines.WorkerError):
            worker.start("model")


def run(engine, seconds, text="a b", wer=0.0, condition="alone", isa="native"):
    return {"model": "m", "isa": isa, "engine": engine, "audio": "clip", "condition": condition, "seconds": seconds,
            "text": text, "wer": wer, "peak_kib": 10240}


def sample():
    rows = [run("openai-whisper f32", 10), run("openai-whisper f32", 14), run("openai-whisper f32", 11),
            run("other", 4, "a  c", 0.5), run("max-whisper cpu", 3), run("max-whisper max", 2, " a b"),
            run("max-whisper max", 1, "a b", condition="beside idle"),
            run("max-whisper max", 1.5, "a b", condition="beside busy"), run("max-whisper int8", 1),
            run("other", 9, isa="avx2"), run("max-whisper max", 3, isa="avx2"), run("max-whisper int8", 2, isa="avx2")]
    names = [("openai-whisper f32", "native", 1), ("other", "native", 2), ("max-whisper cpu", "native", 3),
             ("max-whisper max", "native", 4), ("other", "avx2", 5)]
    return {"command": "bench/peers.py", "revision": "r", "date": "d", "threads": 2, "rounds": 3,
            "machine": {"cpu": "c", "flags": ["avx2"], "cores": 2, "memory_gib": 1.0, "system": "s"},
            "load_before": 0, "load_after": 1, "runs": rows,
            "audio": [{"name": "clip", "what": "w", "seconds": 20.0, "words": 2, "sha256": "0"}],
            "engines": [{"model": "m", "isa": isa, "engine": name, "version": "v", "load_s": n, "start_s": n,
                         "first_result_s": n} for name, isa, n in names],
            "skipped": [{"model": "m", "isa": "avx2", "engine": "gone", "reason": "not | there"}],
            "left_out": {"never": "no beams"}}


class ReportTest(unittest.TestCase):
    def test_speed(self):
        head, openai, other, _, ours, _ = report.speed_rows(sample(), "m", "native", "clip")
        self.assertEqual(len(head), len(openai))
        self.assertEqual(openai[:5], ["openai-whisper f32", "11.000", "10.000", "1.8", "5.50"])
        self.assertEqual(other[4:], ["2.00", "4.00", "50.0 %", "4", "other", "10"])
        self.assertEqual((ours[4], ours[5], ours[8]), ("1.00", "2.00", "same"))

    def test_ratios_are_within_an_instruction_set(self):
        _, other, _, _ = report.speed_rows(sample(), "m", "avx2", "clip")
        self.assertEqual(other[4:6], ["3.00", "4.50"])

    def test_without_max_ratios_are_against_cpu(self):
        result = sample()
        result["runs"] = [one for one in result["runs"] if one["engine"] != "max-whisper max"]
        rows = list(report.speed_rows(result, "m", "native", "clip"))
        self.assertEqual(rows[2][4], "1.33")

    def test_texts_that_vary(self):
        result = sample()
        result["runs"].append(run("other", 4, "something else"))
        self.assertEqual(list(report.speed_rows(result, "m", "native", "clip"))[2][8], "varies")

    def test_contention(self):
        rows = list(report.contention_rows(sample(), "m", "native", "clip"))
        self.assertEqual(rows[1], ["max-whisper max", "1.000", "1.500", "1.50"])

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            prefix = os.path.join(folder, "deeper", "out")
            report.save(sample(), prefix)
            with open(prefix + ".json", encoding="utf-8") as stream:
                self.assertEqual(json.load(stream), sample())
            with open(prefix + ".md", encoding="utf-8") as stream:
                text = stream.read()
        for needle in ("| openai-whisper f32 | 11.000 |", "| gone | m | avx2 | not / there |", "| never | any | any |",
                       "beside another process", "m, held to AVX2, clip", "|---|---:|"):
            self.assertIn(needle, text)
        self.assertIn("openai-whisper f32", report.as_text(sample()))


# Stands for max-whisper: says where a model lies, and converts by writing down what it was told, but refuses q5_0.
PROGRAM = """#!/bin/sh
case "$2 $*" in
inspect*) echo '{"file": "/models/m.pt"}' ;;
*q5_0*) echo "m: no such type" >&2; exit 1 ;;
*) echo "$@" >> "$4" ;;
esac
"""


class FormTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        program = os.path.join(self.folder, "max-whisper")
        with open(program, "w", encoding="ascii") as stream:
            stream.write(PROGRAM)
        os.chmod(program, 0o700)
        self.model = forms.Model("m", self.folder, self.folder)

    def test_converted_once(self):
        self.assertEqual(self.model.form("own"), "/models/m.pt")
        self.assertEqual(self.model.form("state"), "/models/m.pt")
        path = self.model.form("ggml-q8_0")
        self.assertEqual(self.model.form("ggml-q8_0"), path)
        with open(path, encoding="ascii") as stream:
            told = stream.read().splitlines()
        self.assertEqual(len(told), 1)
        self.assertIn("--format ggml --type q8_0", told[0])

    def test_refused(self):
        for _ in range(2):
            with self.assertRaisesRegex(forms.FormError, "^cannot be converted to ggml-q5_0: m: no such type$"):
                self.model.form("ggml-q5_0")

    def test_every_engine_has_its_form_and_environment(self):
        for engine in engines.TABLE:
            self.assertTrue(engine.reads == "own" or engine.reads in {**forms.CONVERTED, **forms.EXPORTED}, engine.name)
            self.assertTrue(engine.peer is None or engine.peer in environments.REQUIREMENTS, engine.name)


class EnvironmentTest(unittest.TestCase):
    def test_used_as_it_is_until_something_changes(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "installed.txt"), "w", encoding="ascii") as stream:
                stream.write(venvlib.stamp(["a==1"], {"FLAGS": "-x"}))
            self.assertTrue(venvlib.interpreter(folder, ["a==1"], {"FLAGS": "-x"}))
            for wanted, variables in ((["a==2"], {"FLAGS": "-x"}), (["a==1"], {"FLAGS": "-y"}), (["a==1"], {})):
                self.assertIsNone(venvlib.interpreter(folder, wanted, variables))

    def test_compiled_for_this_processor(self):
        self.assertIn("GGML_NATIVE=ON", environments.build_variables("whisper.cpp-native")["CMAKE_ARGS"])
        self.assertEqual(environments.build_variables("whisper.cpp"), {})


class RecordingTest(unittest.TestCase):
    def test_unknown(self):
        with self.assertRaisesRegex(ValueError, "neither one of short"):
            recordings.find("nothing", "folder")

    def test_prompts(self):
        if not os.path.exists(recordings.PROMPTS_TEXT):
            self.skipTest("asterisk-core-sounds-en is not installed")
        truth = recordings.prompts_truth()
        self.assertTrue(truth.startswith("Login incorrect."))
        self.assertIn("Unidentified or withheld", truth)
        self.assertGreater(len(truth.split()), 300)


if __name__ == "__main__":
    unittest.main()
