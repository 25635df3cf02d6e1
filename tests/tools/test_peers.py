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
sys.path.insert(0, os.path.join(ROOT, "bench"))
import engines     # noqa: E402
import recordings  # noqa: E402
import report      # noqa: E402

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
        self.settings = argparse.Namespace(threads=1, isa="native", timeout=20, build="none",
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
        worker = engines.Worker(engines.Engine("ours", None, "own", engine="cpu"), self.settings)
        with self.assertRaises(engines.WorkerError):
            worker.start("model")


def run(engine, seconds, text="a b", wer=0.0, condition="alone"):
    return {"model": "m", "engine": engine, "audio": "clip", "condition": condition, "seconds": seconds, "text": text,
            "wer": wer, "peak_kib": 10240}


def sample():
    rows = [run("openai-whisper f32", 10), run("openai-whisper f32", 14), run("openai-whisper f32", 11),
            run("other", 4, "a  c", 0.5), run("max-whisper cpu", 3), run("max-whisper max", 2, " a b"),
            run("max-whisper max", 1, "a b", condition="beside idle"),
            run("max-whisper max", 1.5, "a b", condition="beside busy")]
    names = [("openai-whisper f32", 1), ("other", 2), ("max-whisper cpu", 3), ("max-whisper max", 4)]
    return {"command": "bench/peers.py", "revision": "r", "date": "d", "threads": 2, "isa": "native", "rounds": 3,
            "machine": {"cpu": "c", "flags": ["avx2"], "cores": 2, "memory_gib": 1.0, "system": "s"},
            "load_before": 0, "load_after": 1, "runs": rows,
            "audio": [{"name": "clip", "what": "w", "seconds": 20.0, "words": 2, "sha256": "0"}],
            "engines": [{"model": "m", "engine": name, "version": "v", "load_s": n, "start_s": n, "first_result_s": n}
                        for name, n in names],
            "skipped": [{"model": "m", "engine": "gone", "reason": "not there"}]}


class ReportTest(unittest.TestCase):
    def test_speed(self):
        head, openai, other, _, ours = report.speed_rows(sample(), "m", "clip")
        self.assertEqual(len(head), len(openai))
        self.assertEqual(openai[:5], ["openai-whisper f32", "11.000", "10.000", "1.8", "5.50"])
        self.assertEqual(other[4:], ["2.00", "50.0 %", "4", "other", "10"])
        self.assertEqual((ours[4], ours[7]), ("1.00", "same"))

    def test_without_max_ratios_are_against_cpu(self):
        result = sample()
        result["runs"] = [one for one in result["runs"] if one["engine"] != "max-whisper max"]
        rows = list(report.speed_rows(result, "m", "clip"))
        self.assertEqual(rows[2][4], "1.33")

    def test_texts_that_vary(self):
        result = sample()
        result["runs"].append(run("other", 4, "something else"))
        self.assertEqual(list(report.speed_rows(result, "m", "clip"))[2][7], "varies")

    def test_contention(self):
        rows = list(report.contention_rows(sample(), "m", "clip"))
        self.assertEqual(rows[1], ["max-whisper max", "1.000", "1.500", "1.50"])

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            prefix = os.path.join(folder, "deeper", "out")
            report.save(sample(), prefix)
            with open(prefix + ".json", encoding="utf-8") as stream:
                self.assertEqual(json.load(stream), sample())
            with open(prefix + ".md", encoding="utf-8") as stream:
                text = stream.read()
        for needle in ("| openai-whisper f32 | 11.000 |", "skipped: m, gone: not there", "beside another process",
                       "|---|---:|"):
            self.assertIn(needle, text)
        self.assertIn("openai-whisper f32", report.as_text(sample()))


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
