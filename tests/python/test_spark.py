"""examples/python/spark.py with Spark on this machine: the text of each recording, and the error of one that is none.

Needs the environment of `tools/python-env spark` (or $MXW_SPARK_PYTHON), Java 17 and tiny.en; else skipped by name.
"""
import os
import shutil
import subprocess
import unittest

import python_kit as kit


class Spark(unittest.TestCase):
    def test_example(self):
        python = os.environ.get("MXW_SPARK_PYTHON") or subprocess.run(
            [os.path.join(kit.ROOT, "tools", "python-env"), "spark", "--path"], capture_output=True, text=True,
            check=False).stdout.strip()
        if not python:
            self.skipTest("Spark is not on this machine (tools/python-env spark)")
        if not shutil.which("java"):
            self.skipTest("Java is not on this machine")
        model = kit.released("tiny.en")
        clips = [kit.speech(f"pocketsphinx-{name}.wav") for name in ("goforward", "numbers")]
        want = {}
        for clip in clips:
            want[clip] = subprocess.run([kit.command(), clip, "--model", model, "--format", "txt", "--quiet"],
                                        capture_output=True, text=True, check=True).stdout.split()
        done = subprocess.run([python, os.path.join(kit.ROOT, "examples", "python", "spark.py"), model,
                               os.path.join(kit.FOLDER, "spark"), *clips, "/no/such.wav"], capture_output=True,
                              text=True, env={**os.environ, "PYSPARK_PYTHON": python}, check=False)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr[-3000:])
        lines = dict(line.split(": ", 1) for line in done.stdout.splitlines() if line.startswith("/"))
        self.assertEqual(sorted(lines), sorted([*clips, "/no/such.wav"]))
        self.assertIn("/no/such.wav", lines["/no/such.wav"])
        for clip in clips:
            self.assertEqual(lines[clip].split(), want[clip])


if __name__ == "__main__":
    kit.main("python-spark")
