"""Cells in parallel processes, each with its share of the cores, or on a Dask cluster."""

import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pickle import PicklingError
from typing import Any

import numpy as np
import torch

from promask.errors import InputError, InputWarning
from promask.evaluation.cells import Cell, CellStore, Conditions, complete
from promask.problem import cluster
from promask.types import SampleSet

MOST_JOBS = 4
"""Processes unless more are asked for: each of them holds the data."""
OpenConditions = Callable[[], Conditions]
"""Reads the data; it must be possible to send it to another process."""


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_jobs() -> int:
    """One process per core, but not too many."""
    return min(cores(), MOST_JOBS)


def check_jobs(jobs: int) -> None:
    """At least one process, and not from a script that every process runs again."""
    if jobs < 1:
        raise InputError(f"The number of jobs must be at least 1, but is {jobs}.")
    if multiprocessing.parent_process() is not None and "__mp_main__" not in sys.modules:
        raise InputError("In a script, call compare below `if __name__ == '__main__':`, or with one job.")


def complete_in_processes(
    cells: Sequence[Cell], store: CellStore, conditions: Conditions, open_conditions: OpenConditions, jobs: int
) -> Generator[Cell, None, None]:
    """Complete all cells, and give each of them when it is done; other processes read the data themselves.

    If one of these dies, its work is done again by others, as long as anything gets done.
    """
    left = list(cells)
    while left:
        before = len(left)
        try:
            with closing(_attempt(left, store, conditions, open_conditions, jobs)) as done:
                for cell in done:
                    left = [other for other in left if other != cell]
                    yield cell
        except BrokenProcessPool as error:
            if len(left) == before:
                raise MemoryError(
                    "A process ended without a word: if memory ran out, try fewer `jobs` (what is done is kept); "
                    "in a script of your own, call compare below `if __name__ == '__main__':`."
                ) from error
            warnings.warn("A process ended without a word: its work is done again.", InputWarning, stacklevel=2)


def _attempt(
    cells: Sequence[Cell], store: CellStore, conditions: Conditions, open_conditions: OpenConditions, jobs: int
) -> Generator[Cell, None, None]:
    jobs = min(jobs, len(cells))
    if jobs <= 1:
        for cell in cells:
            store.complete(cell, conditions)
            yield cell
        return
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        jobs,
        mp_context=multiprocessing.get_context("spawn"),  # threads of PyTorch do not survive a fork
        initializer=_start_worker,
        initargs=(store, open_conditions, max(1, cores() // jobs)),
    )
    try:
        futures = _submit(pool, cells)
        for future in as_completed(futures):
            future.result()
            yield futures[future]
    except BaseException:  # an error, an interrupt, or nobody wants the rest
        pool.shutdown(wait=False, cancel_futures=True)
        _terminate(set(multiprocessing.active_children()) - before)
        raise
    finally:
        pool.shutdown()


def _submit(pool: ProcessPoolExecutor, cells: Sequence[Cell]) -> dict[Future[None], Cell]:
    try:
        with _interrupts_ignored():
            return {pool.submit(_complete_cell, cell): cell for cell in cells}
    except (AttributeError, TypeError, PicklingError) as error:
        raise InputError(f"These data cannot be sent to other processes: use one job ({error}).") from error


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Processes that are started here ignore the interrupt key: their parent ends them."""
    if threading.current_thread() is not threading.main_thread():  # only there can it be said
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


_state: dict[str, tuple[CellStore, Conditions]] = {}


def _start_worker(store: CellStore, open_conditions: OpenConditions, threads: int) -> None:
    torch.set_num_threads(threads)
    threading.Thread(target=_follow_parent, daemon=True).start()
    warnings.simplefilter("ignore")  # the parent has said what there is to say of the data
    _state["here"] = store, open_conditions()


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _complete_cell(cell: Cell) -> None:
    store, conditions = _state["here"]
    store.complete(cell, conditions)


def _terminate(children: Iterable[multiprocessing.process.BaseProcess]) -> None:
    for child in children:
        with suppress(ValueError):
            child.terminate()
            child.join()


ALIKE = 1e-3
"""How much the norms of images may differ, relative to them: machines of another kind round in another way."""


def complete_on_cluster(
    cells: Sequence[Cell],
    store: CellStore,
    conditions: Conditions,
    open_conditions: OpenConditions,
    scheduler: str,
) -> Generator[Cell, None, None]:
    """Complete all cells, and give each of them when it is done; workers read the data themselves."""
    results = [store.load(cell) for cell in cells]
    open_checked = CheckedConditions(open_conditions, fingerprints(conditions))
    with closing(cluster.map_unordered(scheduler, complete, results, open_checked)) as answers:
        for before, after in answers:
            store.save(after, with_mask=before.mask is None)
            yield after.cell


@dataclass(frozen=True)
class CheckedConditions:
    """Reads the data in a worker, and makes sure that they are those that were asked for."""

    open_conditions: OpenConditions
    wanted: Sequence[tuple[Any, Sequence[float]]]

    def __call__(self) -> Conditions:
        """The conditions, or an error."""
        conditions = self.open_conditions()
        for (form, norms), (wanted, wanted_norms) in zip(fingerprints(conditions), self.wanted, strict=True):
            if form != wanted or not np.allclose(norms, wanted_norms, rtol=ALIKE):
                raise InputError(
                    f"{conditions.learning.name} holds other images than on the machine that asks for them: let "
                    f"all of them read the same files."
                )
        return conditions


def fingerprints(conditions: Conditions) -> list[tuple[Any, list[float]]]:
    """By what both parts of the data are recognised: their form, and the norm of every image."""
    return [_fingerprint(part) for part in (conditions.learning, conditions.held_out)]


def _fingerprint(data: SampleSet) -> tuple[Any, list[float]]:
    numbers = {name: number for number, name in enumerate(dict.fromkeys(data.groups))}
    form = tuple(data.shape), [numbers[name] for name in data.groups], data.geometry
    return form, [float(torch.linalg.vector_norm(data[index].image)) for index in range(len(data))]
