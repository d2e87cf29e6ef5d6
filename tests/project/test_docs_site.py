"""The site that `make docs` builds: without a warning, with everything in it, and without the network."""

import doctest
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import promask
from promask.cli.main import app

DOCS = Path(__file__).parents[2] / "docs"
EXTENSIONS = [path for path in sorted((DOCS / "extensions").glob("*.py")) if ">>> " in path.read_text()]
"""Those with examples in their docstrings."""


def build(source, out, builder="html", **environment):
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "--quiet", "--builder", builder]
    environment = {**os.environ, **environment}
    return subprocess.run([*command, source, out], env=environment, capture_output=True, text=True, timeout=300)


def copy_settings(source):
    """A site of the same settings, without pages."""
    shutil.copytree(DOCS, source, ignore=shutil.ignore_patterns("*.md", "images", "results"))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    done = build(DOCS, out)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.parametrize("script", EXTENSIONS, ids=lambda path: path.name)
def test_docstring_examples(script):
    spec = importlib.util.spec_from_file_location(script.stem, script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    result = doctest.testmod(module)
    assert result.failed == 0
    assert result.attempted > 0


def test_extensions_have_examples():
    assert {"commands.py", "prose.py"} <= {path.name for path in EXTENSIONS}


def test_every_page_is_there(site):
    for page in DOCS.rglob("*.md"):
        assert (site / page.relative_to(DOCS)).with_suffix(".html").is_file()


def test_every_table_can_be_downloaded(site):
    tables = {path.name: path.read_bytes() for path in (DOCS / "results").glob("*.csv")}
    downloads = {path.name: path.read_bytes() for path in (site / "_downloads").rglob("*.csv")}
    assert len(tables) > 10
    assert downloads == tables


def test_nothing_is_fetched(site):
    for page in site.rglob("*.html"):
        for tag in re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*>", page.read_text()):
            assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", tag), f"{page}: {tag}"
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", style.read_text()), style


def test_formulas_are_mathml(site):
    method = (site / "method.html").read_text()
    numbers = re.findall(r'</math><span class="eqno">\((\d)\)</span>', method)
    assert numbers == list("12345678")
    assert "$" not in re.sub(r"<script.*?</script>", "", method, flags=re.DOTALL)


def commands(command, name="promask"):
    yield name
    for child, below in getattr(command, "commands", {}).items():
        yield from commands(below, f"{name} {child}")


def test_every_command_is_described(site):
    page = (site / "reference" / "command_line.html").read_text()
    for name in commands(typer.main.get_command(app)):
        assert f'<section id="{name.replace(" ", "-")}">' in page, name
    assert "--accel NUMBER" in re.sub(r"<.*?>", "", page)


def test_every_public_name_is_described(site):
    pages = "".join(page.read_text() for page in (site / "reference").glob("*.html"))
    for name in promask.__all__:
        assert re.search(rf'id="(?:module-)?promask\.{name}"', pages), name


MODULE = '''
def measure(skip_bad, *data):
    """Measure `skip_bad` of (batch, *space).

    Args:
        skip_bad: Leave out bad files, (coil, *space), of
            some_name.
        *data: What is measured.

    Returns:
        The mask, as `my_type`.

    Example:
        >>> some_name = 3 * 2
    """
'''
SHOWN = """
   Measure "skip_bad" of (batch, *space).

   Parameters:
      * **skip_bad** -- Leave out bad files, (coil, *space), of some_name.

      * ***data** -- What is measured.

   Returns:
      The mask, as "my_type".

   -[ Example ]-

   >>> some_name = 3 * 2
"""


def test_sections_of_docstrings(tmp_path):
    """Google's sections are lists of parameters, and nothing but `code` is mark-up."""
    copy_settings(tmp_path / "docs")
    (tmp_path / "measuring.py").write_text(MODULE)
    (tmp_path / "docs" / "index.md").write_text(
        "# A page\n\n```{eval-rst}\n.. autofunction:: measuring.measure\n```"
    )
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = build(tmp_path / "docs", tmp_path / "site", builder="text", PYTHONPATH=paths)
    assert done.returncode == 0, done.stderr
    shown = (tmp_path / "site" / "index.txt").read_text()
    assert " ".join(SHOWN.split()) in " ".join(shown.split())


MISTAKES = {
    "$\\nosuchcommand$": "cannot read: \\nosuchcommand",
    "[a link](nowhere.md)": "'nowhere.md'",
    "[a heading](#nowhere)": "'nowhere'",
    "```{eval-rst}\n.. autofunction:: promask.nothing\n```": "failed to import 'nothing'",
}


def test_mistakes_are_errors(tmp_path):
    source = tmp_path / "docs"
    copy_settings(source)
    (source / "index.md").write_text("\n\n".join(["# A page", *MISTAKES]))
    done = build(source, tmp_path / "site")
    assert done.returncode != 0
    for complaint in MISTAKES.values():
        assert complaint in done.stderr
