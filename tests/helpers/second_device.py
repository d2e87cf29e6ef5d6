"""A second device for machines that have none: its tensors hold their numbers in memory, but mix with no others.

As on a GPU, an operation on tensors of both devices is an error, unless it moves one of them, and NumPy sees only
those of the CPU. It is called `lazy`, a name that PyTorch knows and whose backward pass needs no other thread.
"""

from contextlib import contextmanager

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

NAME = "lazy"
MOVES = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
INDEXES = (torch.ops.aten.index.Tensor, torch.ops.aten.index_put_.default, torch.ops.aten.index_put.default)
"""Whose indices may be on the CPU."""
AT_ONCE = {
    torch.ops.aten._conj.default: torch.ops.aten._conj_physical.default,
    torch.ops.aten._neg_view.default: torch.ops.aten.neg.default,
}
"""What PyTorch puts off by a mark on the tensor, which would be lost here."""


class There(torch.Tensor):
    """A tensor on the second device."""

    @staticmethod
    def __new__(cls, numbers):
        about = {"strides": numbers.stride(), "storage_offset": numbers.storage_offset(), "dtype": numbers.dtype}
        return torch.Tensor._make_wrapper_subclass(cls, numbers.size(), device=torch.device(NAME, 0), **about)

    def __init__(self, numbers):
        self.numbers = numbers

    def tolist(self):
        return self.numbers.tolist()

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), keywords=None):
        return compute(function, arguments, keywords or {})


def compute(function, arguments, keywords):
    """What PyTorch does, on the device of the tensors, or on the one that is asked for."""
    tensors = [each for each in tree_leaves((arguments, keywords)) if isinstance(each, torch.Tensor)]
    there = [each for each in tensors if isinstance(each, There)]
    mixed = bool(there) and any(each.ndim and not isinstance(each, There) for each in tensors)
    indexed = function in INDEXES and isinstance(arguments[0], There)
    if mixed and not indexed and function not in MOVES:
        raise RuntimeError(f"Expected all tensors to be on the same device, in {function}.")
    wanted = keywords.get("device")
    is_there = bool(there) if wanted is None else torch.device(wanted).type == NAME
    if wanted is not None:
        keywords = {**keywords, "device": torch.device("cpu")}
    plain = tree_map(lambda each: each.numbers if isinstance(each, There) else each, (arguments, keywords))
    result = AT_ONCE.get(function, function)(*plain[0], **plain[1])
    if function is torch.ops.aten.copy_.default:
        return arguments[0]
    same = {id(each.numbers): each for each in there}

    def wrapped(each):
        if not (is_there and isinstance(each, torch.Tensor)):
            return each
        return same[id(each)] if id(each) in same else There(each)

    return tree_map(wrapped, result)


class SecondDevice(TorchDispatchMode):
    """While it is entered, there is a second device; `done` are the operations on it."""

    def __init__(self):
        super().__init__()
        self.done = set()

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        result = compute(function, arguments, keywords or {})
        if any(isinstance(each, There) for each in tree_leaves(result)):
            self.done.add(function.overloadpacket.__name__)
        return result


class OneKind(torch.Generator):
    """Random numbers for any device."""

    def __new__(cls, device="cpu"):
        return super().__new__(cls)


@contextmanager
def second_device():
    """The second device, and that it was used for Fourier transforms or convolutions."""
    with SecondDevice() as device, pytest.MonkeyPatch.context() as patch:
        tensor = torch.tensor
        patch.setattr(torch, "Generator", OneKind)
        patch.setattr(torch, "tensor", lambda *words, device="cpu", **more: tensor(*words, **more).to(device))
        yield device
    assert device.done & {"_fft_c2c", "_fft_r2c", "convolution"}, f"nothing was computed there: {device.done}"
