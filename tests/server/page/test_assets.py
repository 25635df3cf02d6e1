"""tests/server/page/test_assets.py - the page's files by themselves: nothing inline, nothing from elsewhere, every name
that is used exists, every control has a label, texts can be read in both themes."""
import glob
import html.parser
import os
import re
import sys

ROOT = os.environ.get("MXW_SOURCE_ROOT") or os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
WWW = os.path.join(ROOT, "apps", "server", "page", "www")
VOID = {"meta", "link", "input", "br"}
# Text on ground, and the least contrast of WCAG 2.1 AA: 4.5 for text, 3 for the edges of controls
CONTRASTS = [("ink", "ground", 4.5), ("ink", "sheet", 4.5), ("soft", "sheet", 4.5), ("soft", "ground", 4.5),
             ("soft", "accent-soft", 4.5), ("accent", "sheet", 4.5), ("accent", "accent-soft", 4.5),
             ("accent", "ground", 4.5), ("accent-ink", "accent", 4.5), ("lit-ink", "lit", 4.5),
             ("danger", "sheet", 4.5), ("danger", "accent-soft", 4.5),
             ("ink", "danger-soft", 4.5), ("ink", "accent-soft", 4.5),
             ("sheet", "danger", 4.5), ("edge", "sheet", 3)]
faults = []


def check(truth, what):
    if not truth:
        faults.append(what)


def read(path):
    with open(path, encoding="utf-8") as stream:
        return stream.read()


class Page(html.parser.HTMLParser):
    """The elements of index.html: (tag, attributes, tags around it), and the text inside of each"""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        element = {"tag": tag, "text": "", "around": [outer["tag"] for outer in self.open], **dict(attributes)}
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        check(self.open and self.open[-1]["tag"] == tag, f"index.html: </{tag}> closes {self.open[-1:]}")
        self.open.pop()

    def handle_data(self, data):
        for element in self.open:
            element["text"] += data


def check_page(page):
    ids = [element["id"] for element in page.elements if "id" in element]
    check(len(ids) == len(set(ids)), "index.html: an id twice")
    for element in page.elements:
        label = f"index.html: <{element['tag']} id={element.get('id')}>"
        check(not any(name.startswith("on") for name in element), f"{label}: a handler inside")
        check("style" not in element, f"{label}: a style inside")
        if element["tag"] in ("script", "style"):
            check(not element["text"].strip() and element.get("src"), f"{label}: inline")
        if element["tag"] in ("select", "textarea", "input", "meter") and "hidden" not in element or \
                element["tag"] == "meter":
            check("label" in element["around"] or "aria-label" in element, f"{label}: no label")
        if element["tag"] == "button":
            check(element["text"].strip(), f"{label}: no text")
            check(element.get("type") == "button" or "dialog" in element["around"], f"{label}: would submit")
        if element["tag"] in ("dialog", "section"):
            check(element.get("aria-labelledby") in ids, f"{label}: no name")
        for name in ("src", "href"):
            if name in element and not element[name].startswith("#"):
                file = element[name].removeprefix("page/")
                check(file != element[name] and os.path.exists(f"{WWW}/{file}"), f"{label}: no file {element[name]}")
    return set(ids)


def check_scripts(ids):
    known = ids | set(re.findall(r"id: '([\w-]+)'", "".join(map(read, glob.glob(WWW + "/*.js")))))
    for path in glob.glob(WWW + "/*.js"):
        name, text = os.path.basename(path), read(path)
        for used in re.findall(r"byId\('([\w-]+)'\)", text):
            check(used in known, f"{name}: no element {used}")
        for used in re.findall(r"from '([^']+)'", text):
            check(os.path.exists(os.path.join(WWW, used)), f"{name}: no file {used}")
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
            check(word not in text, f"{name}: {word}")


def check_addresses():
    """No address of elsewhere; what is told to the user about localhost is text, and SVG has a name space."""
    for path in glob.glob(WWW + "/*"):
        text = read(path).replace("http://www.w3.org/2000/svg", "").replace("http://localhost", "")
        found = re.search(r"(https?:|wss?:)?//\w[\w.-]*\.\w+|@import|url\(", text)
        check(not found, f"{os.path.basename(path)}: {found and found.group(0)}")


def check_languages():
    table = re.findall(r'^LANGUAGE\("(.+)", "(.+)"\)', read(f"{ROOT}/src/text/languages.def"), re.MULTILINE)
    listed = re.search(r"`(.*?)`", read(WWW + "/languages.js"), re.DOTALL).group(1)
    ours = [tuple(entry.split(" ", 1)) for entry in re.split(r",\s+", listed.strip())]
    check(sorted((code, name.lower()) for code, name in ours) == sorted(table), "languages.js is not languages.def")


def check_embedded():
    listed = set(re.findall(r"'([\w.]+\.(?:js|css|html|svg))'", read(f"{ROOT}/apps/server/page/meson.build")))
    check(listed == set(os.listdir(WWW)), f"meson.build lists other files: {listed ^ set(os.listdir(WWW))}")


def luminance(color):
    parts = [int(color[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def check_contrast():
    colors = {name: pair for name, *pair in
              re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", read(WWW + "/style.css"))}
    for front, back, least in CONTRASTS:
        for theme in (0, 1):
            high, low = sorted((luminance(colors[front][theme]), luminance(colors[back][theme])), reverse=True)
            ratio = (high + 0.05) / (low + 0.05)
            check(ratio >= least, f"style.css: {front} on {back}, {('light', 'dark')[theme]}: contrast {ratio:.2f}")


check_scripts(check_page(Page(read(WWW + "/index.html"))))
check_addresses()
check_languages()
check_embedded()
check_contrast()
print("\n".join(faults) or "the page's files are in order")
sys.exit(1 if faults else 0)
