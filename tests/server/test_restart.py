"""tests/server/test_restart.py PROGRAM MAKE_CHECKPOINT - the server is killed under load and started again, three
times: every request succeeds in the end, with the text that it has alone, by nothing but the retries of its client.

The clients are scripted and do what the official ones do: connections are kept; one that cannot be made, or ends before
the whole answer is there, is a reason to send everything once more, as are the statuses 408, 409, 429 and 5xx, unless
x-should-retry says otherwise; the wait is Retry-After, else half a second, doubled each time up to eight, less a random
quarter. Where the official client is (tools/python-env openai), it takes part, with its own code for all of that.
"""
import os
import random
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
try:
    import openai
except ImportError:
    openai = None
    found = subprocess.run([os.path.join(ROOT, "tools", "python-env"), "openai", "--path"], capture_output=True,
                           text=True)
    if found.returncode == 0 and "MXW_TEST_INSIDE" not in os.environ:
        os.environ["MXW_TEST_INSIDE"] = "1"
        os.execv(found.stdout.strip(), [found.stdout.strip(), *sys.argv])

from servertest import QUICK, Server, check, check_equal, done, form, make_model, read_answer, sound  # noqa: E402

WORDS = ["--model", make_model(sys.argv[2]), "--concurrency", "2"]
SOUNDS = [sound(2 + number, number) for number in range(5)]
CLIENTS, RESTARTS, MAX_RETRIES = 6, 3, 12   # twelve: well over a minute of patience, for machines that are busy
TIMEOUT = 120


class Failed(Exception):
    pass


class Scripted:
    """A client with one kept connection; the retries that it needed are counted"""

    def __init__(self, server, number):
        self.server, self.dice = server, random.Random(number)
        self.connection, self.retries = None, 0

    def once(self, body, kind):
        """An answer, or None if the connection could not be made or ended too early"""
        try:
            self.connection = self.connection or self.server.connect(TIMEOUT)
            self.connection.sendall((f"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: 127.0.0.1:{self.server.port}\r\n"
                                     f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body)
            answer = read_answer(self.connection)
        except OSError:
            answer = None
        if answer is None or answer.broken:
            self.close()
            return None
        return answer

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def transcribe(self, number):
        body, kind = form(QUICK, SOUNDS[number])
        for attempt in range(MAX_RETRIES + 1):
            answer = self.once(body, kind)
            if answer and answer.status == 200:
                return answer.json["text"]
            said = answer.headers.get("x-should-retry") if answer else "true"
            if said == "false" or (said != "true" and answer.status not in (408, 409, 429) and answer.status < 500):
                raise Failed(answer)
            self.retries += 1
            after = float(answer.headers.get("retry-after", 0)) if answer else 0
            time.sleep(after if 0 < after <= 120 else
                       min(8, 0.5 * 2 ** attempt) * (1 - 0.25 * self.dice.random()))
        raise Failed("no retry is left")


class Official:
    """The same by openai-python; its log tells of each retry"""

    def __init__(self, server, number):
        self.client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none",
                                    max_retries=MAX_RETRIES, timeout=TIMEOUT)
        self.retries = 0

    def transcribe(self, number):
        answer = self.client.audio.transcriptions.with_raw_response.create(
            model="whisper-1", file=SOUNDS[number], extra_body=QUICK)
        self.retries += answer.retries_taken
        return answer.parse().text

    def close(self):
        self.client.close()


class Load:
    """Clients that ask again and again until they are told to stop"""

    def __init__(self, server, texts):
        self.texts, self.lock, self.stopping = texts, threading.Lock(), False
        self.answered, self.asking, self.wrong = 0, 0, []
        kinds = [Official if openai and number < 2 else Scripted for number in range(CLIENTS)]
        self.clients = [kind(server, number) for number, kind in enumerate(kinds)]
        self.threads = [threading.Thread(target=self.work, args=(client, number))
                        for number, client in enumerate(self.clients)]
        for thread in self.threads:
            thread.start()

    def work(self, client, number):
        dice = random.Random(number)
        while not self.stopping:
            one = dice.randrange(len(SOUNDS))
            with self.lock:
                self.asking += 1
            try:
                text = client.transcribe(one)
                problem = None if text == self.texts[one] else f"{text!r} instead of {self.texts[one]!r}"
            except Exception as failure:   # of either client: told below
                problem = f"{type(failure).__name__}: {failure}"
            with self.lock:
                self.asking -= 1
                self.answered += 1
                if problem:
                    self.wrong.append(problem)
        client.close()

    def wait_for(self, more):
        """Until so many more are answered"""
        wanted = self.answered + more
        while self.answered < wanted and any(thread.is_alive() for thread in self.threads):
            time.sleep(0.01)

    def stop(self):
        self.stopping = True
        for thread in self.threads:
            thread.join()

    def retries(self):
        return sum(client.retries for client in self.clients)


def main():
    server = Server(*WORDS)
    texts = [server.post(QUICK, data).json["text"] for data in SOUNDS]
    check(len(set(texts)) > 1, "different texts", texts)
    load, port = Load(server, texts), server.port
    try:
        for number in range(RESTARTS):
            load.wait_for(3 * CLIENTS)
            while load.asking < CLIENTS and not load.wrong:   # in the middle of the requests of all
                time.sleep(0.002)
            server.kill()
            time.sleep((0, 0.3, 1.5)[number])
            server = Server(*WORDS, port=port)
            check_equal(server.port, port, "on its port again")
        load.wait_for(3 * CLIENTS)
    finally:
        load.stop()
    check_equal(load.wrong, [], "requests that failed, or got another text")
    check(all(client.retries for client in load.clients), "each client had to come again",
          [client.retries for client in load.clients])
    print(f"{load.answered} requests of {CLIENTS} clients ({'two of them' if openai else 'none'} the official one), "
          f"{RESTARTS} restarts, {load.retries()} retries")
    with server:
        check_equal(server.post(QUICK, SOUNDS[0]).json["text"], texts[0], "it still answers")
    done()


main()
