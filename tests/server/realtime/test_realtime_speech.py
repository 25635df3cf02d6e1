"""test_realtime_speech.py PROGRAM MAKE_CHECKPOINT - speech through live sockets, with tiny.en

By raw sockets and, where its environment is there (tools/python-env openai), by the official client, in both dialects;
the words are those of `max-whisper live --pace 0` on the same recording.
"""
import array
import asyncio
import base64
import os
import re
import subprocess
import sys
import wave

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path.insert(0, HERE)
try:
    import openai
except ImportError:
    openai = None
    tool = os.path.join(ROOT, "tools", "python-env")
    found = subprocess.run([tool, "openai", "--path"], capture_output=True, text=True)
    if found.returncode == 0 and "MXW_TEST_INSIDE" not in os.environ:
        os.environ["MXW_TEST_INSIDE"] = "1"
        os.execv(found.stdout.strip(), [found.stdout.strip(), *sys.argv])

from websocket import Socket, deltas, silence, transcripts  # noqa: E402
from servertest import Server, check, check_equal, done, model_path, run, skip, speech_path  # noqa: E402

if not model_path("tiny.en"):
    skip("server-realtime-speech", "no model tiny.en")
CLIP = os.path.join(ROOT, "tests", "data", "librivox-0870.wav")
COMPLETED = "conversation.item.input_audio_transcription.completed"


def pcm_24k():
    """The clip as the protocol wants it, with a pause; three samples out of two, between which lines are drawn"""
    with wave.open(CLIP) as file:
        check_equal((file.getframerate(), file.getnchannels(), file.getsampwidth()), (16000, 1, 2), "the clip")
        samples = array.array("h", file.readframes(file.getnframes()))
    out = array.array("h")
    for i in range(0, len(samples) - 2, 2):
        a, b, c = samples[i:i + 3]
        out.extend([a, (a + 2 * b) // 3, (2 * b + c) // 3])
    return out.tobytes() + silence(1)


def words(text):
    return re.findall(r"[a-z0-9']+", text.lower())


def test_raw(server, sound, wanted):
    with Socket(server) as s:
        s.stream(sound)
        events = s.until(COMPLETED)
        check_equal(words(" ".join(transcripts(events))), wanted, "with speech detection")
        order = [event["type"].rsplit(".", 1)[-1] for event in events]
        lasting = [kind for kind in order if kind != "delta"]
        check_equal(lasting, ["created", "speech_started", "speech_stopped", "committed", "added", "done", "completed"],
                    "the order of events")
        check_equal(list(deltas(events).values()), transcripts(events), "deltas, one after the other")
        check_equal(len({event["item_id"] for event in events if "item_id" in event}), 1, "one item")
    with Socket(server) as s:
        s.update(turn_detection=None, format={"type": "audio/pcm", "rate": 24000}, transcription={"language": "en"})
        s.stream(sound, piece_s=0.37)
        s.send({"type": "input_audio_buffer.commit"})
        events = s.until(COMPLETED)
        check_equal(words(" ".join(transcripts(events))), wanted, "with a commit")
        check_equal(list(deltas(events).values()), transcripts(events), "deltas, one after the other")
        check(abs(events[-1]["usage"]["seconds"] - len(sound) / 48000) < 0.01, "usage", events[-1]["usage"])


def test_translation():
    """Russian as it is, and in English: a setting of ours"""
    path = speech_path("languages-en-fr-ru.wav")
    if not path or not model_path("base"):
        print("SKIP: live translation: base or the recording in three languages is not there (make test-data)")
        return
    with wave.open(path) as file:
        file.setpos(int(16.2 * file.getframerate()))
        sound = file.readframes(8 * file.getframerate()) + silence(1, 16000)
    with Server("--model", "base") as server:
        for task, letters, others in ((None, "[а-я]", "[a-z]"), ("translate", "[a-z]", "[а-я]")):
            with Socket(server, timeout=300) as s:
                s.update(format={"type": "audio/pcm", "rate": 16000}, turn_detection=None,
                         transcription={"language": "ru", "task": task})
                s.stream(sound, 16000)
                s.send({"type": "input_audio_buffer.commit"})
                text = " ".join(transcripts(s.until(COMPLETED))).lower()
                check(len(re.findall(letters, text)) > 20 and not re.findall(others, text), f"task {task}", text)


def test_client(server, sound, wanted):
    """realtime.connect of the official client, general and beta"""
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none",
                           websocket_base_url=f"ws://127.0.0.1:{server.port}/v1")
    pieces = [base64.b64encode(sound[i:i + 9600]).decode() for i in range(0, len(sound), 9600)]
    text, kinds = "", []
    with client.realtime.connect(extra_query={"intent": "transcription"}) as connection:
        connection.session.update(session={"type": "transcription", "audio": {"input": {
            "transcription": {"model": "whisper-1", "language": "en"}, "turn_detection": {"type": "server_vad"}}},
            "include": ["item.input_audio_transcription.logprobs"]})
        for piece in pieces:
            connection.input_audio_buffer.append(audio=piece)
        for event in connection:
            kinds.append(type(event).__name__)
            if event.type == COMPLETED:
                text, usage, logprobs = event.transcript, event.usage, event.logprobs
                break
    check_equal(words(text), wanted, "the official client")
    check(usage.type == "duration" and len(logprobs) >= len(wanted), "usage and logprobs", (usage, logprobs))
    check({"SessionCreatedEvent", "SessionUpdatedEvent", "InputAudioBufferSpeechStartedEvent",
           "InputAudioBufferCommittedEvent", "ConversationItemAdded"} <= set(kinds), "the client's own types", kinds)
    if hasattr(client.beta, "realtime"):
        with client.beta.realtime.connect(model="whisper-1") as connection:
            connection.transcription_session.update(session={"turn_detection": None,
                                                             "input_audio_transcription": {"model": "whisper-1"}})
            for piece in pieces:
                connection.input_audio_buffer.append(audio=piece)
            connection.input_audio_buffer.commit()
            kinds = []
            for event in connection:
                kinds.append(event.type)
                if event.type == COMPLETED:
                    check_equal(words(event.transcript), wanted, "the official client, beta")
                    break
        session = client.beta.realtime.transcription_sessions.create(turn_detection=None,
                                                                     input_audio_transcription={"language": "en"})
        with client.with_options(api_key=session.client_secret.value).beta.realtime.connect(model="whisper-1") as other:
            created = other.recv()
            check_equal((created.session["input_audio_transcription"]["language"], created.session["turn_detection"]),
                        ("en", None), "a socket with the secret of a transcription session")
        check("transcription_session.updated" in kinds and "conversation.item.created" in kinds, "beta events", kinds)
    secret = client.realtime.client_secrets.create(session={"type": "transcription"})
    check(secret.value.startswith("ek_"), "a secret", secret)

    async def one():
        other = openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key=secret.value)
        async with other.realtime.connect(extra_query={"intent": "transcription"}) as connection:
            event = await connection.recv()
            check_equal(event.session.type, "transcription", "the asynchronous client, with a secret")
    asyncio.run(one())


def main():
    code, out, err = run("live", "--model", "tiny.en", "--pace", "0", CLIP)
    if "silero" in err and code:
        skip("server-realtime-speech", "the weights silero-vad are not there (make model)")
    check_equal(code, 0, err)
    wanted, sound = words(out), pcm_24k()
    with Server("--model", "tiny.en") as server:
        test_raw(server, sound, wanted)
        if openai:
            test_client(server, sound, wanted)
        else:
            print("without the official client: tools/python-env openai makes its environment")
    test_translation()
    done()


main()
