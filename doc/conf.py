"""Sphinx configuration of the user documentation; see `make docs`."""

import sys
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "deploysteps"
copyright = "the deploysteps authors, Apache-2.0"
release = version = metadata.version("deploysteps")

extensions = ["sphinx.ext.autodoc", "from_the_code"]
exclude_patterns = ["_ext", "_build"]
default_role = "literal"

html_theme = "alabaster"
html_theme_options = {
    "description": "A bare-metal conductor whose step engine loses nothing",
    "fixed_sidebar": True,
    "page_width": "1100px",
    "sidebar_width": "240px",
}
html_show_sphinx = False
html_copy_source = False

# Every name in the text that looks like one of ours has to lead somewhere; what
# signatures name beside that is not explained here.
nitpicky = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
