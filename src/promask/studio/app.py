"""The HTTP calls of the studio. Errors are JSON: {"error": "one sentence"}."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from promask.errors import InputError
from promask.studio.downloads import mask_file, run_file
from promask.studio.errors import RefusedError
from promask.studio.events import watch
from promask.studio.guard import REPORT_POLICY, Guard, page_policy
from promask.studio.jobs import DONE, Job
from promask.studio.page import page
from promask.studio.settings import Wish
from promask.studio.studio import Studio

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
