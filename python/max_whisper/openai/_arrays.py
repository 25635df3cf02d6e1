"""max_whisper/openai/_arrays.py - arrays where openai-whisper has torch's tensors.

In a program that has imported torch, what the reference gives as a tensor is one. In any other it is an Array: numpy's,
with the methods of a tensor that such programs call on the way from one function to the next, so that
`log_mel_spectrogram(audio).to(model.device)` is no reason to install torch.
"""
from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt


class Array(np.ndarray):
    """numpy's array with a few methods of torch's tensor. It lies in the memory of the host, whatever the device."""

    def to(self, *to: Any, **named: Any) -> Array:
        """Devices change nothing; a dtype of numpy is taken."""
        for item in (*to, *named.values()):
            if isinstance(item, (np.dtype, type)):
                return self.astype(item).view(Array)
        return self

    def cpu(self) -> Array:
        return self

    def cuda(self, *device: Any) -> Array:
        return self

    def detach(self) -> Array:
        return self

    def contiguous(self) -> Array:
        return np.ascontiguousarray(self).view(Array)

    def float(self) -> Array:
        return self.astype(np.float32).view(Array)

    def half(self) -> Array:
        return self.astype(np.float16).view(Array)

    def numpy(self) -> npt.NDArray[Any]:
        return self.view(np.ndarray)

    def unsqueeze(self, dim: int) -> Array:
        return np.expand_dims(self, dim).view(Array)


def torch_in_use() -> Any:
    """torch, if the program has imported it; None otherwise. It is never imported for the sake of asking."""
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "from_numpy") else None


def is_tensor(value: Any) -> bool:
    torch = torch_in_use()
    return torch is not None and isinstance(value, torch.Tensor)


def tensor(array: npt.NDArray[Any], device: Any = None) -> Any:
    """A tensor of torch's in a program that uses torch, else an Array."""
    torch = torch_in_use()
    if torch is None:
        return np.asarray(array).view(Array)
    made = torch.from_numpy(np.ascontiguousarray(array))
    return made if device is None else made.to(device)


def float_array(value: Any) -> npt.NDArray[np.float32]:
    """float32 in memory, from a tensor on any device, an array or a list; not copied where it is that already."""
    if is_tensor(value):
        value = value.detach().cpu().numpy()
    return np.ascontiguousarray(np.asarray(value).view(np.ndarray), dtype=np.float32)


def device_of(name: str) -> Any:
    """The name of a device as what the program knows: torch.device, or the name itself."""
    torch = torch_in_use()
    return name if torch is None else torch.device(name)
