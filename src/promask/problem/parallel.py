"""Processes that learn one mask together: who is who, and sums over all of them.

`torchrun --nproc-per-node 2 -m promask learn ...` starts the same command several times. Every process works on
its share of each batch, with the masks that a single process would draw for it. Then the sums over the images are
added over the processes (all-reduce), so that all of them come to the same probabilities: within rounding, those
that a single process finds.
"""

import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as processes

from promask.errors import LostProcessError

TIMEOUT = timedelta(hours=2)
"""How long a process waits for another, which may be reading data. One that died is noticed at once."""


@dataclass(frozen=True)
class Group:
    """The processes that work together, and which of them this one is. A process alone is a group of one.

    >>> Group(rank=1, size=2).share(5)
    slice(2, 5, None)
    """

    rank: int = 0
    size: int = 1
    device: str = "cpu"
    """Where what they tell each other must lie."""

    @property
    def leads(self) -> bool:
        """Whether this is the one that writes."""
        return self.rank == 0

    def share(self, count: int) -> slice:
        """The part of so many items that falls to this process."""
        return slice(self.rank * count // self.size, (self.rank + 1) * count // self.size)

    def sum(self, *tensors: torch.Tensor) -> None:
        """Replace each tensor by its sum over the processes, the same bits in all of them."""
        if self.size == 1:
            return
        message = torch.cat([tensor.flatten() for tensor in tensors]).to(self.device)
        with _noticing_lost_processes():
            _finish(processes.all_reduce(message, async_op=True))
        for tensor, values in zip(tensors, message.split([each.numel() for each in tensors]), strict=True):
            tensor.copy_(values.reshape(tensor.shape))

    def gather(self, content: bytes) -> list[bytes]:
        """What each process has to say, in their order."""
        if self.size == 1:
            return [content]
        lengths = torch.zeros(self.size, dtype=torch.int64)
        lengths[self.rank] = len(content)
        self.sum(lengths)
        mine = torch.zeros(int(lengths.max()), dtype=torch.uint8)
        mine[: len(content)] = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        mine = mine.to(self.device)
        found = [torch.empty_like(mine) for _ in range(self.size)]
        with _noticing_lost_processes():
            _finish(processes.all_gather(found, mine, async_op=True))
        return [
            each[:length].cpu().numpy().tobytes() for each, length in zip(found, lengths.tolist(), strict=True)
        ]

    def broadcast(self, content: bytes) -> bytes:
        """What the first process has to say, for all."""
        return self.gather(content if self.leads else b" ")[0]

    @contextmanager
    def first_before_others(self) -> Iterator[None]:
        """The first process does something, then the others: what it found or made is there for them."""
        if not self.leads:
            self._wait()
        yield
        if self.leads:
            self._wait()

    def _wait(self) -> None:
        self.sum(torch.zeros(1))


ALONE = Group()

_FINISHED: deque[processes.Work] = deque(maxlen=8)
"""The last messages. Each is worked on by a thread of the group, which lets go of it a little after it is
finished: a thread that were the last to do so would bring the process down while the interpreter ends."""


def _finish(work: processes.Work) -> None:
    work.wait()
    _FINISHED.append(work)


@contextmanager
def _noticing_lost_processes() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise LostProcessError(
            "Another process of the group has ended: start all of them again with `resume` to go on from a "
            "checkpoint."
        ) from error


@contextmanager
def joined(device: str = "cpu") -> Iterator[Group]:
    """The group that torchrun started this process in, by its environment; without one, a group of one."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1 or "RANK" not in os.environ:
        yield ALONE
        return
    from torch.distributed.distributed_c10d import PrefixStore  # not every build has them
    from torch.distributed.rendezvous import rendezvous

    where = own_device(device)
    on_gpu = where.startswith("cuda")
    store, rank, size = next(rendezvous("env://", timeout=TIMEOUT))
    # torchrun keeps the store when it starts processes again: they must not find the addresses of the dead.
    store = PrefixStore(f"promask/{_attempt()}", store)
    processes.init_process_group(
        "nccl" if on_gpu else "gloo", timeout=TIMEOUT, store=store, rank=rank, world_size=size
    )
    try:
        yield Group(rank, size, where if on_gpu else "cpu")
    finally:
        processes.destroy_process_group()


def own_device(name: str) -> str:
    """The device of this process: where torchrun started several on a machine, each has a GPU of its own."""
    return f"cuda:{os.environ['LOCAL_RANK']}" if name == "cuda" and "LOCAL_RANK" in os.environ else name


def restarted() -> bool:
    """Whether torchrun starts the processes again because one of them died."""
    return _attempt() != "0"


def _attempt() -> str:
    return os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
