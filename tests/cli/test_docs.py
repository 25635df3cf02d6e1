"""tests/cli/test_docs.py PROGRAM DOCS - help, manual pages and bash completion agree: every option, every default.

DOCS is the folder of the build that holds the generated pages and the completion. And the fuzzer of the command line
knows the words of all options."""
import os
import re
import shutil
import subprocess
import sys

from clitest import ROOT, check, check_equal, done, run

DOCS = os.path.abspath(sys.argv[2])
MANUAL = os.path.join(DOCS, "max-whisper.1")
LIBRARY_MANUAL = os.path.join(ROOT, "docs", "man", "max_whisper.3")
HEADERS = os.path.join(ROOT, "include", "max_whisper")
COMPLETION = os.path.join(DOCS, "max-whisper")
COMMANDS = ["transcribe", "live", "serve", "vad", "language", "bench", "demo", "report", "verify", "features extract",
            "features compare", "features diverge", "features decode", "model list", "model fetch", "model inspect",
            "model convert", "model export", "devices", "gpu-check", "graph dump", "graph test", "version", "help"]
MESSAGES = {"--quiet", "--log-level", "--log-format", "--help"}   # of every subcommand, in the main page


def options_of(command):
    """{name: default or None} as help prints them"""
    code, out, _ = run("help", *command.split())
    check_equal(code, 0, f"help {command}")
    found = {}
    name = None
    for line in out.splitlines():
        names = re.match(r"  (?:-\w, |    )(--[a-z0-9-]+(?:, --[a-z-]+)*)", line)
        if names:
            name, *others = names.group(1).split(", ")
            found[name] = None
            found.update((other, None) for other in others)
        default = re.search(r"\[([^\]]*)\]$", line)
        if default and name:
            found[name] = default.group(1)
    return found


def manual_text(page=MANUAL):
    """A page as plain words on one line each paragraph"""
    with open(page, encoding="utf-8") as stream:
        source = stream.read()
    source = re.sub(r"\\\[u([0-9A-F]{4})\]", lambda code: chr(int(code.group(1), 16)), source)
    for escape, plain in (("\\-", "-"), ("\\&", ""), ("\\(dq", '"'), ("\\fR", ""), ("\\fI", ""), ("\\fB", "")):
        source = source.replace(escape, plain)
    return source


def manual_entries():
    """{name: text below it} of every option that has an entry of its own"""
    entries = {}
    for block in re.split(r"^\.TP\n", manual_text(), flags=re.MULTILINE)[1:]:
        head, _, body = block.partition("\n")
        names = re.findall(r"(--[a-z0-9-]+)", head)
        while body.startswith(".TQ\n"):
            head, _, body = body[4:].partition("\n")
            names += re.findall(r"(--[a-z0-9-]+)", head)
        for name in names if head.startswith(".B") and re.match(r"\.BR? -", head) else []:
            entries[name] = body
    return entries


def completed(*words):
    """What bash offers after these words"""
    script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); compopt() { :; }; _max_whisper; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    done_ = subprocess.run(["bash", "-c", script, "bash", COMPLETION, "max-whisper", *words], capture_output=True,
                           text=True, check=False)
    check_equal(done_.stderr, "", f"completion of {words}")
    return set(done_.stdout.split())


def test_manual(options):
    entries = manual_entries()
    known = set(options["transcribe"])
    for name in known:
        check(name in entries, f"the manual has {name}")
    for name in set(entries) - known - {"--version"}:
        check(False, f"the manual's {name} is an option")
    for name, default in options["transcribe"].items():
        if default is not None and name in entries:
            told = re.search(r"^Default:\s+(.*)\.$", entries[name], re.MULTILINE)
            told = told and told.group(1)
            check_equal(told, default, f"the manual's default of {name}")


def test_manual_is_clean():
    if not shutil.which("groff"):
        print("SKIP: manual page: groff is not installed")
        return
    pages = [os.path.join(DOCS, name) for name in sorted(os.listdir(DOCS)) if name.endswith(".1")]
    for page in [LIBRARY_MANUAL, *pages]:
        made = subprocess.run(["groff", "-man", "-Tutf8", "-ww", page], capture_output=True, text=True, check=False)
        check(made.returncode == 0 and made.stderr == "", f"groff has nothing to say about {page}", made.stderr)


def test_library_manual():
    """The manual has every function of the headers, and no other."""
    declared = set()
    for name in os.listdir(HEADERS):
        with open(os.path.join(HEADERS, name), encoding="utf-8") as stream:
            declared |= set(re.findall(r"^MXW_API[^;(]*?(\w+)\(", stream.read(), re.MULTILINE))
    with open(LIBRARY_MANUAL, encoding="utf-8") as stream:
        told = set(re.findall(r"^\.BR (mxw_\w+) \(\)", stream.read(), re.MULTILINE))
    check(len(declared) > 80, "the headers were read", len(declared))
    check_equal(declared - told, set(), "functions that max_whisper.3 leaves out")
    check_equal(told - declared, set(), "functions that max_whisper.3 makes up")


def test_bindings_page():
    """docs/howto/bindings.md reads every part of max_whisper.h, in its order, and names every reader of an array."""
    with open(os.path.join(ROOT, "docs", "howto", "bindings.md"), encoding="utf-8") as stream:
        page = stream.read()
    with open(os.path.join(ROOT, "include", "max_whisper.h"), encoding="utf-8") as stream:
        parts = re.findall(r'^#include "max_whisper/(\w+)\.h"$', stream.read(), re.MULTILINE)
    listed = re.search(r"PARTS = \[([^\]]*)\]", page)
    check_equal(re.findall(r'"(\w+)"', listed.group(1)), parts, "PARTS of the bindings page")
    with open(os.path.join(HEADERS, "result.h"), encoding="utf-8") as stream:
        readers = set(re.findall(r"(mxw_\w+)\(const mxw_\w+ \*\w+, size_t i", stream.read()))
    check(len(readers) == 5 and all(f"`{name}`" in page for name in readers), "readers of arrays", readers)


def test_fuzz_words(options):
    """tests/fuzz/cli.dict has every option, in the order of the alphabet."""
    with open(os.path.join(ROOT, "tests", "fuzz", "cli.dict"), encoding="utf-8") as stream:
        words = re.findall(r'^"(--[a-z0-9-]+)\\x00"$', stream.read(), re.MULTILINE)
    check_equal(words, sorted({name for command in COMMANDS for name in options[command]}), "options in cli.dict")


def test_subcommands():
    """commands.def is the only list: help, the manual's list and the pages of their own follow from it."""
    with open(os.path.join(ROOT, "apps", "cli", "commands.def"), encoding="utf-8") as stream:
        listed = re.findall(r'^COMMAND\("([^"]+)", \w+\)$', stream.read(), re.MULTILINE)
    check_equal(listed, COMMANDS, "commands.def")
    overview = run("help")[1].split("Subcommands:\n")[1].split("\n\n")[0]
    section = manual_text().split(".SH SUBCOMMANDS")[1].split("\n.SH ")[0]
    for command in COMMANDS:
        check(re.search(rf"^  {command}\b", overview, re.MULTILINE), f"the overview has {command}", overview)
        check(re.search(rf"^\.TP\n{command}\b", section, re.MULTILINE), f"the manual's list has {command}", section)


def test_subcommand_pages(options):
    """A page for each first word, with every option of its subcommands and its default."""
    words = {command.split()[0] for command in COMMANDS}
    pages = {name[len("max-whisper-"):-2] for name in os.listdir(DOCS) if re.match(r"max-whisper-.*\.1$", name)}
    check_equal(pages, words, "pages of subcommands")
    for command in COMMANDS:
        text = manual_text(os.path.join(DOCS, f"max-whisper-{command.split()[0]}.1"))
        part = text.split(f'.SH "{command.upper()}"\n')[-1].split(".SH ")[0] + ".SH" if " " in command else text
        check(f".B max-whisper {command}\n" in text, f"the synopsis of {command}", text[:600])
        for name, default in options[command].items():
            if name in MESSAGES:
                continue
            entry = re.search(rf"^\.TP\n.*{name}\b(?!-).*\n((?:.*\n)*?)(?=\.TP|\.PP|\.SH)", part, re.MULTILINE)
            check(entry, f"the page of {command} has {name}", part)
            shown = f"Default: {default}." if default else ""
            check(entry and shown in entry.group(1), f"{command}: default of {name}", default)


def test_completion(options):
    for command in COMMANDS:
        offered = completed(*command.split(), "--")
        check_equal(offered, set(options[command]), f"completion of {command}")
    check_equal(completed("--mo"), {"--model", "--model-dir"}, "completion without a subcommand")
    check_equal(completed("model", ""), {"list", "fetch", "inspect", "convert", "export"}, "completion of model")
    check_equal(completed("graph", ""), {"dump", "test"}, "completion of graph")
    check_equal(completed("features", ""), {"extract", "compare", "diverge", "decode"}, "completion of features")
    told = re.search(r"to see it found: ([a-z, -]*)\.", " ".join(run("help", "verify")[1].split()))
    check_equal(completed("verify", "--inject", ""), set(told.group(1).split(", ")), "completion of --inject")
    check_equal(completed("x.wav", "--channel", ""), {"all", "left", "right", "split", "1", "2"},
                "completion of --channel")
    check_equal(completed("x.wav", "--engine", ""), {"cpu", "gpu", "max"}, "completion of --engine")
    check_equal(completed("x.wav", "--format", "=", "s"), {"srt"}, "completion of --format=s")
    check_equal(completed("model", "convert", "x", "--format", ""),
                {"auto", "ggml", "gguf", "ct2", "safetensors", "npz"}, "completion of convert's --format")
    check_equal(completed("x.wav", "--log-level", ""), {"error", "warn", "info", "debug"}, "completion of --log-level")
    code, out, _ = run("model", "list")
    check_equal(code, 0, "model list")
    listed = set(re.findall(r"^  (\S+)", out, re.MULTILINE))
    offered = completed("x.wav", "--model", "") - set(os.listdir("."))
    check_equal(offered, listed - {"silero-vad"}, "completion of --model")


def test_languages():
    languages = completed("x.wav", "--language", "")
    check(len(languages) >= 100, "many languages", languages)
    for language in languages:
        _, _, err = run("--language", language)
        check("needs an audio or video file" in err, f"--language {language}", err)


def test_short_forms(options):
    _, out, _ = run("help", "transcribe")
    for letter, name in re.findall(r"^  -(\w), (--[a-z-]+)", out, re.MULTILINE):
        check(re.search(rf"^\.BR -{letter} .*{name}", manual_text(), re.MULTILINE), f"the manual has -{letter}")
    check("--quiet" in options["devices"], "common options are everywhere")


OPTIONS = {command: options_of(command) for command in COMMANDS}
check(len(OPTIONS["transcribe"]) > 40, "the help of transcribe was read", OPTIONS["transcribe"])
test_manual(OPTIONS)
test_manual_is_clean()
test_library_manual()
test_bindings_page()
test_fuzz_words(OPTIONS)
test_subcommands()
test_subcommand_pages(OPTIONS)
test_completion(OPTIONS)
test_languages()
test_short_forms(OPTIONS)
done()
