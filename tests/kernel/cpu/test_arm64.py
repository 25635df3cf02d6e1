"""test_arm64.py BUILD - the kernels of 64-bit ARM, built with Debian's cross compiler and run under qemu.

In: the source tree ($MXW_SOURCE_ROOT) and a folder to build in; objects stay there, and only what changed is compiled
again. Out: what kcheck and the tests of compiled ops print; exit 77 after a line that begins with SKIP where compiler,
C library or qemu are missing.
Invariants: the same sources as everywhere else, no flag but the ones of the build, no processor of that kind needed.
"""
import concurrent.futures
import glob
import os
import shutil
import subprocess
import sys
import time

CC = "aarch64-linux-gnu-gcc"
QEMU = ("qemu-aarch64", "qemu-aarch64-static")
FLAGS = ["-std=c11", "-O2", "-D_GNU_SOURCE", '-DMXW_VERSION="arm64"', "-ffp-contract=off", "-fno-math-errno",
         "-fno-trapping-math", "-Iinclude", "-Isrc", "-Itests", "-pthread"]
DOT = ["-march=armv8.2-a+dotprod"]   # of what is compiled once more; qemu's processor has it
OTHER = {"isa_x86.c", "isa_any.c"}
# Program, its files, its arguments: few shapes, for an emulator is slow.
PROGRAMS = [
    ("kcheck", ["kcheck.c", "check_*.c", "bench*.c", "peak.c", "libraries.c"], []),
    ("test_gemm", ["test_gemm.c"], ["10"]),
    ("test_w8a8", ["test_w8a8.c"], ["20"]),
    ("test_attention", ["test_attention.c"], ["5"]),
    ("test_logits_select", ["test_logits_select.c"], ["60"]),
]


def skip(why):
    print("SKIP: arm64: " + why)
    sys.exit(77)


def library_sources():
    """What the kernels and the CPU device need: no checkpoints, so neither zlib nor jansson."""
    patterns = ["src/base/*.c", "src/tensor/*.c", "src/op/*.c", "src/device/*.c", "src/device/cpu/*.c",
                "src/device/cpu/gemm/*.c", "src/device/cpu/attention/*.c", "src/device/cpu/logits/*.c",
                "src/device/cpu/ref/*.c", "src/device/cpu/simd/*.c", "src/device/cpu/neon/*.c"]
    found = [path for pattern in patterns for path in sorted(glob.glob(pattern))]
    return [path for path in found if os.path.basename(path) not in OTHER]


def up_to_date(target, depfile):
    try:
        made = os.path.getmtime(target)
        with open(depfile, encoding="utf-8") as stream:
            needs = stream.read().replace("\\\n", " ").split(":", 1)[1].split()
        return all(os.path.getmtime(path) <= made for path in needs)
    except (OSError, IndexError):
        return False


def compile_one(source, folder, isa="mx_neon_", flags=()):
    target = os.path.join(folder, isa + source.replace("/", "_") + ".o")
    depfile = target + ".d"
    if not up_to_date(target, depfile):
        extra = ["-DMX_FAST_ISA=" + isa, *flags] if "/neon/" in source or "/simd/" in source else []
        subprocess.run([CC, *FLAGS, *extra, "-MMD", "-MF", depfile, "-c", source, "-o", target], check=True)
    return target


def main():
    folder = os.path.join(os.path.abspath(sys.argv[1]), "arm64")
    os.chdir(os.environ["MXW_SOURCE_ROOT"])
    qemu = next((found for found in map(shutil.which, QEMU) if found), None)
    if not shutil.which(CC):
        skip("no %s (Debian package gcc-aarch64-linux-gnu)" % CC)
    if not qemu:
        skip("no qemu-aarch64 (Debian package qemu-user)")
    os.makedirs(folder, exist_ok=True)
    probe = subprocess.run([CC, "-static", "-x", "c", "-", "-o", os.path.join(folder, "probe")], text=True,
                           input="#include <stdio.h>\nint main(void) { return puts(\"\") < 0; }", capture_output=True,
                           check=False)
    if probe.returncode:
        skip("no C library for it (Debian package libc6-dev-arm64-cross)")
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        def objects(sources):
            return list(pool.map(lambda source: compile_one(source, folder), sources))
        library = objects(source for source in library_sources() if not source.endswith("table_dot.c"))
        library += [compile_one("src/device/cpu/neon/" + name, folder, "mx_neondot_", DOT)
                    for name in ("w8a8.c", "table_dot.c")]
        for name, patterns, arguments in PROGRAMS:
            sources = [path for pattern in patterns for path in sorted(glob.glob("tests/kernel/cpu/" + pattern))]
            program = os.path.join(folder, name)
            subprocess.run([CC, "-static", "-w", "-o", program, *objects(sources), *library, "-lm", "-ldl", "-pthread"],
                           check=True, stderr=subprocess.DEVNULL)
            start = time.monotonic()
            code = subprocess.run([qemu, program, *arguments], check=False).returncode
            print("%s: %s, %.1f s" % (name, "exit %d" % code if code else "passed", time.monotonic() - start))
            sys.stdout.flush()
            failed += code != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
