"""The command that looks at data before anything is learned from them."""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table as RichTable

from promask.cli import options
from promask.cli.options import option, with_reading
from promask.cli.progress import ProgressDisplay
from promask.cli.terminal import output, print_json
from promask.errors import InputError, one_line

if TYPE_CHECKING:
    from promask.data.inspection import Inspection


@with_reading
def inspect(
    data: options.Data,
    out: Annotated[Path | None, option("FILE", "A picture: coil images, combined image, log k-space.")] = None,
    as_json: options.Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Look at data: the roles of their axes, coils, subjects, sampling, noise; and what to type next.

    Where the data can be read in several ways, it lists them.

    Examples:
      promask inspect scan.h5
      promask inspect raw.mat --out raw.png
      promask inspect spokes.mat                    # raw radial data
      promask inspect raw.npy --axes "slice coil ky kx" --json
    """
    from promask.data.inspection import inspect as look
    from promask.data.reading import Reading

    with ProgressDisplay():
        found = look(data, Reading(**reading))
        if out is not None and found.description is not None:
            from promask.figures.inspection import inspection_figure
            from promask.figures.layout import save_figure

            save_figure(inspection_figure(found), out)
    given = options.as_words(reading)
    if as_json:
        print_json({**found.to_json(), "next": list(next_commands(found, given))})
    else:
        _show(found, given, out)
    if found.problem is not None:
        raise InputError(found.problem)


def _show(found: "Inspection", given: Mapping[str, str], out: Path | None) -> None:
    table = RichTable(box=None, show_header=False, pad_edge=False)
    for name, text in found.facts():
        table.add_row(name, text)
    if not output.is_terminal:  # a file has no width
        table.width = output.measure(table, options=output.options.update(width=1000)).maximum
    if table.rows:
        output.print(table)
    if found.problem is not None:
        return
    output.print(
        "\nWhat to type next:" if found.question is None else "\nThis can be read in several ways: choose one."
    )
    for command in next_commands(found, given):
        output.print(f"  {command}")
    if out is not None and found.description is not None:
        output.print(f"Written: {out}")


def next_commands(found: "Inspection", given: Mapping[str, str]) -> Iterator[str]:
    """The commands that make sense now: to settle what is uncertain, or to learn."""
    from promask.data.sources import source_words

    source = shlex.join(source_words(found.source))
    words = " ".join(f"{name} {value}".rstrip() for name, value in given.items())
    base = f"{source} {words}".rstrip()
    if found.problem is not None:
        return
    if found.raw:
        yield f"promask reconstruct raw {source} --out image.png"
        return
    if found.question is not None:
        for argument, value, meaning in found.choices:
            yield f'promask inspect {base} --{argument} "{one_line(value, 60)}"  # {one_line(meaning)}'
        return
    data = found.description
    assert data is not None
    learn = f"promask learn {base}"
    recon = " --recon cg-sense" if data.coils > 1 else ""
    if data.frames > 1 and "--each-frame" not in given:
        coils = " --coils 8" if data.coils == 1 and data.emulated == "magnitude" else ""
        recon = f"{coils} --pattern {'kt-2d' if len(data.shape) == 3 else 'kt'} --recon kt-sense"
    name = Path(found.source.rpartition(":")[2]).name.partition(".")[0] or "run"
    yield f"{learn}{recon} --accel 4 --out {shlex.quote(f'runs/{name}')}"
    if data.contrasts > 1 and not {"--per", "--each-frame"} & given.keys() and data.frames == 1:
        out = shlex.quote(f"runs/{name}-contrasts")
        yield f"{learn} --per contrast{recon} --accel 4 --out {out}  # a pattern for each contrast"
