"""Cells on a Dask cluster: its workers compute, and this process saves."""

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from promask import cluster
from promask.errors import InputError
from promask.experiments.cells import Begun, Bench, Cell, Store, made, measured
from promask.experiments.workers import OpenBench
from promask.types import SampleSet

ALIKE = 1e-3
"""How much the norms of images may differ, relative to them: machines of another kind round in another way."""


def completed(
    cells: Sequence[Cell], store: Store, bench: Bench, open_bench: OpenBench, scheduler: str
) -> Generator[Cell, None, None]:
    """Complete all cells, and give each of them when it is done; workers open the data themselves."""
    begun = [store.begun(cell) for cell in cells]
    opening = SameBench(open_bench, described(bench))
    with closing(cluster.completed(scheduler, finished, begun, opening)) as answers:
        for before, after in answers:
            store.save(after, with_mask=before.mask is None)
            yield after.cell


def finished(bench: Bench, begun: Begun) -> Begun:
    """What is left to do of a cell, in a worker."""
    with_mask = made(begun.cell, bench) if begun.mask is None else begun
    return with_mask if with_mask.is_measured(bench) else measured(with_mask, bench)


@dataclass(frozen=True)
class SameBench:
    """Opens the data in a worker, and makes sure that they are those that were asked for."""

    open_bench: OpenBench
    description: Sequence[tuple[Any, Sequence[float]]]

    def __call__(self) -> Bench:
        """The data, or a sentence."""
        bench = self.open_bench()
        for (form, norms), (wanted, wanted_norms) in zip(described(bench), self.description, strict=True):
            if form != wanted or not np.allclose(norms, wanted_norms, rtol=ALIKE):
                raise InputError(
                    f"{bench.learning.name} holds other images than on the machine that asks for them: let all of "
                    f"them read the same files."
                )
        return bench


def described(bench: Bench) -> list[tuple[Any, list[float]]]:
    """By what both parts of the data are known again: their form, and the norm of every image."""
    return [_described(part) for part in (bench.learning, bench.held_out)]


def _described(data: SampleSet) -> tuple[Any, list[float]]:
    numbers = {name: number for number, name in enumerate(dict.fromkeys(data.groups))}
    form = tuple(data.shape), [numbers[name] for name in data.groups], data.geometry
    return form, [float(torch.linalg.vector_norm(data[index].image)) for index in range(len(data))]
