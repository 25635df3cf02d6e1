"""tests/server/page/test_browser_real.py PROGRAM [test_NAME] - the page in Chromium with max-whisper serve and tiny.en:
the text of files and its times are the command line's, the microphone is heard, also over https with a key, a full
queue is waited for."""
import json
import os
import re
import subprocess
import sys

from browser import SPEECH, Browser, entry, equal, expect, finished, picture, run, saved, skip, speech, status, upload

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from servertest import FOLDER, PROGRAM, Server, model_path  # noqa: E402

if not model_path("tiny.en"):
    skip("the model tiny.en is not there (make model)")


def spoken(format_, *options):
    """What the command line makes of the clip"""
    words = ["--model", "tiny.en", "--word-timestamps", "True", "--format", format_, "--quiet", *options]
    return subprocess.run([PROGRAM, SPEECH, *words], check=True, capture_output=True, text=True).stdout


def test_file(browser):
    page = browser.open(browser.address)
    expect(page.locator("#model option")).to_have_text(["tiny.en (default)"])
    upload(page, "talk.wav")
    finished(page, "talk.wav")
    equal(status(page, "talk.wav").inner_text(), "0:07 · English · 227 kB", "status")
    picture(page, "real-file")
    for format_ in ("srt", "vtt", "txt"):
        equal(saved(page, f"[data-format={format_}]")[1], spoken(format_), format_)
    want = json.loads(spoken("json"))["segments"]
    got = json.loads(saved(page, "[data-format=json]")[1])["segments"]
    equal([word["word"] for word in got[0]["words"]], [word["word"] for word in want[0]["words"]], "words")
    for ours, theirs in zip(got[0]["words"], want[0]["words"]):
        assert abs(ours["start"] - theirs["start"]) + abs(ours["end"] - theirs["end"]) < 0.002, (ours, theirs)
    word = want[0]["words"][8]
    page.locator(".word", has_text=word["word"].strip()).first.click()
    expect(page.locator(".word.lit").first).to_be_visible()
    at = page.evaluate("document.querySelector('#sound').currentTime")
    assert word["start"] - 0.01 <= at < word["start"] + 2, f"jumped to {at}, not {word['start']}"
    page.reload()
    expect(page.locator("#tools")).to_be_visible()
    equal(saved(page, "[data-format=srt]")[1], spoken("srt"), "srt after a reload")


def test_bad_file(browser):
    page = browser.open(browser.address)
    page.set_input_files("#files", [{"name": "notes.wav", "mimeType": "audio/wav", "buffer": b"these are notes " * 99}])
    expect(entry(page, "notes.wav").get_by_role("button", name="Try again")).to_be_visible()
    assert len(status(page, "notes.wav").inner_text()) > 20, "a reason"
    picture(page, "real-bad-file")


def test_large_file(browser):
    page = browser.open(browser.address)
    page.set_input_files("#files", [{**speech("large.wav"), "buffer": speech()["buffer"] + bytes(3000000)}])
    expect(entry(page, "large.wav").get_by_role("button", name="Try again")).to_be_visible()
    picture(page, "real-large-file")


def test_many_files(browser):
    """One at a time, one in the queue: the third gets 429, and is sent again until it is done."""
    page = browser.open(browser.address)
    upload(page, *(f"talk-{i}.wav" for i in range(5)))
    for i in range(5):
        expect(status(page, f"talk-{i}.wav")).to_have_text("0:07 · English · 227 kB", timeout=90000)


def record(page):
    """All of the clip, from the microphone; words of the text in small letters"""
    page.click("#record")
    expect(page.locator("#partial")).to_contain_text("leisure")
    picture(page, "real-live")
    expect(page.locator(".segment").first).to_be_visible()      # the pause after the last word
    page.click("#record")
    expect(page.locator("#player")).to_be_visible()
    return re.findall(r"[a-z]+", " ".join(page.locator(".segment .words").all_inner_texts()).lower())


def check_words(got):
    want = re.findall(r"[a-z]+", spoken("txt").lower())
    assert len(set(want) & set(got)) >= len(set(want)) - 3, f"heard {got}, want {want}"


def test_live(browser):
    page = browser.open(browser.address)
    check_words(record(page))
    expect(page.locator("#record-note")).to_be_hidden()
    page.locator(".word", has_text="prudently").first.click()
    at = page.evaluate("document.querySelector('#sound').currentTime")
    assert 2 < at < 9, f"a word near the end is at {at} s"


def test_stop_within_speech(browser):
    """What was said until the button was pressed becomes text, also without a pause."""
    page = browser.open(browser.address)
    page.click("#record")
    expect(page.locator("#record-time")).to_have_text("0:04")
    page.click("#record")
    expect(page.locator("#player")).to_be_visible()
    expect(page.locator(".segment .words").first).to_contain_text("Dashwood")


def test_https(browser):
    """From another machine: a name, a certificate, a key; text over wss"""
    cert, key = (os.path.join(FOLDER, name) for name in ("cert.pem", "key.pem"))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x", "-days", "2",
                    "-keyout", key, "-out", cert], check=True, capture_output=True)
    with Server("--model", "tiny.en", "--tls-cert", cert, "--tls-key", key, "--api-key", "sk-right") as server:
        page = browser.open(f"https://speech.test:{server.port}/", ignore_https_errors=True)
        page.fill("#key", "sk-right")
        page.keyboard.press("Enter")
        expect(page.locator("#notice")).to_be_hidden()
        check_words(record(page))
        upload(page, "talk.wav")
        expect(status(page, "talk.wav")).to_contain_text("0:07 · English")
        page.close()


def main():
    with Server("--model", "tiny.en", "--max-upload", "2M", "--concurrency", "1", "--queue", "1") as server:
        browser = Browser("--host-resolver-rules=MAP speech.test 127.0.0.1")
        browser.address = f"http://127.0.0.1:{server.port}/"
        return run([test for name, test in globals().items() if name.startswith("test_")], browser)


if __name__ == "__main__":
    sys.exit(main())
