"""How many images are worked on at a time: fewer if memory runs out; and which of them have a loss of NaN."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from promask.errors import InputWarning, count
from promask.problem.batches import SpectraSet
from promask.problem.objective import Differentiate, LossAndSlopes
from promask.problem.problem import Problem
from promask.types import Batch, Scalar, UnitDraws

OUT_OF_MEMORY = (
    "can't allocate memory",
    "out of memory",
    "bad_alloc",
    "memory allocation failed",
    "cannot allocate memory",
)
"""What PyTorch and the libraries below it say, in any case, when memory has run out."""
MOST_NAMED = 3
"""The most images that a message names."""


@dataclass(frozen=True)
class MicroBatches:
    """Differentiates the loss of a batch; images that do not fit into memory together are halved.

    The result of a step is the same: a sum over the images of a batch. Only fewer of them are in memory at a time.
    """

    problem: Problem
    differentiate: Differentiate
    halved: list[tuple[int, int]]
    """Steps in which memory ran out, and how many images were worked on at a time from then on; added to here."""

    def __call__(self, masks: UnitDraws, batch: Batch, step: int) -> Iterator[tuple[slice, Batch, LossAndSlopes]]:
        """The rows of each micro-batch, its images, and the loss with its derivatives."""
        done = 0
        while done < len(masks):
            at_a_time = self.halved[-1][1] if self.halved else len(masks)
            rows = slice(done, min(done + at_a_time, len(masks)))
            part = batch.part(rows)
            try:
                result = self._differentiate(masks[rows], part)
            except (MemoryError, RuntimeError) as error:
                fewer = (rows.stop - rows.start) // 2
                if not is_out_of_memory(error) or fewer == 0:
                    raise
                self.halved.append((step, fewer))
                warnings.warn(
                    f"Memory ran out at step {step}: from now on {count(fewer, 'image')} at a time.",
                    InputWarning,
                    stacklevel=2,
                )
                continue
            if not torch.isfinite(result.loss):
                raise FloatingPointError(self._name_images(result.loss, step, masks[rows], part))
            yield rows, part, result
            done = rows.stop

    def _differentiate(self, masks: UnitDraws, batch: Batch) -> LossAndSlopes:
        problem = self.problem
        weights = () if problem.finetuning is None else problem.finetuning.weights
        return self.differentiate(masks, batch, problem.pattern, problem.loss, problem.recon, weights)

    def _name_images(self, total: Scalar, step: int, masks: UnitDraws, batch: Batch) -> str:
        """Name the images whose loss is not finite by themselves, or else all of them."""
        assert batch.indices is not None
        places = batch.indices.tolist()
        alone = [slice(row, row + 1) for row in range(len(masks))]
        guilty = [
            place
            for place, row in zip(places, alone, strict=True)
            if not torch.isfinite(self._differentiate(masks[row], batch.part(row)).loss)
        ]
        return not_finite(float(total) / len(masks), step, guilty or places, self.problem.images)


@contextmanager
def explaining_memory(step: int) -> Iterator[None]:
    """Say in one sentence that there is not even enough memory for a single image."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise MemoryError(
            f"Memory ran out at step {step}, even with a single image at a time: take smaller images, fewer "
            f"coils, or a machine with more memory."
        ) from error


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that there is no more memory, of the machine or of a GPU."""
    text = str(error).lower()
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(sign in text for sign in OUT_OF_MEMORY)


def not_finite(loss: float, step: int, places: Sequence[int], samples: SpectraSet) -> str:
    """The sentence for a loss that is not finite at a step, with the names of the images in these places."""
    each = list(dict.fromkeys(places))
    names = ", ".join(samples.data[place].name for place in each[:MOST_NAMED])
    more = f" and {len(each) - MOST_NAMED} more" if len(each) > MOST_NAMED else ""
    where = f" in the batch of {names}{more}" if each else ""
    return f"The loss became {loss} at step {step}{where}: are the values of the images too large?"
