"""Formulas as MathML, made when the site is built: browsers show it by themselves, without a script."""

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)
TAG = re.compile(r"\\tag\{(.*?)\}")


def inline(self: Any, node: nodes.math) -> None:
    """A formula in a line of text."""
    self.body.append(_made(node, "inline"))
    raise nodes.SkipNode


def block(self: Any, node: nodes.math_block) -> None:
    """A formula on a line of its own; the number in its tag goes to the right margin."""
    tag = TAG.search(node.astext())
    number = f'<span class="eqno">({tag[1]})</span>' if tag else ""
    self.body.append(f'<div class="math">{_made(node, "block")}{number}</div>')
    raise nodes.SkipNode


def _made(node: nodes.Element, display: str) -> str:
    made = convert(TAG.sub("", node.astext()).strip(), display=display)
    if "\\" in made or "&<" in made:
        logger.warning("A formula that latex2mathml cannot read: %s", node.astext(), location=node)
    return made


def setup(app: Sphinx) -> dict[str, Any]:
    """The renderer that conf.py names."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
