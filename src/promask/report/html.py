"""report.html: one file that opens from disk and says what a run is."""

import base64
import html
import json
from collections.abc import Iterable
from pathlib import Path
from string import Template

from promask.files import save_text
from promask.learning.run import Run
from promask.report.figures import overview, save_figure

PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>promask: $title</title>
<style>
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
img { width: 100%; background: white; }
table { border-collapse: collapse; } th { text-align: left; font-weight: 500; padding-right: 2rem; }
pre { overflow: auto; padding: 1rem; background: color-mix(in srgb, CanvasText 8%, Canvas); }
</style></head><body>
<h1>$title</h1>
<table>$facts</table>
<img alt="Probabilities, mask and learning curves" src="data:image/png;base64,$picture">
<h2>Use it</h2>
<pre>import numpy
mask = numpy.load("mask.npy")  # bool, DC at index n // 2 of every axis</pre>
<h2>Configuration</h2>
<pre>$config</pre>
</body></html>
""")


def write_report(run: Run, folder: Path) -> Path:
    """Write report.html and figures/ into a run folder."""
    picture = folder / "figures" / "overview.png"
    save_figure(overview(run), picture)
    page = PAGE.substitute(
        title=html.escape(f"x{run.acceleration:.4g} mask for {run.about['data']['source']}"),
        facts="".join(_row(name, value) for name, value in _facts(run)),
        picture=base64.b64encode(picture.read_bytes()).decode(),
        config=html.escape(json.dumps(run.config.to_dict(), indent=1)),
    )
    path = folder / "report.html"
    save_text(path, page)
    return path


def _facts(run: Run) -> Iterable[tuple[str, str]]:
    data, pattern = run.about["data"], run.distribution.pattern
    yield "Learned from", f"{data['images']} images of {data['source']} ({data['part']})"
    yield "Acceleration", f"{run.acceleration:.4g} achieved, {run.config.acceleration:g} asked"
    yield (
        "Units",
        f"{run.distribution.budget} of {pattern.units}, free axes {list(pattern.free)} of {list(pattern.shape)}",
    )
    yield "Reconstruction", run.config.recon
    yield "Time", f"{run.about['seconds']:.1f} s for {run.config.members} x {run.config.steps} steps"
    if run.about.get("plain"):
        judged = "the validation part" if data.get("validation") else "the images to learn from"
        yield "Mask", f"That of {run.about['plain']}: what was learned is not better on {judged}"
    evaluation = run.about.get("evaluation")
    if evaluation:
        shown = [
            f"{name.upper()} {evaluation[name]:.4g}"
            for name in ("psnr", "ssim", "nmse")
            if evaluation[name] is not None
        ]
        yield "Quality", f"{', '.join(shown)} on {evaluation['images']} images ({evaluation['part']})"
        for name, found in evaluation.get("classes", {}).items():
            if found["dice"] is not None:
                scores = (
                    f"Dice {found['dice']:.4f} (fully sampled {found['dice_full']:.4f}), IoU {found['iou']:.4f}"
                )
                yield f"Segmentation: {name}", scores
    yield "promask", str(run.about["versions"]["promask"])


def _row(name: str, value: str) -> str:
    return f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
