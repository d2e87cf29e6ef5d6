"""The server of the studio, on this machine alone: its page, its HTTP calls, and who may make them.

Errors are JSON: {"error": "one sentence"}.
"""

import asyncio
import html
import json
import secrets
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template
from types import FrameType
from typing import Annotated, Any

import uvicorn
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.middleware.base import RequestResponseEndpoint
from starlette.middleware.trustedhost import TrustedHostMiddleware

from promask.data.reading import READOUTS
from promask.data.sources import BUILT_IN
from promask.errors import InputError
from promask.export import FORMATS, read_mask, write_mask
from promask.recon import RECONSTRUCTIONS, names_temporal
from promask.report.page import palette
from promask.studio.jobs import DONE, ENDED, Job, Studio
from promask.studio.processes import describe_error
from promask.studio.request import (
    ENDINGS,
    LONGEST_ARRAY,
    LONGEST_AXES,
    MASK_ENDINGS,
    MEGABYTE,
    MOST_COILS,
    MOST_FILES,
    LearnRequest,
    ReadingRequest,
    RefusedError,
)

ADDRESS = "127.0.0.1"
LAST_PORT = 65535
HOSTS = [ADDRESS, "localhost"]
"""It answers to these names alone: a page elsewhere that gets hold of the address has another one."""
EVENT_INTERVAL = 0.05
"""Seconds between two looks at a job."""
LONGEST_SILENCE = 10.0
"""Seconds after which something is sent in any case, so that a browser that is gone is noticed."""
CLEANING_INTERVAL = 600.0
"""Seconds between two looks for what nobody needs any more."""
SHUTDOWN_SECONDS = 5
"""How long the server waits for open connections when it stops."""
HEADER = "X-Promask-Token"
WRONG_TOKEN = "The token is missing or wrong: open the address that promask studio printed."
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
"""On every answer, unless it has its own."""
PAGE_POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; "
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Of the page: its own scripts and styles, pictures made of data, calls to this server, and no more."""
REPORT_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "font-src data:; media-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'; "
    "sandbox allow-scripts allow-downloads"
)
"""Of a report: what stands in it, and no connection to anything, this server included."""
SCRIPTS = ("calls.js", "theme.js", "canvas.js", "curve.js", "data.js", "settings.js", "job.js")
"""In the order in which they run; they share their names."""


def make_page(limit: int) -> tuple[str, str]:
    """The document, and the nonce that tells its own scripts and styles from any others."""
    from promask import __version__

    nonce = secrets.token_urlsafe(16)
    known = {"viridis": palette("viridis").tolist(), "endings": ENDINGS, "mostFiles": MOST_FILES}
    known |= {"limit": limit, "megabytes": limit / MEGABYTE, "maskEndings": MASK_ENDINGS}
    known |= {"temporal": list(filter(names_temporal, RECONSTRUCTIONS))}
    text = Template(_read("page.html")).substitute(
        nonce=nonce,
        style=_read("style.css"),
        known=json.dumps(known).replace("<", "\\u003c"),
        scripts="".join(f'<script nonce="{nonce}">\n{_read(name)}</script>\n' for name in SCRIPTS),
        sets=_options(BUILT_IN),
        readouts=_options(READOUTS),
        recons=_options(RECONSTRUCTIONS),
        formats=_options(FORMATS),
        endings=",".join(ENDINGS),
        mask_endings=",".join(MASK_ENDINGS),
        coils=MOST_COILS,
        longest_axes=LONGEST_AXES,
        longest_array=LONGEST_ARRAY,
        version=__version__,
    )
    return text, nonce


@cache
def _read(name: str) -> str:
    return (files("promask.studio") / "page" / name).read_text(encoding="utf-8")


def _options(names: Iterable[str]) -> str:
    return "".join(f'<option value="{html.escape(name)}">{html.escape(name)}</option>' for name in names)


async def watch(studio: Studio, job: Job) -> AsyncIterator[str]:
    """The server-sent events of a job until it ends: losses once, everything else as it is now.

    Whoever connects gets all that is known, and then what is new.
    """
    last: dict[str, Any] | None = None
    sent, quiet = 0, 0.0
    while not studio.closing.is_set():
        news = studio.jobs.snapshot(job, sent)
        others = {name: value for name, value in news.items() if name not in ("losses", "after")}
        if news["losses"] or others != last:
            last = others
            sent += len(news["losses"])
            quiet = 0.0
            yield f"data: {json.dumps(news)}\n\n"
        elif quiet > LONGEST_SILENCE:
            quiet = 0.0
            yield ": still here\n\n"
        if news["state"] in ENDED and not job.alive:
            return
        await asyncio.sleep(EVENT_INTERVAL)
        quiet += EVENT_INTERVAL


def mask_file(run: Path, to: str) -> tuple[str, bytes]:
    """The mask of a run folder in a format: a file, or a zip of the files where the format has several."""
    if to not in FORMATS:
        raise RefusedError(400, f"Unknown format {to!r}: choose one of {', '.join(FORMATS)}.")
    with tempfile.TemporaryDirectory(dir=run.parent) as folder:
        write_mask(read_mask(run), Path(folder) / f"mask{FORMATS[to].suffix}", to)
        first, *others = Path(folder).iterdir()
        return (f"mask-{to}.zip", _zip(Path(folder), ".")) if others else (first.name, first.read_bytes())


def _zip(root: Path, content: str) -> bytes:
    with tempfile.TemporaryDirectory(dir=root.parent) as folder:
        return Path(shutil.make_archive(f"{folder}/archive", "zip", root, content)).read_bytes()


def make_app(studio: Studio) -> FastAPI:
    """The page and the calls, working on one studio."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async def clean() -> None:
            while True:
                await asyncio.sleep(CLEANING_INTERVAL)
                await asyncio.to_thread(studio.remove_idle)

        cleaning = asyncio.create_task(clean())
        yield
        cleaning.cancel()
        await asyncio.to_thread(studio.close)

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)

    @app.middleware("http")
    async def require_token(request: Request, call: RequestResponseEndpoint) -> Response:
        found = [*request.headers.getlist(HEADER), *request.query_params.getlist("token")]
        if any(secrets.compare_digest(each.encode(), studio.token.encode()) for each in found):
            answer = await call(request)
        elif request.url.path.startswith("/api/"):
            answer = JSONResponse({"error": WRONG_TOKEN}, 403)
        else:
            answer = PlainTextResponse(WRONG_TOKEN, 403)
        for name, value in HEADERS.items():
            answer.headers.setdefault(name, value)
        return answer

    app.add_middleware(TrustedHostMiddleware, allowed_hosts=HOSTS)
    for kind in (InputError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _refuse)
    _add_calls(app, studio)

    @app.get("/")
    def show_page() -> HTMLResponse:
        text, nonce = make_page(studio.limit)
        return HTMLResponse(text, headers={"Content-Security-Policy": PAGE_POLICY.format(nonce=nonce)})

    return app


def _refuse(_: Request, error: Exception) -> JSONResponse:
    """The answer to a request that cannot be met: one sentence, and the status that goes with it."""
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"] if part != "body") or "The request"
        return JSONResponse({"error": f"{name}: {first['msg']}."}, 400)
    if isinstance(error, HTTPException):
        sentence = "There is no such call." if error.status_code in (404, 405) else "It cannot be done."
        return JSONResponse({"error": sentence}, error.status_code)
    return JSONResponse({"error": describe_error(error)}, error.status if isinstance(error, RefusedError) else 400)


def _add_calls(app: FastAPI, studio: Studio) -> None:
    @app.get("/api/data/{name}")
    def describe_built_in(name: str, request: Annotated[ReadingRequest, Query()]) -> dict[str, Any]:
        return studio.describe_built_in(name, request.reading())

    @app.post("/api/uploads", status_code=201)
    def begin_upload() -> dict[str, Any]:
        return {"upload": studio.uploads.new().id}

    @app.put("/api/uploads/{upload}/{name}", status_code=201)
    async def receive_file(upload: str, name: str, request: Request) -> dict[str, Any]:
        declared = request.headers.get("content-length", "")
        size = int(declared) if declared.isdecimal() else None
        return {"name": await studio.uploads.receive(studio.uploads.get(upload), name, size, request.stream())}

    @app.get("/api/uploads/{upload}")
    def describe_upload(upload: str, request: Annotated[ReadingRequest, Query()]) -> dict[str, Any]:
        return studio.describe_upload(studio.uploads.get(upload), request.reading())

    @app.get("/api/uploads/{upload}/mask")
    def describe_mask(upload: str) -> dict[str, Any]:
        return studio.describe_mask(studio.uploads.get(upload))

    @app.post("/api/check")
    def check(request: LearnRequest) -> dict[str, Any]:
        request.check()
        _, data, description = studio.find_data(request)
        _, mask = studio.find_mask(request)
        return {"command": request.command(data, mask), "budget": request.count_samples(description)}

    @app.post("/api/jobs", status_code=201)
    def learn(request: LearnRequest) -> dict[str, Any]:
        return studio.jobs.snapshot(studio.submit(request))

    @app.get("/api/jobs/{job}")
    def look(job: str) -> dict[str, Any]:
        return studio.jobs.snapshot(studio.jobs.get(job))

    @app.get("/api/jobs/{job}/events")
    def events(job: str) -> StreamingResponse:
        return StreamingResponse(watch(studio, studio.jobs.get(job)), media_type="text/event-stream")

    @app.delete("/api/jobs/{job}")
    def cancel(job: str) -> dict[str, Any]:
        studio.jobs.cancel(job)
        return {"cancelled": job}

    def finished_run(job: str) -> Path:
        found = studio.jobs.get(job)
        if found.state != DONE:
            raise RefusedError(409, f"The job is {found.state}: there is no result.")
        return found.task_input.out

    @app.get("/api/jobs/{job}/report.html")
    def report(job: str, theme: str = "") -> HTMLResponse:
        text = (finished_run(job) / "report.html").read_text(encoding="utf-8")
        if theme in ("light", "dark"):  # as the page around it has it
            text = text.replace("<html ", f'<html data-theme="{theme}" ', 1)
        return HTMLResponse(text, headers={"Content-Security-Policy": REPORT_POLICY})

    @app.get("/api/jobs/{job}/mask")
    def mask(job: str, to: str = "npy") -> Response:
        return _attach(*mask_file(finished_run(job), to))

    @app.get("/api/jobs/{job}/run.zip")
    def run(job: str) -> Response:
        folder = finished_run(job)
        return _attach(f"{folder.name}.zip", _zip(folder.parent, folder.name))


def _attach(name: str, content: bytes) -> Response:
    safe = name.encode("ascii", "replace").decode().replace("?", "_").replace('"', "_")
    headers = {"Content-Disposition": f'attachment; filename="{safe}"'}
    return Response(content, media_type="application/octet-stream", headers=headers)


class Server(uvicorn.Server):
    """A server that stops and returns when it gets a signal, whichever it was."""

    def __init__(self, studio: Studio, port: int = 0) -> None:
        app = make_app(studio)
        wait = SHUTDOWN_SECONDS
        super().__init__(uvicorn.Config(app, log_level="error", access_log=False, timeout_graceful_shutdown=wait))
        self.studio = studio
        try:
            if not 0 <= port <= LAST_PORT:
                raise OSError(f"ports go from 1 to {LAST_PORT}")
            # Whoever connects before the server is ready has to wait, and is not sent away.
            self.socket = socket.create_server((ADDRESS, port))
        except OSError as error:
            sentence = f"The port {port} cannot be used ({error}): leave out `port` for a free one."
            raise InputError(sentence) from error

    @property
    def url(self) -> str:
        """What to open in a browser."""
        return f"http://{ADDRESS}:{self.socket.getsockname()[1]}/?token={self.studio.token}"

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop; a second time, at once. The signal is not raised again when the server has stopped."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self.studio.closing.set()  # whoever watches a job would keep the connection

    def run_until_signal(self) -> None:
        """Serve until a signal comes; nothing is left behind then."""
        try:
            self.run(sockets=[self.socket])
        finally:
            self.studio.close()
            self.socket.close()


def serve(limit: int, port: int, on_ready: Callable[[str], None]) -> None:
    """Open a studio and serve it until a signal comes; `on_ready` gets the address once a browser can open it."""
    studio = Studio(limit)
    try:
        server = Server(studio, port)
        on_ready(server.url)
    except BaseException:
        studio.close()
        raise
    server.run_until_signal()
