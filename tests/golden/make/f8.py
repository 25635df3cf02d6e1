#!/usr/bin/env python3
"""f8.py - the 256 values of torch.float8_e4m3fn as f32, as tests/golden/data/f8.jsonl.

    python3 tests/golden/make/f8.py > tests/golden/data/f8.jsonl

Run it where torch is installed (BSD). Bytes of the values in hexadecimal; NaN is written as the quiet one."""
import json

import torch

codes = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float()
print(json.dumps({"f32": codes.numpy().tobytes().hex()}))
