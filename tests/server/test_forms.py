"""tests/server/test_forms.py PROGRAM MAKE_CHECKPOINT - every field, format and stream, on a generated model; what is
not there, wrong or malformed is refused by its name, and leaves nothing behind.
"""
import json
import os
import sys

from servertest import (FOLDER, QUICK, Server, check, check_equal, done, form, make_certificate, make_model,
                        read_answer, run, sound)

MODEL = make_model(sys.argv[2])
SOUND = sound(40)
WORDS = ["--beam-size", "none", "--temperature-increment-on-fallback", "none", "--sample-len", "12",
         "--no-speech-threshold", "none"]


def command_line(*words):
    """What transcribe gives for the same recording"""
    path = os.path.join(FOLDER, "sound.wav")
    with open(path, "wb") as stream:
        stream.write(SOUND)
    code, out, err = run("transcribe", "--model", MODEL, *WORDS, *words, path)
    check_equal(code, 0, f"transcribe {words}: {err}")
    return out


def ours(server, fields=(), **options):
    return server.post({**QUICK, **dict(fields)}, SOUND, **options)


def check_refused(answer, status, param, label):
    check_equal(answer.status, status, f"{label}: status of {answer}")
    check_equal(answer.error.get("param"), param, f"{label}: param")
    check(answer.error.get("message"), f"{label}: message")
    check_equal(answer.headers.get("content-type"), "application/json", f"{label}: type")
    if status >= 500:
        check_equal(answer.headers.get("x-should-retry"), "false", f"{label}: no retry")


def test_full(server):
    """What the command line writes but for its own run: how long it took, and what the manifest says of it"""
    full = ours(server, {"response_format": "json_full"})
    check_equal(ours(server, {"response_format": "json-full"}).json["segments"], full.json["segments"], "json-full")
    want = json.loads(command_line("--format", "json-full"))
    check_equal(list(full.json), list(want), "json-full: members, in their order")
    for name in ("manifest", "times"):
        check_equal(list(full.json[name]), list(want[name]), f"json-full: members of {name}")
    check_equal({name: value for name, value in full.json.items() if name not in ("manifest", "times")},
                {name: value for name, value in want.items() if name not in ("manifest", "times")}, "json-full")


def test_formats(server):
    reference = json.loads(command_line("--format", "json"))
    text = reference["text"].strip()
    plain = ours(server, {"model": "whisper-1"})
    check_equal(plain.status, 200, f"json: {plain}")
    check_equal(plain.json["text"], text, "json: the text of the command line")
    check_equal(plain.json["usage"], {"type": "duration", "seconds": 40}, "json: usage")
    check_equal(ours(server, {"response_format": "text"}).text, text + "\n", "text")
    for name in ("srt", "vtt", "tsv", "csv", "lrc", "ass", "jsonl"):
        check_equal(ours(server, {"response_format": name}).body, command_line("--format", name).encode(), name)
    test_full(server)
    verbose = ours(server, {"response_format": "verbose_json"}).json
    check_equal({name: verbose[name] for name in ("task", "language", "duration", "text")},
                {"task": "transcribe", "language": "english", "duration": 40.0, "text": text}, "verbose_json")
    for got, want in zip(verbose["segments"], reference["segments"]):
        check_equal(set(got), {"id", "seek", "start", "end", "text", "tokens", "temperature", "avg_logprob",
                               "compression_ratio", "no_speech_prob"}, "fields of a segment")
        check_equal((got["text"], got["tokens"], got["seek"]), (want["text"], want["tokens"], want["seek"]), "segment")
    check("words" not in verbose, "no words unless asked for")
    words = ours(server, {"response_format": "verbose_json", "timestamp_granularities[]": "word"}).json
    check("segments" not in words and isinstance(words["words"], list), "words alone")
    both = server.post([*QUICK.items(), ("response_format", "verbose_json"), ("timestamp_granularities", "word"),
                        ("timestamp_granularities", "segment")], SOUND).json
    check(both["words"] == words["words"] and both["segments"], "both granularities, without brackets")
    if both["words"]:
        check_equal(set(both["words"][0]), {"word", "start", "end"}, "fields of a word")
    logprobs = ours(server, {"include[]": "logprobs"}).json["logprobs"]
    check(logprobs and all(set(one) == {"token", "logprob", "bytes"} for one in logprobs), "logprobs", logprobs[:2])


def test_stream(server):
    text = ours(server).json["text"]
    answer = ours(server, {"stream": "true"})
    check(answer.headers["content-type"].startswith("text/event-stream"), "a stream", answer)
    events = answer.events
    check_equal({event["type"] for event in events[:-1]}, {"transcript.text.delta"}, "deltas")
    check_equal("".join(event["delta"] for event in events[:-1]), text, "deltas together are the text")
    check_equal((events[-1]["type"], events[-1]["text"]), ("transcript.text.done", text), "the end")
    check_equal(events[-1]["usage"]["type"], "tokens", "usage of a stream")
    check(answer.text.endswith("\n\n") and "retry:" not in answer.text and "\nid:" not in answer.text, "only data")
    all_events = ours(server, {"stream": "true", "stream_events": "all", "timestamp_granularities[]": "word",
                               "response_format": "verbose_json"}).events
    kinds = [event["type"] for event in all_events]
    check_equal(kinds[-2:], ["max_whisper.result", "transcript.text.done"], "the whole result before the end")
    check_equal(kinds.count("max_whisper.segment") > 0, True, "segments")
    check(all("words" in event["segment"] for event in all_events if event["type"] == "max_whisper.segment"), "words")
    check_equal(all_events[-2]["result"]["text"], all_events[-1]["text"], "text of the result")
    with_logprobs = ours(server, {"stream": "True", "include": "logprobs"}).events
    check(with_logprobs[0]["logprobs"] and with_logprobs[-1]["logprobs"], "logprobs in a stream")


def test_ways_to_send(server):
    want = ours(server).json["text"]
    fields = list(QUICK.items())
    check_equal(server.post(fields, SOUND, file_first=True).json.get("text"), want, "the file first")
    body, kind = form(fields, ("päth/“x”.m4a", SOUND))
    check_equal(server.ask("POST", "/v1/audio/transcriptions", body, {"Content-Type": kind}).json.get("text"), want,
                "a name that says nothing")
    border = kind.partition("=")[2]
    for other in (f"multipart/form-data; boundary={border}; charset=utf-8", f"multipart/form-data; BOUNDARY={border}",
                  f"multipart/form-data; x=y;Boundary={border} ", f'MULTIPART/form-data;boundary="{border}"',
                  f'multipart/form-data; x="a; boundary=b\\"; boundary=c"; boundary="{border}" ; y=z'):
        answer = server.ask("POST", "/v1/audio/transcriptions", body, {"Content-Type": other})
        check_equal(answer.json.get("text"), want, f"Content-Type: {other}")
    for size in (1, 7, 1000, 100000):
        small, small_kind = form(fields, sound(0.3 if size < 100 else 5))
        pieces = [small[i:i + size] for i in range(0, len(small), size)]
        chunked = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
        answer = server.ask("POST", "/v1/audio/transcriptions", chunked,
                            {"Content-Type": small_kind, "Transfer-Encoding": "chunked"})
        check_equal(answer.status, 200, f"chunks of {size}: {answer}")
    with server.connect() as s:   # as curl does with a large body
        s.sendall((f"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\n"
                   f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n").encode())
        check(s.recv(1000).startswith(b"HTTP/1.1 100"), "100-continue")
        s.sendall(body)
        check_equal(read_answer(s).json.get("text"), want, "a body after 100-continue")
    with server.connect() as s:   # two requests on a connection
        for _ in range(2):
            s.sendall((f"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\n"
                       f"Content-Length: {len(body)}\r\n\r\n").encode() + body)
            check_equal(read_answer(s).json.get("text"), want, "on a kept connection")


def test_options(server):
    for fields, words in (({"without_timestamps": "true"}, ["--without-timestamps"]),
                          ({"prompt": "Hello there"}, ["--initial-prompt", "Hello there"]),
                          ({"temperature": "0.4", "seed": "7"}, ["--temperature", "0.4", "--seed", "7"]),
                          ({"clip-timestamps": "3,9"}, ["--clip-timestamps", "3,9"]),
                          ({"beam_size": "2"}, ["--beam-size", "2"])):
        got, want = ours(server, fields), json.loads(command_line(*words, "--format", "json"))["text"]
        check_equal(got.json.get("text", got), want.strip(), f"{fields}: as {words}")
    for name in ("beam_size", "best_of"):   # the widest that is taken
        check_equal(server.post({**QUICK, name: "20"}, sound(2)).status, 200, f"{name}=20")
    empty = ours(server, {"language": "", "prompt": "", "temperature": "", "response_format": "", "stream": ""})
    check_equal(empty.status, 200, f"empty texts are not given: {empty}")


def test_chunking(server):
    accepted = ({"chunking_strategy": "auto"}, {"chunking_strategy": '{"type": "server_vad", "threshold": 0.4}'},
                {"chunking_strategy[type]": "server_vad", "chunking_strategy[silence_duration_ms]": "500"})
    for fields in accepted:   # it is understood; whether the weights are there is another question
        answer = ours(server, fields)
        check(answer.status == 200 or "silero" in answer.error.get("message", ""), f"{fields}", answer)
    for fields in ({"chunking_strategy": "sometimes"}, {"chunking_strategy": '{"type": "server_vad"'},
                   {"chunking_strategy": '{"type": "server_vad", "threshold": 7}'},
                   {"chunking_strategy": '{"type": "server_vad", "pace": 7}'},
                   {"chunking_strategy": '{"threshold": 0.5}'}, {"chunking_strategy[threshold]": "0.5"},
                   {"chunking_strategy[type]": "server_vad", "chunking_strategy[threshold]": "nan"},
                   {"chunking_strategy[type]": "server_vad", "chunking_strategy[pace]": "1"}):
        check_refused(ours(server, fields), 400, "chunking_strategy", f"{fields}")


def test_refused(server):
    for fields, param in (
            ({"response_format": "diarized_json"}, "response_format"), ({"response_format": "mp3"}, "response_format"),
            ({"known_speaker_names[]": "a"}, "known_speaker_names"), ({"keywords[]": "a"}, "keywords"),
            ({"known_speaker_references[]": "data:x"}, "known_speaker_references"),
            ({"language": "klingon"}, "language"), ({"temperature": "2"}, "temperature"),
            ({"temperature": "nan"}, "temperature"), ({"temperature": "1e999"}, "temperature"),
            ({"stream": "maybe"}, "stream"), ({"include[]": "thoughts"}, "include"),
            ({"timestamp_granularities[]": "word"}, "timestamp_granularities"),
            ({"timestamp_granularities[]": "letter", "response_format": "verbose_json"}, "timestamp_granularities"),
            ({"stream": "true", "response_format": "srt"}, "response_format"),
            ({"stream_events": "all"}, "stream_events"),
            ({"include[]": "logprobs", "response_format": "text"}, "include"),
            ({"unknown": "1"}, "unknown"), ({"beam_size": "0"}, "beam_size"), ({"task": "translate"}, "task"),
            ({"beam_size": "21"}, "beam_size"), ({"best_of": "21"}, "best_of"), ({"best-of": "100"}, "best-of"),
            ({"vad_model": "/etc/passwd"}, "vad_model"), ({"model_dir": "/"}, "model_dir"),
            ({"output_dir": "/"}, "output_dir"),
            ({"device": "cuda"}, "device"), ({"trace": "/tmp/x"}, "trace"), ({"channel": "split"}, "channel"),
            ({"vad_threshold": "0.4"}, "vad_threshold"), ({"patience": "2"}, "patience"),
            ({"highlight_words": "true"}, "highlight_words"), ({"model": "none"}, "model"),
            ({"languages[]": "de"}, "languages"), ({"language": "de"}, "language")):
        check_refused(ours(server, fields), 404 if param == "model" else 400, param, f"{fields}")
    check_refused(server.post(QUICK), 400, "file", "no file")
    check_refused(server.post(QUICK, b""), 400, "file", "an empty file")
    check_refused(server.post(QUICK, b"this is no sound" * 100), 400, "file", "a text")
    check_refused(server.post(QUICK, SOUND, path="/v1/audio/translations"), 400, "model", "translation by English only")
    check_refused(server.post([("file", SOUND), ("file", SOUND)]), 400, "file", "two files")
    check_refused(server.post({"prompt": b"a\0b"}, SOUND), 400, "prompt", "a zero byte")
    check_refused(server.post({"prompt": b"\xff\xfe"}, SOUND), 400, "prompt", "not UTF-8")
    check_refused(server.post({"\xff": "x"}, SOUND), 400, "\xff", "a name beyond ASCII")
    check_refused(server.post({"x" * 300: "x"}, SOUND), 400, None, "a long name")
    check_refused(server.post([("include", "logprobs")] * 300, SOUND), 400, None, "too many fields")
    check_refused(server.post({"prompt": "x" * (2 << 20)}, SOUND), 400, None, "too large a field")


def test_malformed(server):
    body, kind = form(QUICK, SOUND)
    path = "/v1/audio/transcriptions"
    check_refused(server.ask("POST", path, b"{}", {"Content-Type": "application/json"}), 415, None, "JSON")
    check_refused(server.ask("POST", path, b"", {}), 415, None, "no type")
    check_refused(server.ask("POST", path, body, {"Content-Type": "multipart/form-data"}), 400, None, "no boundary")
    check_refused(server.ask("POST", path, body, {"Content-Type": kind + "x"}), 400, "file", "another boundary")
    for other, status in ((kind.replace("form-data", "form-data-x"), 415), (kind.replace("boundary", "xboundary"), 400),
                          (kind.replace("=", '="'), 400), ('multipart/form-data; boundary=""', 400),
                          ('multipart/form-data; boundary="a\\b"', 400), ("multipart/form-data; boundary", 400),
                          (kind.replace("boundary", "x") + "; x=boundary", 400)):
        check_refused(server.ask("POST", path, body, {"Content-Type": other}), status, None, f"Content-Type: {other}")
    for cut in (0, 10, 300, len(body) // 2, len(body) - 10):
        answer = server.ask("POST", path, body[:cut], {"Content-Type": kind})
        check_equal(answer.status, 400, f"cut after {cut}: {answer}")
    nameless = body.replace(b'form-data; name="beam_size"', b"form-data")
    check_equal(server.ask("POST", path, nameless, {"Content-Type": kind}).status, 400, "a part without a name")
    with server.connect() as s:   # a client that goes away in the middle of its upload
        s.sendall((f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\n"
                   f"Content-Length: {len(body)}\r\n\r\n").encode() + body[:len(body) // 2])
    check_equal(server.ask("GET", "/health").status, 200, "it still answers")


def test_limits():
    with Server("--model", MODEL, "--max-upload", "100k") as server:
        check_equal(server.post(QUICK, sound(2)).status, 200, "a small file")
        check_refused(server.post(QUICK, sound(10)), 413, "file", "a large file")
        check_refused(server.post(QUICK, sound(100)), 413, "file", "a larger one, by its Content-Length")
        large = bytes(20 << 20)
        for _ in range(10):   # the answer comes at once and is not lost, however late the client reads it
            check_refused(server.post(QUICK, large), 413, "file", "one that no socket buffer holds")
        body, kind = form(QUICK, sound(10))
        chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        answer = server.ask("POST", "/v1/audio/transcriptions", chunked,
                            {"Content-Type": kind, "Transfer-Encoding": "chunked"})
        check_refused(answer, 413, "file", "a large file in chunks")
        test_goes_on(server, "")
    pair = make_certificate("forms")
    if not pair:
        print("SKIP: server-forms TLS: no openssl to make a certificate")
        return
    with Server("--model", MODEL, "--max-upload", "100k", "--tls-cert", pair[0], "--tls-key", pair[1]) as server:
        test_goes_on(server, "TLS: ")


def goes_on(server, path, kind, begin=b""):
    """The answer to 100 MB in chunks, which is read when all of it was sent"""
    with server.connect() as s:
        s.sendall((f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\n"
                   "Transfer-Encoding: chunked\r\n\r\n").encode())
        try:
            for piece in (begin or b" ", *[bytes(1 << 20)] * 96):
                s.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
            s.sendall(b"0\r\n\r\n")
        except OSError:   # the server has waited for long enough; its answer came before that
            pass
        return read_answer(s)


def test_goes_on(server, label):
    """A refused body that does not end: told why, not cut off without a word"""
    body, kind = form(QUICK, b"")
    begin = body[:body.index(b'filename="')] + b'filename="x"\r\n\r\n'
    fields, path = begin.replace(b'name="beam_size"', b'name="' + b"x" * 300 + b'"'), "/v1/audio/transcriptions"
    for what, first, status, param in (("a large file", begin, 413, "file"), ("a wrong form", fields, 400, None)):
        answer = goes_on(server, path, kind, first)
        check(answer, f"{label}{what} that goes on: an answer")
        if answer:
            check_refused(answer, status, param, f"{label}{what} that goes on")
            check_equal(answer.headers["connection"], "close", f"{label}{what} that goes on: the connection")
    answer = goes_on(server, "/v1/realtime/client_secrets", "application/json")
    check_equal(answer and (answer.status, answer.error["code"]), (413, "body_too_large"), f"{label}JSON that goes on")


def main():
    with Server("--model", MODEL) as server:
        test_formats(server)
        test_stream(server)
        test_ways_to_send(server)
        test_options(server)
        test_chunking(server)
        test_refused(server)
        test_malformed(server)
    test_limits()
    done()


main()
