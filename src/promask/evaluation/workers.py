"""Cells in parallel processes, each with its share of the cores.

Cells on a Dask cluster: its workers compute, and this process saves.
"""

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

from promask.cluster import dask as cluster
from promask.errors import InputError, InputWarning
from promask.evaluation.cells import Begun, Bench, Cell, Store, made, measured
from promask.types import SampleSet

MOST_JOBS = 4
"""Without a choice: every process holds the data."""
OpenBench = Callable[[], Bench]
"""Opens the data; it must be possible to send it to another process."""


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def usual_jobs() -> int:
    """One process per core, but not too many."""
    return min(cores(), MOST_JOBS)


def check_jobs(jobs: int) -> None:
    """At least one process, and not from a script that every process runs again."""
    if jobs < 1:
        raise InputError(f"The number of jobs must be at least 1, but is {jobs}.")
    if multiprocessing.parent_process() is not None and "__mp_main__" not in sys.modules:
        raise InputError("In a script, call compare below `if __name__ == '__main__':`, or with one job.")


def completed(
    cells: Sequence[Cell], store: Store, bench: Bench, open_bench: OpenBench, jobs: int
) -> Generator[Cell, None, None]:
    """Complete all cells, and give each of them when it is done; other processes open the data themselves.

    If one of these dies, what it was at is done again by others, as long as anything gets done.
    """
    left = list(cells)
    while left:
        before = len(left)
        try:
            with closing(_attempted(left, store, bench, open_bench, jobs)) as done:
                for cell in done:
                    left = [other for other in left if other != cell]
                    yield cell
        except BrokenProcessPool as error:
            if len(left) == before:
                raise MemoryError(
                    "A process ended without a word: if memory ran out, try fewer --jobs (what is done is kept); "
                    "in a script of your own, call compare below `if __name__ == '__main__':`."
                ) from error
            warnings.warn("A process ended without a word: its work is done again.", InputWarning, stacklevel=2)


def _attempted(
    cells: Sequence[Cell], store: Store, bench: Bench, open_bench: OpenBench, jobs: int
) -> Generator[Cell, None, None]:
    jobs = min(jobs, len(cells))
    if jobs <= 1:
        for cell in cells:
            store.complete(cell, bench)
            yield cell
        return
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        jobs,
        mp_context=multiprocessing.get_context("spawn"),  # threads of PyTorch do not survive a fork
        initializer=_begin,
        initargs=(store, open_bench, max(1, cores() // jobs)),
    )
    try:
        futures = _submitted(pool, cells)
        for future in as_completed(futures):
            future.result()
            yield futures[future]
    except BaseException:  # an error, an interrupt, or nobody wants the rest
        pool.shutdown(wait=False, cancel_futures=True)
        _end(set(multiprocessing.active_children()) - before)
        raise
    finally:
        pool.shutdown()


def _submitted(pool: ProcessPoolExecutor, cells: Sequence[Cell]) -> dict[Future[None], Cell]:
    try:
        with _deaf_to_interrupts():
            return {pool.submit(_complete, cell): cell for cell in cells}
    except (AttributeError, TypeError, PicklingError) as error:
        raise InputError(f"These data cannot be sent to other processes: use one job ({error}).") from error


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Processes that are started here do not hear the interrupt key: it is their parent who ends them."""
    if threading.current_thread() is not threading.main_thread():  # only there can it be said
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


_state: dict[str, tuple[Store, Bench]] = {}


def _begin(store: Store, open_bench: OpenBench, threads: int) -> None:
    torch.set_num_threads(threads)
    threading.Thread(target=_follow_parent, daemon=True).start()
    warnings.simplefilter("ignore")  # the parent has said what there is to say of the data
    _state["here"] = store, open_bench()


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _complete(cell: Cell) -> None:
    store, bench = _state["here"]
    store.complete(cell, bench)


def _end(children: Iterable[multiprocessing.process.BaseProcess]) -> None:
    for child in children:
        with suppress(ValueError):
            child.terminate()
            child.join()


ALIKE = 1e-3
"""How much the norms of images may differ, relative to them: machines of another kind round in another way."""


def completed_on_cluster(
    cells: Sequence[Cell], store: Store, bench: Bench, open_bench: OpenBench, scheduler: str
) -> Generator[Cell, None, None]:
    """Complete all cells, and give each of them when it is done; workers open the data themselves."""
    begun = [store.begun(cell) for cell in cells]
    opening = SameBench(open_bench, described(bench))
    with closing(cluster.map_unordered(scheduler, finished, begun, opening)) as answers:
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
