"""A searcher as a user runs it: `hocket optimise` with a language model as target, its texts in the model's prompt."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hocket.agents.search.searcher import SearchMethod
from hocket.agents.workflows.rewording import Worded
from hocket.core.keys import Key
from hocket.core.texts import Block, Texts
from hocket.lab.claims.finding import Finding
from hocket.rewards.judging import prompt_text
from hocket.train.aio import run_async
from hocket.train.optimise.run import BEST, TRIALS, SearchRun, SearchSettings
from hocket.types import Assignment

QUICK: Mapping[str, Any] = {"budget": 120, "practice": 8, "development": 10, "evaluation": 8}


@dataclass(frozen=True)
class SearchCheck:
    """What is run: a searcher as shipped on the shipped model, with `reflect` in place of a reflecting model.

    Attributes:
        settings: of `SearchSettings`, over `QUICK`.
    """

    method: SearchMethod
    reflect: Callable[[str], str]
    settings: Mapping[str, Any]

    @property
    def sentence(self) -> str:
        return (
            f"`hocket optimise --searcher {self.method.name}` on the shipped model: its texts stand in the model's "
            "prompt (or say who speaks again after reading), no weight changes, the budget is kept, what it returns is "
            "not worse on development than the start, and a second run that begins from the first one's journal, cut "
            "in the middle, comes to the same."
        )

    def __call__(self) -> Finding:
        with tempfile.TemporaryDirectory() as place:
            complete, cut = Path(place) / "whole", Path(place) / "cut"
            run = self._run(complete)
            facts = run.run()
            cut.mkdir()
            lines = (complete / "journal.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
            (cut / "journal.jsonl").write_text("".join(lines[: len(lines) // 2]), encoding="utf-8")
            again = self._run(cut).run()
            same = all((complete / file).read_bytes() == (cut / file).read_bytes() for file in (TRIALS, BEST))
            same &= {**facts, "path": ""} == {**again, "path": ""}
            rows = [json.loads(line) for line in (complete / TRIALS).read_text(encoding="utf-8").splitlines()]
            read = _is_read(run)
        better = facts["development"]["best"] >= facts["development"]["start"]
        changed = all(row["changes"] for row in rows[1:])
        holds = read and same and better and changed and len(rows) > 1 and facts["calls"] <= facts["settings"]["budget"]
        figures = {name: facts[name] for name in ("tried", "calls", "reflections")}
        text = ", ".join(f"{name} {value}" for name, value in figures.items())
        start, best = facts["development"]["start"], facts["development"]["best"]
        return Finding(holds, f"{text}, development {start:.3f} to {best:.3f}, resumed equal: {same}, shown: {read}")

    def _run(self, folder: Path) -> SearchRun:
        settings = {"searcher": self.method.name, **QUICK, **self.settings}
        run = SearchRun(SearchSettings(**settings), folder)
        run.bench.reflect = self.reflect
        return run


def _is_read(run: SearchRun) -> bool:
    """Whether the texts of the last trial, and of the last with prompts, lessons or skills, reach the tokens read."""
    tried = [trial.texts for trial in run.bench.trials]
    worded = [texts for texts in tried if texts.prompts or texts.library or texts.skills]
    shaped = tried[-1].edges is not None or tried[-1].blocks is not None
    return (bool(worded) or shaped) and all(_reads(run, texts) for texts in (*worded[-1:], tried[-1]))


def _reads(run: SearchRun, texts: Texts) -> bool:
    target = run.target
    player = target.player
    assignments = [Assignment(target.task.scenario("train", 0), decoding=target.config.decoding)]
    worded = Worded(player.workflow, texts)
    question = prompt_text(assignments[0].scenario)
    prompts = {role: player.encode(text) for role, text in worded.prompts_for(question).items()}

    async def played() -> Any:
        return await replace(player, workflow=worded).play(assignments, key=Key.of(0))

    turns = run_async(played())[0].turns
    if texts.edges is not None:
        spoke = Counter(turn.role for turn in turns)
        return {role for role, times in spoke.items() if times > 1} == {reader for reader, _ in texts.edges}
    if texts.blocks is not None and {turn.role for turn in turns} != _speak(texts.blocks, target.blocks):
        return False
    reads = [(turn.role, player.decode(turn.observation.tolist())) for turn in turns if turn.parent is None]
    return all(player.decode(prompts[role]) in text for role, text in reads if role in prompts)


def _speak(counts: Mapping[str, int], blocks: Sequence[Block]) -> set[str]:
    """The roles of the blocks that there are."""
    return {blocks[0].role, *(block.role for block in blocks if counts[block.name] > block.counts[0])}
