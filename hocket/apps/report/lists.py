"""What `hocket recipes`, `tasks` and `workflows` list: a page of what to look at first, a family, or what a word finds.

Nothing that is listed is imported: names come from the registries, and what recipes need from their cards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text

from hocket import tasks
from hocket.apps.report.cards import cards
from hocket.core.discovery import Declaration, hyphenated
from hocket.core.errors import ConfigurationError
from hocket.core.names import RECIPES, WORKFLOWS, task_within

BASE = "hocket.methods.base"

BEST_KNOWN = ("gigpo", "kto", "orpo", "search-r1", "simpo")
"""Recipes outside `hocket.methods.base` that stand on the first page."""

LESS_KNOWN = (
    *("a-star-po", "cql", "ddpg", "diffu-grpo", "diffusion-dpo", "echo", "gold", "happo", "impala", "multi-teacher"),
    *("opsd", "pf-ppo", "ppo-kl-penalty", "prime-ipo", "prime-opd", "tpo", "uld", "vdn"),
)
"""Recipes of `hocket.methods.base` that do not: the page is one screen, and each has a better known one beside it."""

FOR_ALL = ("data", "packages")
"""Families of tasks into which users bring their own work; all of them stand on the first page."""

EXAMPLES = 6
"""So many names stand beside a family."""


@dataclass(frozen=True)
class ListEntry:
    """A line of a list.

    Attributes:
        name, about: of a recipe, task or workflow: as it is typed, and what it is in a line.
        family: under which it is listed. paper: the catalogue id of the only paper that needs it, else empty.
        first: whether it stands on the first page.
    """

    name: str
    about: str
    family: str
    paper: str = ""
    first: bool = False


# ---------------------------------------------------------------- what there is


def recipes() -> list[ListEntry]:
    """All recipes. First come the methods that files of `hocket.methods.base` are named after, and the best known."""
    return [
        ListEntry(name, card["title"], card["family"], first=_is_standard(RECIPES.declared[name]))
        for name, card in cards().items()
    ]


def _is_standard(declared: Declaration) -> bool:
    package, _, file = declared.module.rpartition(".")
    named = package == BASE and declared.attribute.lower() == file and declared.name not in LESS_KNOWN
    return declared.name in BEST_KNOWN or named


def all_tasks(*, datasets: bool = False) -> list[ListEntry]:
    """All tasks, with `datasets` those of reasoning-gym too. First come usual ones and those for users' own work."""
    users = _users()
    entries = [_task(declared, users.get(declared.name, ())) for declared in tasks.forms()]
    more = tasks.catalogue(reasoning_gym=True)[len(entries) :] if datasets else []
    return [*entries, *(ListEntry(name, about, "reasoning-gym") for name, about in more)]


def _task(declared: Declaration, users: Iterable[tuple[str, str]]) -> ListEntry:
    """A task's line. It is a paper's if it is declared there, or if recipes of one paper alone are for it."""
    papers = set(users)
    paper = _paper(declared.module) or (papers.pop() if len(papers) == 1 and not declared.family else ("", ""))
    family = paper[0] or declared.family or _elsewhere(declared.module)
    return ListEntry(
        declared.name, declared.description, family, paper[1], declared.name in tasks.FIRST or family in FOR_ALL
    )


def workflows() -> list[ListEntry]:
    """All workflows that state what they are. First come those for any task, which no paper declares."""
    entries = []
    for declared in WORKFLOWS.declared.values():
        if declared.description:
            family, paper = _paper(declared.module) or ("general" if declared.module.startswith("hocket.") else "", "")
            family = family or _elsewhere(declared.module)
            entries.append(ListEntry(declared.name, declared.description, family, paper, first=family == "general"))
    return entries


def _users() -> Mapping[str, set[tuple[str, str]]]:
    """Of each task that recipes are for, the group and the id of their papers, both empty for standard methods."""
    users: dict[str, set[tuple[str, str]]] = {}
    for name, card in cards().items():
        declared = task_within(card["task"])[1] if card["task"] else None
        if declared is not None:
            users.setdefault(declared.name, set()).add(_paper(RECIPES.declared[name].module) or ("", ""))
    return users


def _paper(module: str) -> tuple[str, str] | None:
    """The group and the id of the paper in whose file or folder, `hocket.methods.GROUP.ROW`, a module is."""
    parts = module.split(".")
    if parts[:2] != ["hocket", "methods"] or len(parts) < 4 or module.startswith(f"{BASE}."):
        return None
    return hyphenated(parts[2]), hyphenated(parts[3])


def _elsewhere(module: str) -> str:
    """The family of what belongs to none: the installed package that declares it."""
    package = module.partition(".")[0]
    return package if package != "hocket" else "others"


# ---------------------------------------------------------------- some of it


def of_family(entries: Iterable[ListEntry], family: str) -> list[ListEntry]:
    """The members of a family."""
    return [entry for entry in entries if hyphenated(entry.family) == hyphenated(family)]


def search(entries: Iterable[ListEntry], words: str, kind: str) -> list[ListEntry]:
    """Those that have all the words in their name, description or paper.

    Raises:
        ConfigurationError: when there are none.
    """
    wanted = _plain(words).split()
    matches = [
        entry
        for entry in entries
        if all(word in _plain(f"{entry.name} {entry.about} {entry.paper}") for word in wanted)
    ]
    if not matches:
        raise ConfigurationError(
            f"no {kind} has {words!r} in its name or description; `hocket {kind}s --all` lists them all"
        )
    return matches


def _plain(text: str) -> str:
    return hyphenated(text).lower()


# ---------------------------------------------------------------- the first page


def first_page(kind: str, heading: str, entries: Sequence[ListEntry]) -> Iterator[Text]:
    """The lines of the first page: what to look at first, the families, and how to see the rest."""
    order = list(dict.fromkeys(entry.family for entry in entries if entry.first))
    first = sorted((entry for entry in entries if entry.first), key=lambda entry: order.index(entry.family))
    width = max(len(entry.name) for entry in first)
    yield Text(heading, "cyan")
    for entry in first:
        yield Text.assemble("  ", (entry.name.ljust(width), "bold"), f"  {entry.about}")
    yield Text()
    yield from _families(kind, entries)
    yield Text()
    yield Text(f"hocket {kind}s NAME shows one, --search WORD finds some, --all lists all", "dim")


def _families(kind: str, entries: Sequence[ListEntry]) -> Iterator[Text]:
    """A line for every family: how to see it, how many it has, and some of them."""
    families: dict[str, list[ListEntry]] = {}
    for entry in sorted(entries, key=lambda entry: (entry.family, not entry.first, entry.name)):
        families.setdefault(entry.family, []).append(entry)
    width = max(map(len, families))
    of_papers = {family for family, members in families.items() if all(entry.paper for entry in members)}
    parts = {f"all {len(entries)} by family": families.keys() - of_papers, "each for one paper, by field": of_papers}
    for heading, part in parts.items():
        if part:
            yield Text(heading, "cyan")
        for family in sorted(part):
            members = families[family]
            names = ", ".join(entry.name for entry in members[:EXAMPLES]) + (", .." if len(members) > EXAMPLES else "")
            way = f"hocket {kind}s {family.ljust(width)}"
            yield Text.assemble("  ", (way, "bold"), f"  {len(members):3}  ", (names, "dim"))
