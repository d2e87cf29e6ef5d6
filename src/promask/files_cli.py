"""The commands that write files for other programs, and keep those that are read."""

from pathlib import Path
from typing import Annotated

import typer

from promask.options import To
from promask.terminal import output


def export(
    mask: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or a mask file of any format.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to write.")],
    to: To = None,
    shape: Annotated[
        list[int] | None,
        typer.Option(metavar="H W", help="Carry the mask to another matrix size.", show_default=False),
    ] = None,
) -> None:
    """Write a mask for other programs: NumPy, MATLAB, BART, a picture, the order of phase encodes, fastMRI.

    Examples:
      promask export runs/brain --out mask.mat                  # MATLAB
      promask export runs/brain --to bart --out mask            # mask.cfl and .hdr
      promask export runs/brain --out mask.png                  # a picture
      promask export runs/lines --to csv --out encodes.csv      # phase encodes
      promask export runs/brain --shape 320 320 --out mask.npy  # another size
    """
    from promask.export import check_mask_file, read_mask, resized, write_mask

    check_mask_file(out, to)
    exported = resized(mask, shape) if shape else read_mask(mask)
    written = write_mask(exported, out, to)
    output.print(f"{written}: mask, {list(exported.mask.shape)}, x{exported.achieved:.4g}")


def cache(
    clear: Annotated[bool, typer.Option("--clear", metavar="", help="Remove what it holds.")] = False,
) -> None:
    """Tell where samples of files are kept once they are ready, and how much room they take.

    The environment variable PROMASK_CACHE chooses another folder.

    Examples:
      promask cache
      promask cache --clear
    """
    from promask.data import cache as store

    if clear:
        store.clear()
    output.print(f"{store.cache_folder()}: {store.size_on_disk() / 1e6:.1f} MB")
