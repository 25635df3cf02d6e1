"""tests/cli/weights/test_convert_memory.py PROGRAM MAKE_CHECKPOINT - `model convert` keeps one tensor at a time.

Its peak is that of its largest tensor in f32, the pages of the file that hold it, and what every process takes: far
below the whole model in f32, and below one tensor beside the whole file. A deflated .npz, which is unpacked as a whole
when it is opened, takes its arrays besides, and its pages while it is.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from clitest import PROGRAM, check, check_equal, done

FOLDER = tempfile.mkdtemp()
EMBEDDING = 51865 * 512         # elements: of base, its largest tensor
WHOLE = 72593920                # elements of base
REST = 24 << 20                 # bytes: program, libraries, the vocabulary, buffers


def peak(source, out, *words):
    """Bytes that were resident at most"""
    path = os.path.join(FOLDER, out)
    plain = dict(os.environ, MALLOC_PERTURB_="0")   # meson lets malloc write to all that it gives out
    with open(os.path.join(FOLDER, "log"), "w+", encoding="utf-8") as log:
        process = subprocess.Popen([PROGRAM, "model", "convert", source, path, *words], stdout=log, stderr=log,
                                   env=plain)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        log.seek(0)
        check_equal(process.returncode, 0, f"model convert {words}: {log.read()}")
    return usage.ru_maxrss * 1024


def expect(source, out, stored, *words):
    """stored: bytes of an element in the source"""
    return at_most(EMBEDDING * (4 + stored) + REST, source, out, *words)


def at_most(most, source, out, *words):
    got = peak(source, out, *words)
    check(got < most, f"{words}: at most {most / 1e6:.0f} MB", f"{got / 1e6:.0f} MB")
    return os.path.join(FOLDER, out)


def main():
    source = os.path.join(FOLDER, "base.pt")
    made = subprocess.run([sys.argv[2], "pt", "f16", source, "base", "6", "3"], capture_output=True, text=True,
                          check=False)
    check(made.returncode == 0, "make_checkpoint", made.stdout + made.stderr)
    check(EMBEDDING * 6 + REST < min(EMBEDDING * 4 + os.path.getsize(source), WHOLE * 4), "the bound tells them apart")
    packed = expect(source, "q8_0.bin", 2, "--format", "ggml", "--type", "q8_0")
    expect(packed, "f32.gguf", 34 / 32, "--format", "gguf", "--type", "f32")
    expect(source, "ct2", 2, "--format", "ct2", "--type", "int8")
    expect(source, "safetensors", 2, "--format", "safetensors", "--type", "f32")
    arrays = expect(source, "f16.npz", 2, "--format", "npz", "--type", "f16")
    deflated = os.path.join(FOLDER, "deflated.npz")
    with zipfile.ZipFile(arrays) as stored, zipfile.ZipFile(deflated, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as to:
        for name in stored.namelist():
            to.writestr(name, stored.read(name))
    at_most(WHOLE * 2 + max(os.path.getsize(deflated), EMBEDDING * 4) + REST, deflated, "again.npz", "--format", "npz",
            "--type", "f32")
    shutil.rmtree(FOLDER)
    done()


if __name__ == "__main__":
    main()
