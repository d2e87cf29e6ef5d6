"""report.html: one file that opens from disk, needs nothing else, and shows what a run is."""

import json
from collections.abc import Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from promask.figures.overview import overview
from promask.figures.saving import save_figure
from promask.files import save_text
from promask.learning.run import Run
from promask.report import wording
from promask.report.content import ERROR_FACTOR, report_content
from promask.report.evidence import Evidence
from promask.report.pixels import drawn


def write_report(run: Run, folder: Path, evidence: Evidence | None = None) -> Path:
    """Write report.html and figures/ into a run folder; without evidence, what the run itself knows."""
    save_figure(overview(run), folder / "figures" / "overview.png")
    path = folder / "report.html"
    save_text(path, report_page(run, evidence))
    return path


def report_page(run: Run, evidence: Evidence | None = None) -> str:
    """The whole page as a text."""
    from jinja2 import Environment, PackageLoader

    pages = Environment(loader=PackageLoader("promask.report", "page"), autoescape=True, trim_blocks=True)
    pages.policies["json.dumps_kwargs"] = {"sort_keys": False, "allow_nan": False}  # tables are in their order
    content = report_content(run, evidence)
    rows = len(content["slices"]["rows"]) if content["slices"] else 0
    return pages.get_template("report.html.j2").render(
        title=wording.title(run),
        lead=wording.lead(run),
        version=run.about["versions"]["promask"],
        style=_part("report.css"),
        script=_part("report.js"),
        cards=list(wording.cards(run, evidence)),
        notes=list(wording.notes(run, evidence)),
        about_mask=wording.about_mask(run),
        about_probabilities=wording.about_probabilities(run),
        about_examples=wording.about_examples(run),
        about_compared=None if evidence is None else wording.about_compared(run, evidence),
        about_slices=None if evidence is None else wording.about_slices(run, evidence, rows),
        about_learning=wording.about_learning(run),
        about_trajectory=wording.about_trajectory(run),
        error_factor=ERROR_FACTOR,
        members=run.config.members,
        classes=list(_classes(run)),
        contours=None if evidence is None or evidence.contours is None else drawn(evidence.contours),
        python=wording.PYTHON,
        exports=wording.EXPORTS,
        command=wording.command(run),
        facts=list(wording.facts(run)),
        configuration=json.dumps(run.config.to_dict(), indent=1),
        content=content,
    )


@cache
def _part(name: str) -> Any:
    """A file that is put into the page as it is."""
    from markupsafe import Markup

    return Markup(resources.files("promask.report").joinpath("page", name).read_text(encoding="utf-8"))


def _classes(run: Run) -> Iterator[dict[str, Any]]:
    evaluation = run.about.get("evaluation") or {}
    for name, found in evaluation.get("classes", {}).items():
        values = [found[key] for key in ("dice", "dice_full", "iou", "iou_full")]
        yield {"name": name, "found": ["-" if value is None else f"{value:.4f}" for value in values]}
