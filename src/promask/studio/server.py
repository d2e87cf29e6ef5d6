"""The server of the studio: on this machine alone, on a free port, until it is told to end."""

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn

from promask.errors import InputError
from promask.studio.app import make_app
from promask.studio.studio import Studio

ADDRESS = "127.0.0.1"
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Server(uvicorn.Server):
    """A server that ends when it is told to, and then returns, whatever the signal was."""

    def __init__(self, studio: Studio, port: int = 0) -> None:
        config = uvicorn.Config(make_app(studio), log_level="error", access_log=False, timeout_graceful_shutdown=5)
        super().__init__(config)
        self.studio = studio
        self.socket = _listening(port)

    @property
    def url(self) -> str:
        """What to open in a browser."""
        return f"http://{ADDRESS}:{self.socket.getsockname()[1]}/?token={self.studio.token}"

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end; a second time, at once."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self.studio.closing.set()  # who watches a job would keep the connection

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Listen to signals, where that is possible."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def run_until_told(self) -> None:
        """Serve until a signal comes; nothing is left behind then."""
        try:
            self.run(sockets=[self.socket])
        finally:
            self.studio.close()
            self.socket.close()


def _listening(port: int) -> socket.socket:
    result = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        result.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        result.bind((ADDRESS, port))
        result.listen()  # who comes before it is ready has to wait, and is not sent away
    except (OSError, OverflowError) as error:
        result.close()
        raise InputError(f"The port {port} cannot be used ({error}): leave out --port for a free one.") from error
    return result


def serve(limit: int, port: int, on_ready: Callable[[str], None]) -> None:
    """Make a studio and serve it; `on_ready` is told the address when a browser can open it."""
    studio = Studio(limit)
    try:
        server = Server(studio, port)
        on_ready(server.url)
    except BaseException:
        studio.close()
        raise
    server.run_until_told()
