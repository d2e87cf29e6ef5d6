"""Work on a Dask cluster: a function of many arguments, whose results come back as they are completed.

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
PATIENCE = 60.0
"""Seconds that a cluster may be without workers: jobs of a queue come when they come."""
BETWEEN_QUESTIONS = 1.0
"""Seconds after which a scheduler is asked again for its workers."""
LAST_PORT = 65535
PACKAGE = "promask"
KEPT = "what is done is kept, and the same command goes on from there."


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
    opening: Callable[[], Common],
    patience: float = PATIENCE,
) -> Generator[tuple[Argument, Result], None, None]:
    """Call `function(common, argument)` in the workers of a cluster, and give each argument once, with its result.

    They come in the order in which they are completed. `opening()` gives what all calls have in common, such as
    data that are read from a disk: it is sent once, and called once in every worker. Function, opening, arguments
    and results are pickled on their way: a function should stand at the top of a module that all machines have.
    Members of an ensemble, say, would be learned by

        for member, content in map_unordered(scheduler, learned_member, range(members), opening): ...

    A worker makes one call at a time, and PyTorch has as many threads in it as the worker has. What a worker was
    doing when it died is done by another one. An `InputError` of a call tells the worker's host; other errors come
    as they are. If this generator is closed early, what was not begun is cancelled.
    """
    check_address(scheduler)
    if not arguments:
        return
    with _quiet(), closing(_client(scheduler)) as client, _in_a_sentence(scheduler):
        _check_versions(client, scheduler)
        shared, *each = _packed([function, opening], *arguments)
        name = f"promask-{uuid.uuid4().hex}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that data in memory are large is known
            common = client.submit(_Common, shared, __version__, key=f"{name}-common")
            for _ in _finished(client, scheduler, [common], patience):
                _spread(client, common)
            keys = [(name, number) for number in range(len(each))]
            waiting = dict(zip(client.map(_call, each, key=keys, common=common), arguments, strict=True))
        for future in _finished(client, scheduler, list(waiting), patience):
            yield waiting.pop(future), future.result()
            future.release()  # until then, its worker holds the result


def _packed(*contents: Any) -> list[bytes]:
    """As bytes: a scheduler would unpack all else, and import PyTorch, while others wait for it."""
    from distributed.protocol.serialize import serialize_bytes

    try:
        return [serialize_bytes(content, on_error="raise") for content in contents]
    except (AttributeError, TypeError) as error:
        reason = error.__cause__ or error
        raise InputError(
            f"These data cannot be sent to a cluster: give files that its workers can read ({reason})."
        ) from error


def _spread(client: Any, common: Any) -> None:
    """Give all workers what calls have in common: else Dask leaves few calls to the one worker that has it."""
    with suppress(AssertionError, KeyError, ValueError):  # workers that go at this moment; it is no loss
        client.replicate([common])


def _finished(client: Any, scheduler: str, futures: list[Any], patience: float) -> Iterator[Any]:
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
        elif now - asked > BETWEEN_QUESTIONS:
            asked = now
            seen = now if client.scheduler_info()["workers"] else seen
        else:
            time.sleep(0.02)
        if now - seen > patience:
            raise InputError(
                f"The cluster at {scheduler} has had no workers for {patience:g} seconds: start some with "
                f"`dask worker {scheduler}`; {KEPT}"
            )


def _client(scheduler: str) -> Any:
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
def _in_a_sentence(scheduler: str) -> Iterator[None]:
    from distributed import KilledWorker
    from distributed.client import ClosedClientError
    from distributed.comm.core import CommClosedError

    try:
        yield
    except KilledWorker as error:
        raise MemoryError(
            f"{error.allowed_failures + 1} workers died of the same work, one after the other: if memory ran out, "
            f"give them more of it; {KEPT}"
        ) from error
    except ModuleNotFoundError as error:
        raise InputError(
            f"A worker of the cluster at {scheduler} lacks {error.name}: let all have the same packages."
        ) from error
    except (CancelledError, ClosedClientError, CommClosedError) as error:
        logging.getLogger("distributed.client").disabled = True  # it goes on to call, and to complain
        raise ConnectionError(f"The cluster at {scheduler} was lost: {KEPT}") from error


@contextmanager
def _quiet() -> Iterator[None]:
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
    """What all calls have in common, in a worker: unpacked and opened when it is first needed, and sent packed.

    Dask keeps it in each worker until the client has gone, and so what is opened lives as long.
    """

    def __init__(self, packed: bytes, version: str) -> None:
        self.packed = packed
        self.version = version

    def __reduce__(self) -> tuple[Any, ...]:
        return _Common, (self.packed, self.version)

    @functools.cached_property
    def unpacked(self) -> list[Callable[..., Any]]:
        """The function to call, and the one that opens what its calls have in common."""
        from distributed.protocol.serialize import deserialize_bytes

        if self.version != __version__:
            raise InputError(f"This worker has promask {__version__}, and not {self.version}.")
        return deserialize_bytes(self.packed)

    @functools.cached_property
    def opened(self) -> Any:
        """What calls have in common."""
        return self.unpacked[1]()


_one_call_at_a_time = threading.Lock()


def _call(packed: bytes, common: _Common) -> Any:
    """In a worker."""
    from distributed.protocol.serialize import deserialize_bytes

    try:
        with _one_call_at_a_time, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the client has said what there is to say of the data
            function, argument = common.unpacked[0], deserialize_bytes(packed)
            with _threads_of_worker():
                return function(common.opened, argument)
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
