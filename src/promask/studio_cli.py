"""The command that opens the studio."""

import os
import sys
from typing import Annotated

import typer

from promask.errors import InputError
from promask.options import setting
from promask.terminal import messages, output


def studio(
    limit: Annotated[
        int, typer.Option(metavar="MB", min=1, help="The most that may be uploaded at a time, in megabytes.")
    ] = 1000,
    port: Annotated[
        int | None, setting("N", "The port to listen at, such as for a tunnel to another machine.", "a free one")
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", metavar="", help="Open the page in a browser.")
    ] = True,
) -> None:
    """Learn masks in a web page on this machine.

    Example: promask studio
    """
    from promask.studio import processes

    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401

        processes.prepare()  # they import what they need while this one does
        from promask.studio.server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("fastapi", "pydantic", "starlette", "uvicorn"):
            raise
        raise InputError(
            f"promask studio needs {error.name}, which is not installed: pip install 'promask[studio]'"
        ) from error

    def on_ready(url: str) -> None:
        output.print(f"The studio is open at {url}")
        if messages.is_terminal:
            messages.print("Whoever has this address can use it. Ctrl-C ends it, and removes what was uploaded.")
        if browser and messages.is_terminal and _has_screen():
            import webbrowser

            webbrowser.open(url)

    serve(limit, port or 0, on_ready)


def _has_screen() -> bool:
    """Whether a browser could show anything; those that run in the terminal could not show this page."""
    names = ("DISPLAY", "WAYLAND_DISPLAY")
    return sys.platform in ("win32", "darwin") or any(os.environ.get(name) for name in names)
