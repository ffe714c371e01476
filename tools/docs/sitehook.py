"""A hook of MkDocs: folders in the navigation, and links that lead out of the site.

A forge shows the same pages in the checkout, where a link to a playbook or a patch works. The site holds the
pages alone, so such a link becomes one to the repository (`repo_url`), or else text that names the path.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

LINK = re.compile(
    r"(?P<fence>^```.*?^```$)|(?<!!)\[(?P<text>[^\]]*)\]\((?P<link>[^)\s]+)\)", re.MULTILINE | re.DOTALL
)
BRANCH = "main"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of a folder where the navigation names the folder: its index first, then by name."""
    config.nav = _expanded(config.nav or [], Path(config.docs_dir))
    return config


def _expanded(nav: Any, docs: Path) -> Any:
    if isinstance(nav, dict):
        return {title: _expanded(below, docs) for title, below in nav.items()}
    if not isinstance(nav, list):
        return nav
    found: list[Any] = []
    for entry in nav:
        if isinstance(entry, str) and entry.endswith("/"):
            pages = sorted((docs / entry).glob("*.md"), key=lambda page: (page.stem != "index", page.name))
            found += [str(page.relative_to(docs)) for page in pages]
        else:
            found.append(_expanded(entry, docs))
    return found


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page with its links out of the site replaced."""
    docs = Path(config.docs_dir).resolve()
    folder = (docs / page.file.src_uri).parent
    inside = {file.src_uri for file in files if file.inclusion.is_included()}

    def replaced(match: re.Match[str]) -> str:
        link = match["link"]
        if match["fence"] or not link or re.match(r"#|[a-z]+:", link):
            return match[0]
        path = (folder / link.partition("#")[0]).resolve()
        if path.is_relative_to(docs) and str(path.relative_to(docs)) in inside:
            return match[0]
        # Also a page that is missing comes here: MkDocs shall warn of it.
        if not path.exists():
            return match[0]
        return outside(match["text"], str(path.relative_to(docs.parent)), config.repo_url)

    return LINK.sub(replaced, markdown)


def outside(text: str, path: str, repo_url: str | None) -> str:
    """Return a link to a file of the repository, or without its address the text and the path."""
    if repo_url:
        return f"[{text}]({repo_url.rstrip('/')}/blob/{BRANCH}/{path})"
    plain = text.strip("`")
    if plain and path.rstrip("/").endswith(plain):
        return f"`{path}`"
    return f"{text} (`{path}`)"
