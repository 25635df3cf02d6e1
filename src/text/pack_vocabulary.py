#!/usr/bin/env python3
"""Packs the two .tiktoken files into one blob and an assembler file that carries it into the library.

Usage: pack_vocabulary.py GPT2.tiktoken MULTILINGUAL.tiktoken OUT.bin OUT.S

The blob, per vocabulary and all little endian: u32 n; u32 offset[n + 1] of each token's bytes; u16 slot[SLOTS], a hash
table of ids (NO_ID: empty; FNV-1a, linear probing); the bytes. Padded to 64. Any surprise in the files stops the build.
"""
import base64
import struct
import sys

SLOTS = 1 << 17
NO_ID = 0xFFFF


def read(path):
    tokens = []
    with open(path, encoding="ascii") as file:
        for number, line in enumerate(file):
            code, rank = line.split()
            if int(rank) != number:
                sys.exit(f"{path}:{number + 1}: rank {rank}, expected {number}")
            # A lone "=" is the empty token; base64 readers disagree about it.
            tokens.append(b"" if code == "=" else base64.b64decode(code, validate=True))
    if len(tokens) >= NO_ID:
        sys.exit(f"{path}: {len(tokens)} tokens do not fit 16-bit ids")
    if len(set(tokens)) != len(tokens):
        sys.exit(f"{path}: two tokens are the same")
    missing = [i for i in range(256) if bytes([i]) not in tokens[:256]]
    if missing:
        sys.exit(f"{path}: the first 256 tokens lack byte {missing[0]}")
    return tokens


def fnv(token):
    value = 0x811C9DC5
    for byte in token:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def pack(tokens):
    offsets = [0]
    slots = [NO_ID] * SLOTS
    for number, token in enumerate(tokens):
        offsets.append(offsets[-1] + len(token))
        at = fnv(token) % SLOTS
        while slots[at] != NO_ID:
            at = (at + 1) % SLOTS
        slots[at] = number
    blob = struct.pack("<I", len(tokens)) + struct.pack(f"<{len(offsets)}I", *offsets)
    blob += struct.pack(f"<{SLOTS}H", *slots) + b"".join(tokens)
    return blob + bytes(-len(blob) % 64)


def main():
    gpt2, multilingual, out_bin, out_s = sys.argv[1:]
    blobs = [("gpt2", pack(read(gpt2))), ("multilingual", pack(read(multilingual)))]
    with open(out_bin, "wb") as file:
        for _, blob in blobs:
            file.write(blob)
    with open(out_s, "w", encoding="utf-8") as file:
        file.write("/* Made by pack_vocabulary.py. */\n.section .rodata\n")
        at = 0
        for name, blob in blobs:
            symbol = f"mx_vocabulary_{name}_blob"
            file.write(f".balign 64\n.globl {symbol}\n.hidden {symbol}\n.type {symbol}, %object\n"
                       f".size {symbol}, {len(blob)}\n{symbol}:\n.incbin \"{out_bin}\", {at}, {len(blob)}\n")
            at += len(blob)
        file.write(".section .note.GNU-stack, \"\", %progbits\n")


main()
