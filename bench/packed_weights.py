#!/usr/bin/env python3
"""bench/packed_weights.py - memory and time of quantized checkpoints, whose weights stay in their codes.

    bench/packed_weights.py [--program build/max-whisper] [--type q5_0] [--runs 5] --model MODEL [--model ...] FILE

In: models in a float type, each converted here to ggml blocks of --type and, from those, to f32: the same values
widened. Both are run in turns on the recording, --before PROGRAM (another build) on the quantized one, too. Out: a
Markdown table: bytes of the file; what the program keeps of weights besides (its own log); the peak of resident
memory; the least seconds of processor time and of the clock; the ratio of times to those of the widened. Texts that
differ are an error: packed and widened give the same bits. Exit status 1 if the weights, the file's pages included,
take more than 1.25 times the file.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time

MOST = 1.25   # of the file's bytes


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("file")
    parser.add_argument("--program", default="build/max-whisper")
    parser.add_argument("--before", help="another build, on the same quantized file")
    parser.add_argument("--type", default="q5_0")
    parser.add_argument("--model", action="append", required=True)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("options", nargs="*", help="of transcribe, after --")
    return parser.parse_args()


def convert(program, model, out, *words):
    subprocess.run([program, "model", "convert", model, out, *words], check=True, capture_output=True)


def run(program, model, options, *words):
    """Text, log, seconds of the processor and of the clock, peak of resident bytes"""
    command = [program, "transcribe", options.file, "--model", model, "--engine", "max", "--device", "cpu",
               "--temperature", "0", "--format", "json", "--quiet", *options.options, *words]
    start = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        text, log = process.communicate() if words else (process.stdout.read(), b"")
        _, status, usage = (0, process.returncode, None) if words else os.wait4(process.pid, 0)
        process.returncode = status
    if status:
        sys.exit(f"{' '.join(command)}: exit {status}")
    seconds = time.monotonic() - start
    spent = (usage.ru_utime + usage.ru_stime, seconds, usage.ru_maxrss * 1024) if usage else None
    return text, log.decode(), spent


def kept(program, model, options):
    """Bytes of weights that the program keeps besides the file's"""
    log = run(program, model, options, "--log-level", "debug", "--log-format", "json")[1]
    messages = [json.loads(line)["message"] for line in log.splitlines() if line.startswith("{")]
    found = [m for m in (re.match(r"graph (\w+) keeps (\d+) bytes of weights", text) for text in messages) if m]
    if not {"encoder", "decoder"} <= {m[1] for m in found}:
        sys.exit(f"{program}: its log does not tell how many bytes of weights a graph keeps")
    return sum(int(m[2]) for m in found)


def measure(options, model, folder):
    name = os.path.basename(model.rstrip("/"))
    quantized, wide = os.path.join(folder, f"{name}.bin"), os.path.join(folder, name + "-f32")
    convert(options.program, model, quantized, "--format", "ggml", "--type", options.type)
    convert(options.program, quantized, wide, "--format", "safetensors", "--type", "f32")
    size, resident = os.path.getsize(quantized), kept(options.program, quantized, options)
    forms = [("packed", options.program, quantized), ("widened", options.program, wide)]
    if options.before:
        forms.append(("before", options.before, quantized))
    best, texts = {}, set()
    for _ in range(options.runs):
        for form, program, path in forms:
            text, _, spent = run(program, path, options)
            texts.add(text)
            best[form] = tuple(map(min, best[form], spent)) if form in best else spent
    if len(texts) > 1:
        sys.exit(f"{name}: {len(texts)} different texts")
    for form, _, _ in forms:
        cpu, clock, peak = best[form]
        weights = f"{(size + resident) / size:.2f}" if form == "packed" else ""
        print(f"| {name} {options.type}, {form} | {size / 1e6:.1f} | {resident / 1e6 if weights else 0:.1f} "
              f"| {weights} | {peak / 1e6:.0f} | {cpu:.2f} | {clock:.2f} | {cpu / best['widened'][0]:.2f} |",
              flush=True)
    return (size + resident) / size <= MOST


def main():
    options = arguments()
    print("| model | file, MB | kept besides, MB | weights : file | peak, MB | processor, s | clock, s | : widened |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        fits = [measure(options, model, folder) for model in options.model]
    return 0 if all(fits) else 1


if __name__ == "__main__":
    sys.exit(main())
