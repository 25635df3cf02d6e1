"""tests/server/page/test_browser_live.py [test_NAME] - the page's microphone in Chromium against mock_server.py: text
while somebody speaks, the recording, what happens when the connection, the key or the microphone is missing; and
whether everybody can use the page: names of controls, contrasts as they are painted."""
import struct
import sys
import time

import mock_server
from browser import Browser, entry, equal, expect, picture, run, speech, status
from mock_server import Mock

SERVER = mock_server.start()
PORT = SERVER.server_address[1]
ADDRESS = f"http://127.0.0.1:{PORT}/"
# Every text that is painted, with its color and what lies behind it
PAINTED = """() => {
  const parse = (text) => {
    const canvas = new OffscreenCanvas(1, 1).getContext('2d');
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const over = (top, under) => [0, 1, 2].map((i) => (top[i] * top[3] + under[i] * (255 - top[3])) / 255);
  const ground = (element) => parse(getComputedStyle(element).backgroundColor);
  const behind = (element) => element ? over(ground(element), behind(element.parentElement)) : [255, 255, 255];
  const light = (color) => {
    const [r, g, b] = color.map((part) => part / 255)
      .map((part) => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const element = node.parentElement;
    if (!node.data.trim() || !element.checkVisibility() || element.getBoundingClientRect().width < 2) continue;
    if (element.closest('.unseen, option, :disabled, [aria-disabled=true]')) continue;
    const back = behind(element), front = over(parse(getComputedStyle(element).color), back);
    const [high, low] = [light(back), light(front)].sort((a, b) => b - a);
    found.push([(high + 0.05) / (low + 0.05), node.data.trim()]);
  }
  return found;
}"""

# window.stored: the states of the entries in the database at the moment when no other tab works on them
STORED_WHEN_FREE = """async () => {
  const done = (request) => new Promise((resolve) => { request.onsuccess = () => resolve(request.result); });
  const database = await done(indexedDB.open('max-whisper'));
  const [lock] = (await navigator.locks.query()).held;
  window.stored = navigator.locks.request(lock.name, async () =>
    (await done(database.transaction('entries').objectStore('entries').getAll())).map(({state}) => state));
}"""


def reset():
    Mock.key, Mock.away, Mock.drop_live_after, Mock.pace = "", False, 0, 0.02
    Mock.opens.set()
    for seen in (Mock.requests, Mock.gone, Mock.tries, Mock.sessions, Mock.lives):
        seen.clear()


def name_of(page):
    return page.locator(".entry .name").first.inner_text()


def wait_seconds(page, seconds):
    """Until so much has been recorded"""
    expect(page.locator("#record-time")).to_have_text(f"0:0{seconds}")


def duration_of(page):
    """Of the sound, once the browser has looked into it"""
    return page.evaluate("""() => new Promise((resolve) => {
      const sound = document.querySelector('#sound');
      if (sound.duration > 0) resolve(sound.duration);
      else sound.addEventListener('loadedmetadata', () => resolve(sound.duration), {once: true});
    })""")


def test_live(browser):
    page = browser.open(ADDRESS)
    page.click("#record")
    expect(page.locator("#record-label")).to_have_text("Stop")
    expect(page.locator("#partial-said")).to_contain_text("It was the best")
    expect(page.locator("#partial-maybe")).to_have_text(" perhaps")
    wait_seconds(page, 7)
    equal(page.locator(".segment .words").all_inner_texts()[:1], [mock_server.SAID[0]], "the first passage is complete")
    level = page.evaluate("document.querySelector('#level').value")
    assert level > 0.1, f"the meter moves: {level}"
    picture(page, "live")
    page.click("#record")
    expect(page.locator("#player")).to_be_visible()
    expect(page.locator("#partial")).to_be_hidden()
    expect(page.locator("#record-label")).to_have_text("Record")
    texts = page.locator(".segment .words").all_inner_texts()
    assert len(texts) == 2 and texts[1].startswith("It was"), texts
    duration = duration_of(page)
    assert 7 <= duration < 12, f"the recording lasts {duration} s"
    page.locator(".word", has_text="worst").click()
    expect(page.locator(".word.lit")).to_have_text("worst")
    at = page.evaluate("document.querySelector('#sound').currentTime")
    assert 4.5 <= at < 5.5, f"the server's time of the word: {at}"
    check_recording(page)


def check_recording(page):
    """What was recorded is what the microphone heard, at 24 kHz, and can be sent again as a file."""
    with page.expect_download() as waiting:
        page.click("#download-sound")
    with open(waiting.value.path(), "rb") as stream:
        sound = stream.read()
    rate, n = struct.unpack("<I", sound[24:28])[0], struct.unpack("<I", sound[40:44])[0]
    equal((sound[:4], rate, n), (b"RIFF", 24000, len(sound) - 44), "a WAV file of 24 kHz")
    samples = struct.unpack(f"<{n // 2}h", sound[44:])
    heard = speech()["buffer"][44:]
    power = [sum(abs(sample) for sample in part) / len(part)
             for part in (samples, struct.unpack(f"<{len(heard) // 2}h", heard))]
    assert 0.2 < power[0] / power[1] < 1.5, f"as loud as the file: {power}"
    page.click("#again")
    expect(status(page, name_of(page))).to_contain_text("English")
    equal(len(page.locator(".segment").all()), len(mock_server.SAID), "the text of the file")


def test_task(browser):
    """Translate is for the microphone too; its choice can be read whole."""
    page = browser.open(ADDRESS)
    page.select_option("#language", "de")
    for task, wanted in (("transcribe", None), ("translate", "translate")):
        page.select_option("#task", task)
        page.click("#record")
        expect(page.locator("#partial")).to_contain_text("It was")
        picture(page, "live-" + task)
        page.click("#record")
        expect(page.locator("#player")).to_be_visible()
        asked = Mock.sessions[-1]["audio"]["input"]["transcription"]
        equal((asked.get("task"), asked["language"]), (wanted, "de"), "the session's task and language")
    needed, given = page.evaluate("""() => {
      const select = document.querySelector('#task'), free = select.cloneNode(true);
      free.style.width = 'max-content';
      select.after(free);
      const widths = [free.offsetWidth, select.offsetWidth];
      free.remove();
      return widths;
    }""")
    assert needed <= given, f"the choice of the task needs {needed} pixels, has {given}"


def test_connection_lost(browser):
    Mock.drop_live_after = 2
    page = browser.open(ADDRESS)
    page.click("#record")
    expect(page.locator("#record-note")).to_contain_text("The recording goes on")
    wait_seconds(page, 5)
    page.click("#record")
    expect(page.locator("#tools")).to_be_visible()
    duration = duration_of(page)
    assert duration >= 5, f"all of it is kept: {duration} s"
    expect(page.locator(".segment")).to_have_count(len(mock_server.SAID))
    equal(len(Mock.requests), 1, "it was sent as a file")


def test_stop_before_connection(browser):
    """The recording ends before its live connection is there: it is sent as a file, and the connection does not stay"""
    Mock.opens.clear()
    page = browser.open(ADDRESS)
    page.click("#record")
    wait_seconds(page, 2)
    page.click("#record")
    expect(page.locator(".segment")).to_have_count(len(mock_server.SAID))
    equal(len(Mock.requests), 1, "it was sent as a file")
    [live] = Mock.lives
    Mock.opens.set()
    end = time.monotonic() + 60
    while not live.is_over and time.monotonic() < end:
        page.wait_for_timeout(50)
    equal((live.is_over, Mock.sessions), (True, []), "the connection is closed, and was not used")


def test_key(browser):
    Mock.key = "sk-right"
    page = browser.open(ADDRESS)
    page.fill("#key", "sk-right")
    page.keyboard.press("Enter")
    expect(page.locator("#notice")).to_be_hidden()
    page.click("#record")
    expect(page.locator("#partial")).to_contain_text("It was")
    page.click("#record")
    expect(page.locator("#player")).to_be_visible()


def test_reload_while_recording(browser):
    page = browser.open(ADDRESS)
    page.click("#record")
    wait_seconds(page, 6)
    page.reload()
    expect(page.locator(".segment")).to_have_count(len(mock_server.SAID))
    duration = duration_of(page)
    assert duration >= 4.9, f"what was stored is there: {duration} s"
    expect(page.locator("#record-label")).to_have_text("Record")


def test_second_tab(browser):
    """A second tab leaves alone what the first is working on, and has it when it is complete."""
    context = browser.context()
    first = browser.open(ADDRESS, context)
    first.click("#record")
    wait_seconds(first, 6)
    second = browser.open(ADDRESS, context)
    second.wait_for_timeout(1000)
    expect(second.locator(".entry")).to_have_count(0)
    second.evaluate(STORED_WHEN_FREE)
    first.click("#record")
    expect(first.locator("#player")).to_be_visible()
    equal(second.evaluate("window.stored"), ["done"], "the database has its end before the first tab lets go of it")
    duration = duration_of(first)
    assert duration >= 6, f"nothing was taken from it: {duration} s"
    equal(len(Mock.requests), 0, "nothing was sent again")
    second.reload()
    expect(second.locator("#player")).to_be_visible()


def test_plain_http(browser):
    page = browser.open(f"http://speech.test:{PORT}/")
    expect(page.locator("#record-note")).to_contain_text("only over https")
    expect(page.locator("#record-note")).to_contain_text(f"http://localhost:{PORT}")
    equal(page.get_attribute("#record", "aria-disabled"), "true", "the button")
    page.click("#record", force=True)
    expect(page.locator(".entry")).to_have_count(0)
    page.set_input_files("#files", [speech()])
    expect(status(page, "talk.wav")).to_contain_text("0:07")
    page.click("#copy")
    expect(page.locator("#copy")).to_have_text("Copied")
    picture(page, "plain-http")


def test_microphone_refused(browser):
    page = browser.open(ADDRESS)
    for name, words in (("NotAllowedError", "not allowed"), ("NotFoundError", "No microphone was found"),
                        ("NotReadableError", "in use by another program")):
        page.evaluate("""(name) => {
          navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException('', name));
        }""", name)
        page.click("#record")
        expect(page.locator("#record-note")).to_contain_text(words)
        expect(page.locator(".entry")).to_have_count(0)
        expect(page.locator("#record-label")).to_have_text("Record")


def test_small_screen(browser):
    page = browser.open(ADDRESS, viewport={"width": 390, "height": 700}, color_scheme="dark")
    page.click("#record")
    expect(page.locator("#partial")).to_contain_text("It was")
    expect(page.locator("#partial")).to_be_in_viewport()
    expect(page.locator("#record")).to_be_in_viewport()
    picture(page, "live-small")
    page.keyboard.press("r")
    expect(page.locator("#player")).to_be_visible()


def test_names(browser):
    """Every control has a name for those who do not see it, and there is a place where news is told."""
    page = browser.open(ADDRESS)
    page.set_input_files("#files", [speech(), speech("bad-file.wav")])
    expect(status(page, "bad-file.wav")).to_contain_text("not audio")
    expect(page.locator("#tools")).to_be_visible()
    page.click("#more-summary")
    page.click("#edit")
    client = page.context.new_cdp_session(page)
    wanted = {"button", "combobox", "textbox", "checkbox", "spinbutton", "link", "meter", "progressbar", "region"}
    seen = 0
    for node in client.send("Accessibility.getFullAXTree")["nodes"]:
        role = node.get("role", {}).get("value", "")
        if role in wanted and not node.get("ignored"):
            seen += 1
            assert node.get("name", {}).get("value", "").strip(), f"a {role} without a name: {node}"
    assert seen > 30, f"only {seen} controls"
    expect(page.locator("#announcer")).to_contain_text("bad-file.wav: not audio")


def test_contrasts(browser):
    for theme in ("light", "dark"):
        page = browser.open(ADDRESS, color_scheme=theme)
        page.set_input_files("#files", [speech(), speech("bad-file.wav")])
        expect(status(page, "bad-file.wav")).to_contain_text("not audio")
        expect(page.locator("#tools")).to_be_visible()
        page.locator(".word", has_text="wisdom").click()
        page.click("#more-summary")
        painted = page.evaluate(PAINTED)
        assert len(painted) > 60, f"only {len(painted)} texts"
        weak = [(round(ratio, 2), text) for ratio, text in painted if ratio < 4.5]
        equal(weak, [], f"{theme}: texts with less contrast than 4.5")
        picture(page, f"contrast-{theme}")


if __name__ == "__main__":
    tests = [test for name, test in list(globals().items()) if name.startswith("test_")]
    sys.exit(run(tests, Browser("--host-resolver-rules=MAP speech.test 127.0.0.1"), reset))
