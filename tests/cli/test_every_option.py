"""tests/cli/test_every_option.py PROGRAM - each option of transcribe does what it says, on real speech with tiny.en.

Whether the text is the reference's is the golden tests' business; here an option must reach the decoder at all.
"""
import json

from clitest import check, check_equal, check_fails, done, model_path, run, skip, speech_path

CLIP = speech_path("beckett.wav")
if not model_path("tiny.en") or not CLIP:
    skip("every option", "the model tiny.en or the package speech is not there (make model, tools/fetch-speech)")

PLAIN = ["--greedy", "--temperature-increment-on-fallback", "none"]


def transcribe(*words, plain=PLAIN):
    """(result as openai-whisper's json, statistics)"""
    code, out, err = run(CLIP, "--format", "json", "--stats", *plain, *words)
    if not check_equal(code, 0, f"{words}: exit status ({err.strip()[:200]})"):
        return {"text": "", "segments": []}, {}
    return json.loads(out), json.loads(err.splitlines()[-1])


def text_tokens(result):
    return [token for segment in result["segments"] for token in segment["tokens"] if token < 50256]


def test_plain():
    result, stats = transcribe()
    check("Fail better" in result["text"], "the text", result["text"])
    check_equal((stats["temperature_fallbacks"], stats["fallbacks"]), (0, 0), "no fallbacks")
    return result


def test_same_text(plain):
    for words in (["--threads", "1"], ["--device", "cpu", "--engine", "cpu", "--task", "transcribe", "--fp16", "False"],
                  ["--language", "English", "--clip-timestamps", "0", "--condition-on-previous-text", "False"],
                  ["--beam-size", "none", "--seed", "7", "--best-of", "2"]):
        result, _ = transcribe(*words)
        check_equal(result["text"], plain["text"], f"{words}: the text stays")


def test_search(plain):
    for words in (["--beam-size", "2"], ["--patience", "2"], ["--beam-size", "3", "--length-penalty", "0.5"]):
        result, _ = transcribe(*words, plain=["--temperature-increment-on-fallback", "none"])
        check("Fail" in result["text"], f"{words}: text", result["text"])
    result, _ = transcribe("--no-repeat-ngram-size", "1")
    tokens = text_tokens(result)
    check(len(set(tokens)) == len(tokens) > 4, "--no-repeat-ngram-size 1: no token twice", result["text"])
    again = text_tokens(plain)
    check(len(set(again)) < len(again), "without it, a token comes twice", plain["text"])
    result, _ = transcribe("--repetition-penalty", "1.5")
    check(result["text"] != plain["text"], "--repetition-penalty 1.5: another text", result["text"])
    result, _ = transcribe("--repetition-penalty", "1", "--no-repeat-ngram-size", "0")
    check_equal(result["text"], plain["text"], "--repetition-penalty 1 --no-repeat-ngram-size 0: the text stays")
    banned = text_tokens(plain)[0]
    result, _ = transcribe("--suppress-tokens", f"-1,{banned}")
    check(banned not in text_tokens(result), "--suppress-tokens", text_tokens(result))
    result, _ = transcribe("--suppress-blank", "False", "--suppress-tokens", "")
    check(result["text"].strip() != "", "--suppress-blank False --suppress-tokens ''", result["text"])
    result, _ = transcribe("--sample-len", "4")
    check(0 < len(text_tokens(result)) <= 4, "--sample-len", result)


def test_sampling():
    hot = ["--temperature", "0.9", "--temperature-increment-on-fallback", "none", "--best-of", "2", "--seed"]
    first, _ = transcribe(*hot, "1", plain=[])
    again, _ = transcribe(*hot, "1", plain=[])
    check_equal(again, first, "the same seed gives the same text")
    check(all(segment["temperature"] == 0.9 for segment in first["segments"]), "--temperature is reported", first)
    others = [transcribe(*hot, str(seed), plain=[])[0] for seed in (2, 3, 4)]
    check(any(other != first for other in others), "another seed gives another result", first["text"])


def test_prompts():
    result, _ = transcribe("--prefix", "Ever tried", "--without-timestamps")
    check(result["text"].startswith(", ever failed"), "--prefix: the text goes on from there", result["text"])
    for words in (["--initial-prompt", "A poem by Beckett."], ["--initial-prompt", "Poem.", "--carry-initial-prompt"]):
        result, _ = transcribe(*words)
        check("ail better" in result["text"] and "poem" not in result["text"], f"{words}", result["text"])


def test_times(plain):
    result, _ = transcribe("--without-timestamps")
    check_equal(len(result["segments"]), 1, "--without-timestamps: one segment a window")
    result, _ = transcribe("--clip-timestamps", "4,8")
    times = [(segment["start"], segment["end"]) for segment in result["segments"]]
    check(times and all(start >= 4 and end <= 8.05 for start, end in times), "--clip-timestamps", times)
    check(len(result["text"]) < len(plain["text"]), "--clip-timestamps: less text", result["text"])
    result, _ = transcribe("--max-initial-timestamp", "0")
    check_equal(result["segments"][0]["start"], 0.0, "--max-initial-timestamp")
    result, _ = transcribe("--max-initial-timestamp", "none")
    check(result["segments"], "--max-initial-timestamp none")
    result, _ = transcribe("--mel-reference", "running")
    check("ail better" in result["text"], "--mel-reference running", result["text"])


def test_thresholds():
    result, _ = transcribe("--no-speech-threshold", "-1", "--logprob-threshold", "100")
    check_equal(result["segments"], [], "--no-speech-threshold: all is silence")
    _, stats = transcribe("--compression-ratio-threshold", "0.01",
                          plain=["--greedy", "--temperature-increment-on-fallback", "0.5", "--best-of", "1"])
    check(stats["temperature_fallbacks"] > 0, "--compression-ratio-threshold: decoded again", stats)
    _, stats = transcribe("--logprob-threshold", "100", "--no-speech-threshold", "none",
                          plain=["--greedy", "--temperature-increment-on-fallback", "1", "--best-of", "1"])
    check(stats["temperature_fallbacks"] > 0, "--logprob-threshold: decoded again", stats)
    _, stats = transcribe("--logprob-threshold", "none", "--compression-ratio-threshold", "none", plain=["--greedy"])
    check_equal(stats["temperature_fallbacks"], 0, "without thresholds nothing is decoded again")


def test_refusals():
    check_fails([CLIP, "--task", "translate"], 2, "task", "tiny.en")
    check_fails([CLIP, "--language", "German"], 2, "language", "tiny.en")
    check_fails([CLIP, "--engine", "max"], 1, "max")
    check_fails([CLIP, "--device", "cuda"], 1, "cuda")
    code, _, err = run(CLIP, *PLAIN, "--fp16", "True")
    check(code == 0 and err.count("\n") == 1 and "f32" in err, "--fp16 True: one warning", err)
    code, _, err = run(CLIP, *PLAIN, "--fp16", "True", "--quiet")
    check_equal((code, err), (0, ""), "--quiet: no warning")


PLAIN_RESULT = test_plain()
test_same_text(PLAIN_RESULT)
test_search(PLAIN_RESULT)
test_sampling()
test_prompts()
test_times(PLAIN_RESULT)
test_thresholds()
test_refusals()
done()
