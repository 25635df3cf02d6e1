"""test_realtime_many.py PROGRAM MAKE_CHECKPOINT [N] - N live sockets at once (200) on a small generated model: each
gets its turn's text, which is what a socket alone gets for the same sound; the server is well meanwhile and after.

Whether speech is there is decided by the real detector, in real speech. No time is taken: bench/serve/realtime.py does.
"""
import json
import os
import sys
import threading
import wave

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from websocket import Socket, deltas, silence, transcripts  # noqa: E402
from servertest import Server, check, check_equal, done, make_model, run, skip, wait_until  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
CLIP = os.path.join(ROOT, "tests", "data", "librivox-0870.wav")
COUNT = int(sys.argv[3]) if len(sys.argv) > 3 else 200
RATE, PIECE = 16000, 16000   # bytes of a piece: half a second
PROMPTS = ["", "A river.", "On a winter morning", "1 2 3"]   # so that texts differ: a generated model hears little
KINDS = len(PROMPTS)
COMPLETED = "conversation.item.input_audio_transcription.completed"

if not json.loads(run("model", "list", "--json")[1])["vad"]["path"]:
    skip("server-realtime-many", "the weights silero-vad are not there (make model)")


def sounds():
    """Speech of different lengths, each with the pause that ends it"""
    with wave.open(CLIP) as file:
        data = file.readframes(file.getnframes())
    return [data[:2 * int(RATE * (1.2 + 0.1 * i))] + silence(1.2, RATE) for i in range(KINDS)]


def start(server, number):
    """Text is held back for 2 s, longer than the turn: it depends on the sound alone, not on when passes happened"""
    s = Socket(server, timeout=600)
    s.update(format={"type": "audio/pcm", "rate": RATE},
             transcription={"delay": "high", "prompt": PROMPTS[number % KINDS]})
    return s


def heard(s):
    events = s.until(COMPLETED)
    check(s.closed is None, "the socket is open", s.closed)
    check_equal(list(deltas(events).values()), [text for text in transcripts(events) if text], "deltas")
    check(not [event for event in events if event["type"] == "error"], "no error", events)
    return transcripts(events)


def main():
    clips, alone = sounds(), []
    with Server("--model", make_model(sys.argv[2])) as server:
        for number, clip in enumerate(clips):
            with start(server, number) as s:
                s.stream(clip, RATE, 0.5)
                alone.append(heard(s))
        check(all(len(texts) == 1 for texts in alone), "a turn of each", alone)
        check(len({texts[0] for texts in alone}) >= 3, "texts that differ", alone)
        threads = server.threads()
        sockets = [start(server, number) for number in range(COUNT)]
        check_equal([s.status for s in sockets], [101] * COUNT, f"{COUNT} sockets")
        texts = [None] * COUNT

        def read(i):   # as a client does: all the time, so that pings are answered
            texts[i] = heard(sockets[i])
        readers = [threading.Thread(target=read, args=(i,)) for i in range(COUNT)]
        for reader in readers:
            reader.start()
        for at in range(0, max(map(len, clips)), PIECE):   # all of them speak at once
            for i, s in enumerate(sockets):
                if at < len(clips[i % KINDS]):
                    s.append(clips[i % KINDS][at:at + PIECE])
        check_equal(server.ask("GET", "/health", timeout=600).status, 200, "health beside them")
        for reader in readers:
            reader.join()
        wrong = [(i, got) for i, got in enumerate(texts) if got != alone[i % KINDS]]
        check_equal(wrong, [], "sockets with another text than alone")
        for s in sockets:
            s.socket.close()
        check(wait_until(lambda: server.threads() <= threads, 120), "their threads end", server.threads() - threads)
        with start(server, 0) as s:
            s.stream(clips[0], RATE, 0.5)
            check_equal(heard(s), alone[0], "one more, after them")
    print(f"{COUNT} sockets; texts {[texts[0][:30] for texts in alone]}")
    done()


main()
