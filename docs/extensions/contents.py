"""The table of contents is what index.md links to: a section for each of its headings."""

import re
from typing import Any

from sphinx.application import Sphinx

HEADING = re.compile(r"^## (.*)$", flags=re.MULTILINE)
PAGE = re.compile(r"^- \[(.*?)\]\(([^)]*)\.md\)", flags=re.MULTILINE)


def add_contents(app: Sphinx, page: str, source: list[str]) -> None:
    """Append a toctree, which only the side bar shows, for each section of index.md with a list of pages."""
    if page != "index":
        return
    _, *sections = HEADING.split(source[0])
    for caption, text in zip(sections[::2], sections[1::2], strict=True):
        if pages := PAGE.findall(text):
            listed = "\n".join(f"{title} <{place}>" for title, place in pages)
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{listed}\n```\n"


def setup(app: Sphinx) -> dict[str, Any]:
    """Before index.md is parsed."""
    app.connect("source-read", add_contents)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
