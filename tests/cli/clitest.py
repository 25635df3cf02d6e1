"""tests/cli/clitest.py - what the tests of the command line share: run the program, check, count, skip by name."""
import json
import os
import struct
import subprocess
import sys

PROGRAM = os.path.abspath(sys.argv[1])
ROOT = os.environ.get("MXW_SOURCE_ROOT", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

passed = 0
failed = 0


def run(*words, stdin=b"", env=None, cwd=None, timeout=300):
    """(exit status, stdout, stderr) as bytes decoded; words may be bytes, and stdin an open file"""
    given = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
    done = subprocess.run([PROGRAM, *words], **given, capture_output=True, cwd=cwd, timeout=timeout,
                          env=dict(os.environ, **(env or {})))
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def check(truth, what, got=None):
    global passed, failed
    if truth:
        passed += 1
    else:
        failed += 1
        print(f"failed: {what}" + ("" if got is None else f"\n    got {got!r}"), flush=True)
    return bool(truth)


def check_equal(got, want, what):
    return check(got == want, f"{what}: want {want!r}", got)


def check_fails(words, status, *needles, **options):
    """It exits with the status, prints nothing, and says one line that begins with the program's name and holds the
    needles."""
    code, out, err = run(*words, **options)
    label = " ".join(str(word) for word in words)[:100]
    check_equal(code, status, f"{label}: exit status")
    check_equal(out, "", f"{label}: standard output")
    check(err.count("\n") == 1 and err.endswith("\n"), f"{label}: one line on standard error", err)
    check(err.startswith("max-whisper: "), f"{label}: the line's beginning", err)
    for needle in needles:
        check(needle in err, f"{label}: {needle!r} in the line", err)
    return err


def wav(n_samples, rate=16000, channels=1, data=None):
    """A WAV file of 16-bit samples, silence unless data is given"""
    data = bytes(2 * n_samples * channels) if data is None else data
    return (b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " +
            struct.pack("<IHHIIHH", 16, 1, channels, rate, 2 * channels * rate, 2 * channels, 16) +
            b"data" + struct.pack("<I", len(data)) + data)


def model_path(name):
    """Where a released model was found, or None"""
    code, out, _ = run("model", "list", "--json")
    check_equal(code, 0, "model list")
    return next(model["path"] for model in json.loads(out)["models"] if model["name"] == name)


def speech_path(name):
    """A clip of the package speech, or None"""
    folder = os.environ.get("MAX_WHISPER_SPEECH") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "max-whisper", "speech")
    path = os.path.join(folder, name)
    return path if os.path.exists(path) else None


def skip(name, why):
    print(f"SKIP: {name}: {why}", flush=True)
    sys.exit(77)


def done():
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)
