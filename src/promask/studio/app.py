"""How a job goes, as server-sent events: whoever connects gets all that is known, and then what is new.

What can be taken away from a job that is done: the mask in any format, and the whole run.

The HTTP calls of the studio. Errors are JSON: {"error": "one sentence"}.
"""

import asyncio
import json
import tempfile
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from promask.errors import InputError
from promask.export import FORMATS, read_mask, write_mask
from promask.studio.guard import REPORT_POLICY, Guard, RefusedError, page_policy
from promask.studio.jobs import DONE, ENDED, Job
from promask.studio.settings import Wish, page
from promask.studio.studio import Studio

EVENT_INTERVAL = 0.05
"""Seconds between two looks at a job."""
SILENCE = 10.0
"""Seconds after which something is sent in any case, so that a browser that is gone is noticed."""


async def watch(studio: Studio, job: Job) -> AsyncIterator[str]:
    """The events of a job until it ends; the losses are sent once, everything else as it is now."""
    last: dict[str, Any] | None = None
    sent, quiet = 0, 0.0
    while not studio.closing.is_set():
        news = studio.jobs.snapshot(job, sent)
        if (news["losses"], _without_losses(news)) != ([], last):
            last = _without_losses(news)
            sent += len(news["losses"])
            quiet = 0.0
            yield f"data: {json.dumps(news)}\n\n"
        elif quiet > SILENCE:
            quiet = 0.0
            yield ": still here\n\n"
        if news["state"] in ENDED and not job.alive:
            return
        await asyncio.sleep(EVENT_INTERVAL)
        quiet += EVENT_INTERVAL


def _without_losses(news: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in news.items() if name not in ("losses", "after")}


def mask_file(run: Path, to: str) -> tuple[str, bytes]:
    """The mask of a run folder in a format: a file, or a zip of the files where the format has several."""
    if to not in FORMATS:
        raise RefusedError(400, f"Unknown format {to!r}: choose one of {', '.join(FORMATS)}.")
    with tempfile.TemporaryDirectory(dir=run.parent) as folder:
        write_mask(read_mask(run), Path(folder) / f"mask{FORMATS[to].suffix}", to)
        files = sorted(Path(folder).iterdir())
        if len(files) == 1:
            return files[0].name, files[0].read_bytes()
        return f"mask-{to}.zip", _zipped(files, Path(folder), Path(folder) / "mask.zip")


def run_file(run: Path) -> tuple[str, bytes]:
    """The whole run folder in a zip, below its own name."""
    files = sorted(path for path in run.rglob("*") if path.is_file())
    with tempfile.TemporaryDirectory(dir=run.parent) as folder:
        return f"{run.name}.zip", _zipped(files, run.parent, Path(folder) / "run.zip")


def _zipped(files: list[Path], root: Path, out: Path) -> bytes:
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.write(file, file.relative_to(root))
    return out.read_bytes()


HOSTS = ["127.0.0.1", "localhost"]
"""By these names alone is it called: a page elsewhere that gets hold of the address has another one."""
SWEEP = 600.0
"""Seconds between two looks for what nobody needs any more."""


def make_app(studio: Studio) -> FastAPI:
    """The calls, working on one studio."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=_lifespan_of(studio))
    app.add_middleware(Guard, token=studio.token)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=HOSTS)
    app.add_exception_handler(InputError, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse_body)
    app.add_exception_handler(HTTPException, _refuse_call)
    _add_data(app, studio)
    _add_jobs(app, studio)
    _add_results(app, studio)

    @app.get("/")
    def show_page() -> HTMLResponse:
        text, nonce = page(studio.limit)
        return HTMLResponse(text, headers={"Content-Security-Policy": page_policy(nonce)})

    return app


def _add_data(app: FastAPI, studio: Studio) -> None:
    @app.get("/api/data/{name}")
    def describe_built_in(name: str) -> dict[str, Any]:
        return studio.describe_built_in(name)

    @app.post("/api/uploads", status_code=201)
    def begin_upload() -> dict[str, Any]:
        return {"upload": studio.uploads.new().id}

    @app.put("/api/uploads/{upload}/{name}", status_code=201)
    async def take_file(upload: str, name: str, request: Request) -> dict[str, Any]:
        declared = request.headers.get("content-length", "")
        size = int(declared) if declared.isdecimal() else None
        return {"name": await studio.uploads.receive(studio.uploads.get(upload), name, size, request.stream())}

    @app.get("/api/uploads/{upload}")
    def describe_upload(upload: str) -> dict[str, Any]:
        return studio.describe_upload(studio.uploads.get(upload))


def _add_jobs(app: FastAPI, studio: Studio) -> None:
    @app.post("/api/check")
    def check(wish: Wish) -> dict[str, Any]:
        wish.check()
        _, data, description = studio.source(wish)
        return {"command": wish.command(data), "budget": wish.budget(description)}

    @app.post("/api/jobs", status_code=201)
    def learn(wish: Wish) -> dict[str, Any]:
        return studio.jobs.snapshot(studio.submit(wish))

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


def _add_results(app: FastAPI, studio: Studio) -> None:
    def done(job: str) -> Job:
        found = studio.jobs.get(job)
        if found.state != DONE:
            raise RefusedError(409, f"The job is {found.state}: there is no result.")
        return found

    @app.get("/api/jobs/{job}/report.html")
    def report(job: str, theme: str = "") -> HTMLResponse:
        text = (done(job).order.out / "report.html").read_text(encoding="utf-8")
        if theme in ("light", "dark"):  # as the page around it has it
            text = text.replace("<html ", f'<html data-theme="{theme}" ', 1)
        return HTMLResponse(text, headers={"Content-Security-Policy": REPORT_POLICY})

    @app.get("/api/jobs/{job}/mask")
    def mask(job: str, to: str = "npy") -> Response:
        return _attached(*mask_file(done(job).order.out, to))

    @app.get("/api/jobs/{job}/run.zip")
    def run(job: str) -> Response:
        return _attached(*run_file(done(job).order.out))


def _attached(name: str, content: bytes) -> Response:
    safe = name.encode("ascii", "replace").decode().replace("?", "_").replace('"', "_")
    headers = {"Content-Disposition": f'attachment; filename="{safe}"'}
    return Response(content, media_type="application/octet-stream", headers=headers)


def _lifespan_of(studio: Studio) -> Any:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async def sweep() -> None:
            while True:
                await asyncio.sleep(SWEEP)
                await asyncio.to_thread(studio.sweep)

        sweeping = asyncio.create_task(sweep())
        yield
        sweeping.cancel()
        await asyncio.to_thread(studio.close)

    return lifespan


def _refuse(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": str(error)}, error.status if isinstance(error, RefusedError) else 400)


def _refuse_body(request: Request, error: Exception) -> JSONResponse:
    first = error.errors()[0] if isinstance(error, RequestValidationError) else {}
    name = ".".join(str(part) for part in first.get("loc", ()) if part != "body") or "The request"
    return JSONResponse({"error": f"{name}: {first.get('msg', 'it cannot be read')}."}, 400)


def _refuse_call(request: Request, error: Exception) -> JSONResponse:
    status = error.status_code if isinstance(error, HTTPException) else 400
    sentence = {404: "There is no such call.", 405: "There is no such call."}.get(status, "It cannot be done.")
    return JSONResponse({"error": sentence}, status)
