"""How a job goes, as server-sent events: whoever connects gets all that is known, and then what is new."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from promask.studio.jobs import ENDED, Job
from promask.studio.studio import Studio

BETWEEN = 0.05
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
        await asyncio.sleep(BETWEEN)
        quiet += BETWEEN


def _without_losses(news: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in news.items() if name not in ("losses", "after")}
