"""Matplotlib's pictures for a page: inline SVG in the page's colours, without styles, with words for it."""

from __future__ import annotations

import io
import re
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hotplug_host.text import printable

mpl.use("svg")

MARKERS = "osD^vP"
#: Matplotlib wants colours, the page wants CSS variables: these stand for them and get replaced.
INK = "#010101"
FAINT = "#020202"
SERIES = ("#030303", "#040404", "#050505", "#060606", "#070707", "#080808")
VARIABLES = {
    INK: "var(--ink)",
    FAINT: "var(--faint)",
    **{color: f"var(--series-{at})" for at, color in enumerate(SERIES)},
}
#: Text stays text; ids are the same every time; a "$" in a label is a "$".
RC: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "hotplug-timer",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.parse_math": False,
}
#: The page has one font and one order of painting for all pictures.
LEFT_TO_THE_PAGE = ("font-family", "stroke-linejoin")
#: How one part of a picture refers to another: in a link, or in any other attribute.
LINK, REFERENCE = re.compile(r"^(#)(.+)()$"), re.compile(r"^(url\(#)([^)]+)(\))$")


def to_inline(figure: Figure, key: str, title: str, description: str) -> str:
    """Return a figure as an SVG element to put into HTML, where KEY is this picture's alone.

    It has a title and a description for those who cannot see it, presentation attributes in place of
    styles (which a strict content security policy forbids), and no id but those it refers to.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    root = ElementTree.fromstring(buffer.getvalue())  # noqa: S314 - matplotlib's, a moment ago
    for parent in list(root.iter()):
        for child in list(parent):
            if _local(child.tag) in ("metadata", "style"):
                parent.remove(child)
    for element in root.iter():
        element.tag = _local(element.tag)
        attributes = {_local(name): value for name, value in element.attrib.items()}
        element.attrib.clear()
        element.attrib.update(_plain(attributes))
    _rename(root, key)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    describe(root, key, title, description)
    return ElementTree.tostring(root, encoding="unicode")


def describe(root: ElementTree.Element, key: str, title: str, description: str) -> None:
    """Make an SVG element a picture with a title and a description."""
    root.attrib.update({"role": "img", "aria-labelledby": f"{key}-title", "aria-describedby": f"{key}-desc"})
    for at, (name, text) in enumerate((("title", title), ("desc", description))):
        element = ElementTree.Element(name, {"id": f"{key}-{name}"})
        element.text = printable(text)
        root.insert(at, element)


def style_axes(axes: Axes, grid: str) -> None:
    """Draw axes in the page's colours, with a grid across one axis ("x" or "y") and no box around."""
    axes.grid(axis=grid, color=FAINT, linewidth=0.5, alpha=0.6)  # type: ignore[arg-type]
    axes.set_axisbelow(True)
    axes.tick_params(which="both", colors=INK, length=3)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(FAINT)


def series(variants: tuple[str, ...], variant: str) -> int:
    """Return which of the colours a variant has; with many variants they start again."""
    return variants.index(variant) % len(SERIES)


def marker(number: int) -> str:
    """Return the marker of the variant with this number, from 0. Where colours start again, they do not."""
    return MARKERS[(number + number // len(SERIES)) % len(MARKERS)]


def _plain(attributes: dict[str, str]) -> dict[str, str]:
    """Return attributes without a style: what it says becomes attributes, in the page's colours."""
    declarations = (part.partition(":") for part in attributes.pop("style", "").split(";") if part.strip())
    attributes |= {name.strip(): value.strip() for name, _, value in declarations}
    return {
        name: VARIABLES.get(value, value)
        for name, value in attributes.items()
        if name not in LEFT_TO_THE_PAGE
    }


def _rename(root: ElementTree.Element, key: str) -> None:
    """Put KEY before the ids that something refers to, and before what refers to them; drop all other ids."""
    referred = set()
    for element in root.iter():
        for name, value in element.attrib.items():
            if (found := (LINK if name == "href" else REFERENCE).match(value)) is not None:
                element.attrib[name] = f"{found[1]}{key}-{found[2]}{found[3]}"
                referred.add(found[2])
    for element in root.iter():
        own = element.attrib.pop("id", None)
        if own in referred:
            element.attrib["id"] = f"{key}-{own}"


def _local(name: str) -> str:
    return name.rpartition("}")[2]
