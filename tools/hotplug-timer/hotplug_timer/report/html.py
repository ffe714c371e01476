"""Pages that need no other file: templates, style sheet, and the policy that allows for that one only."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from hotplug_host import __version__
from hotplug_host.text import printable
from hotplug_timer import drawing
from hotplug_timer.report.text import breakable

TEMPLATES = "templates"
#: The signs of matplotlib's markers, for legends and tables.
SIGNS = dict(zip(drawing.MARKERS, "●■◆▲▼✚", strict=True))


def render(template: str, variants: tuple[str, ...], verdicts: Collection[str], **content: object) -> str:
    """Return a page. LABELS are its variants, each with a colour and a sign; VERDICTS those with a colour."""
    environment = Environment(
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(_template),
    )
    environment.filters["breakable"] = breakable
    style = _template("report.css")
    return environment.get_template(template).render(
        version=__version__,
        style=Markup(style),  # noqa: S704 - our own
        style_hash=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
        variant_of=_Variants(variants),
        verdicts=verdicts,
        **content,
    )


def _template(name: str) -> str:
    return files("hotplug_timer").joinpath(TEMPLATES, name).read_text("utf-8")


def _shown(value: object) -> object:
    """Return what goes into the page for a value; it is escaped after this, unless it is our own markup."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


class _Variants:
    """How each variant is marked: the number of its colour, and its sign."""

    def __init__(self, variants: tuple[str, ...]) -> None:
        self._variants = variants

    def __contains__(self, variant: object) -> bool:
        return variant in self._variants

    def color(self, variant: str) -> int:
        return drawing.series(self._variants, variant)

    def sign(self, variant: str) -> str:
        return SIGNS[drawing.marker(self._variants.index(variant))]
