"""The site. Sphinx, MyST and furo: maintained, Markdown stays readable as it is, the reference is the docstrings.

`make docs` builds it into site/; nothing is fetched, neither then nor when it is read.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "promask"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "mathml",
    "commands",
    "contents",
    "prose",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["images"]
smartquotes = False  # they make a dash of the two hyphens of an option

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4

html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = "promask"
html_math_renderer = "mathml"
html_static_path = ["static"]
html_css_files = ["promask.css"]
html_copy_source = False
html_show_copyright = False

autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
maximum_signature_line_length = 100
