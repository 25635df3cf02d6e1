"""tests/server/test_translations.py PROGRAM MAKE_CHECKPOINT - POST /v1/audio/translations with a real model, in every
format: the bytes, or the text and segments, of `transcribe --task translate`; plain, and by the official client where
its environment is there (tools/python-env openai), without which that part is skipped by name.
"""
import array
import json
import os
import re
import subprocess
import sys
import warnings
import wave

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
try:
    import openai
except ImportError:
    openai = None
    tool = os.path.join(ROOT, "tools", "python-env")
    found = subprocess.run([tool, "openai", "--path"], capture_output=True, text=True)
    if found.returncode == 0 and "MXW_TEST_INSIDE" not in os.environ:
        os.environ["MXW_TEST_INSIDE"] = "1"
        os.execv(found.stdout.strip(), [found.stdout.strip(), *sys.argv])

from servertest import FOLDER, Server, check, check_equal, done, model_path, run, skip, speech_path, wav  # noqa: E402

MODEL, PATH = "base", "/v1/audio/translations"
SPEECH = speech_path("languages-en-fr-ru.wav")
if not SPEECH or not model_path(MODEL):
    skip("server-translations", "the model base or the recording in three languages is not there (make test-data)")
FROM_S, SECONDS = 16.2, 8   # Russian
WRITTEN = ["srt", "vtt", "tsv", "csv", "lrc", "ass", "jsonl"]


def recording():
    """(path, bytes) of the Russian part"""
    with wave.open(SPEECH) as source:
        source.setpos(int(FROM_S * source.getframerate()))
        data = wav(0, data=array.array("h", source.readframes(SECONDS * source.getframerate())).tobytes())
    path = os.path.join(FOLDER, "russian.wav")
    with open(path, "wb") as stream:
        stream.write(data)
    return path, data


def command_line(path):
    """{format: its bytes} of `transcribe --task translate`"""
    out = os.path.join(FOLDER, "out")
    code, _, err = run("transcribe", "--model", MODEL, "--task", "translate", "--format",
                       ",".join(["txt", "json", "json-full", *WRITTEN]), "--output-dir", out, "--quiet", path)
    check_equal(code, 0, f"transcribe: {err}")
    files = {}
    for name in os.listdir(out):
        with open(os.path.join(out, name), encoding="utf-8") as stream:
            files[name.split(".", 1)[1]] = stream.read()
    return files


def check_verbose(got, want, label):
    """got: as a dictionary"""
    check_equal((got["task"], got["language"], got["duration"]), ("translate", "english", float(SECONDS)), label)
    check_equal(got["text"], want["text"].strip(), f"{label}: text")
    for name in ("id", "seek", "start", "end", "text", "tokens", "temperature"):
        check_equal([segment[name] for segment in got["segments"]], [segment[name] for segment in want["segments"]],
                    f"{label}: {name}")


def test_plain(server, sound, wanted):
    want = json.loads(wanted["json"])
    text = want["text"].strip()
    check(len(re.findall("[a-z]", text)) > 20 and not re.search("[а-я]", text.lower()), "English text", text)
    check_equal(want["language"], "ru", "it was said in Russian")
    said = server.post({"model": MODEL}, sound).json["text"]
    check(re.search("[а-я]", said.lower()), "transcribed, not translated, it is Russian", said)

    def ask(**fields):
        return server.post({"model": MODEL, **fields}, sound, path=PATH, timeout=600)
    plain = ask()
    check_equal(plain.status, 200, f"json: {plain}")
    check_equal(plain.json, {"text": text, "usage": {"type": "duration", "seconds": SECONDS}}, "json")
    check_equal(ask(response_format="json").json, plain.json, "json by name")
    check_equal(ask(response_format="text").text, text + "\n", "text")
    check_verbose(ask(response_format="verbose_json").json, want, "verbose_json")
    for name in WRITTEN:
        check_equal(ask(response_format=name).text, wanted[name], name)
    full, full_wanted = ask(response_format="json-full").json, json.loads(wanted["json-full"])
    check_equal(full["segments"], full_wanted["segments"], "json-full: segments")
    events = ask(stream="true").events
    check_equal("".join(event.get("delta", "") for event in events), text, "deltas of a stream")
    check_equal(events[-1]["text"], text, "the end of a stream")
    refused = ask(response_format="diarized_json")
    check_equal((refused.status, refused.error["param"]), (400, "response_format"), "diarized_json")


def test_client(server, sound, wanted):
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", timeout=600)
    warnings.simplefilter("ignore", DeprecationWarning)   # of translations.create, by the client
    want = json.loads(wanted["json"])
    text, file = want["text"].strip(), ("russian.wav", sound)

    def create(**fields):
        return client.audio.translations.create(file=file, model="whisper-1", **fields)
    check_equal(create().text, text, "client: json")
    check_equal(create(response_format="json", prompt="", temperature=0).text, text, "client: json, with all fields")
    check_equal(create(response_format="text"), text + "\n", "client: text")
    for name in ("srt", "vtt"):
        check_equal(create(response_format=name), wanted[name], f"client: {name}")
    verbose = create(response_format="verbose_json")
    check_equal(type(verbose).__name__, "TranslationVerbose", "client: its own type")
    check_verbose(verbose.to_dict(), want, "client: verbose_json")
    try:
        create(response_format="diarized_json")
        check(False, "client: diarized_json is refused")
    except openai.BadRequestError as error:
        check_equal(error.param, "response_format", "client: diarized_json")


def main():
    path, sound = recording()
    wanted = command_line(path)
    with Server("--model", MODEL) as server:
        test_plain(server, sound, wanted)
        if openai:
            test_client(server, sound, wanted)
        else:
            print("SKIP: translations by the official client: no environment with it; tools/python-env openai makes it")
    done()


main()
