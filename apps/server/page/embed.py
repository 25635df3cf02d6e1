#!/usr/bin/env python3
"""apps/server/page/embed.py OUTPUT.c FILE... - the page's files as a C source: their bytes, types and strong ETags.

In: files; index.html becomes "/", each other "/page/" and its name. Out: page_assets[] of page_data.h. The same files
give the same bytes.
"""
import hashlib
import os
import sys

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


def array(name, data):
    rows = (", ".join(str(byte) for byte in data[at:at + 32]) for at in range(0, len(data), 32))
    return f"static const unsigned char {name}[] = {{\n" + ",\n".join(rows) + "\n};\n"


def main(output, paths):
    arrays, table = [], []
    for number, path in enumerate(sorted(paths, key=os.path.basename)):
        with open(path, "rb") as stream:
            data = stream.read()
        name, tag = os.path.basename(path), hashlib.sha256(data).hexdigest()[:20]
        route = "/" if name == "index.html" else "/page/" + name
        kind = TYPES[os.path.splitext(name)[1]]
        arrays.append(array(f"bytes_{number}", data))
        table.append(f'    {{"{route}", "{kind}", "\\"{tag}\\"", bytes_{number}, {len(data)}}},\n')
    with open(output, "w", encoding="ascii") as stream:
        stream.write("/* made by embed.py: the files of the page */\n#include \"page/page_data.h\"\n\n")
        stream.write("\n".join(arrays) + "\nconst page_asset page_assets[] = {\n" + "".join(table) + "};\n")
        stream.write("const size_t page_n_assets = sizeof page_assets / sizeof page_assets[0];\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
