"""A state of learning as bytes that say what they are and whether they are whole; nothing in them is executed.

A state is made of dicts with texts as keys, lists, numbers, texts, None and tensors. The bytes are those of a
.safetensors file: its metadata hold the rest as JSON, the version of this layout, and a checksum of everything.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

FORMAT = "promask.state.1"
"""The name of the layout, with its version."""
TENSOR = "$tensor"
"""Stands in JSON where a tensor belongs, with its name."""


class DamagedStateError(ValueError):
    """Bytes that are no state, or no longer one."""


class OtherFormatError(ValueError):
    """A state that another version of promask wrote."""


def packed(state: Mapping[str, Any]) -> bytes:
    """The state as bytes.

    >>> unpacked(packed({"step": 3, "theta": torch.tensor([0.5, 1.0])}))
    {'step': 3, 'theta': tensor([0.5000, 1.0000])}
    """
    tensors: dict[str, torch.Tensor] = {}
    text = json.dumps(_outlined(state, tensors))
    return save(tensors, {"format": FORMAT, "state": text, "sha256": checksum(text, tensors)})


def unpacked(content: bytes) -> dict[str, Any]:
    """The state that bytes hold, after their checksum was found to be right."""
    try:
        length = int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8 : 8 + length])["__metadata__"]
        if metadata["format"] != FORMAT:
            raise OtherFormatError(metadata["format"])
        tensors = load(content)
        text = metadata["state"]
        if metadata["sha256"] != checksum(text, tensors):
            raise DamagedStateError("The checksum is wrong.")
        state = _filled_in(json.loads(text), tensors)
    except (OtherFormatError, DamagedStateError):
        raise
    except (SafetensorError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedStateError(str(error)) from error
    if not isinstance(state, dict):
        raise DamagedStateError("It is no state.")
    return state


def _outlined(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    """What JSON can hold, with the names of tensors in their places; the tensors are collected."""
    if isinstance(value, torch.Tensor):
        name = str(len(tensors))
        tensors[name] = value.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        return {TENSOR: name}
    if isinstance(value, Mapping):
        return {name: _outlined(each, tensors) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_outlined(each, tensors) for each in value]
    return value


def _filled_in(value: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    if isinstance(value, dict):
        if TENSOR in value:
            return tensors[value[TENSOR]]
        return {name: _filled_in(each, tensors) for name, each in value.items()}
    return [_filled_in(each, tensors) for each in value] if isinstance(value, list) else value


def checksum(text: str, tensors: Mapping[str, torch.Tensor]) -> str:
    """Of all that a state holds."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)} ".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
