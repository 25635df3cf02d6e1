"""The wheel: built, judged by auditwheel, installed into an empty environment, and tried there.

Needs pip and a package index, or a cache of it; skipped by name without.
"""
import glob
import os
import subprocess
import sys
import unittest
import zipfile

import python_kit as kit


class Wheel(unittest.TestCase):
    def test_wheel(self):
        index = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", kit.FOLDER,
                                "meson-python"], capture_output=True, text=True, check=False)
        if index.returncode:
            self.skipTest("pip cannot fetch meson-python: " + (index.stderr.strip().splitlines() or ["no pip"])[-1])
        env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MXW_MODULE_DIR")}
        done = subprocess.run([os.path.join(kit.ROOT, "tools", "wheel"), "--out", kit.FOLDER, "--try",
                               "-Dcuda=disabled"], capture_output=True, text=True, env=env, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("max-whisper 0.", done.stdout)
        wheel, = glob.glob(os.path.join(kit.FOLDER, "max_whisper-*.whl"))
        self.assertIn("-cp311-abi3-manylinux_2_34_", wheel)
        names = zipfile.ZipFile(wheel).namelist()
        for name in ("max_whisper/_native.abi3.so", "max_whisper/libmax_whisper.so.0", "max_whisper/bin/max-whisper",
                     "max_whisper/max-whisper-modules/ffmpeg.so", "max_whisper/py.typed",
                     "max_whisper/ray/__main__.py"):
            self.assertIn(name, names)


if __name__ == "__main__":
    kit.main("python-wheel")
