"""The rendered documentation: it builds without a warning, and asks nothing of the network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mkdocs.config import load_config

from tests import ROOT

pytestmark = pytest.mark.slow
FETCHED = re.compile(
    r"<(?:script|img|iframe|source)[^>]* src=\"(?:https?:)?//|<link[^>]* href=\"(?:https?:)?//|@import"
)
PAGE = "A [role](../ansible/playbooks/ab.yml), [`Makefile`](../Makefile), [results](examples/demo).\n"


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Build a site as `make docs` and the contributors' guide tell."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", config, "--site-dir", site],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_rendered(site: Path) -> None:
    pages = {
        str(page.relative_to(ROOT / "docs").with_suffix(".html")) for page in (ROOT / "docs").rglob("*.md")
    }
    assert pages <= {str(page.relative_to(site)) for page in site.rglob("*.html")}


def test_pages_fetch_nothing_from_elsewhere(site: Path) -> None:
    pages = [
        page
        for page in [*site.rglob("*.html"), *site.rglob("*.css")]
        if FETCHED.search(page.read_text("utf-8"))
    ]
    assert pages == []
    assert FETCHED.search('<link rel="preconnect" href="https://fonts.example">')


def test_links_and_pictures_of_the_site_are_there(site: Path) -> None:
    """Also in raw HTML, which MkDocs does not check."""
    for page in site.rglob("*.html"):
        for link in re.findall(r" (?:src|href)=\"([^\"#]+)", page.read_text("utf-8")):
            if not re.match(r"[a-z]+:|/", link):
                assert (page.parent / link).exists(), f"{page.relative_to(site)}: {link}"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """The configuration of a site of one page, with the hook of ours and files around it."""
    for name in ("ansible/playbooks/ab.yml", "Makefile", "docs/examples/demo/a.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "docs/index.md").write_text(f"# One\n\n{PAGE}")
    config = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[0]
    config = config.replace("tools/docs/sitehook.py", str(ROOT / "tools/docs/sitehook.py"))
    (tmp_path / "mkdocs.yml").write_text(config.replace("name: material", "name: mkdocs"))
    (tmp_path / "mkdocs.yml").write_text(
        re.sub(r"^theme:\n(?:  .*\n)+", "theme: mkdocs\n", config, flags=re.MULTILINE) + "\nnav: [./]\n"
    )
    return tmp_path


def rendered(small: Path) -> str:
    done = build(small / "mkdocs.yml", small / "site")
    assert done.returncode == 0, done.stderr
    return (small / "site/index.html").read_text("utf-8")


def test_a_link_out_of_the_site_becomes_text_with_the_path(small: Path) -> None:
    text = rendered(small)
    assert "A role (<code>ansible/playbooks/ab.yml</code>), <code>Makefile</code>," in text
    assert "results (<code>docs/examples/demo</code>)." in text


def test_a_link_out_of_the_site_leads_to_the_repository_if_it_has_an_address(small: Path) -> None:
    with (small / "mkdocs.yml").open("a") as config:
        config.write("repo_url: https://forge.example/ours/\n")
    assert '<a href="https://forge.example/ours/blob/main/ansible/playbooks/ab.yml">role</a>' in rendered(
        small
    )


@pytest.mark.parametrize("link", ["gone.md", "index.md#gone", "../gone.yml", "#gone"])
def test_a_link_that_leads_nowhere_fails_the_build(small: Path, link: str) -> None:
    with (small / "docs/index.md").open("a") as page:
        page.write(f"[wrong]({link})\n")
    done = build(small / "mkdocs.yml", small / "site")
    assert done.returncode != 0
    assert link.partition("#")[0].rpartition("/")[2] in done.stderr


def test_a_page_that_the_navigation_lacks_fails_the_build(small: Path) -> None:
    (small / "docs/other").mkdir()
    (small / "docs/other/page.md").write_text("# Other\n")
    done = build(small / "mkdocs.yml", small / "site")
    assert done.returncode != 0
    assert "other/page.md" in done.stderr


def test_the_configuration_downloads_no_font() -> None:
    config = load_config(str(ROOT / "mkdocs.yml"))
    assert config.theme["font"] is False
    assert [name for name in config.plugins if not name.endswith(".py")] == ["material/search"]
