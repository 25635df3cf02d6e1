"""tests/server/test_unit.py PROGRAM MAKE_CHECKPOINT UNIT - the unit of systemd: what systemd says of it, and that it
and docs/server.md name the same credentials.

UNIT is the file that is installed. Its program is not where it will be, so the built one stands in its place.
"""
import os
import re
import shutil
import subprocess
import sys

from servertest import FOLDER, PROGRAM, ROOT, check, check_equal, done

CREDENTIALS = "/run/credentials/max-whisper.service/"


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as stream:
        return stream.read()


def verify(name, text):
    """(status, what it said) of systemd-analyze"""
    path = os.path.join(FOLDER, name)
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)
    ran = subprocess.run(["systemd-analyze", "verify", "--man=no", path], capture_output=True, text=True, check=False)
    return ran.returncode, ran.stdout + ran.stderr


def test_verify(unit):
    if not shutil.which("systemd-analyze"):
        print("SKIP: server-unit verify: there is no systemd-analyze")
        return
    text, n = re.subn(r"(?m)^ExecStart=\S+", f"ExecStart={PROGRAM}", unit)
    check_equal(n, 1, "one program")
    check_equal(verify("max-whisper.service", text), (0, ""), "systemd-analyze verify")
    status, said = verify("wrong.service", text.replace("DynamicUser=yes", "DynamicUser=perhaps"))
    check("perhaps" in said, "a wrong line would be seen", (status, said))


def test_credentials(unit):
    ours = set(re.findall(r"(?m)^LoadCredential=([\w.-]+)$", unit))
    check_equal(len(ours), 3, f"credentials of the unit: {ours}")
    page = read(ROOT, "docs", "server.md")
    for where, text in (("docs/server.md, /etc/default", set(re.findall(re.escape(CREDENTIALS) + r"([\w.-]+)", page))),
                        ("docs/server.md, /etc/credstore", set(re.findall(r"/etc/credstore/([\w.-]+)", page))),
                        ("docs/server.md, drop-in", set(re.findall(r"LoadCredential=([\w.-]+):/", page))),
                        ("docs/server.md, %d", set(re.findall(r"%d/([\w.-]+)", page)))):
        check_equal(text, ours, where)
    check(set(re.findall(re.escape(CREDENTIALS) + r"([\w.-]+)", unit)) <= ours, "the unit's own example")


def main():
    unit = read(sys.argv[3])
    test_verify(unit)
    test_credentials(unit)
    done()


main()
