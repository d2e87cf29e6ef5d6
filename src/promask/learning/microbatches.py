"""Images that are worked on at a time: fewer if memory runs out, and named if their loss is no number."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from promask.errors import InputWarning, count
from promask.learning.history import History
from promask.losses.base import Loss
from promask.problem.batches import Samples
from promask.problem.objective import Backpropagated, Differentiate
from promask.sampling.pattern import Pattern
from promask.types import Batch, Scalar, UnitDraws

SIGNS = (
    "can't allocate memory",
    "out of memory",
    "bad_alloc",
    "memory allocation failed",
    "cannot allocate memory",
)
"""What PyTorch and the libraries below it say, in any case, when memory has run out."""
NAMED = 3
"""The most images that are named."""


@dataclass(frozen=True)
class InParts:
    """Differentiates the loss of images; those that do not fit into memory together, in halves.

    What a step comes to is the same: sums over the images of a batch. Only fewer of them are in memory at a time.
    """

    differentiate: Differentiate
    samples: Samples
    """Those that the batches are of."""
    pattern: Pattern
    task: Loss
    weights: Sequence[Tensor] = ()

    def __call__(
        self, masks: UnitDraws, batch: Batch, history: History, step: int
    ) -> Iterator[tuple[slice, Batch, Backpropagated]]:
        """The rows of each part, the part, and what came of it; halving is noted in the history."""
        done = 0
        while done < len(masks):
            at_a_time = history.halved[-1][1] if history.halved else len(masks)
            rows = slice(done, min(done + at_a_time, len(masks)))
            part = batch.part(rows)
            try:
                result = self.of(masks[rows], part)
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
                fewer = (rows.stop - rows.start) // 2
                if fewer == 0:
                    raise
                history.halved.append((step, fewer))
                warnings.warn(
                    f"Memory ran out at step {step}: from now on {count(fewer, 'image')} at a time.",
                    InputWarning,
                    stacklevel=2,
                )
                continue
            if not torch.isfinite(result.loss):
                raise FloatingPointError(self._blame(result.loss, step, masks[rows], part))
            yield rows, part, result
            done = rows.stop

    def of(self, masks: UnitDraws, batch: Batch) -> Backpropagated:
        """The loss of images with their masks, and its derivatives."""
        return self.differentiate(masks, batch, self.pattern, self.task, self.samples.recon, self.weights)

    def _blame(self, total: Scalar, step: int, masks: UnitDraws, batch: Batch) -> str:
        """Name those images whose loss is no number by themselves, or else all of them."""
        assert batch.indices is not None
        places = batch.indices.tolist()
        alone = [slice(row, row + 1) for row in range(len(masks))]
        guilty = [
            place
            for place, row in zip(places, alone, strict=True)
            if not torch.isfinite(self.of(masks[row], batch.part(row)).loss)
        ]
        return said_of(float(total) / len(masks), step, guilty or places, self.samples)


@contextmanager
def telling_of_memory(step: int) -> Iterator[None]:
    """That there is not even enough for a single image, as one sentence."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise MemoryError(
            f"Memory ran out at step {step}, however few images are worked on at a time: take smaller images, "
            f"fewer coils, or a machine with more memory."
        ) from error


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that there is no more memory, of the machine or of a GPU."""
    text = str(error).lower()
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(sign in text for sign in SIGNS)


def said_of(loss: float, step: int, places: Sequence[int], samples: Samples) -> str:
    """The sentence for a loss that is not finite at a step, with the names of the images in these places."""
    each = list(dict.fromkeys(places))
    names = ", ".join(samples.data[place].name for place in each[:NAMED])
    more = f" and {len(each) - NAMED} more" if len(each) > NAMED else ""
    where = f" in the batch of {names}{more}" if each else ""
    return f"The loss became {loss} at step {step}{where}: are the values of the images too large?"
