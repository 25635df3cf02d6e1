"""tests/server/test_openai.py PROGRAM MAKE_CHECKPOINT - the official client drives every endpoint, format and stream.

Translations that succeed need a real model (test_translations.py), sockets speech (realtime/test_realtime_speech.py).
It needs the environment that `tools/python-env openai` makes, and runs itself there; skipped by name where it is not.
"""
import asyncio
import os
import subprocess
import sys
import threading
import time
import warnings

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
try:
    import openai
except ImportError:
    tool = os.path.join(ROOT, "tools", "python-env")
    found = subprocess.run([tool, "openai", "--path"], capture_output=True, text=True)
    if found.returncode or "MXW_TEST_INSIDE" in os.environ:
        print("SKIP: server-openai: no environment with the openai client; tools/python-env openai makes it")
        sys.exit(77)
    os.environ["MXW_TEST_INSIDE"] = "1"
    os.execv(found.stdout.strip(), [found.stdout.strip(), *sys.argv])

from servertest import QUICK, Server, check, check_equal, done, form, make_model, sound, wait_until  # noqa: E402

MODEL = make_model(sys.argv[2])
SOUND = sound(8)
EXTRA = {"extra_body": QUICK}


def test_transcriptions(client, text):
    create = client.audio.transcriptions.create
    file = ("speech.wav", SOUND)
    plain = create(file=file, model="whisper-1", **EXTRA)
    check_equal(plain.text, text, "json")
    check(plain._request_id.startswith("req_"), "request id", plain._request_id)
    check_equal(create(file=SOUND, model="gpt-4o-transcribe", **EXTRA).text, text, "bytes; another name")
    check_equal(create(file=file, model="narrow", response_format="text", **EXTRA), text + "\n", "text")
    check(create(file=file, model="narrow", response_format="srt", **EXTRA).startswith("1\n00:00:"), "srt")
    check(create(file=file, model="narrow", response_format="vtt", **EXTRA).startswith("WEBVTT"), "vtt")
    verbose = create(file=file, model="narrow", response_format="verbose_json",
                     timestamp_granularities=["word", "segment"], **EXTRA)
    check_equal((verbose.duration, verbose.language, verbose.usage.seconds), (8.0, "english", 8), "verbose_json")
    check(verbose.segments and verbose.segments[0].tokens and verbose.words is not None, "segments and words")
    logprobs = create(file=file, model="narrow", include=["logprobs"], **EXTRA).logprobs
    check(logprobs and isinstance(logprobs[0].logprob, float), "logprobs", logprobs)
    create(file=file, model="narrow", language="en", prompt="A prompt.", temperature=0.2, **EXTRA)
    with client.audio.transcriptions.with_streaming_response.create(file=file, model="narrow", **EXTRA) as answer:
        check_equal(answer.json()["text"], text, "a response that is read piece by piece")


def test_streams(client, text):
    events = list(client.audio.transcriptions.create(file=SOUND, model="narrow", stream=True, **EXTRA))
    check_equal("".join(event.delta for event in events if event.type == "transcript.text.delta"), text, "deltas")
    check_equal((events[-1].type, events[-1].text), ("transcript.text.done", text), "the end")
    check_equal(events[-1].usage.type, "tokens", "usage")
    for event in client.audio.transcriptions.create(file=SOUND, model="narrow", stream=True, **EXTRA):
        break   # a client that reads one event and goes

    async def read():
        async with openai.AsyncOpenAI(base_url=client.base_url, api_key="key") as one:
            stream = await one.audio.transcriptions.create(file=SOUND, model="narrow", stream=True, **EXTRA)
            return [event async for event in stream]
    check_equal(asyncio.run(read())[-1].text, text, "the asynchronous client")


def test_chunking(client):
    for strategy in ("auto", {"type": "server_vad", "threshold": 0.4, "silence_duration_ms": 300}):
        try:
            client.audio.transcriptions.create(file=SOUND, model="narrow", chunking_strategy=strategy, **EXTRA)
            check(True, f"{strategy}")
        except openai.APIStatusError as error:   # understood, but its weights may not be on this machine
            check("silero" in str(error), f"{strategy}: {error}")


def test_errors(client):
    def raises(kind, param, **fields):
        try:
            client.audio.transcriptions.create(**{"file": SOUND, "model": "narrow", **EXTRA, **fields})
        except kind as error:
            check_equal((error.param, bool(error.request_id)), (param, True), f"{kind.__name__}: {error}")
        else:
            check(False, f"{fields} raises {kind.__name__}")
    raises(openai.BadRequestError, "language", language="klingon")
    raises(openai.BadRequestError, "response_format", response_format="diarized_json")
    raises(openai.BadRequestError, "known_speaker_names", known_speaker_names=["a"])
    raises(openai.BadRequestError, "file", file=b"no sound at all")
    raises(openai.NotFoundError, "model", model="missing")
    raises(openai.BadRequestError, "stream_events", extra_body={"stream_events": "all"})
    wrong = openai.OpenAI(base_url=client.base_url, api_key="wrong", max_retries=0)
    for call in (lambda: wrong.models.list().data, lambda: wrong.audio.transcriptions.create(file=SOUND, model="x")):
        try:
            call()
            check(False, "a wrong key is refused")
        except openai.AuthenticationError as error:
            check_equal(error.code, "invalid_api_key", "a wrong key")


def test_models(client):
    check_equal([model.id for model in client.models.list()], ["narrow"], "models.list")
    check_equal(client.models.retrieve("whisper-1").id, "narrow", "models.retrieve")
    check_equal(client.models.retrieve("openai/whisper-narrow").id, "narrow", "a name with a slash")


def test_translations(client):
    """The generated model knows English only, which the answer says; deprecated by the client, not by the API"""
    warnings.simplefilter("ignore", DeprecationWarning)
    try:
        client.audio.translations.create(file=SOUND, model="narrow", **EXTRA)
        check(False, "a model of English does not translate")
    except openai.BadRequestError as error:
        check_equal(error.param, "model", f"translations: {error}")


def lives(seconds, before, expires_at):
    return before + seconds - 1 <= expires_at <= time.time() + seconds + 1


def test_sessions(client):
    """Secrets with the sessions that they are for; of the beta as far as the client still has it"""
    before = time.time()
    secret = client.realtime.client_secrets.create(
        expires_after={"anchor": "created_at", "seconds": 30},
        session={"type": "transcription", "include": ["item.input_audio_transcription.logprobs"], "audio": {"input": {
            "format": {"type": "audio/pcmu"}, "transcription": {"model": "whisper-1", "language": "en"},
            "noise_reduction": {"type": "near_field"}, "turn_detection": {"type": "server_vad", "threshold": 0.4}}}})
    got = secret.session.audio.input
    check(secret.value.startswith("ek_") and lives(30, before, secret.expires_at), "a secret for 30 s", secret)
    check_equal((secret.session.type, got.format.type, got.transcription.language, got.turn_detection.threshold),
                ("transcription", "audio/pcmu", "en", 0.4), "its session")
    check_equal(secret.session.include, ["item.input_audio_transcription.logprobs"], "include")
    plain = client.realtime.client_secrets.create()
    check(lives(600, before, plain.expires_at) and plain.session.audio.input.turn_detection, "without a session", plain)
    calls = [(client.realtime.client_secrets.create, "session.audio.input.colour",
              {"session": {"type": "transcription", "audio": {"input": {"colour": 1}}}}),
             (client.realtime.client_secrets.create, "expires_after.seconds", {"expires_after": {"seconds": 5}})]
    if hasattr(client.beta, "realtime"):
        create = client.beta.realtime.transcription_sessions.create
        session = create(client_secret={"expires_at": {"anchor": "created_at", "seconds": 60}},
                         include=["item.input_audio_transcription.logprobs"], input_audio_format="g711_ulaw",
                         input_audio_noise_reduction={"type": "near_field"}, modalities=["text"],
                         input_audio_transcription={"model": "whisper-1", "language": "en", "prompt": "Names"},
                         turn_detection={"type": "server_vad", "threshold": 0.4, "prefix_padding_ms": 200})
        check_equal((session.input_audio_format, session.input_audio_transcription.prompt,
                     session.turn_detection.prefix_padding_ms), ("g711_ulaw", "Names", 200), "a beta session")
        check(session.client_secret.value.startswith("ek_") and lives(60, before, session.client_secret.expires_at),
              "a beta secret for a minute", session)
        check(create().client_secret.value != session.client_secret.value, "another secret")
        calls += [(create, "input_audio_format", {"input_audio_format": "mp3"}),
                  (create, "client_secret.expires_at.seconds", {"client_secret": {"expires_at": {"seconds": 5}}})]
    else:
        print("SKIP: transcription_sessions.create: this version of the client does not have it")
    for call, param, fields in calls:
        try:
            call(**fields)
            check(False, f"{fields} is refused")
        except openai.BadRequestError as error:
            check_equal(error.param, param, f"{fields}: {error}")


def test_retry(server, client):
    """A full queue is 429 with Retry-After: the client comes again and succeeds."""
    long_form = form({"stream": "true", **QUICK, "sample_len": "100"}, sound(5))
    held = []
    for _ in range(3):
        s = server.connect()
        s.sendall((f"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer key\r\n"
                   f"Content-Type: {long_form[1]}\r\nContent-Length: {len(long_form[0]) + 1}\r\n\r\n").encode())
        held.append(s)   # in, and never complete
    def metrics():
        return server.ask("GET", "/metrics", headers={"Authorization": "Bearer key"}).text

    check(wait_until(lambda: "recordings_inside 3\n" in metrics()), "three are in")

    def leave():   # once the client was refused
        check(wait_until(lambda: 'status="429"' in metrics()), "a refusal")
        for s in held:
            s.close()
    leaver = threading.Thread(target=leave)
    leaver.start()
    patient = client.with_options(max_retries=10)
    answer = patient.audio.transcriptions.with_raw_response.create(file=SOUND, model="narrow", **EXTRA)
    check(answer.parse().text and answer.retries_taken > 0, "after a retry", answer.retries_taken)
    leaver.join()


def main():
    with Server("--model", MODEL, "--api-key", "key", "--concurrency", "1", "--queue", "1") as server:
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="key")
        text = client.audio.transcriptions.create(file=SOUND, model="narrow", **EXTRA).text
        test_transcriptions(client, text)
        test_streams(client, text)
        test_chunking(client)
        test_errors(client)
        test_models(client)
        test_translations(client)
        test_sessions(client)
        test_retry(server, client)
    done()


main()
