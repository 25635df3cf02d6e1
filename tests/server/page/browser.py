"""tests/server/page/browser.py - what the tests of the page in Chromium share: the browser, a page, checks, pictures.

Needs Debian's chromium and playwright, which is taken from this interpreter, else from a private environment that is
made on first use (bench/environments.py). Without either the test is skipped by name. With PAGE_PICTURES=FOLDER the
tests leave pictures of what they see there.
"""
import os
import shutil
import sys
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.environ.get("MXW_SOURCE_ROOT") or os.path.abspath(os.path.join(HERE, "..", "..", ".."))
NAME = os.path.basename(sys.argv[0])
SPEECH = os.path.join(ROOT, "tests", "data", "librivox-0870.wav")
SPEECH_S = 7.1
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def skip(why):
    print(f"SKIP: {NAME}: {why}", flush=True)
    sys.exit(77)


def find_playwright():
    try:
        import playwright.sync_api
        return playwright.sync_api
    except ImportError:
        sys.path.insert(0, os.path.join(ROOT, "bench"))
        import environments
        python, why_not = environments.interpreter("playwright")
        if not python or os.path.realpath(sys.prefix) == os.path.realpath(os.path.dirname(os.path.dirname(python))):
            skip(f"playwright {why_not or 'is not where it was installed'}")
        os.execv(python, [python, *sys.argv])


if not CHROMIUM:
    skip("chromium is not installed (tools/setup browser)")
api = find_playwright()
expect = api.expect
expect.set_options(timeout=30000)


class Browser:
    """Chromium with a microphone that hears a file, once; a context for each test, so that none sees another's data"""

    def __init__(self, *more, sound=SPEECH):
        self.driver = api.sync_playwright().start()
        self.browser = self.driver.chromium.launch(executable_path=CHROMIUM, args=[
            "--headless=new", "--no-sandbox", "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream",
            f"--use-file-for-fake-audio-capture={sound}%noloop", "--autoplay-policy=no-user-gesture-required", *more])
        self.faults = []

    def close(self):
        self.browser.close()
        self.driver.stop()

    def context(self, **options):
        options = {"viewport": {"width": 1200, "height": 800}, "reduced_motion": "reduce", **options}
        return self.browser.new_context(accept_downloads=True, **options)

    def open(self, address, context=None, **options):
        """A page on which a script error, or anything that the policy refuses, is a fault"""
        page = (context or self.context(**options)).new_page()
        page.on("pageerror", lambda error: self.faults.append(f"script: {error}"))
        page.on("console", lambda message: self.saw(message.text))
        page.goto(address)
        expect(page.locator("#server-state")).not_to_have_text("Connecting…")
        return page

    def saw(self, text):
        if "Content Security Policy" in text or "Uncaught" in text or "TrustedHTML" in text:
            self.faults.append(text)


def picture(page, name, whole=False):
    folder = os.environ.get("PAGE_PICTURES")
    if folder:
        os.makedirs(folder, exist_ok=True)
        page.screenshot(path=os.path.join(folder, name + ".png"), full_page=whole)


def speech(name="talk.wav"):
    """The clip as a file of a form"""
    with open(SPEECH, "rb") as stream:
        return {"name": name, "mimeType": "audio/wav", "buffer": stream.read()}


def upload(page, *names):
    page.set_input_files("#files", [speech(name) for name in names])


def entry(page, name):
    """The row of the list with this name"""
    return page.locator(".entry", has=page.get_by_role("button", name=name, exact=True))


def status(page, name):
    return entry(page, name).locator(".status")


def finished(page, name):
    expect(status(page, name)).to_contain_text("0:07")
    expect(page.locator("#tools")).to_be_visible()


def saved(page, selector):
    """(name, text) of what a button downloads"""
    with page.expect_download() as waiting:
        page.click(selector)
    with open(waiting.value.path(), encoding="utf-8", newline="") as stream:
        return waiting.value.suggested_filename, stream.read()


def equal(got, want, what):
    assert got == want, f"{what}: got {got!r}, want {want!r}"


def run(tests, browser, reset=lambda: None):
    """The tests that the command line names, else all; the exit status"""
    failed, wanted = 0, [word for word in sys.argv[1:] if word.startswith("test_")]
    tests = [test for test in tests if test.__name__ in (wanted or [test.__name__])]
    for test in tests:
        reset()
        try:
            test(browser)
            assert not browser.faults, browser.faults
        except Exception:
            failed += 1
            ours = [line for line in traceback.format_exc().split("\n") if "playwright/_impl" not in line]
            print(f"failed: {test.__name__}\n" + "\n".join(ours), flush=True)
        browser.faults.clear()
        for context in browser.browser.contexts:
            context.close()
    browser.close()
    print(f"{len(tests) - failed} passed, {failed} failed")
    return 1 if failed or not tests else 0
