"""Reading ahead: what an iterator gives is made by a thread while the caller works on what came before."""

import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from typing import TypeVar

Item = TypeVar("Item")

PATIENCE = 0.1
"""Seconds after which a thread that cannot hand over looks whether anyone still wants what it made."""


def ahead(
    items: Iterator[Item], depth: int, waited: Callable[[float], None] = lambda seconds: None
) -> Generator[Item, None, None]:
    """The same items, up to `depth` of them made in advance; `waited` is told how long each was waited for.

    >>> list(ahead(iter([1, 2, 3]), depth=2))
    [1, 2, 3]

    What goes wrong in the thread is raised here. The thread ends with the items, or when the result is closed.
    """
    # An item, what went wrong, or the end.
    made: queue.Queue[tuple[Item] | BaseException | None] = queue.Queue(depth)
    closed = threading.Event()

    def hand_over(what: tuple[Item] | BaseException | None) -> None:
        handed_over = False
        while not (handed_over or closed.is_set()):
            with suppress(queue.Full):
                made.put(what, timeout=PATIENCE)
                handed_over = True

    def make() -> None:
        try:
            for item in items:
                hand_over((item,))
                if closed.is_set():
                    return
            hand_over(None)
        except BaseException as error:
            hand_over(error)

    thread = threading.Thread(target=make, daemon=True)
    thread.start()
    try:
        while True:
            began = time.perf_counter()
            what = made.get()
            waited(time.perf_counter() - began)
            if isinstance(what, BaseException):
                raise what
            if what is None:
                return
            yield what[0]
    finally:
        closed.set()
        if thread is not threading.current_thread():  # which may be the one that collects garbage
            thread.join()
