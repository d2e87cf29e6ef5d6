"""What can be taken away from a job that is done: the mask in any format, and the whole run."""

import tempfile
import zipfile
from pathlib import Path

from promask.export import FORMATS, read_mask, write_mask
from promask.studio.errors import RefusedError


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
