"""Beam search over messages, and the best of several episodes."""

from __future__ import annotations

from dataclasses import replace

from hocket.agents.search.result import Opinion, SearchResult
from hocket.core.errors import HocketError
from hocket.rollout.groups import groups
from hocket.rollout.message_tree import MessageNode, StepTree
from hocket.stages import Play
from hocket.types import Assignment, Trajectory


async def beam_search(
    play: Play, asking: Assignment, value: Opinion, *, width: int, candidates: int, judge: Opinion | None = None
) -> SearchResult:
    """Step-level beam search: after each message the `width` best transcripts remain.

    MASPRM (arXiv 2510.24803). Every transcript in the beam gets `candidates` next messages, drawn independently, and
    `value` rates each. Ended episodes stay in the beam with their value. At the end `judge`, an outcome model, chooses
    the answer; without one `value` does.

    Raises:
        HocketError: when an episode fails, or returns no message.
    """
    if width < 1 or candidates < 1:
        raise ValueError(f"width and candidates must be at least 1, not {width} and {candidates}")
    tree = StepTree(asking)
    beam = [tree.root]
    while going := [node for node in beam if not node.episodes]:
        played = await groups(play, [tree.onward(node, samples=candidates, more=1) for node in going])
        grown = [tree.step(episode, node) for node, group in zip(going, played, strict=True) for episode in group]
        among = [*(node for node in beam if node.episodes), *grown]
        worth = await value([_transcript(node) for node in among])
        ranked = sorted(range(len(among)), key=lambda place: -worth[place])
        beam = [among[place] for place in ranked[:width]]
    transcripts = [_transcript(node) for node in beam]
    first = [1.0] + [0.0] * (len(transcripts) - 1)
    final = first if judge is None else [float(number) for number in await judge(transcripts)]
    return SearchResult(transcripts[final.index(max(final))], tree.calls)


def _transcript(node: MessageNode) -> Trajectory:
    """The episode at a node, ended or set aside."""
    episode = node.episodes[0] if node.episodes else node.aside
    assert episode is not None
    return episode


async def best_of(play: Play, asking: Assignment, judge: Opinion, *, samples: int) -> SearchResult:
    """The best of `samples` episodes by `judge`, the earliest of equals."""
    every = await play([replace(asking, samples=samples)])
    played = [episode for episode in every if episode.failure is None]
    if not played:
        raise HocketError(f"all {samples} episodes of {asking.scenario.id!r} failed: {every[0].failure}")
    worth = list(await judge(played))
    return SearchResult(played[worth.index(max(worth))], sum(len(episode.turns) for episode in played))
