"""The linter's own test: a small sound tree passes, and each fault put into it is reported, and nothing else."""
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LOADER = importlib.machinery.SourceFileLoader("lint", os.path.join(ROOT, "tools", "lint"))
lint = importlib.util.module_from_spec(importlib.util.spec_from_loader("lint", LOADER))
LOADER.exec_module(lint)

MAP = """# Map

<!-- lint: layers -->

    api       → pipeline
    pipeline  → audio
    modules   → device
    all       → tensor base

<!-- lint: doors -->

    base/*    free

<!-- lint: libraries -->

    libav*    → modules/ffmpeg
"""
HEAD = "/* %s - what it is, said in one line. */\n"


def c_file(name, *includes):
    return HEAD % name + "".join(f'#include "{header}"\n' if header[0] != "<" else f"#include {header}\n"
                                 for header in includes)


SOUND = {
    "docs/architecture.md": MAP,
    "include/max_whisper.h": c_file("max_whisper.h", "max_whisper/one.h"),
    "include/max_whisper/one.h": HEAD % "max_whisper/one.h" + "#define MXW_API\nMXW_API int mxw_one(void);\n",
    "include/max_whisper/lab.h": c_file("max_whisper/lab.h", "one.h"),
    "src/api/api.h": c_file("api/api.h", "max_whisper/one.h"),
    "src/api/api.c": c_file("api/api.c", "api/api.h", "max_whisper/lab.h", "pipeline/pipeline.h"),
    "src/meson.build": "core_src += files('api/api.c')\n",
    "src/base/base.h": c_file("base/base.h"),
    "src/base/mem.h": c_file("base/mem.h", "max_whisper.h"),
    "src/audio/audio.h": c_file("audio/audio.h", "base/mem.h"),
    "src/audio/wav.h": c_file("audio/wav.h"),
    "src/audio/wav.c": c_file("audio/wav.c", "audio/wav.h", "audio/audio.h"),
    "src/audio/open.c": c_file("audio/open.c", "audio/audio.h"),
    "src/audio/meson.build": "core_src += files('wav.c', 'open.c')\n",
    "src/device/device.h": c_file("device/device.h"),
    "src/pipeline/pipeline.h": c_file("pipeline/pipeline.h", "audio/audio.h"),
    "src/modules/ffmpeg/module.c": c_file("ffmpeg/module.c", "device/device.h", "<libavcodec/avcodec.h>"),
    "src/modules/meson.build": "files('ffmpeg/module.c')\n",
    "apps/cli/main.c": c_file("cli/main.c", "max_whisper.h", "args.h", "<stdio.h>"),
    "apps/cli/args.h": c_file("cli/args.h"),
    "apps/cli/meson.build": "cli_src = files('main.c')\n",
    "tools/thing": "#!/bin/sh\n# tools/thing - does a thing.\n",
    "tools/other.py": '"""tools/other.py - does another thing, in Python."""\n',
    "Makefile": "all:\n\techo\n",
}


class LintTest(unittest.TestCase):
    def faults(self, changes, build=None):
        with tempfile.TemporaryDirectory() as root:
            for path, text in {**SOUND, **changes}.items():
                full = os.path.join(root, path)
                os.makedirs(os.path.dirname(full), exist_ok=True)
                with open(full, "w", encoding="utf-8", newline="") as stream:
                    stream.write(text)
            return lint.check(root, build)

    def one(self, path, text, message):
        """Exactly one fault, of that file, with that message in it."""
        faults = self.faults({path: text})
        self.assertEqual(len(faults), 1, faults)
        self.assertTrue(faults[0].startswith(path), faults[0])
        self.assertIn(message, faults[0])

    def test_sound_tree(self):
        self.assertEqual(self.faults({}), [])

    def test_layer_turned_back(self):
        self.one("src/audio/open.c", c_file("open.c", "audio/audio.h", "pipeline/pipeline.h"),
                 "audio may not include pipeline")
        self.one("src/base/base.h", c_file("base.h", "audio/audio.h"), "base may not include audio")
        self.one("src/api/api.c", c_file("api.c", "api/api.h", "audio/audio.h"), "api may not include audio")

    def test_door(self):
        self.one("src/pipeline/pipeline.h", c_file("pipeline.h", "audio/wav.h"), "entered by audio/audio.h")

    def test_circle_in_the_map(self):
        self.one("docs/architecture.md", MAP.replace("modules ", "audio     → pipeline\n    modules "), "a circle: ")

    def test_map_missing(self):
        self.one("docs/architecture.md", "# nothing\n", "tables")

    def test_header_that_is_not_there(self):
        self.one("src/audio/open.c", c_file("open.c", "audio/audio.h", "audio/gone.h"), "no header src/audio/gone.h")
        self.one("src/audio/open.c", c_file("open.c", "audio/audio.h", "wav.h"), "by its folder")

    def test_library_out_of_place(self):
        self.one("src/audio/open.c", c_file("open.c", "audio/audio.h", "<libavutil/mem.h>"), "belongs in modules/")

    def test_app_reaches_inside(self):
        self.one("apps/cli/main.c", c_file("main.c", "max_whisper.h", "audio/audio.h"), "only max_whisper.h")
        self.one("apps/cli/main.c", c_file("main.c", "../../src/audio/audio.h"), "only max_whisper.h")
        self.one("apps/cli/main.c", c_file("main.c", "<audio/audio.h>"), "only max_whisper.h")

    def test_app_enters_another(self):
        server = {"apps/server/server.h": c_file("server/server.h"), "apps/server/inner.h": c_file("server/inner.h")}
        entered = {"apps/cli/main.c": c_file("main.c", "max_whisper.h", "server/server.h")}
        self.assertEqual(self.faults({**server, **entered}), [])
        reached = {"apps/cli/main.c": c_file("main.c", "max_whisper.h", "server/inner.h")}
        self.assertEqual(len(self.faults({**server, **reached})), 1)

    def test_own_header(self):
        self.one("src/audio/wav.c", c_file("wav.c", "audio/audio.h"), "which it implements")
        self.one("src/audio/open.c", c_file("open.c", "base/mem.h"), "no header of its own folder")

    def test_contract(self):
        self.one("src/audio/open.c", '#include "audio/audio.h"\n', "does not open with a comment")
        self.one("tools/thing", "#!/bin/sh\necho\n", "does not open with a comment")
        self.one("tools/other.py", "import os\n", "does not open with a comment")
        self.one("apps/server/page/www/x.js", "let x = 1;\n", "does not open with a comment")
        self.one("apps/server/page/www/x.html", "<!DOCTYPE html>\n<html></html>\n", "does not open with a comment")
        page = "<!DOCTYPE html>\n<!-- x.html - a page with nothing in it -->\n"
        self.assertEqual(self.faults({"apps/server/page/www/x.html": page}), [])

    def test_style(self):
        sound = c_file("open.c", "audio/audio.h")
        self.one("src/audio/open.c", sound + "int\tx;\n", "a tab")
        self.one("src/audio/open.c", sound + "int x; \n", "blanks at the end")
        self.one("src/audio/open.c", sound + "int\rx;\n", "a carriage return")
        self.one("src/audio/open.c", sound + "int x;", "no newline")
        self.one("src/audio/open.c", sound + "/* " + "x" * 115 + " */\n", "121 columns")
        self.one("src/audio/open.c", sound + "int x;\n" * 599, "lines (at most 600)")
        self.one("include/max_whisper/lab.h", c_file("max_whisper/lab.h", "one.h") + "/* a rule */\n" * 160,
                 "lines (at most 160)")

    def test_limits_are_exact(self):
        sound = c_file("open.c", "audio/audio.h")
        self.assertEqual(self.faults({"src/audio/open.c": sound + "/* " + "é" * 114 + " */\n"}), [])
        self.assertEqual(self.faults({"src/audio/open.c": sound + "int x;\n" * 598}), [])

    def test_tables_are_exempt(self):
        table = "/* lint: table */\n" + ("/* " + "x" * 150 + " */\n") * 700 + "/* lint: end */\n"
        sound = c_file("open.c", "audio/audio.h")
        self.assertEqual(self.faults({"src/audio/open.c": sound + table}), [])
        self.one("src/audio/open.c", sound + table + "/* " + "x" * 115 + " */\n", "121 columns")

    def test_words(self):
        sound = c_file("open.c", "audio/audio.h")
        for word in ("TO" + "DO", "FIX" + "ME"):
            self.one("src/audio/open.c", sound + f"/* {word}: later */\n", "unfinished")
        self.one("README.md", "see /ho" + "me/someone/file\n", "a path of one machine")
        self.assertEqual(self.faults({"README.md": "see ~/.cache and src/ho" + "me/x and $HOME/ro" + "ot/x\n"}), [])

    def test_private_words(self):
        sound = c_file("open.c", "audio/audio.h")
        for word in ("reck" + "oned", "Dea" + "lt", "an" + "ew", "who" + "ever", "What ho" + "lds",
                     "What must ho" + "ld", "meets no ba" + "nk", "gone on wi" + "th",
                     "handed o" + "n", "the do" + "or"):
            for path, text in (("src/audio/open.c", sound + f"/* is {word} by */\n"), ("CHANGES.md", f"- {word}\n"),
                               ("docs/man/x.1", f".B {word}\n"), ("tools/thing", SOUND["tools/thing"] + f"# {word}\n")):
                self.one(path, text, f'a private word: "{word}"')
        self.assertEqual(self.faults({"README.md": "an ewe at the doorway, what holdsworth handed once\n"}), [])

    def test_folder_too_full(self):
        def tests(n):
            return {f"tests/kit/kit{i}.h": c_file("kit.h") for i in range(n)}
        self.assertEqual(self.faults({**tests(24), "tests/kit/a.py": '"""a.py - a program in Python."""\n',
                                      "tests/kit/meson.build": "", "tests/kit/more/more.h": c_file("more.h")}), [])
        for folder in ("src/base", "apps/cli", "tests/kit", "tools", "bench", "include/max_whisper"):
            full = {f"{folder}/x{i}.h": c_file("x.h") for i in range(26)}
            self.assertTrue(any(fault.startswith(folder + ": ") and "(at most 25)" in fault
                                for fault in self.faults(full)), folder)

    def test_one_name_for_two_things(self):
        wav, device = c_file("audio/wav.h"), c_file("device/device.h")
        for text, what in (("struct mx_place {\n    int x;\n};\n", "type mx_place"),
                           ("enum place { HERE };\n", "type place"),
                           ("typedef int (*mx_call)(int, int);\n", "type mx_call"),
                           ("typedef struct { int x; } mx_pair;\n", "type mx_pair"),
                           ("#define MX_LANES 8\n", "macro MX_LANES"),
                           ("int *mx_find(const char *name,\n             int n);\n", "function mx_find")):
            faults = self.faults({"src/audio/wav.h": wav + text, "src/device/device.h": device + text})
            self.assertEqual(len(faults), 1, (text, faults))
            self.assertIn(f"src/device/device.h:2: {what} is defined in src/audio/wav.h already", faults[0])
        body = "struct mx_place {\n    int x;\n};\n"
        faults = self.faults({"src/audio/open.c": c_file("open.c", "audio/audio.h") + body,
                              "src/device/device.h": device + body})
        self.assertEqual(len(faults), 1, faults)

    def test_one_name_for_one_thing(self):
        wav, device = c_file("audio/wav.h"), c_file("device/device.h")
        for first, second in (("typedef struct mx_place mx_place;\n", "typedef struct mx_place mx_place;\n"),
                              ("struct mx_place;\n", "struct mx_place { int x; };\n"),
                              ("#define X 1\n#undef X\n", "#define X 2\n#undef X\n"),
                              ("/* struct mx_place { */\n", "struct mx_place { int x; };\n")):
            self.assertEqual(self.faults({"src/audio/wav.h": wav + first, "src/device/device.h": device + second}), [])
        own = c_file("open.c", "audio/audio.h") + "struct place { int x; };\n#define N 1\n"
        self.assertEqual(self.faults({"src/audio/open.c": own, "src/device/device.h": device + "#define N 2\n"}), [])
        one = c_file("gemm.cuh") + "namespace gemm {\nstruct params { int m; };\n}\n"
        self.assertEqual(self.faults({"src/modules/a/one.cuh": one,
                                      "src/modules/b/two.cuh": one.replace("namespace gemm", "namespace attention")}),
                         [])
        self.assertEqual(len(self.faults({"src/modules/a/one.cuh": one, "src/modules/b/two.cuh": one})), 1)

    def test_data_without_origin(self):
        self.one("tests/data/a.jsonl", "{}\n", "is data that no README above it names")
        named = {"tests/data/a.jsonl": "{}\n"}
        good = "# Data\n\n`a.jsonl`: by hand, under the MIT licence.\n"
        self.assertEqual(self.faults({**named, "tests/data/README.md": good}), [])
        self.assertEqual(self.faults({**named, "tests/README.md": good.replace("a.jsonl", "data/")}), [])
        for bad in (good.replace("a.jsonl", "b.jsonl"), good.replace("under the MIT licence", "somewhere")):
            self.assertEqual(len(self.faults({**named, "tests/data/README.md": bad})), 1, bad)

    def test_source_that_nothing_builds(self):
        self.one("src/audio/lost.c", c_file("lost.c", "audio/audio.h"), "in no meson.build")
        self.one("src/modules/cuda/lost.cu", c_file("lost.cu", "device/device.h"), "in no meson.build")

    def test_cuda_files(self):
        """The rules for .c apply to .cu and .cuh."""
        listed = {"src/modules/cuda/meson.build": "cuda_src = ['k.cu']\n"}
        sound = c_file("k.cu", "device/device.h")
        self.assertEqual(self.faults({**listed, "src/modules/cuda/k.cu": sound}), [])
        for text, message in ((sound + "/* " + "x" * 115 + " */\n", "121 columns"),
                              ('#include "device/device.h"\n', "does not open with a comment"),
                              (c_file("k.cu", "audio/audio.h"), "modules/cuda may not include audio"),
                              (c_file("k.cu", "<libavutil/mem.h>"), "belongs in modules/ffmpeg")):
            faults = self.faults({**listed, "src/modules/cuda/k.cu": text})
            self.assertEqual(len(faults), 1, faults)
            self.assertIn(message, faults[0])
        self.assertEqual(len(self.faults({"src/modules/cuda/k.cuh": "#include <math.h>\n"})), 1)

    def test_header_in_each_language(self):
        for header in ("include/max_whisper.h", "include/max_whisper/lab.h"):
            self.one(header, SOUND[header] + "int mxw_x(int class);\n", "C++17")
            faults = self.faults({header: SOUND[header] + "int mxw_x(missing_t a);\n"})
            self.assertEqual(len(faults), 3, faults)

    def test_umbrella(self):
        self.one("include/max_whisper/two.h", HEAD % "two" + "int mxw_two(void);\n", "is not in include/max_whisper.h")
        self.one("include/max_whisper.h", SOUND["include/max_whisper.h"] + '#include "max_whisper/lab.h"\n', "unstable")

    def test_module_header_in_cpp(self):
        self.one("src/device/device.h", c_file("device.h") + "int mx_x(int new);\n", "does not compile as C++17")

    def test_symbols(self):
        cases = (("int mxw_one(void) { return 1; }", []),
                 ("int mxw_one(void) { return 1; } int stray(void) { return 1; }", ["exports stray"]),
                 ("int mxw_two(void) { return 1; }", ["declares mxw_one"]))
        for source, expected in cases:
            with tempfile.TemporaryDirectory() as build:
                subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-x", "c", "-", "-o",
                                os.path.join(build, "libmax_whisper.so")], input=source, text=True, check=True)
                faults = self.faults({}, build)
                self.assertEqual(len(faults), len(expected), faults)
                for fault, message in zip(faults, expected):
                    self.assertIn(message, fault)

    def test_library_not_built(self):
        with tempfile.TemporaryDirectory() as build:
            self.assertIn("is not built", self.faults({}, build)[0])


if __name__ == "__main__":
    unittest.main()
