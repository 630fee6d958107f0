"""Plans whose phases own what they train on: a run for each phase, one after the other, in one folder.

A phase of a plan states a recipe and steps. One that states more (a task, a model, rewards, any setting of a run), one
that trains another kind of network, and plans in rounds, make of every phase a run of its own, `runs/NAME/2-judge/`
for the second, if it is called `judge`. Whatever is to be learnt of a run holds for it: it has its own evaluation,
checkpoints and report, and an interrupted one goes on to the same bits.

An entry with a `searcher` instead of a recipe is a search for better texts (`hocket.train.search_phase`), by which the
phases after it are played.

Where a setting names a model, a scorer or a judge, `phase:NAME` is what the latest earlier phase of that name has
learnt (`phase:NAME/POLICY` in a team).
"""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hocket import tasks
from hocket.core.aliases import present
from hocket.core.errors import ConfigurationError, nearest
from hocket.core.keys import Key
from hocket.core.yaml_text import load_yaml
from hocket.rewards.functions import load_rewards
from hocket.stages import Task
from hocket.train.assemble import TASK_REWARD
from hocket.train.checkpoint import checkpoint_of, weights_in
from hocket.train.config import (
    Pairs,
    configure,
    fitting,
    is_of_recipe,
    loaded,
    settled,
    task_of,
)
from hocket.train.examples import check_examples
from hocket.train.kinds import kind_of
from hocket.train.runfolder import PLAN, RunFolder, read_json
from hocket.train.scorer_rewards import is_scorer
from hocket.train.search_phase import SearchPhase, is_search, latest, read, saved, search_phase
from hocket.train.settings import Config, as_recipe, flat_pairs
from hocket.train.trainer import Trainer, resumed
from hocket.train.trust import check, sign

_REFERENCE = re.compile(r"phase:([\w.-]+)(?:/([\w.-]+))?")

_OF_PLAN = ("plan", "rounds", "recipe", "steps", "run", "runs")


@dataclass(frozen=True)
class PhaseRun:
    """A phase that is a run of its own: the name of its folder, and its configuration before earlier ones are known."""

    name: str
    config: Config


@dataclass(frozen=True)
class _Phase:
    """An entry of a plan: what it is called, its recipe and steps, and its own settings as dotted pairs."""

    name: str
    recipe: Any
    steps: Any
    once: bool
    own: Pairs

    @property
    def scores(self) -> bool:
        """Whether a scorer is trained, and no policy."""
        return bool(as_recipe(self.recipe).outputs)


AnyPhase = PhaseRun | SearchPhase


def phase_runs(pairs: Pairs, tasks_by_name: Mapping[str, Task] | None = None) -> tuple[AnyPhase, ...]:
    """The runs that a plan among `pairs` asks for; none where it is one run, or there is no plan.

    Args:
        tasks_by_name: tasks that are objects.

    Raises:
        ConfigurationError: naming the phase, where it, its task, its recorded responses or its rewards are unfit.
    """
    settings = dict(pairs)
    plan, rounds = settings.get("plan"), settings.get("rounds", 1)
    if not isinstance(rounds, int) or rounds < 1:
        raise ConfigurationError(f"rounds = {rounds!r}: set how often the plan is repeated, at least 1")
    if "rounds" in settings and not plan:
        raise ConfigurationError("rounds repeats the phases of a plan; write `plan:` with them")
    if not isinstance(plan, Sequence) or not all(_whole(item) for item in plan):
        return ()  # What is wrong with it, `configure` says.
    searches = any(map(is_search, plan))
    phases = [_read(item, number) for number, item in enumerate(plan) if not is_search(item)]
    separate = searches or any(phase.own for phase in phases) or any({"name", "once"} & item.keys() for item in plan)
    if not (separate or rounds > 1 or len({phase.scores for phase in phases}) > 1):
        return ()
    _check_used(pairs, phases)
    if searches:
        _check_searches(plan)
    rest = iter(phases)
    entries: list[Any] = [item if is_search(item) else next(rest) for item in plan]
    unrolled = [entry for turn in range(rounds) for entry in entries if not (turn and _once(entry))]
    runs: list[tuple[_Phase, PhaseRun]] = []
    entered: list[AnyPhase] = []
    for place, entry in enumerate(unrolled):
        if is_search(entry):
            following = next(phase.recipe for phase in unrolled[place:] if isinstance(phase, _Phase))
            learnt = next((f"phase:{run.name}" for phase, run in reversed(runs) if not phase.scores), None)
            entered.append(search_phase(entry, place + 1, pairs, following, learnt, latest(entered)))
            continue
        try:
            run = _run(entry, runs, pairs, tasks_by_name or {}, place, latest(entered))
        except ConfigurationError as error:
            raise ConfigurationError(f"phase {entry.name}: {error}") from error
        runs.append((entry, run))
        entered.append(run)
    return tuple(entered)


def _once(entry: Any) -> bool:
    return bool(entry.get("once", False)) if is_search(entry) else bool(entry.once)


def _check_searches(plan: Sequence[Any]) -> None:
    """Refuses a search that no training follows."""
    if is_search(plan[-1]):
        raise ConfigurationError("the last phase of the plan is a search; train after it, or use `hocket optimise`")


def _whole(item: Any) -> bool:
    return is_search(item) or (isinstance(item, Mapping) and {"recipe", "steps"} <= item.keys())


def _read(item: Mapping[str, Any], number: int) -> _Phase:
    recipe = item["recipe"]
    name = str(item.get("name", as_recipe(recipe).name))
    if not re.fullmatch(r"[\w.-]+", name):
        raise ConfigurationError(f"plan.{number}.name = {name!r}: use letters, digits, '.', '_' and '-'")
    settings = {key: value for key, value in item.items() if key not in ("recipe", "steps", "name", "once", "type")}
    stray = next((key for key in settings if key in _OF_PLAN), None)
    if stray is not None:
        raise ConfigurationError(f"plan.{number}.{stray} is a setting of the whole plan; write it beside `plan:`")
    return _Phase(name, recipe, item["steps"], bool(item.get("once", False)), tuple(flat_pairs(present(settings))))


def _check_used(pairs: Pairs, phases: Sequence[_Phase]) -> None:
    """Refuses a setting of a recipe that no phase has."""
    method = [(key, value) for key, value in pairs if is_of_recipe(key) and key != "recipe"]
    unused = {key for key, _ in method}
    for phase in phases:
        unused -= {key for key, _ in fitting(method, as_recipe(phase.recipe))}
    if unused:
        raise ConfigurationError(f"no recipe of the plan has the setting {min(unused)!r}; see `hocket recipes NAME`")


def _run(
    phase: _Phase,
    earlier: Sequence[tuple[_Phase, PhaseRun]],
    pairs: Pairs,
    tasks_by_name: Mapping[str, Task],
    place: int,
    search: SearchPhase | None,
) -> PhaseRun:
    """The run of a phase, the plan's number `place` from 0: settings of the plan where it has them, then its own."""
    common = [(key, value) for key, value in pairs if key not in _OF_PLAN]
    of_run = [(key, value) for key, value in common if not is_of_recipe(key)]
    method = [(key, value) for key, value in common if is_of_recipe(key)]
    method = fitting(method, as_recipe(phase.recipe))
    settings = [("recipe", phase.recipe), ("steps", phase.steps), *of_run, *method, *phase.own]
    name = task_of(settings)
    task = tasks_by_name.get(name) or tasks.find(name)
    config = settled(configure([("task", name), *settings], task), task)
    of_phase = dict(phase.own)
    if not kind_of(task, config).textual:
        raise ConfigurationError(f"task {name} is not for language models, whose weights alone pass between phases")
    if "seed" not in of_phase and place:
        drawn = Key.of(config.seed).derive("phase", place).word >> 33  # 31 bits, as seeds elsewhere have.
        config = dataclasses.replace(config, seed=drawn)
    if "model" not in of_phase:
        config = _continued(config, phase, earlier)
    if search is not None and config.texts is None and not phase.scores:
        config = dataclasses.replace(config, texts=f"phase:{search.texts}")

    def numbered(match: re.Match[str]) -> str:
        return _earlier(match, earlier)

    config = _with_references(config, numbered, numbered)
    check_examples(config.recipe, task)
    load_rewards([name for name in config.reward if name != TASK_REWARD and not is_scorer(name)])
    _check_kinds(phase, config, {run.name: earlier_phase for earlier_phase, run in earlier})
    return PhaseRun(f"{place + 1}-{phase.name}", config)


def _continued(config: Config, phase: _Phase, earlier: Sequence[tuple[_Phase, PhaseRun]]) -> Config:
    """From the latest phase that trained the same kind of network; a first scorer begins as the latest policy."""
    alike = [run for earlier_phase, run in earlier if earlier_phase.scores == phase.scores]
    policies = [run for earlier_phase, run in earlier if not earlier_phase.scores]
    begins = next(reversed(alike or policies), None)
    return config if begins is None else dataclasses.replace(config, model=f"phase:{begins.name}")


Replaced = Callable[[re.Match[str]], str]


def _with_references(config: Config, run: Replaced, weights: Replaced) -> Config:
    """`config` with what stands for every `phase:NAME`: `weights` where a model is named, else `run`."""

    def model(value: str | None) -> str | None:
        return None if value is None else _REFERENCE.sub(weights, value)

    roles = {
        name: dataclasses.replace(role, model=model(role.model), tokenizer=model(role.tokenizer))
        for name, role in config.roles.items()
    }
    return dataclasses.replace(
        config,
        model=_REFERENCE.sub(weights, config.model),
        judge=_REFERENCE.sub(run, config.judge),
        reward=tuple(_REFERENCE.sub(run, spec) for spec in config.reward),
        roles=roles,
    )


def _earlier(match: re.Match[str], earlier: Sequence[tuple[_Phase, PhaseRun]]) -> str:
    """The reference with the number of the phase that it means."""
    name, policy = match.groups()
    meant = next((run.name for earlier_phase, run in reversed(earlier) if name in (earlier_phase.name, run.name)), None)
    if meant is None:
        hint = nearest(name, [earlier_phase.name for earlier_phase, _ in earlier]) if earlier else "; this is the first"
        raise ConfigurationError(f"{match[0]!r}: no earlier phase is called {name!r}{hint}")
    return f"phase:{meant}" + (f"/{policy}" if policy else "")


def _check_kinds(phase: _Phase, config: Config, earlier: Mapping[str, _Phase]) -> None:
    """A scorer pays, a policy judges and is gone on with; never the other way round."""
    for spec in filter(is_scorer, config.reward):
        for match in _REFERENCE.finditer(spec):
            if not earlier[match[1]].scores:
                raise ConfigurationError(
                    f"reward = {spec!r}: phase {match[1]} is no scorer, it writes text; name one that trains a scorer, "
                    "for example by recipe reward-model"
                )
    writers = {"model": config.model} if not phase.scores else {}
    for setting, place in {**writers, "judge": config.judge}.items():
        found_there = _REFERENCE.fullmatch(place)
        if found_there is not None and earlier[found_there[1]].scores:
            raise ConfigurationError(f"{setting} = {place!r} is a scorer, which cannot write; name another {setting}")


# ---------------------------------------------------------------- the folder, and going through it


class PlanPipeline:
    """The runs of a plan, in one folder.

    Attributes:
        folder: of all. runs: in order. trust: whether runs in it may bring code of others.
    """

    def __init__(self, folder: Path, runs: Sequence[AnyPhase], *, trust: bool = False) -> None:
        self.folder, self.runs, self.trust = folder, tuple(runs), trust

    @staticmethod
    def begin(runs: Sequence[AnyPhase], pairs: Pairs) -> PlanPipeline:
        """A new one, in the folder that `run` and `runs` among `pairs` name, else with the next number.

        Raises:
            ConfigurationError: as `RunFolder.create`.
        """
        settings = dict(pairs)
        stem = "-".join(dict.fromkeys(run.config.recipe.name for run in runs if isinstance(run, PhaseRun)))
        folder = RunFolder.create(Path(settings.get("runs", Config.runs)), settings.get("run"), stem=stem)
        phases = [
            saved(run) if isinstance(run, SearchPhase) else {"name": run.name, "config": run.config.plain()}
            for run in runs
        ]
        text = yaml.safe_dump({"phases": phases}, sort_keys=False, allow_unicode=True, width=110)
        folder.write_text(folder.path / PLAN, text)
        if problem := sign(folder.path / PLAN, [("phases", phases)]):
            folder.append_message(problem)
        return PlanPipeline(folder.path, runs, trust=True)

    @staticmethod
    def at(folder: Path, *, trust: bool = False) -> PlanPipeline:
        """The one that began in `folder`.

        Raises:
            ConfigurationError: when its plan cannot be read, or without `trust` names code of others.
        """
        phases = plan_phases(folder)
        check(folder / PLAN, [("phases", phases)], trust=trust)
        try:
            return PlanPipeline(folder, [_phase_read(phase) for phase in phases], trust=trust)
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigurationError(f"{folder / PLAN} cannot be read: {error}") from error

    def trainers(
        self,
        *,
        steps: int | None = None,
        track: tuple[str, ...] = (),
        given: Mapping[str, Task] | None = None,
        start_over: bool = False,
        **keywords: Any,
    ) -> Generator[Trainer, None, None]:
        """The trainer of each run that is not finished, in order, to be driven to its end before the next is asked for.

        A folder in which no run has begun is removed at the end, so that its name stays free after a refusal.

        Args:
            steps: of the last run, instead of what it was configured with. track: trackers instead of the configured.
            given: tasks that are objects, by name. start_over: the first run that has begun and is not finished
                begins again. keywords: of every `Trainer`.
        """
        try:
            for run in self.runs:
                if isinstance(run, SearchPhase):
                    if not run.finished(self.folder):
                        self._placed(run).run(self.folder, trust=self.trust)
                    continue
                wanted = steps if run is self.runs[-1] else None
                if not self.finished(run, wanted):
                    again = {"start_over": True} if start_over and self.begun(run) else {}
                    start_over = False
                    yield self._trainer(run, wanted, track, given or {}, {**keywords, **again})
                    if not self.finished(run, wanted):
                        return  # It was interrupted.
        finally:
            if not any(self.begun(run) for run in self.runs):
                shutil.rmtree(self.folder, ignore_errors=True)

    def _trainer(
        self,
        run: PhaseRun,
        steps: int | None,
        track: tuple[str, ...],
        given: Mapping[str, Task],
        keywords: Mapping[str, Any],
    ) -> Trainer:
        task = given.get(run.config.task)
        if self.begun(run):
            place = self.folder / run.name
            return resumed(place, steps=steps, track=track, trust=self.trust, task=task, **keywords)
        # A model is read from its weights, a scorer or judge from its run, after which it is called.
        config = _with_references(run.config, self._place, lambda match: str(self._weights(match)))
        config = dataclasses.replace(config, runs=str(self.folder), run=run.name, track=track or run.config.track)
        if config.texts is not None:
            config = dataclasses.replace(config, texts=self._texts(config.texts))
        if steps is not None:
            config = dataclasses.replace(config, steps=steps)
        return Trainer(config, task=task, **keywords)

    def _placed(self, search: SearchPhase) -> SearchPhase:
        """The search with the weights that an earlier phase has learnt."""
        settings = search.settings
        model = _REFERENCE.sub(lambda match: str(self._weights(match)), settings.model)
        start = settings.start if settings.start is None else self._texts(settings.start)
        return dataclasses.replace(search, settings=dataclasses.replace(settings, model=model, start=start))

    def _texts(self, named: str) -> str:
        """A file of texts, which an earlier phase may have written."""
        return str((self.folder / named[6:]).resolve()) if named.startswith("phase:") else named

    def _place(self, match: re.Match[str]) -> str:
        return str(self._weights(match)) if match[2] else str((self.folder / match[1]).resolve())

    def _weights(self, match: re.Match[str]) -> Path:
        """The folder of what a phase has learnt."""
        learnt = weights_in(checkpoint_of(self.folder / match[1], "last"))
        name = match[2] or next(iter(learnt))
        if name not in learnt or (not match[2] and len(learnt) > 1):
            raise ConfigurationError(f"{match[0]} has the policies {', '.join(learnt)}; write phase:NAME/POLICY")
        return learnt[name].resolve()

    def begun(self, run: AnyPhase) -> bool:
        """Whether there is something of it to go on with."""
        if isinstance(run, SearchPhase):
            return (self.folder / run.name).is_dir()
        return (self.folder / run.name / "config.yaml").is_file()

    def finished(self, run: AnyPhase, steps: int | None = None) -> bool:
        """Whether it did all its steps, or came to its end."""
        if isinstance(run, SearchPhase):
            return run.finished(self.folder)
        return self.summary(run).get("steps") == (run.config.total_steps if steps is None else steps) and (
            self.summary(run).get("reason") == "finished"
        )

    def summary(self, run: AnyPhase) -> dict[str, Any]:
        """What `summary.json` of a run holds; nothing before it has ended or was interrupted."""
        file = self.folder / run.name / "summary.json"
        return read_json(file) if file.is_file() else {}


def plan_phases(folder: Path) -> list[Mapping[str, Any]]:
    """The phases of the plan in `folder` as plain data.

    Raises:
        ConfigurationError: when its plan cannot be read, or a phase has no name that is one of a folder.
    """
    try:
        items = load_yaml((folder / PLAN).read_text())["phases"]
        names = [str(item["name"]) for item in items]
    except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError) as error:
        raise ConfigurationError(f"{folder / PLAN} cannot be read: {error}") from error
    if wrong := next((name for name in names if not re.fullmatch(r"\w[\w.-]*", name)), None):
        raise ConfigurationError(f"{folder / PLAN}: a phase is called {wrong!r}, which is no name of a folder in it")
    return list(items)


def _phase_read(data: Mapping[str, Any]) -> AnyPhase:
    if "search" in data:
        return read(data)
    return PhaseRun(data["name"], loaded(data["config"], tasks.find(data["config"]["task"])))


def find_pipeline(name: str, runs: str) -> Path | None:
    """The folder of a plan's runs, by path or by name under `runs`."""
    return next((folder for folder in (Path(name), Path(runs) / name) if (folder / PLAN).is_file()), None)
