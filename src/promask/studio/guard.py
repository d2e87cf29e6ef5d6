"""What the server answers when it cannot do what was asked.

Who may talk to the studio: whoever has its token. And what a browser may do with the answers.
"""

import secrets
from urllib.parse import parse_qs

from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from promask.errors import InputError


class RefusedError(InputError):
    """One sentence for the page, and the HTTP status that goes with it."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


HEADER = b"x-promask-token"
WRONG_TOKEN = "The token is missing or wrong: open the address that promask studio printed."
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
"""On every answer, unless it has its own."""


def page_policy(nonce: str) -> str:
    """Of the page: its own scripts and styles, pictures made of data, calls to this server, and no more."""
    return (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; "
        "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


REPORT_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "font-src data:; media-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'; "
    "sandbox allow-scripts allow-downloads"
)
"""Of a report: what stands in it, and no connection to anything, this server included."""


class Guard:
    """Lets through requests with the token, as the header X-Promask-Token or as `token` in the query."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self.token = app, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer that it is refused."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer: ASGIApp = self.app if self._may_enter(scope) else _refusal(scope["path"])
        await answer(scope, receive, send_with_headers)

    def _may_enter(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name == HEADER]
        query = parse_qs(scope["query_string"].decode("latin-1"))
        given += [value.encode() for value in query.get("token", [])]
        return any(secrets.compare_digest(value, self.token) for value in given)


def _refusal(path: str) -> Response:
    if path.startswith("/api/"):
        return JSONResponse({"error": WRONG_TOKEN}, 403)
    return PlainTextResponse(WRONG_TOKEN, 403)
