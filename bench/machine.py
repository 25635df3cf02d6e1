"""bench/machine.py - what a figure was measured on, in words: processor, instruction sets, cores, memory, system, load.

Invariants: nothing that names the machine or its user.
"""
import os
import platform
import re

SHOWN_FLAGS = "avx2 fma f16c avx512f avx512_vnni avx512_bf16 avx512_fp16 amx_tile asimd sve".split()


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def field(text, name):
    found = re.search(rf"^{name}\s*:\s*(.*)$", text, re.MULTILINE)
    return found.group(1).strip() if found else ""


def describe():
    cpu = read("/proc/cpuinfo")
    flags = set((field(cpu, "flags") or field(cpu, "Features")).split())
    memory = field(read("/proc/meminfo"), "MemTotal").split()
    return {
        "cpu": field(cpu, "model name") or platform.machine(),
        "flags": [flag for flag in SHOWN_FLAGS if flag in flags],
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(int(memory[0]) / (1 << 20), 1) if memory else None,
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
    }


def load():
    return round(os.getloadavg()[0], 2)
