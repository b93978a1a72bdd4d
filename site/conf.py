"""Settings of Sphinx. The pages themselves are written by build.py, which also starts Sphinx."""

import re
import sys
from pathlib import Path

from sphinx.highlighting import PygmentsBridge

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for the modules in pages/
from pages import links  # noqa: E402

project = "transformer-lab"
author = "The transformer-lab authors"
copyright = "the transformer-lab authors, MIT licence"
html_title = "transformer-lab"
language = "en"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["_static"]
default_role = "py:obj"  # `Encoder` in a docstring becomes a link where there is such a thing

# Pages are made from what is stored; nothing is run.
nb_execution_mode = "off"
nb_code_prompt_show = "Predict first, then show the result"
nb_code_prompt_hide = "Hide the result"
nb_mime_priority_overrides = [("html", "text/html", 0), ("html", "text/markdown", 5)]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist", "attrs_block"]
myst_heading_anchors = 4
myst_heading_slug_func = "pages.links.anchor"
myst_dmath_double_inline = True

add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
napoleon_google_docstring = True
napoleon_numpy_docstring = False

html_theme = "sphinx_book_theme"
templates_path = ["templates"]
napoleon_use_ivar = True
napoleon_attr_annotations = False  # stars in shapes are no emphasis
suppress_warnings = ["ref.python"]  # a name in a docstring may stand for several things
html_static_path = [str(HERE.parent / "build" / "pages" / "_static")]
html_context = {"default_mode": "auto"}
# The site's address; a posted link shows no picture unless it is known.
html_baseurl = links.SITE
html_css_files = ["course.css"]
html_js_files = [("symptoms.js", {"type": "module"}), ("course.js", {"type": "module"})]
html_additional_pages = {"search": "search.html"}
html_favicon = str(HERE / "style" / "favicon.svg")
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_use_index = html_domain_indices = False  # the glossary and the reference are the indexes
mathjax3_config = {"chtml": {"scale": 0.93}}  # the longest formula fits
mathjax_path = "mathjax/tex-chtml.js"
html_theme_options = {
    "show_navbar_depth": 1,
    "show_toc_level": 1,
    "use_download_button": False,
    "use_fullscreen_button": False,
    "navigation_with_keys": False,
    "navbar_persistent": [],  # the search is above the contents
    "home_page_in_toc": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def setup(app):
    """What no setting can do: heads of pages, and two things that docstrings mean otherwise than autodoc."""
    from pages import hanging, posted, search_index

    app.connect("html-page-context", posted.add)
    app.connect("builder-inited", lambda app: setattr(app.builder, "search", False))  # the site has its own
    app.connect("doctree-read", search_index.collect)
    app.connect("build-finished", search_index.write)
    PygmentsBridge.html_formatter = hanging.Hanging
    app.connect("autodoc-skip-member", skip_fields)
    app.connect("autodoc-process-docstring", join_names, priority=400)  # before napoleon


def skip_fields(app, kind, name, member, skip, options):
    """Skip a dataclass's fields: its docstring tells of them. A `forward` without words has its shapes."""
    return skip or not (callable(member) or isinstance(member, property))


def join_names(app, kind, name, thing, options, lines):
    """Let one line describe several arguments: napoleon would take all but the last for a type."""
    lines[:] = [SEVERAL.sub(lambda found: found[0].replace(", ", ","), line) for line in lines]


SEVERAL = re.compile(r"^ +\w+(, \w+)+:")
