"""Sphinx settings. `make docs` builds with -W: a warning is an error."""

import re
from typing import Any

from sphinx.application import Sphinx

import ccnn

project = "ccnn"
author = "The ccnn authors"
copyright = "The ccnn authors"
version = release = ccnn.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"ccnn {release}"

myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 3

# Methods that scikit-learn adds to its estimators, with docstrings that refer to its own pages.
_REQUESTS = [
    f"set_{method}_request"
    for method in ("fit", "partial_fit", "predict", "predict_proba", "score")
]
# What is public is what a package lists in __all__.
autodoc_default_options = {
    "members": True,
    "show-inheritance": True,
    "exclude-members": ", ".join(_REQUESTS),
}
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_inherit_docstrings = False  # torch's own docstrings are not ours to print
napoleon_google_docstring = False
napoleon_custom_sections = [("Shapes", "params_style")]
default_role = "py:obj"

# Code spans and **bold** are kept; in all else, signs that reStructuredText would read as markup.
_SIGNS = re.compile(r"(``.+?``|`[^`]+`|\*\*\w[^*]*\*\*)|(\*(?=\S)|\||(?<=\w)_(?!\w))")


def escape_plain_text(
    app: Sphinx, what: str, name: str, obj: object, options: Any, lines: list[str]
) -> None:
    """Escape `(B, C, *S)`, `|w|` and `fit_`: docstrings are written as one would write a mail."""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[i] = _SIGNS.sub(lambda m: m[1] or "\\" + m[2], line)


def setup(app: Sphinx) -> None:
    # Before napoleon (priority 500), which writes markup of its own.
    app.connect("autodoc-process-docstring", escape_plain_text, priority=400)
