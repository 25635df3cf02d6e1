"""tests/cli/test_baseline.py PROGRAM MAKE_CHECKPOINT - bench --baseline: a former run from a file, or a former program.

On a generated model. No time is asserted: the former runs are made so much faster or slower that noise cannot matter.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

from clitest import PROGRAM, check, check_equal, check_fails, done, run, wav

FOLDER = tempfile.mkdtemp()
MODEL = os.path.join(FOLDER, "narrow.pt")
SOUND = os.path.join(FOLDER, "sound.wav")
SAVED = os.path.join(FOLDER, "saved.jsonl")
WORDS = ["bench", "--model", MODEL, "--beam-size", "none", "--runs", "3", "--warm-up", "0", "--quiet", SOUND]


def scaled(record, factor):
    """The record with every run's times multiplied"""
    times = ("mel", "encode", "cross", "prompt", "step", "other", "total")
    runs = [{key: value * factor if key in times else value for key, value in each.items()} for each in record["runs"]]
    return dict(record, runs=runs)


def write(name, *records):
    path = os.path.join(FOLDER, name)
    with open(path, "w", encoding="utf-8") as stream:
        stream.writelines(json.dumps(record) + "\n" for record in records)
    return path


def test_file(record):
    other = dict(scaled(record, 1000), file="another.wav")
    slow = write("slow.jsonl", scaled(record, 0.001), scaled(record, 1000), other)
    code, out, err = run(*WORDS, "--baseline", slow)
    check_equal((code, err), (0, ""), "faster than before")
    check("not slower beyond noise" in out and "95 % interval" in out, "the table", out)
    fast = write("fast.jsonl", scaled(record, 1000), scaled(record, 0.001), other)
    code, out, err = run(*WORDS, "--baseline", fast)
    check_equal((code, err), (1, ""), "slower than before")
    check("\nslower: " in out, "the verdict", out)
    code, out, _ = run(*WORDS, "--json", "--baseline", fast)
    verdict = json.loads(out.splitlines()[-1])
    check(code == 1 and verdict["slower"] is True and verdict["stages"]["total"]["low"] > 10, "as JSON", out)
    check_equal(run(*WORDS, "--json", "--baseline", fast, "--tolerance", "1000")[0], 1, "far beyond any tolerance")


def test_faults(record):
    for name, records, needle in (
            ("other.jsonl", [dict(record, threads=record["threads"] + 1)], "no run of this recording"),
            ("machine.jsonl", [dict(record, machine=dict(record["machine"], description="X"))], "on this machine")):
        code, _, err = run(*WORDS, "--baseline", write(name, *records))
        check(code == 1 and err.count("\n") == 1 and needle in err, name, err)
    torn = os.path.join(FOLDER, "torn.jsonl")
    with open(torn, "w", encoding="utf-8") as stream:
        stream.write(json.dumps(record) + "\n" + json.dumps(record)[:100])
    code, _, err = run(*WORDS, "--baseline", torn)
    check(code == 1 and "line 2 of" in err and "torn.jsonl" in err, "a torn line", err)
    code, _, err = run(*WORDS, "--baseline", os.path.join(FOLDER, "none.jsonl"))
    check(code == 1 and "none.jsonl" in err, "no file", err)
    check_fails([*WORDS, "--tolerance", "-1"], 2, "--tolerance")


def test_program():
    code, out, err = run(*WORDS, "--baseline", PROGRAM, "--tolerance", "1000")
    check_equal((code, err), (0, ""), "beside itself")
    check(", 3 runs\n" in out and "not slower beyond noise" in out, "three runs in turn", out)
    failing = os.path.join(FOLDER, "failing")
    with open(failing, "w", encoding="utf-8") as stream:
        stream.write("#!/bin/sh\nexit 3\n")
    os.chmod(failing, 0o755)
    code, _, err = run(*WORDS, "--baseline", failing)
    check(code == 1 and err.count("\n") == 1 and "failing failed" in err, "a program that fails", err)
    check_equal([name for name in os.listdir(os.environ["TMPDIR"]) if name.startswith("max-whisper-bench")], [],
                "nothing is left behind")


def test_environment():
    """What the program sets for the GPU's sake is not for the other program; what the user set is."""
    noted, noting = os.path.join(FOLDER, "noted"), os.path.join(FOLDER, "noting")
    with open(noting, "w", encoding="utf-8") as stream:
        stream.write(f'#!/bin/sh\necho "${{CUDA_DEVICE_MAX_CONNECTIONS-none}}" > {noted}\nexec {PROGRAM} "$@"\n')
    os.chmod(noting, 0o755)
    os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
    for value in ("none", "1", "4"):
        user = {} if value == "none" else {"CUDA_DEVICE_MAX_CONNECTIONS": value}
        code, _, err = run(*WORDS, "--baseline", noting, "--tolerance", "1000", env=user)
        check_equal((code, err), (0, ""), f"beside a program, {value} set")
        with open(noted, encoding="utf-8") as stream:
            check_equal(stream.read(), value + "\n", "the baseline's environment")


def main():
    try:
        os.environ["TMPDIR"] = FOLDER
        subprocess.run([sys.argv[2], "pt", "f32", MODEL, "narrow", "1", "3"], check=True)
        with open(SOUND, "wb") as stream:
            stream.write(wav(16000 * 5))
        check_equal(run(*WORDS, "--save", SAVED)[0], 0, "a run is saved")
        with open(SAVED, encoding="utf-8") as stream:
            record = json.loads(stream.read())
        test_file(record)
        test_faults(record)
        test_program()
        test_environment()
    finally:
        shutil.rmtree(FOLDER)
    done()


main()
