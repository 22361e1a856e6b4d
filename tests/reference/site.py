"""What the site shows beside `docs/`: the README as its first page, and what pages link to elsewhere in the repository.

mkdocs calls `on_files` and `on_page_markdown`. A link in a page is the one that holds in the repository, so that it can
be followed there too; here it is turned to where the file stands on the site.
"""

from __future__ import annotations

import os.path
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")
_TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")


def _on_site(path: str) -> str:
    """Return where on the site a file of the repository stands."""
    if path == "README.md":
        return "index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"{path}/index.md" if (ROOT / path).is_dir() else path


def _in_repository(page: str) -> str:
    if page == "index.md":
        return "README.md"
    return page if (ROOT / page).exists() else f"docs/{page}"


def _linked(page: str, text: str) -> list[str]:
    folder = os.path.dirname(page)  # noqa: PTH120 - a path within the repository, on any system
    return [os.path.normpath(f"{folder or '.'}/{target}").replace(os.sep, "/") for target in _LINK.findall(text)]


def _listed(folder: Path) -> str:
    lines = [f"- [{path.name}]({path.name})" for path in sorted(folder.glob("*.ipynb"))]
    return "\n".join([f"# {folder.name.capitalize()}", "", *lines, ""])


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the README, and what pages link to outside of `docs/`."""
    waiting = [*_TOP, *(f"docs/{file.src_uri}" for file in files.documentation_pages())]
    seen: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in seen or path.startswith("..") or not (ROOT / path).exists():
            continue  # mkdocs itself tells of a link that leads nowhere
        seen.add(path)
        full, there = ROOT / path, _on_site(path)
        if full.is_dir():
            files.append(File.generated(config, there, content=_listed(full)))
            waiting += [str(found.relative_to(ROOT)) for found in full.glob("*.ipynb")]
            continue
        if not path.startswith("docs/"):
            files.append(File.generated(config, there, abs_src_path=str(full)))
        if path.endswith(".md"):
            waiting += _linked(path, full.read_text())
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn each link to where its file stands on the site."""
    here = page.file.src_uri
    source = _in_repository(here)

    def turned(match: re.Match[str]) -> str:
        (target,) = _linked(source, match.group())
        start = os.path.dirname(here) or "."  # noqa: PTH120 - a path of the site
        return f"]({os.path.relpath(_on_site(target), start).replace(os.sep, '/')}"

    return _LINK.sub(turned, markdown) if (ROOT / source).exists() else markdown
