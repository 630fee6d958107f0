"""Names: the registries of what is declared in files of the library, and names that hold settings or other names.

Reading a registry imports no file that declares something.
"""

from __future__ import annotations

from urllib.parse import unquote

from hocket.core.discovery import CLASS, Declaration, Registry, constant, hyphenated
from hocket.core.errors import ConfigurationError, suggestion

RECIPES = Registry("recipe", ("hocket.methods",), constant("Recipe", r"\w+\.but"))
"""Every recipe of `hocket.methods` and of installed packages; `hocket.recipes` finds them."""

ANALYSES = Registry("analysis", ("hocket.methods",), constant("Analysis", "FieldSurvey"))
"""Catalogue rows that are no recipe."""

SURVEYS = Registry("survey", ("hocket.methods.surveys",), constant("FieldSurvey"))
"""Surveys whose taxonomy the library maps, see `hocket.core.surveys`; they are analyses too."""

TASKS = Registry("task", ("hocket.tasks", "hocket.zoo", "hocket.methods"), constant("TaskForm"))
"""Constants that are a `TaskForm`; `hocket.tasks` finds tasks."""

WORKFLOWS = Registry("workflow", ("hocket.agents.workflows", "hocket.apps.serve", "hocket.methods"), CLASS)
"""Classes of workflows that state their `name`; `hocket.agents.workflows.library` finds them."""


def parse_name(name: str, kind: str = "task") -> tuple[str, dict[str, str]]:
    """The name of a task, or another `kind` of thing, without its settings, and the settings as text.

    They are written `NAME?key=value&key=value`; values may be percent-encoded.

    Raises:
        ConfigurationError: for a setting without `=` or one given twice.
    """
    base, _, query = name.partition("?")
    settings: dict[str, str] = {}
    for part in query.split("&") if query else ():
        key, equals, text = part.partition("=")
        if not equals or not key:
            raise ConfigurationError(f"{kind} {name!r}: {part!r} is no setting; write NAME?key=value&key=value")
        if key in settings:
            raise ConfigurationError(f"{kind} {name!r}: {key} is given twice")
        settings[key] = unquote(text)
    return base, settings


def task_within(name: str) -> tuple[str, Declaration | None, str]:
    """A task's name in three parts: the tasks around it, such as `built:`, the declared task, and what follows.

    The task is None where the innermost name is not declared by itself, as in `gym:CartPole-v1` and `FILE.py:NAME`.
    """
    start = 0
    while (end := name.partition("?")[0].find(":", start)) >= 0 and f"{name[start:end]}:TASK" in TASKS.declared:
        start = end + 1
    base, mark, settings = name[start:].partition("?")
    declared = TASKS.declared.get(base)
    return name[:start], declared, f"{mark}{settings}" if declared is not None else name[start:]


def task_spelling(name: str) -> str:
    """A task's name as the innermost task is spelled now: `built:worked_sums?form=1` is `built:worked-sums?form=1`."""
    around, declared, rest = task_within(name)
    return name if declared is None else f"{around}{declared.name}{rest}"


def drawn_as(name: str) -> str:
    """A task's name in the keys of random draws and in ids of scenarios (see `TaskForm.drawn_as`)."""
    around, declared, rest = task_within(name)
    if declared is None:
        return name
    form = declared.load()
    return f"{around}{form.drawn_as or form.name}{rest}"


_NOT_THERE = (
    ("off-policy, with a replay buffer", "d4pg tqc crossq redq droq her awr mpo", "sac or td3"),
    (
        "off-policy values of actions",
        "ddqn double-dqn dueling-dqn qr-dqn iqn c51 rainbow r2d2 apex",
        "dqn or dqn-duelling",
    ),
    ("asynchronous or off-policy actor-critic", "a3c acer acktr", "a2c, impala or sac"),
    ("off-policy values of a team", "qtran qplex matd3 coma facmac", "qmix, vdn or maddpg"),
    ("a learnt model of the environment", "dreamer dreamerv3 muzero alphazero mbpo pets", "ppo or mappo"),
    ("offline control", "awac bcq td3-bc", "cql, iql or bc"),
    ("imitation", "behaviour-cloning behavior-cloning gail airl dagger", "bc, or sft for language models"),
    ("evolution of weights", "es ars cem cma-es openai-es", "zo-ranksgd"),
    ("fine-tuning on the best samples", "raft rft star rest best-of-n rejection-sampling", "nft or grpo"),
    ("distillation", "opd knowledge-distillation kd", "on-policy-distillation or gkd, with --teacher"),
    ("the plain policy gradient", "vpg pg", "reinforce"),
)
"""Well-known methods that the library lacks, by kind: their names, and the recipes that come nearest."""


def unknown_recipe(name: str) -> ConfigurationError:
    """The error for a name that no recipe has: its nearest in kind if it is a well-known method, else in spelling."""
    plain = hyphenated(name.lower())
    look = "`hocket recipes --search WORD` finds others"
    for kind, names, instead in _NOT_THERE:
        if plain in names.split():
            return ConfigurationError(
                f"recipe = {name!r} is not in this library ({kind}); nearest in kind: {instead}. {look}"
            )
    return ConfigurationError(f"recipe = {name!r} is unknown{suggestion(plain, RECIPES.declared, look)}")
