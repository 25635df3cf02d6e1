"""The examples in examples/python, run as scripts; the types of the package, by mypy where it is installed."""
import glob
import os
import shutil
import subprocess
import sys
import unittest

import python_kit as kit


def example(name, *words, status=0):
    done = subprocess.run([sys.executable, os.path.join(kit.ROOT, "examples", "python", name), *words], text=True,
                          capture_output=True, timeout=300, check=False)
    if done.returncode != status:
        raise AssertionError(f"{name}: exit status {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


class Examples(unittest.TestCase):
    def setUp(self):
        self.model = kit.released("tiny.en")
        self.clip = shutil.copy(kit.speech("pocketsphinx-librivox-0880.wav"), kit.FOLDER)

    def test_subtitles(self):
        self.assertIn("1 segments", example("subtitles.py", self.model, self.clip))
        with open(os.path.splitext(self.clip)[0] + ".srt", encoding="utf-8") as stream:
            self.assertIn("young man", stream.read())

    def test_search(self):
        self.assertEqual(example("search.py", self.model, self.clip, "young").count("young man"), 1)
        self.assertEqual(example("search.py", self.model, self.clip, "elephant", status=1), "")

    def test_stream(self):
        import max_whisper
        if not max_whisper._native.vad_location(None, None):
            self.skipTest("the weights of speech detection are not on this machine (make model)")
        self.assertIn("young man", example("stream.py", self.model, self.clip))


class Types(unittest.TestCase):
    def test_mypy(self):
        """In an environment of its own, which MXW_MYPY names, or where mypy is on the path."""
        mypy = os.environ.get("MXW_MYPY") or shutil.which("mypy")
        if not mypy:
            self.skipTest("mypy is not installed (pip install mypy numpy, then MXW_MYPY=its path)")
        files = [os.path.join(kit.ROOT, "python", "max_whisper"),
                 *glob.glob(os.path.join(kit.ROOT, "examples", "python", "*.py"))]
        for file in files:
            done = subprocess.run([mypy, "--strict", "--config-file", os.path.join(kit.ROOT, "pyproject.toml"),
                                   "--cache-dir", os.path.join(kit.FOLDER, "mypy"), file], text=True, cwd=kit.ROOT,
                                  capture_output=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    kit.main("python-examples")
