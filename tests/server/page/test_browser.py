"""tests/server/page/test_browser.py [test_NAME] - the page in Chromium against mock_server.py: files, queue, text that
lights up, editing, downloads, reload, failures, keyboard, small screens."""
import json
import sys
import time

import mock_server
from browser import (SPEECH_S, Browser, entry, equal, expect, finished, picture, run, saved, speech, status, upload)
from mock_server import Mock

SERVER = mock_server.start()
ADDRESS = f"http://127.0.0.1:{SERVER.server_address[1]}/"
RESULT = mock_server.result_of(SPEECH_S)


def reset():
    Mock.key, Mock.away, Mock.drop_live_after, Mock.pace = "", False, 0, 0.02
    for seen in (Mock.requests, Mock.gone, Mock.tries):
        seen.clear()


def ready(browser, name="talk.wav", **options):
    """A page with one text"""
    page = browser.open(ADDRESS, **options)
    upload(page, name)
    finished(page, name)
    return page


def passages(page):
    """Not by their inner text: it is empty until the browser has looked whether a new passage is on the screen."""
    return [text.strip() for text in page.locator(".segment:not([hidden]) .words").all_text_contents()]


def fields(page):
    return page.eval_on_selector_all("textarea.words", "all => all.map((field) => field.value)")


def wait_until(truth, what):
    end = time.monotonic() + 20
    while not truth():
        assert time.monotonic() < end, what
        time.sleep(0.05)


# ---- files ----------------------------------------------------------------------------------------------------------

def test_upload(browser):
    page = browser.open(ADDRESS)
    picture(page, "empty")
    expect(page.locator("#model option")).to_have_text(["base (default)", "tiny.en"])
    page.select_option("#language", "de")
    page.select_option("#task", "translate")
    page.click("#more-summary")
    page.fill("#prompt", "Dickens, Paris")
    page.fill("#beam_size", "3")
    page.fill("#temperature", "0.2")
    page.select_option("#guard", "mark")
    page.check("#vad")
    upload(page, "one.wav", "two.wav", "three.wav", "four.wav")
    for name in ("one.wav", "two.wav", "three.wav", "four.wav"):
        expect(status(page, name)).to_have_text("0:07 · English · 227 kB")
    equal(page.locator(".entry .name").all_inner_texts(), ["one.wav", "two.wav", "three.wav", "four.wav"], "order")
    equal(passages(page), mock_server.SAID, "the text of the first")
    picture(page, "files")
    request = Mock.requests[0]
    equal({name: request.get(name) for name in ("path", "file", "model", "stream", "stream_events", "response_format",
                                                "timestamp_granularities[]", "prompt", "beam_size", "temperature",
                                                "guard", "vad", "language")},
          {"path": "/v1/audio/translations", "file": "one.wav", "model": ["base"], "stream": ["true"],
           "stream_events": ["all"], "response_format": ["verbose_json"],
           "timestamp_granularities[]": ["word", "segment"], "prompt": ["Dickens, Paris"], "beam_size": ["3"],
           "temperature": ["0.2"], "guard": ["mark"], "vad": ["true"], "language": ["de"]},
          "fields of the request")
    page.select_option("#task", "transcribe")
    page.click("#reset-options")
    upload(page, "five.wav")
    expect(status(page, "five.wav")).to_contain_text("0:07")
    equal((Mock.requests[-1]["path"], Mock.requests[-1].get("language"), Mock.requests[-1].get("prompt")),
          ("/v1/audio/transcriptions", ["de"], None), "without the options")
    page.select_option("#model", "tiny.en")
    expect(page.locator("#language")).to_be_disabled()
    upload(page, "six.wav")
    expect(status(page, "six.wav")).to_contain_text("0:07")
    equal((Mock.requests[-1]["model"], Mock.requests[-1].get("language")), (["tiny.en"], None), "an English model")


def test_drop(browser):
    page = browser.open(ADDRESS)
    data = page.evaluate_handle("""() => {
      const data = new DataTransfer();
      data.items.add(new File(['RIFF' + ' '.repeat(100)], 'dropped.wav', {type: 'audio/wav'}));
      data.items.add(new File([], 'empty.wav'));
      return data;
    }""")
    page.dispatch_event("body", "dragenter", {"dataTransfer": data})
    expect(page.locator("#drop-veil")).to_be_visible()
    page.dispatch_event("body", "drop", {"dataTransfer": data})
    expect(page.locator("#drop-veil")).to_be_hidden()
    expect(entry(page, "dropped.wav")).to_be_visible()
    expect(page.locator("#notice-text")).to_have_text("empty.wav is empty, or a folder.")
    wait_until(lambda: [request["file"] for request in Mock.requests] == ["dropped.wav"], "one request")


def test_queue_and_cancel(browser):
    page = browser.open(ADDRESS)
    Mock.pace = 0.05
    upload(page, "queue-a.wav", "slow-b.wav", "slow-c.wav", "slow-d.wav")
    expect(status(page, "queue-a.wav")).to_have_text("In the server’s queue, place 2")
    expect(entry(page, "queue-a.wav").locator("progress")).to_be_visible()
    expect(status(page, "slow-d.wav")).to_have_text("Waiting")
    for name in ("slow-b.wav", "slow-c.wav"):
        expect(status(page, name)).to_have_text("0:00 of 0:07")
    picture(page, "queue")
    for name in ("slow-d.wav", "slow-b.wav", "slow-c.wav"):
        entry(page, name).get_by_role("button", name="Cancel").click()
        expect(status(page, name)).to_have_text("Cancelled")
    wait_until(lambda: {"slow-b.wav", "slow-c.wav"} <= set(Mock.gone), f"the server learns of it: {Mock.gone}")
    finished(page, "queue-a.wav")
    entry(page, "slow-b.wav").get_by_role("button", name="Delete").click()
    expect(entry(page, "slow-b.wav")).to_have_count(0)


# ---- the text -------------------------------------------------------------------------------------------------------

def lit_at(page, seconds):
    page.evaluate("""(time) => new Promise((resolve) => {
      const sound = document.querySelector('#sound');
      sound.pause();
      sound.addEventListener('seeked', () => setTimeout(resolve, 50), {once: true});
      sound.currentTime = time;
    })""", seconds)
    return page.locator(".word.lit").all_inner_texts()


def test_playback(browser):
    page = ready(browser)
    words = RESULT["words"]
    for i in (0, 5, 11, 20, len(words) - 1):
        middle = (words[i]["start"] + words[i]["end"]) / 2
        equal(lit_at(page, middle), [words[i]["word"]], f"lit at {middle:.2f}")
    expect(page.locator(".segment.current")).to_have_count(1)
    page.locator(".word", has_text="wisdom").click()
    wanted = next(word["start"] for word in words if word["word"].startswith("wisdom"))
    now = page.evaluate("document.querySelector('#sound').currentTime")
    assert wanted - 0.01 <= now < wanted + 3, f"a click jumps to {wanted:.2f}, is at {now:.2f}"
    wait_until(lambda: page.locator(".word.lit").all_inner_texts() == ["foolishness."], "light moves on while it plays")
    picture(page, "playing")
    page.get_by_role("button", name="Play from 0:00").click()
    page.select_option("#speed", "2")
    equal(page.evaluate("document.querySelector('#sound').playbackRate"), 2, "speed")


def test_unplayable(browser):
    page = browser.open(ADDRESS)
    file = speech("film.xyz")
    file["buffer"] = bytes(20) + file["buffer"][20:]      # nothing that a browser knows
    page.set_input_files("#files", [file])
    expect(page.locator("#no-sound")).to_contain_text("cannot play")
    expect(page.locator("#player")).to_be_hidden()
    expect(page.locator("#tools")).to_be_visible()


def test_edit(browser):
    page = ready(browser)
    page.click("#edit")
    equal(fields(page), mock_server.SAID, "fields")
    first = page.locator("textarea.words").first
    first.fill("It was the very best of times, it was the worst of times.")
    page.locator("textarea.words").nth(1).press("Control+Home")
    page.keyboard.press("Backspace")
    equal(len(fields(page)), 3, "joined")
    picture(page, "edit")
    page.keyboard.press("Control+Z")
    equal(len(fields(page)), 4, "undone")
    page.locator("textarea.words").nth(3).focus()
    page.keyboard.press("Control+Home")
    for _ in range(len("It was the ")):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    equal(fields(page)[3:], ["It was the", "season of light."], "split")
    page.keyboard.press("Escape")
    expect(page.locator("textarea.words")).to_have_count(0)
    check_downloads(page)
    page.reload()
    expect(page.locator("#tools")).to_be_visible()
    equal(passages(page)[0], "It was the very best of times, it was the worst of times.", "after a reload")
    page.click("#edit")
    page.click("#revert")
    page.click("#question-yes")
    page.click("#edit")
    equal(passages(page), mock_server.SAID, "edits discarded")


def check_downloads(page):
    """What is saved is the edited text, with times that follow from the words'."""
    season = next(word for word in RESULT["words"] if word["word"] == "season")
    name, text = saved(page, "[data-format=srt]")
    equal(name, "talk.srt", "name")
    cues = [cue.split("\n") for cue in text.strip().split("\n\n")]
    equal([cue[0] for cue in cues], ["1", "2", "3", "4", "5"], "numbers of cues")
    equal(cues[0][2], "It was the very best of times, it was the worst of times.", "text of a cue")
    ms = round(1000 * season["start"])
    equal(cues[4][1].split(" --> ")[0], f"00:00:{ms // 1000:02},{ms % 1000:03}", "the split is at the word's time")
    _, text = saved(page, "[data-format=vtt]")
    assert text.startswith("WEBVTT\n\n00:00.000 --> 00:"), text
    _, text = saved(page, "[data-format=txt]")
    equal(text.split("\n")[3:], ["It was the", "season of light.", ""], "txt")
    _, text = saved(page, "[data-format=json]")
    written = json.loads(text)
    equal((written["language"], written["edited"], len(written["segments"])), ("english", True, 5), "json")
    words = written["segments"][0]["words"]
    equal([word["word"] for word in words][:5], [" It", " was", " the", " very", " best"], "words of json")
    equal(words[4]["start"], RESULT["words"][3]["start"], "a word that stayed has its time")
    assert "tokens" not in written["segments"][0] and written["segments"][1]["tokens"] == [1], written["segments"]


def test_copy(browser):
    page = ready(browser, permissions=["clipboard-read", "clipboard-write"])
    page.click("#copy")
    expect(page.locator("#copy")).to_have_text("Copied")
    equal(page.evaluate("navigator.clipboard.readText()"), " ".join(mock_server.SAID), "clipboard")


# ---- what stays -----------------------------------------------------------------------------------------------------

def test_reload(browser):
    page = ready(browser)
    page.select_option("#language", "fr")
    page.select_option("#theme", "dark")
    upload(page, "slow-b.wav")
    expect(status(page, "slow-b.wav")).to_have_text("0:00 of 0:07")
    entry(page, "talk.wav").locator(".open").click()
    page.reload()
    expect(page.locator("#tools")).to_be_visible()
    equal(passages(page), mock_server.SAID, "the text")
    equal((page.input_value("#language"), page.get_attribute("html", "data-theme")), ("fr", "dark"), "settings")
    wait_until(lambda: page.evaluate("document.querySelector('#sound').duration") > 7, "the sound is there")
    equal(lit_at(page, 0.1), ["It"], "and lights up")
    expect(status(page, "slow-b.wav")).to_have_text("0:00 of 0:07")
    equal(Mock.tries["slow-b.wav"], 2, "an interrupted file is sent again")
    entry(page, "slow-b.wav").get_by_role("button", name="Cancel").click()
    page.click("#delete-all")
    page.click("#question-yes")
    expect(page.locator("#welcome")).to_be_visible()
    expect(page.locator(".entry")).to_have_count(0)
    equal(stored(page), [0, 0, 0], "tables of the database after deleting everything")
    equal(page.input_value("#language"), "", "settings after deleting everything")


def stored(page):
    return page.evaluate("""async () => {
      const done = (request) => new Promise((resolve) => { request.onsuccess = () => resolve(request.result); });
      const database = await done(indexedDB.open('max-whisper'));
      return Promise.all(['entries', 'sounds', 'pieces'].map((table) =>
        done(database.transaction(table).objectStore(table).count())));
    }""")


def test_keep_nothing(browser):
    page = ready(browser)
    wait_until(lambda: stored(page) == [1, 1, 0], "kept")
    page.uncheck("#keep")
    wait_until(lambda: stored(page) == [0, 0, 0], "no longer kept")
    upload(page, "two.wav")
    expect(status(page, "two.wav")).to_contain_text("0:07")
    equal(stored(page), [0, 0, 0], "and nothing new")
    page.check("#keep")
    wait_until(lambda: stored(page) == [2, 2, 0], "kept again")
    page.uncheck("#keep")
    wait_until(lambda: stored(page) == [0, 0, 0], "no longer kept")
    page.reload()
    expect(page.locator(".entry")).to_have_count(0)


# ---- failures -------------------------------------------------------------------------------------------------------

def test_bad_files(browser):
    page = browser.open(ADDRESS)
    upload(page, "bad-file.wav", "large-x.wav", "broken-x.wav", "cut-x.wav")
    expect(status(page, "bad-file.wav")).to_have_text("bad-file.wav: not audio that can be decoded")
    expect(status(page, "large-x.wav")).to_have_text("The file is larger than 1 kB (--max-upload).")
    expect(status(page, "broken-x.wav")).to_have_text("The model ran out of memory.")
    expect(status(page, "cut-x.wav")).to_contain_text("broke before the text was complete")
    expect(page.locator("#doc-error")).to_have_text("bad-file.wav: not audio that can be decoded")
    picture(page, "failures")
    entry(page, "broken-x.wav").locator(".open").click()
    equal(passages(page), mock_server.SAID[:2], "what came before the failure is shown")
    entry(page, "bad-file.wav").get_by_role("button", name="Try again").click()
    wait_until(lambda: Mock.tries["bad-file.wav"] == 2, "tried again")


def test_busy(browser):
    page = browser.open(ADDRESS)
    upload(page, "busy-x.wav")
    expect(status(page, "busy-x.wav")).to_contain_text("The server is busy; trying again in")
    expect(entry(page, "busy-x.wav").get_by_role("button", name="Try now")).to_be_visible()
    expect(status(page, "busy-x.wav")).to_contain_text("0:07 · English")
    equal(Mock.tries["busy-x.wav"], 2, "sent twice")


def test_away(browser):
    page = browser.open(ADDRESS)
    Mock.away = True
    upload(page, "talk.wav")
    expect(page.locator("#notice-text")).to_contain_text("Trying again")
    expect(status(page, "talk.wav")).to_have_text("Waiting")
    expect(page.locator("#server-state")).to_have_text("No connection")
    picture(page, "away")
    Mock.away = False
    finished(page, "talk.wav")
    expect(page.locator("#notice")).to_be_hidden()


def test_key(browser):
    Mock.key = "sk-right"
    page = browser.open(ADDRESS)
    expect(page.locator("#key-dialog")).to_be_visible()
    expect(page.locator("#key-why")).to_contain_text("The server asks for an API key.")
    picture(page, "key")
    page.fill("#key", "sk-wrong")
    page.keyboard.press("Enter")
    expect(page.locator("#key-why")).to_contain_text("Incorrect API key")
    page.fill("#key", "sk-right")
    page.keyboard.press("Enter")
    expect(page.locator("#key-dialog")).to_be_hidden()
    upload(page, "talk.wav")
    finished(page, "talk.wav")
    equal(page.evaluate("JSON.stringify(localStorage).includes('sk-')"), False, "the key is not kept for ever")
    page.reload()
    upload(page, "two.wav")
    expect(status(page, "two.wav")).to_contain_text("0:07")
    Mock.key = "sk-other"
    upload(page, "three.wav")
    expect(page.locator("#key-dialog")).to_be_visible()
    expect(status(page, "three.wav")).to_have_text("Waiting")
    page.fill("#key", "sk-other")
    page.keyboard.press("Enter")
    expect(status(page, "three.wav")).to_contain_text("0:07")


# ---- everybody ------------------------------------------------------------------------------------------------------

def test_keyboard(browser):
    page = ready(browser)
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    stamp = page.get_by_role("button", name="Play from 0:00")
    for _ in range(40):
        page.keyboard.press("Tab")
        if stamp.evaluate("button => button === document.activeElement"):
            break
    expect(stamp).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("button", name="Play from 0:02")).to_be_focused()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    equal(page.evaluate("document.activeElement.textContent"), "age", "the word at the keyboard")
    page.keyboard.press("Enter")
    wait_until(lambda: page.evaluate("!document.querySelector('#sound').paused"), "plays")
    page.keyboard.press(" ")
    wait_until(lambda: page.evaluate("document.querySelector('#sound').paused"), "pauses")
    page.keyboard.press("e")
    expect(page.locator("textarea.words").first).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#edit")).to_be_focused()
    page.keyboard.press("?")
    expect(page.locator("#keys-dialog")).to_be_visible()
    picture(page, "keyboard")
    page.keyboard.press("Escape")
    expect(page.locator("#keys-dialog")).to_be_hidden()


def test_small_screens(browser):
    for width, theme in ((320, "light"), (390, "dark")):
        page = ready(browser, viewport={"width": width, "height": 700}, color_scheme=theme)
        upload(page, "bad-file.wav", "a-very-long-name-" + "x" * 80 + ".wav")
        expect(page.locator(".entry")).to_have_count(3)
        page.click("#options-title")
        page.click("#more-summary")
        for step in ("reading", "editing"):
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{width} pixels, {step}: {wide} wide"
            picture(page, f"small-{width}-{step}", whole=True)
            entry(page, "talk.wav").locator(".open").click()
            page.click("#edit")


def test_policy(browser):
    page = browser.open(ADDRESS)
    equal(page.evaluate("""() => {
      const script = document.createElement('script');
      try { script.text = 'window.broken = true'; } catch (error) { return error.name; }
      document.body.append(script);
      return String(window.broken);
    }"""), "TypeError", "a script made from text is refused")
    browser.faults.clear()   # which the browser reports


if __name__ == "__main__":
    sys.exit(run([test for name, test in list(globals().items()) if name.startswith("test_")], Browser(), reset))
