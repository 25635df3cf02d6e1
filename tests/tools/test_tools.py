"""The scripts behind the make verbs, without network: fetching from a wheel made here, what is built where, and the
closing line of the tests."""
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import zipfile

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "lib"))
import fetchlib  # noqa: E402


def load(name):
    """A script of tools/ as a module."""
    loader = importlib.machinery.SourceFileLoader(name, os.path.join(ROOT, "tools", name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


def make_wheel(folder, name, members):
    """The smallest wheel that pip takes."""
    path = os.path.join(folder, f"{name}-1.0-py3-none-any.whl")
    info = f"{name}-1.0.dist-info/"
    with zipfile.ZipFile(path, "w") as wheel:
        for member, data in members.items():
            wheel.writestr(member, data)
        wheel.writestr(info + "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(info + "RECORD", "")


def wanted(name, parts, data):
    return fetchlib.File(name, parts, len(data), hashlib.sha256(data).hexdigest())


class FetchTest(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.addCleanup(self.place.cleanup)
        self.wheels = os.path.join(self.place.name, "wheels")
        self.cache = os.path.join(self.place.name, "cache")
        os.mkdir(self.wheels)
        make_wheel(self.wheels, "one", {"one/a": b"first ", "one/c": b"config"})
        make_wheel(self.wheels, "two", {"two/b": b"second"})
        before = dict(os.environ)
        self.addCleanup(os.environ.update, before)
        self.addCleanup(os.environ.clear)
        os.environ.update(PIP_NO_INDEX="1", PIP_FIND_LINKS=self.wheels, PIP_DISABLE_PIP_VERSION_CHECK="1")
        self.files = [wanted("m/model.bin", [("one==1.0", "one/a"), ("two==1.0", "two/b")], b"first second"),
                      wanted("m/config", [("one==1.0", "one/c")], b"config")]

    def fetch(self, files):
        return fetchlib.fetch("test", files, self.cache, ["m"])

    def test_joins_parts_and_leaves_only_the_model(self):
        self.assertTrue(self.fetch(self.files))
        with open(os.path.join(self.cache, "m", "model.bin"), "rb") as stream:
            self.assertEqual(stream.read(), b"first second")
        self.assertEqual(os.listdir(self.cache), ["m"])
        fetchlib.verify(self.files, self.cache)

    def test_second_time_needs_no_package(self):
        self.fetch(self.files)
        os.environ["PIP_FIND_LINKS"] = os.path.join(self.place.name, "nowhere")
        self.assertFalse(self.fetch(self.files))

    def test_truncated_file_is_replaced(self):
        self.fetch(self.files)
        path = os.path.join(self.cache, "m", "model.bin")
        with open(path, "wb") as stream:
            stream.write(b"first")
        self.assertTrue(self.fetch(self.files))
        self.assertEqual(os.path.getsize(path), 12)
        self.assertEqual(os.listdir(self.cache), ["m"])

    def test_wrong_checksum_leaves_nothing(self):
        self.files[0].sha256 = "0" * 64
        with self.assertRaisesRegex(fetchlib.FetchError, "SHA-256"):
            self.fetch(self.files)
        self.assertEqual(os.listdir(self.cache), [])

    def test_missing_package_and_member_are_named(self):
        with self.assertRaisesRegex(fetchlib.FetchError, "absent==1.0"):
            self.fetch([wanted("m/x", [("absent==1.0", "x")], b"x")])
        with self.assertRaisesRegex(fetchlib.FetchError, "one/gone"):
            self.fetch([wanted("m/x", [("one==1.0", "one/gone")], b"x")])
        self.assertEqual(os.listdir(self.cache), [])

    def test_verify_sees_a_changed_byte(self):
        self.fetch(self.files)
        with open(os.path.join(self.cache, "m", "config"), "wb") as stream:
            stream.write(b"cOnfig")
        with self.assertRaisesRegex(fetchlib.FetchError, "m/config: SHA-256"):
            fetchlib.verify(self.files, self.cache)


class CommandTest(unittest.TestCase):
    def run_tool(self, *arguments, **environment):
        result = subprocess.run([os.path.join(ROOT, "tools", arguments[0]), *arguments[1:]], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, **environment})
        return result.returncode, result.stdout

    def test_unknown_model_is_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            code, output = self.run_tool("fetch-model", "colossal", MAX_WHISPER_MODELS=folder)
        self.assertEqual(code, 1)
        self.assertEqual(output.count("\n"), 1, output)
        self.assertIn("colossal", output)

    def test_a_model_of_the_user_is_left_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            open(os.path.join(folder, "small.pt"), "wb").close()
            self.assertEqual(self.run_tool("fetch-model", "small", MAX_WHISPER_MODELS=folder), (0, ""))

    def test_setup_refuses_an_unknown_set(self):
        code, output = self.run_tool("setup", "everything")
        self.assertEqual(code, 2)
        self.assertEqual(output.count("\n"), 1, output)

    def test_wrong_usage_runs_nothing(self):
        for words in (("run-tests", "build"), ("run-tests", "build", "fast", "+", "other"), ("sanitize",),
                      ("sanitize", "memory"), ("sanitize", "quick", "--fast")):
            code, output = self.run_tool(*words)
            self.assertEqual(code, 2, words)
            self.assertTrue(output.startswith("usage: tools/"), output)

    def test_the_cuda_module_is_never_older_than_the_program(self):
        build = load("build")
        build.NVIDIA = ("/nonexistent/nvidiactl",)
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(build.program_target(folder), "program-without-cuda")
            os.mkdir(os.path.join(folder, "max-whisper-modules"))
            open(os.path.join(folder, "max-whisper-modules", "cuda.so"), "wb").close()
            self.assertEqual(build.program_target(folder), "program")
        build.NVIDIA = (os.devnull,)
        self.assertEqual(build.program_target("/nonexistent"), "program")

    def test_a_folder_for_each_compiler(self):
        sanitize = load("sanitize")
        for compiler, folder in (("", "build-asan"), ("gcc", "build-asan"), ("ccache gcc", "build-asan"),
                                 ("clang", "build-asan-clang"), ("ccache /usr/bin/clang-14", "build-asan-clang-14")):
            with unittest.mock.patch.dict(os.environ, CC=compiler):
                self.assertEqual(sanitize.folder_of("address"), folder)

    def test_versions_that_differ_are_no_release(self):
        release = load("release-check")
        sound = {"meson.build": "project('x', 'c',\n  version: '1.2.3',\n)\n",
                 "include/max_whisper/version.h": "#define MXW_VERSION_MAJOR 1\n#define MXW_VERSION_MINOR 2\n"
                                                  "#define MXW_VERSION_PATCH 3\n",
                 "CHANGES.md": "# Changes\n\n## 1.2.3 (2026-11-16)\n\n## 1.2.2 (2026-01-01)\n",
                 "docs/man/x.1": '.TH X 1 "" "max-whisper 1.2.3" "User commands"\n'}
        self.assertEqual(self.version_step(release, sound), "1.2.3")
        for path, text in sound.items():
            with self.assertRaises(release.Failed, msg=path):
                self.version_step(release, {**sound, path: text.replace("3", "4", 1)})
        for date in ("unreleased", "2026-13-01"):
            with self.assertRaisesRegex(release.Failed, "no date"):
                self.version_step(release, {**sound, "CHANGES.md": f"## 1.2.3 ({date})\n"})

    def version_step(self, release, files):
        with tempfile.TemporaryDirectory() as folder:
            for path, text in files.items():
                os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
                with open(os.path.join(folder, path), "w", encoding="utf-8") as stream:
                    stream.write(text)
            return release.step_version(folder, None)

    def closing(self, *results):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as log:
            for name, result, output in results:
                log.write(json.dumps({"name": name, "result": result, "stdout": output}) + "\n")
            log.flush()
            code, output = self.run_tool("run-tests", "--report", log.name)
        return code, output.splitlines()

    def test_closing_line(self):
        code, lines = self.closing(("a", "OK", ""), ("b", "SKIP", "SKIP: b: no model\n"), ("c", "OK", "fine\n"))
        self.assertEqual((code, lines[-1]), (0, "2 passed, 0 failed, 1 skipped"))
        self.assertIn("skipped: b: no model", lines)

    def test_failures_and_timeouts_count(self):
        for how in ("FAIL", "TIMEOUT", "ERROR", "INTERRUPT", "UNEXPECTEDPASS"):
            code, lines = self.closing(("a", "OK", ""), ("b", how, "x.c:1: wrong\n"))
            self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))
            self.assertIn("x.c:1: wrong", lines)

    def test_a_part_left_out_is_named(self):
        code, lines = self.closing(("a", "OK", "SKIP: a: no development set\n"))
        self.assertEqual((code, lines[-1]), (0, "1 passed, 0 failed, 1 skipped"))

    def test_nothing_passed_is_no_success(self):
        self.assertEqual(self.closing(("a", "SKIP", ""))[0], 1)


if __name__ == "__main__":
    unittest.main()
