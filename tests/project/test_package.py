"""The wheel and the source archive: what is in them, and that a wheel works where the checkout is not seen."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
INFO = f"promask-{PROJECT['version']}.dist-info"


def sources():
    """Every file of the package, except for what Python leaves behind."""
    files = [path for path in (SOURCES / "promask").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return {str(path.relative_to(SOURCES)): path.read_bytes() for path in files}


def run(*words, folder, **options):
    """A command that does not know of the checkout."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(word) for word in words], cwd=folder, env=environment, capture_output=True, text=True, **options
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder of a source archive, of the wheel that is made from it, and of one made from the checkout."""
    folder = tmp_path_factory.mktemp("dist")
    build = (sys.executable, "-m", "build", "--no-isolation", ROOT)
    run(*build, "--outdir", folder, folder=folder)  # the archive, then the wheel from it
    run(*build, "--wheel", "--outdir", folder / "direct", folder=folder)
    return folder


def content(archive):
    with zipfile.ZipFile(archive) as file:
        return {name: file.read(name) for name in file.namelist()}


def wheel(folder):
    (path,) = folder.glob("*.whl")
    return path


def test_a_wheel_holds_the_package_and_nothing_else(built):
    found = content(wheel(built))
    assert {name: text for name, text in found.items() if not name.startswith(INFO)} == sources()
    for name in ("py.typed", "report/page/report.html.j2", "studio/page/page.html"):
        assert f"promask/{name}" in found
    about = {name.removeprefix(f"{INFO}/") for name in found if name.startswith(INFO)}
    assert about == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    assert content(wheel(built / "direct")) == found, "from the archive or from the checkout"


def test_the_source_archive_holds_what_a_wheel_is_made_of(built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
        assert all(member.isfile() for member in archive.getmembers())
    others = {"CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml", "PKG-INFO", ".gitignore"}
    assert names == {f"src/{name}" for name in sources()} | others


def test_what_a_wheel_says_of_itself(built):
    found = content(wheel(built))
    about = Parser().parsestr(found[f"{INFO}/METADATA"].decode())
    assert (about["Name"], about["Version"]) == (PROJECT["name"], PROJECT["version"])
    assert (about["Summary"], about["License-Expression"]) == (PROJECT["description"], PROJECT["license"])
    assert about["Requires-Python"] == PROJECT["requires-python"]
    assert sorted(about.get_all("Classifier")) == sorted(PROJECT["classifiers"])
    assert sorted(about.get_all("Provides-Extra")) == sorted(PROJECT["optional-dependencies"])
    needed = [Requirement(text) for text in about.get_all("Requires-Dist")]
    always = {str(requirement) for requirement in needed if requirement.marker is None}
    assert always == {str(Requirement(text)) for text in PROJECT["dependencies"]}
    assert about.get_payload().strip() == (ROOT / "README.md").read_text().strip()
    assert "promask = promask.cli.main:main" in found[f"{INFO}/entry_points.txt"].decode()
    assert "Root-Is-Purelib: true" in found[f"{INFO}/WHEEL"].decode()


def test_a_wheel_works_elsewhere(built, tmp_path):
    """In an environment that sees the packages installed here, but by their folder: not what is editable."""
    run(sys.executable, "-m", "venv", "--without-pip", "empty", folder=tmp_path)
    python = tmp_path / "empty" / "bin" / "python"
    place = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", folder=tmp_path).strip()
    Path(place, "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    assert str(SOURCES) not in run(python, "-c", "import sys, torch; print(sys.path)", folder=tmp_path)
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "--quiet")
    run(*pip, "install", "--no-deps", "--no-index", "--ignore-installed", wheel(built), folder=tmp_path)
    assert run(python, "-c", "import promask; print(promask.__file__)", folder=tmp_path).startswith(place)
    command = python.with_name("promask")
    assert run(command, "--version", folder=tmp_path).strip() == PROJECT["version"]
    run(command, "learn", "head", "--accel", 8, "--steps", 5, "--out", "run", folder=tmp_path)
    assert np.load(tmp_path / "run" / "mask.npy").any()
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000
