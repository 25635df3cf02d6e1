"""tools/lib/venvlib.py - private Python environments, made once.

In: a folder, what pip is asked for, and what a package that is compiled here is told. Out: the interpreter that has it.
Invariants: nothing is installed outside of that folder; what is there already is used as it is; one that was made by
half, from other packages or with other variables is made again.
"""
import os
import shutil
import subprocess
import sys


def environment(place, wanted, before=lambda: None, variables=None):
    """(path of the interpreter, None) or (None, why not). before() is called if it has to be made; variables are those
    of pip's own environment."""
    variables = variables or {}
    python = interpreter(place, wanted, variables)
    if python:
        return python, None
    before()
    python = os.path.join(place, "bin", "python")
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(os.path.dirname(place), exist_ok=True)
    for command in ([sys.executable, "-m", "venv", place],
                    [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted]):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                              env=dict(os.environ, **variables))
        if done.returncode:
            return None, f"cannot be installed: {last_line(done.stdout)}"
    with open(os.path.join(place, "installed.txt"), "w", encoding="ascii") as stream:
        stream.write(stamp(wanted, variables))
    return python, None


def stamp(wanted, variables):
    return "\n".join([*wanted, *(f"{name}={value}" for name, value in variables.items())])


def interpreter(place, wanted, variables=None):
    """The interpreter of an environment that is there and complete, or None"""
    try:
        with open(os.path.join(place, "installed.txt"), encoding="ascii") as stream:
            return os.path.join(place, "bin", "python") if stream.read() == stamp(wanted, variables or {}) \
                else None
    except OSError:
        return None


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"
