"""Files and folders that are either whole or not there: written under a temporary name, then renamed."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from promask.errors import InputError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name beside `path` to write a file to; it becomes `path` if nothing goes wrong."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder beside `folder`; it takes its place if nothing goes wrong."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    replaced = temporary.with_name(temporary.name + ".replaced")
    try:
        yield temporary
        temporary.chmod(0o755)
        if folder.exists():
            folder.rename(replaced)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(replaced, ignore_errors=True)


def save_array(path: Path, array: torch.Tensor) -> None:
    """Write a .npy file."""
    if path.suffix != ".npy":
        raise InputError(f"Arrays are written as .npy files, but the name is {path}.")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.save(file, array.numpy())


def save_text(path: Path, text: str) -> None:
    """Write a text file in UTF-8."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def check_writable(folder: Path) -> None:
    """Refuse a place that cannot be written to, before any work is done."""
    existing = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise InputError(f"Cannot write to {existing}: choose another place for the result.")
