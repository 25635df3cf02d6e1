"""tests/cli/test_resume.py PROGRAM MAKE_CHECKPOINT [N] - runs that are killed, interrupted or torn go on, and end with
the bytes of a run that was left alone.

On a generated model, whose text is nonsense but the same every time. N: how often to kill (8). "real" instead of
MAKE_CHECKPOINT: with tiny.en on real speech.
"""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from clitest import PROGRAM, ROOT, check, check_equal, check_fails, done, model_path, run, skip, speech_path, wav

FOLDER = tempfile.mkdtemp()
MODEL = os.path.join(FOLDER, "narrow.pt")
PLAIN = ["--model", MODEL, "--no-speech-threshold", "none", "--sample-len", "20", "--beam-size", "2", "--best-of", "1",
         "--temperature-increment-on-fallback", "1", "--device", "cpu", "--word-timestamps"]


def sound(path, seconds, number, channels=1):
    """Noise that comes and goes, another for each number"""
    source = random.Random(number)
    pieces = []
    for _ in range(4 * seconds):
        size = 8000 * channels
        quiet = bytes(value >> 5 if i % 2 else value for i, value in enumerate(source.randbytes(256)))
        pieces.append(source.randbytes(size) if source.random() < 0.4 else quiet * (size // 256) + quiet[:size % 256])
    with open(path, "wb") as stream:
        stream.write(wav(0, channels=channels, data=b"".join(pieces)))
    return path


def read(path):
    with open(path, "rb") as stream:
        return stream.read()


def content_of(folder):
    return {name: read(os.path.join(folder, name)) for name in os.listdir(folder)}


def written(path, data):
    with open(path, "wb") as stream:
        stream.write(data)
    return path


def run_and_kill(words, delay, number=signal.SIGKILL, env=None):
    """(exit status, standard error) of a run that gets a signal after a while, unless it ends first"""
    process = subprocess.Popen([PROGRAM, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, env=dict(os.environ, **(env or {})))
    try:
        process.wait(timeout=delay)
    except subprocess.TimeoutExpired:
        process.send_signal(number)
    err = process.stderr.read().decode()
    process.stderr.close()
    return process.wait(timeout=300), err


def run_until_window(words, journal, n_windows=1):
    """Kills the run once the journal has grown so many times"""
    process = subprocess.Popen([PROGRAM, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    sizes = set()
    while process.poll() is None and len(sizes) < n_windows:
        if os.path.exists(journal) and os.path.getsize(journal) > 100:
            sizes.add(os.path.getsize(journal))
        time.sleep(0.002)
    process.kill()
    process.wait()


def windows_resumed(err):
    return json.loads(err.splitlines()[-1])["windows_resumed"]


def check_killed(words, folder, outputs, n_kills, label):
    """Killed at random moments until it gets to its end, as often as it takes; the files are those wanted, and nothing
    else is left. How many runs went on from a journal."""
    start = time.monotonic()
    run(*words, "-o", os.path.join(FOLDER, "timed"))
    usual = time.monotonic() - start
    shutil.rmtree(os.path.join(FOLDER, "timed"))
    kills = went_on = ended = 0
    while kills < n_kills or not ended:
        code, err = run_and_kill([*words, "-o", folder, "--resume", "--stats"], random.uniform(0, 1.3 * usual))
        kills += code == -signal.SIGKILL
        if code == -signal.SIGKILL:
            for name in os.listdir(folder) if os.path.exists(folder) else []:   # whole, or not at all
                whole = name not in outputs or read(os.path.join(folder, name)) == outputs[name]
                check(whole, f"{label}: {name} is whole")
            continue
        check_equal(code, 0, f"{label}: exit status ({err})")
        went_on += windows_resumed(err) > 0
        ended += 1
        got = content_of(folder)
        check_equal(sorted(got), sorted(outputs), f"{label}: nothing else is left")
        check({name: got.get(name) for name in outputs} == outputs, f"{label}: after {kills} kills, the same bytes")
        shutil.rmtree(folder)
    return went_on


def outputs_of(words, folder):
    code, _, err = run(*words, "-o", folder)
    check_equal((code, err), (0, ""), "a run that is left alone")
    return content_of(folder)


def test_kill(n_kills):
    path = sound(os.path.join(FOLDER, "long.wav"), 110, 1)
    words = [*PLAIN, "-f", "json,srt", path]
    outputs = outputs_of(words, os.path.join(FOLDER, "alone"))
    check(len(json.loads(outputs["long.json"])["segments"]) > 6, "many segments", outputs["long.json"])
    went_on = check_killed(words, os.path.join(FOLDER, "killed"), outputs, n_kills, "killed")
    check(went_on > 0, "some runs went on from a journal", went_on)
    return path, outputs


def test_kill_split(n_kills):
    path = sound(os.path.join(FOLDER, "two.wav"), 40, 2, channels=2)
    words = [*PLAIN, "-f", "json,txt", "--channel", "split", path]
    outputs = outputs_of(words, os.path.join(FOLDER, "alone-split"))
    check_killed(words, os.path.join(FOLDER, "killed-split"), outputs, n_kills, "killed, split")


def test_torn(path, outputs):
    """A journal cut anywhere, with rubbish behind it, or with a byte changed."""
    folder = os.path.join(FOLDER, "torn")
    journal = os.path.join(folder, "long.journal")
    words = [*PLAIN, "-f", "json,srt", path, "-o", folder, "--resume", "--stats"]
    os.mkdir(folder)
    run_until_window(words, journal, 3)
    whole = read(journal)
    check(whole.startswith(b"max-whisper journal 1\n") and len(whole) > 500, "a journal", whole[:100])
    cuts = [0, 5, 21, 22, 30, len(whole) // 2, len(whole) - 1]
    broken = [whole[:cut] for cut in cuts] + [whole + b"rubbish" * 100]
    broken += [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:] for at in (25, 60, len(whole) - 20)]
    for i, content in enumerate(broken):
        written(journal, content)
        code, _, err = run(*words)
        check(code == 0 and err.count("\n") == 1, f"torn journal {i}", err)
        check(content_of(folder) == outputs, f"torn journal {i}: bytes")
        if i == len(cuts) - 1:
            check(windows_resumed(err) >= 1, "whole records before a torn one are used", err)
    written(journal, b"my own diary\n")
    check_fails(words, 1, "long.journal", "not a max-whisper journal")
    check_equal(read(journal), b"my own diary\n", "a file of someone else's is not touched")


def test_changed(path, outputs):
    """Another option, model or recording of that name: told, and from the beginning."""
    folder = os.path.join(FOLDER, "changed")
    journal = os.path.join(folder, "long.journal")
    os.mkdir(folder)
    words = [*PLAIN, "-f", "json,srt", path, "-o", folder, "--resume"]
    run_until_window([*words, "--initial-prompt", "Hello"], journal, 2)
    code, _, err = run(*words)
    check(code == 0 and err.count("\n") == 1 and "other options" in err and "from the beginning" in err,
          "other options", err)
    check(content_of(folder) == outputs, "other options: bytes")
    kept = read(path)
    sound(path, 65, 3)
    run_until_window(words, journal, 1)
    written(path, kept)
    code, _, err = run(*words, "--threads", "1", "--batch", "3")
    check(code == 0 and "another recording" in err, "another recording", err)
    check(content_of(folder) == outputs, "another recording: bytes")
    other = os.path.join(FOLDER, "other.pt")
    subprocess.run([sys.argv[2], "pt", "f16", other, "narrow", "1", "8"], check=True)
    run_until_window([*words, "--model", other], journal, 1)
    code, _, err = run(*words)
    check(code == 0 and "another model" in err, "another model", err)
    check(content_of(folder) == outputs, "another model: bytes")
    run_until_window(words, journal, 1)
    code, _, err = run(*words, "--quiet")
    check_equal((code, err), (0, ""), "--quiet: nothing is said of it")


def hearing_words(detector):
    """Twelve sentences with pauses, each a piece of its own or part of one, and what hears, marks and divides them"""
    with open(os.path.join(ROOT, "tests", "data", "librivox-0870.wav"), "rb") as stream:
        sentence = stream.read()[44:]
    path = written(os.path.join(FOLDER, "sentences.wav"), wav(0, data=(sentence + bytes(32000 * 5)) * 12))
    return [*PLAIN, "-f", "json,srt", path, "--vad", "--parallel", "3", "--guard", "mark", "--languages", "en",
            "--vad-model", detector]


def test_hearing(n_kills):
    """With the detector, lanes, the guard and a list of languages; and not with another detector's windows."""
    weights = json.loads(run("model", "list", "--json")[1])["vad"]["path"]
    if not weights:
        print("SKIP: resume with --vad: the weights silero-vad are not there (make model)")
        return
    detector = written(os.path.join(FOLDER, "detector.jit"), read(weights))
    words = hearing_words(detector)
    outputs = outputs_of(words, os.path.join(FOLDER, "alone-hearing"))
    result = json.loads(outputs["sentences.json"])
    check(len(result["regions"]) > 6 and result["skipped"] > 10, "regions", result)
    check("suspicion" in result["segments"][0], "the guard marks", result)
    check_killed(words, os.path.join(FOLDER, "killed-hearing"), outputs, n_kills, "killed, with vad and lanes")
    folder = os.path.join(FOLDER, "between-pieces")
    journal = os.path.join(folder, "sentences.journal")
    run_until_window([*words, "-o", folder, "--resume"], journal, 2)
    code, _, err = run(*words, "-o", folder, "--resume", "--stats")
    check(code == 0 and windows_resumed(err) >= 1, "killed between two pieces", err)
    check(content_of(folder) == outputs, "between pieces: bytes")
    run_until_window([*words, "-o", folder, "--resume"], journal, 2)
    other = bytearray(read(weights))
    at = len(other) // 2   # among the weights
    other[at] ^= 1
    written(detector, bytes(other))
    code, _, err = run(*words, "-o", folder, "--resume")
    check(code == 0 and err.count("\n") == 1 and "another detector of speech" in err and "from the beginning" in err,
          "another detector", err)


def test_screen(path):
    """Without an output folder the journal is the user's own, and standard output is whole."""
    state = os.path.join(FOLDER, "state")
    env = {"XDG_STATE_HOME": state}
    want = run(*PLAIN, path)
    for delay in (0.1, 0.2, 0.3):
        run_and_kill([*PLAIN, path, "--resume"], delay, env=env)
    check_equal(run(*PLAIN, path, "--resume", env=env), want, "standard output after three kills")
    check_equal(os.listdir(os.path.join(state, "max-whisper")), [], "the journal is gone")
    check_equal(run(*PLAIN, "-", "--resume", stdin=read(path), env=env), want, "--resume of standard input")
    check_fails([*PLAIN, path, "--resume"], 1, "journal", "HOME", env={"XDG_STATE_HOME": "", "HOME": ""})


def test_interrupt(path, outputs):
    """Ctrl-C: the window is finished, and the way to go on is told; a second one is obeyed at once."""
    folder = os.path.join(FOLDER, "interrupted")
    journal = os.path.join(folder, "long.journal")
    words = [*PLAIN, "-f", "json,srt", path, "-o", folder, "--resume"]
    for more, told in ([], "To continue"), (["--quiet"], None):
        process = subprocess.Popen([PROGRAM, *words, *more], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        known = os.path.getsize(journal) if os.path.exists(journal) else 0
        while process.poll() is None and not (os.path.exists(journal) and os.path.getsize(journal) > known):
            time.sleep(0.002)
        process.send_signal(signal.SIGINT)
        err = process.stderr.read().decode()
        process.stderr.close()
        code = process.wait()
        if code == 0:   # it was the last window
            shutil.rmtree(folder)
            run_until_window(words, journal)
            continue
        check(code == 130 and (told in err and err.count("\n") == 1 if told else err == ""), "Ctrl-C", (code, err))
        check(os.path.getsize(journal) > 100, "the journal stays")
    code, _, err = run(*words, "--stats")
    check(code == 0 and windows_resumed(err) > 0, "after Ctrl-C it goes on", err)
    check(content_of(folder) == outputs, "after Ctrl-C: bytes")
    process = subprocess.Popen([PROGRAM, *words, "--beam-size", "100", "--sample-len", "224"],
                               stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not os.path.exists(journal):   # handlers are there before that
        time.sleep(0.002)
    for _ in range(2):
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
    check_equal(process.wait(timeout=300), 130, "Ctrl-C twice")
    check_fails([*PLAIN, path, "--resume", "--mel-reference", "running"], 2, "--resume")


def test_locked(path):
    folder = os.path.join(FOLDER, "locked")
    journal = os.path.join(folder, "long.journal")
    process = subprocess.Popen([PROGRAM, *PLAIN, "--beam-size", "100", "--sample-len", "224", path, "-o", folder,
                                "--resume", "-f", "txt"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not os.path.exists(journal):
        time.sleep(0.002)
    time.sleep(0.05)
    check_fails([*PLAIN, path, "-o", folder, "--resume", "-f", "txt"], 1, "another run", "long.journal")
    check(process.poll() is None, "the other run is still at it")
    process.kill()
    process.wait()


def test_real():
    """Real speech, the real model, beam search and fallback."""
    global PLAIN
    model, clip = model_path("tiny.en"), speech_path("two_cities.wav")
    if not model or not clip:
        skip("resume on real speech", "the model tiny.en or the package speech is not there (make model, "
             "tools/fetch-speech)")
    PLAIN = ["--model", model]
    words = [*PLAIN, "-f", "all", clip]
    outputs = outputs_of(words, os.path.join(FOLDER, "alone"))
    check("best of times" in outputs["two_cities.txt"].decode(), "the text", outputs["two_cities.txt"])
    check_killed(words, os.path.join(FOLDER, "killed"), outputs, 4, "killed, real speech")
    folder = os.path.join(FOLDER, "between")
    run_until_window([*words, "-o", folder, "--resume"], os.path.join(folder, "two_cities.journal"))
    code, _, err = run(*words, "-o", folder, "--resume", "--stats")
    check(code == 0 and windows_resumed(err) >= 1, "killed between two windows", err)
    check(content_of(folder) == outputs, "between windows: bytes")


def main():
    try:
        if sys.argv[2] == "real":
            test_real()
        else:
            n_kills = int(sys.argv[3]) if len(sys.argv) > 3 else 8
            subprocess.run([sys.argv[2], "pt", "f16", MODEL, "narrow", "1", "3"], check=True)
            path, outputs = test_kill(n_kills)
            test_kill_split(max(3, n_kills // 4))
            test_torn(path, outputs)
            test_changed(path, outputs)
            test_hearing(max(3, n_kills // 4))
            test_screen(path)
            test_interrupt(path, outputs)
            test_locked(path)
    finally:
        shutil.rmtree(FOLDER)
    done()


main()
