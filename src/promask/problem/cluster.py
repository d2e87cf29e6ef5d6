"""Map a function over many arguments on a Dask cluster; results come back as they are completed.

Dask sends functions and results as pickled objects between the machines of a cluster, which therefore must trust
one another. Files of promask are never pickled: results come back here, and only this process writes them.
"""

import functools
import importlib.metadata
import importlib.util
import logging
import re
import socket
import ssl
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import closing, contextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

from promask import __version__
from promask.errors import InputError, InputWarning

Common = TypeVar("Common")
Argument = TypeVar("Argument")
Result = TypeVar("Result")

ANSWERS_WITHIN = 10.0
"""Seconds that a scheduler has to answer."""
WITHOUT_WORKERS = 60.0
"""Seconds that a cluster may be without workers: jobs of a queue start when there is room."""
POLL_INTERVAL = 1.0
"""Seconds after which a scheduler is asked again for its workers."""
LAST_PORT = 65535
PACKAGE = "promask"
RESUMABLE = "what is done is kept, and the same command goes on from there."


def check_address(scheduler: str) -> None:
    """Refuse what is not the address of a scheduler, as Dask prints it, and any if there is no Dask here.

    >>> check_address("tcp://10.0.0.1:8786")
    """
    written = re.fullmatch(r"(?:tcp|tls)://(?:[\w.-]+|\[[\da-fA-F:.]+\]):(\d{1,5})", scheduler)
    if written is None or int(written[1]) > LAST_PORT:
        raise InputError(
            f"A Dask scheduler has an address such as tcp://HOST:8786 or tls://HOST:8786, and not {scheduler!r}."
        )
    if importlib.util.find_spec("distributed") is None:
        raise InputError("A cluster needs Dask, which is not installed: pip install 'promask[dask]'.")


def map_unordered(
    scheduler: str,
    function: Callable[[Common, Argument], Result],
    arguments: Sequence[Argument],
    load_common: Callable[[], Common],
    without_workers: float = WITHOUT_WORKERS,
) -> Generator[tuple[Argument, Result], None, None]:
    """Call `function(common, argument)` in the workers of a cluster, for each argument.

    A worker makes one call at a time, and PyTorch has as many threads in it as the worker has. What a worker was
    doing when it died is done by another one. If the generator is closed early, what was not begun is cancelled.

    Args:
        scheduler: The address of the scheduler, such as tcp://HOST:8786.
        function: At the top of a module that all machines have: it is pickled, as arguments and results are.
        arguments: One for each call.
        load_common: Gives what all calls have in common, such as data that are read from a disk: it is sent once,
            and called once in every worker.
        without_workers: Seconds that the cluster may be without workers.

    Returns:
        Each argument with its result, in the order in which they are completed.

    Raises:
        InputError: If there is no such cluster, or a call raised one; the message then names the worker's host.
    """
    check_address(scheduler)
    if not arguments:
        return
    with _silence_logs(), closing(_connect(scheduler)) as client, _explain_errors(scheduler):
        _check_versions(client, scheduler)
        shared, *each = _pack([function, load_common], *arguments)
        name = f"promask-{uuid.uuid4().hex}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that data in memory are large is known
            common = client.submit(_Common, shared, __version__, key=f"{name}-common")
            for _ in _await_futures(client, scheduler, [common], without_workers):
                # To all workers: else Dask leaves few calls to the one that has it. Some may go at this moment.
                with suppress(AssertionError, KeyError, ValueError):
                    client.replicate([common])
            keys = [(name, number) for number in range(len(each))]
            waiting = dict(zip(client.map(_call, each, key=keys, common=common), arguments, strict=True))
        for future in _await_futures(client, scheduler, list(waiting), without_workers):
            yield waiting.pop(future), future.result()
            future.release()  # until then, its worker holds the result


def _pack(*contents: Any) -> list[bytes]:
    """As bytes: a scheduler would unpack all else, and import PyTorch, while others wait for it."""
    from distributed.protocol.serialize import serialize_bytes

    try:
        return [serialize_bytes(content, on_error="raise") for content in contents]
    except (AttributeError, TypeError) as error:
        reason = error.__cause__ or error
        raise InputError(
            f"These data cannot be sent to a cluster: give files that its workers can read ({reason})."
        ) from error


def _await_futures(client: Any, scheduler: str, futures: list[Any], without_workers: float) -> Iterator[Any]:
    """Each future when it is finished, for as long as there are workers."""
    from distributed import as_completed

    awaited = as_completed(futures, loop=client.loop)
    futures.clear()
    asked = seen = time.monotonic()
    while not awaited.is_empty():
        batch = awaited.next_batch(block=False)
        yield from batch
        if client.status != "running":
            raise CancelledError
        now = time.monotonic()
        if batch:
            seen = now
        elif now - asked > POLL_INTERVAL:
            asked = now
            seen = now if client.scheduler_info()["workers"] else seen
        else:
            time.sleep(0.02)
        if now - seen > without_workers:
            raise InputError(
                f"The cluster at {scheduler} has had no workers for {without_workers:g} seconds: start some with "
                f"`dask worker {scheduler}`; {RESUMABLE}"
            )


def _connect(scheduler: str) -> Any:
    from distributed import Client, Security
    from distributed.versions import VersionMismatchWarning

    is_secret = scheduler.startswith("tls:")
    secrets = Security().get_connection_args("client").get("ssl_context") if is_secret else None
    if is_secret and secrets is None:
        raise InputError(
            f"{scheduler} needs certificates: name them in Dask's configuration, distributed.comm.tls, or use tcp://."
        )
    try:
        _await_greeting(scheduler, secrets)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            client = Client(scheduler, timeout=ANSWERS_WITHIN, set_as_default=False, name="promask")
    except OSError as error:
        raise InputError(f"No Dask scheduler answers at {scheduler}: start one with `dask scheduler`.") from error
    if any(issubclass(warning.category, VersionMismatchWarning) for warning in said):
        warnings.warn(
            f"Python or its packages are not the same here and on the cluster at {scheduler}: results may differ.",
            InputWarning,
            stacklevel=2,
        )
    return client


def _await_greeting(scheduler: str, secrets: ssl.SSLContext | None) -> None:
    """Wait until someone speaks there, as a scheduler does first; Dask itself would wait for ever for the deaf."""
    place = urlsplit(scheduler)
    ends = time.monotonic() + ANSWERS_WITHIN
    while True:
        try:
            plain = socket.create_connection((place.hostname, place.port), timeout=ANSWERS_WITHIN)
            with plain, secrets.wrap_socket(plain) if secrets else plain as speaking:
                if not speaking.recv(1):
                    raise ConnectionError("It said nothing.")
                return
        except OSError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.1)


def _check_versions(client: Any, scheduler: str) -> None:
    """All machines must have this version; asked for by a function that they have without promask."""
    question = importlib.metadata.version, PACKAGE
    try:
        found = [client.run_on_scheduler(*question), *client.run(*question, on_error="return").values()]
    except importlib.metadata.PackageNotFoundError as error:
        found = [error]
    for version in found:
        if isinstance(version, importlib.metadata.PackageNotFoundError):
            raise InputError(
                f"A machine of the cluster at {scheduler} lacks promask: install {__version__} on all."
            )
        if isinstance(version, str) and version != __version__:
            raise InputError(
                f"A machine of the cluster at {scheduler} has promask {version}: install {__version__} on all."
            )


@contextmanager
def _explain_errors(scheduler: str) -> Iterator[None]:
    from distributed import KilledWorker
    from distributed.client import ClosedClientError
    from distributed.comm.core import CommClosedError

    try:
        yield
    except KilledWorker as error:
        raise MemoryError(
            f"{error.allowed_failures + 1} workers died of the same work, one after the other: if memory ran out, "
            f"give them more of it; {RESUMABLE}"
        ) from error
    except ModuleNotFoundError as error:
        raise InputError(
            f"A worker of the cluster at {scheduler} lacks {error.name}: let all have the same packages."
        ) from error
    except (CancelledError, ClosedClientError, CommClosedError) as error:
        logging.getLogger("distributed.client").disabled = True  # it goes on to call, and to complain
        raise ConnectionError(f"The cluster at {scheduler} was lost: {RESUMABLE}") from error


@contextmanager
def _silence_logs() -> Iterator[None]:
    """What Dask logs of connections that come and go is not for users of promask."""
    import distributed  # noqa: F401  # which sets up its loggers

    loggers = [logging.getLogger(name) for name in ("distributed", "tornado", "asyncio")]
    before = [(logger, logger.handlers, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.handlers, logger.propagate = [logging.NullHandler()], False
    try:
        yield
    finally:
        for logger, handlers, propagates in before:
            logger.handlers, logger.propagate = handlers, propagates


class _Common:
    """What all calls have in common, in a worker: sent packed, and loaded when it is first needed.

    Dask keeps it in each worker until the client has gone, and so what was loaded lives as long.
    """

    def __init__(self, packed: bytes, version: str) -> None:
        self.packed, self.version = packed, version

    def __reduce__(self) -> tuple[Any, ...]:
        return _Common, (self.packed, self.version)

    @functools.cached_property
    def functions(self) -> list[Callable[..., Any]]:
        """The function to call, and the one that loads what its calls have in common."""
        from distributed.protocol.serialize import deserialize_bytes

        if self.version != __version__:
            raise InputError(f"This worker has promask {__version__}, and not {self.version}.")
        return deserialize_bytes(self.packed)

    @functools.cached_property
    def value(self) -> Any:
        """What calls have in common."""
        return self.functions[1]()


_one_call_at_a_time = threading.Lock()


def _call(packed: bytes, common: _Common) -> Any:
    """In a worker."""
    from distributed.protocol.serialize import deserialize_bytes

    try:
        with _one_call_at_a_time, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the client has said what there is to say of the data
            function, argument = common.functions[0], deserialize_bytes(packed)
            with _threads_of_worker():
                return function(common.value, argument)
    except InputError as error:
        raise InputError(f"On {socket.gethostname()}: {error}") from error


@contextmanager
def _threads_of_worker() -> Iterator[None]:
    """As many threads for PyTorch as the worker has, if PyTorch is of use; settings of the process, put back."""
    from distributed import get_worker

    torch: Any = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(get_worker().state.nthreads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
