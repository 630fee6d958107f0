"""Hooks of the documentation site: what `mkdocs.yml` cannot say by itself.

- The home page is README.md, with the lists of `docs/index.md` behind it.
- A file outside `docs/` that a page links to becomes a page under `repository/`, so that links which work in the
  repository work in the site too.
- A room of the package is a page under `reference/`, with every public name of its modules.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(?<=\]\()(?P<path>[^)\s:#]+)(?P<anchor>#[^)\s]*)?(?=\))")
CODE = re.compile(r"`[^`]+`")
REFERENCE = {
    "python": ("hocket.run", "hocket.apps.use", "hocket.train.settings", "hocket.testing"),
    "vocabulary": ("hocket.types", "hocket.stages", "hocket.recipe", "hocket.core.batch", "hocket.core.columns"),
    "curriculum": ("hocket.curriculum",),
    "rollout": ("hocket.rollout",),
    "rewards": ("hocket.rewards",),
    "credit": ("hocket.credit",),
    "objectives": ("hocket.objectives",),
    "update": ("hocket.update", "hocket.hooks"),
    "workflows": ("hocket.agents.workflows",),
    "tools": ("hocket.agents.tools",),
    "worlds": (
        "hocket.agents.environments.protocol",
        "hocket.core.worlds",
        "hocket.lab.exact.worlds",
        "hocket.lab.exact.solver",
    ),
    "engines": ("hocket.engine.requests", "hocket.train.kinds"),
}
"""The pages of the reference: their names, and the modules or packages whose modules they hold."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages of the reference, and those for files outside `docs/`."""
    for name, parts in REFERENCE.items():
        modules = [module for part in parts for module in _modules(part)]
        text = f"# {name.capitalize()}\n\n" + "\n\n".join(f"::: {module}" for module in modules)
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    todo = {file.src_uri: ROOT / "docs" / file.src_uri for file in files.documentation_pages() if not file.generated_by}
    linked = {_outside(path, target) for path in [ROOT / "README.md", *todo.values()] for target in _targets(path)}
    done: set[str] = set()
    while fresh := linked - done - {None}:
        for target in fresh:
            file = File.generated(config, _site_path(target), content=_as_page(ROOT / target))
            files.append(file)
            done.add(target)
            linked |= {_outside(ROOT / target, one) for one in _targets(ROOT / target)}
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links of the repository become links of the site; the home page begins with README.md."""
    uri = page.file.src_uri
    source = ROOT / uri.removeprefix("repository/") if uri.startswith("repository/") else ROOT / "docs" / uri
    if source.suffix == ".md" and not source.exists():
        source = source.with_suffix("")
    # GitHub wants `|` escaped in a table's code; here the backslash would show.
    text = re.sub(r"(?m)^\|.*$", lambda row: CODE.sub(lambda code: code[0].replace("\\|", "|"), row[0]), markdown)
    text = LINK.sub(_rewriting(source, uri), text)
    if uri != "index.md":
        return text
    page.meta["hide"] = ["navigation"]
    readme = LINK.sub(_rewriting(ROOT / "README.md", uri), (ROOT / "README.md").read_text("utf-8"))
    return readme + "\n" + re.sub(r"^# ", "## ", re.sub(r"^## ", "### ", text, flags=re.MULTILINE), flags=re.MULTILINE)


def _modules(part: str) -> Iterator[str]:
    """A module itself, or the modules of a package."""
    place = ROOT / part.replace(".", "/")
    if place.with_suffix(".py").exists():
        yield part
        return
    yield from (f"{part}.{file.stem}" for file in sorted(place.glob("*.py")) if not file.stem.startswith("_"))


def _targets(source: Path) -> Iterator[str]:
    """The relative links of a page."""
    if source.suffix == ".md":
        yield from (match["path"] for match in LINK.finditer(source.read_text("utf-8")))


def _repository_path(source: Path, target: str) -> str | None:
    """The path of a linked file from the root of the repository; None where there is no such file."""
    path = posixpath.normpath(posixpath.join(source.parent.relative_to(ROOT).as_posix(), target))
    return path if (ROOT / path).is_file() else None


def _outside(source: Path, target: str) -> str | None:
    """The path of a linked file that is not in `docs/`."""
    path = _repository_path(source, target)
    return None if path is None or path.startswith("docs/") or path == "README.md" else path


def _site_path(path: str) -> str:
    """Where the site has a file of the repository."""
    if path == "README.md":
        return "index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"repository/{path}" if path.endswith(".md") else f"repository/{path}.md"


def _as_page(file: Path) -> str:
    """A file as Markdown; what is not Markdown stands in a block of code."""
    text = file.read_text("utf-8")
    if file.suffix == ".ipynb":
        return "\n\n".join(part for cell in json.loads(text)["cells"] for part in _cell(cell))
    kind = {".py": "python", ".yaml": "yaml"}.get(file.suffix, "text")
    return text if file.suffix == ".md" else f"# {file.name}\n\n````{kind}\n{text}````\n"


def _cell(cell: Mapping[str, Any]) -> Iterator[str]:
    """The parts of a notebook's cell: its text or code, and the outputs that are saved with it."""
    source = "".join(cell["source"])
    yield source if cell["cell_type"] == "markdown" else f"````python\n{source}\n````"
    for output in cell.get("outputs", ()):
        data = output.get("data", {"text/plain": output.get("text", ())})
        html = "".join(data.get("text/html", ()))
        yield html or "````text\n" + "".join(data["text/plain"]).rstrip() + "\n````"


def _rewriting(source: Path, uri: str) -> Callable[[re.Match[str]], Any]:
    """Replaces the links of `source` by those from the page `uri`; a broken link stays, and fails the build."""

    def replaced(match: re.Match[str]) -> str:
        path = _repository_path(source, match["path"])
        if path is None:
            return match[0]
        return posixpath.relpath(_site_path(path), posixpath.dirname(uri) or ".") + (match["anchor"] or "")

    return replaced
