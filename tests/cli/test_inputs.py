"""tests/cli/test_inputs.py PROGRAM MAKE_CHECKPOINT - folders, patterns and results that exist as inputs; the summary
and the exit status of jobs of many files.

On a generated model, whose text is nonsense but the same every time.
"""
import os
import random
import shutil
import subprocess
import sys
import tempfile

from clitest import check, check_equal, check_fails, done, run, wav

FOLDER = tempfile.mkdtemp()
MODEL = os.path.join(FOLDER, "narrow.pt")
PLAIN = ["--model", MODEL, "--greedy", "--temperature-increment-on-fallback", "none", "--sample-len", "6",
         "--no-speech-threshold", "none"]


def make_tree(root):
    """Recordings at three depths among other files, and links; {path below root: content}"""
    files = {}
    for i, name in enumerate(["b.wav", "a.WAV", "sub/c.wav", "sub/deep/a.wav", "sub/deep/d.wav", "empty/notes.txt",
                              ".hidden.wav", "notes.txt"]):
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        content = wav(0, data=random.Random(i).randbytes(64000)) if name.lower().endswith("wav") else b"text"
        with open(path, "wb") as stream:
            stream.write(content)
        files[name] = content
    os.symlink(root, os.path.join(root, "sub", "loop"))
    os.symlink(os.path.join(root, "b.wav"), os.path.join(root, "sub", "link.wav"))
    return files


def names_of(out):
    return [line[4:-4] for line in out.splitlines() if line.startswith("==> ")]


def below(folder):
    return sorted(os.path.relpath(os.path.join(root, name), folder)
                  for root, _, names in os.walk(folder) for name in names)


def test_folders(root):
    code, out, err = run(*PLAIN, root)
    check_equal((code, err), (0, ""), "a folder")
    check_equal(names_of(out), [f"{root}/a.WAV", f"{root}/b.wav"], "its recordings")
    code, out, _ = run(*PLAIN, root, "--recursive")
    check_equal((code, names_of(out)),
                (0, [f"{root}/{name}" for name in ("a.WAV", "b.wav", "sub/c.wav", "sub/link.wav", "sub/deep/a.wav",
                                                   "sub/deep/d.wav")]), "and those below")
    code, out, _ = run(*PLAIN, os.path.join(root, "b.wav"), f"{root}/sub/", "-r")
    check_equal((code, names_of(out)), (0, [f"{root}/{name}" for name in ("b.wav", "sub/c.wav", "sub/link.wav",
                                                                        "sub/deep/a.wav", "sub/deep/d.wav")]),
                "a file and a folder")
    check_fails([*PLAIN, f"{root}/empty"], 1, "empty", "no audio or video file", "--recursive")
    check_fails([*PLAIN, f"{root}/empty", "-r"], 1, "empty", "no audio or video file")


def test_patterns(root):
    code, out, err = run(*PLAIN, f"{root}/*.wav", f"{root}/sub/deep/[a-c]*")
    check_equal((code, err, names_of(out)), (0, "", [f"{root}/b.wav", f"{root}/sub/deep/a.wav"]), "patterns")
    code, out, err = run(*PLAIN, f"{root}/su?")
    check_equal((code, names_of(out)), (0, [f"{root}/sub/c.wav", f"{root}/sub/link.wav"]), "a pattern of folders")
    check_fails([*PLAIN, f"{root}/*.mp3"], 1, "*.mp3", "no file matches")
    odd = os.path.join(FOLDER, "what[1]?.wav")
    shutil.copy(f"{root}/b.wav", odd)
    code, out, _ = run(*PLAIN, odd)
    check(code == 0 and out.startswith("["), "a file that is named like a pattern", out)


def test_output_folders(root):
    """Results lie as the recordings do; two of one name in two folders are two."""
    results = os.path.join(FOLDER, "results")
    code, out, err = run(*PLAIN, root, "-r", "-o", results, "-f", "txt,srt")
    check_equal((code, out, err), (0, "", ""), "a tree")
    stems = ["a", "b", "sub/c", "sub/link", "sub/deep/a", "sub/deep/d"]
    check_equal(below(results), sorted(f"{stem}.{form}" for stem in stems for form in ("srt", "txt")), "its results")
    check_fails([*PLAIN, f"{root}/b.wav", f"{root}/sub/deep/", f"{root}/sub/deep/a.wav", "-o", results], 2,
                "same files", "deep/a.wav")
    return results


def test_overwritten(root):
    """No result takes the place of a recording: known in advance, or when its name is."""
    path, other, named = (os.path.join(root, name) for name in ("b.wav", "x-b.wav", "sub/x-en.wav"))
    with open(path, "rb") as stream:
        before = stream.read()
    for name in (other, named):
        with open(name, "wb") as stream:
            stream.write(before)
    for words in (["-o", root, "-f", "txt", "--output-name", "{stem}.wav", path],
                  ["-o", root, "-f", "txt", "--output-name", "x-{stem}.wav", path, other],
                  ["-o", root, "-f", "srt", "--output-name", "{stem}.wav", f"{root}/sub", path]):
        check_fails(["--model", os.path.join(FOLDER, "nowhere.pt"), *words], 2, "b.wav", "overwrite")
    with open(path, "rb") as stream:
        check_fails(["--model", os.path.join(FOLDER, "nowhere.pt"), "-o", root, "-f", "txt", "--output-name", "b.wav",
                     "-"], 2, "b.wav", "overwrite", stdin=stream)
    check_fails([*PLAIN, "--language", "en", "-o", os.path.dirname(named), "-f", "txt", "--output-name",
                 "x-{language}.wav", named], 1, "x-en.wav", "overwrite")
    waits = os.path.join(root, "sub/x.wav")   # its text would have the name of a recording that waits behind it
    shutil.copy(path, waits)
    code, _, err = run(*PLAIN, "--language", "en", "-o", os.path.dirname(named), "-f", "txt", "--output-name",
                       "{stem}-{language}.wav", waits, named)
    check("x.wav: its txt would overwrite the recording" in err, "a recording that waits is not overwritten", err)
    check_equal(code, 1, "one of two is written")
    os.remove(waits)
    os.remove(os.path.join(root, "sub/x-en-en.wav"))
    for name in (path, other, named):
        with open(name, "rb") as stream:
            check(stream.read() == before, f"{name} is as it was")
    os.remove(other)
    os.remove(named)


def test_skip_existing(root, results):
    before = {name: os.stat(os.path.join(results, name)).st_mtime_ns for name in below(results)}
    words = ["--model", os.path.join(FOLDER, "nowhere.pt"), root, "-r", "-o", results, "--skip-existing"]
    check_equal(run(*words, "-f", "txt,srt"), (0, "", ""), "all are there: no model is needed")
    os.remove(os.path.join(results, "sub", "c.srt"))
    with open(os.path.join(root, "sub", "bad.wav"), "wb") as stream:
        stream.write(b"no sound")
    code, out, err = run(*PLAIN, *words[2:], "-f", "txt,srt", "--log-level", "info")
    check_equal((code, out), (1, ""), "one is missing, one is bad")
    check("sub/link.wav: skipped" in err and "sub/c.wav: skipped" not in err, "those skipped are told", err)
    after = {name: os.stat(os.path.join(results, name)).st_mtime_ns for name in below(results)}
    check_equal({name for name in after if after[name] != before.get(name)}, {"sub/c.srt", "sub/c.txt"},
                "what was written")
    os.remove(os.path.join(root, "sub", "bad.wav"))
    check_fails([*PLAIN, root, "--skip-existing"], 2, "--skip-existing", "--output-dir")


def test_summary(root):
    """Each failure in its place and once more at the end; the others are done."""
    missing, text = os.path.join(FOLDER, "missing.wav"), f"{root}/notes.txt"
    code, out, err = run(*PLAIN, missing, f"{root}/b.wav", text, f"{root}/empty", f"{root}/a.WAV", "--batch", "2")
    check_equal((code, names_of(out)), (1, [f"{root}/b.wav", f"{root}/a.WAV"]), "bad ones among good ones")
    lines = err.splitlines()
    check_equal(len(lines), 7, f"three failures, told twice, and their number ({err})")
    check_equal(lines[3], "max-whisper: 3 of 5 files failed:", "how many")
    for first, again, name in zip(lines[:3], lines[4:], (missing, text, f"{root}/empty")):
        check(name in first and again == first.replace("max-whisper: ", "max-whisper:   "), f"{name}, twice", err)
    check_fails([*PLAIN, missing], 1, "missing.wav")


def main():
    try:
        subprocess.run([sys.argv[2], "pt", "f16", MODEL, "narrow", "1", "3"], check=True)
        root = os.path.join(FOLDER, "tree")
        make_tree(root)
        test_folders(root)
        test_patterns(root)
        results = test_output_folders(root)
        test_overwritten(root)
        test_skip_existing(root, results)
        test_summary(root)
    finally:
        shutil.rmtree(FOLDER)
    done()


main()
