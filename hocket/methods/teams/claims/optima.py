"""What optima claims."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import torch

from hocket.core.batch import Batch
from hocket.core.packing import pack
from hocket.core.segments import segment_sum
from hocket.core.signals import returns
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.talk import Prior, TalkBench, total
from hocket.methods.teams.optima import OPTIMA, OPTIMA_DPO, OPTIMA_SFT, TwoHalves
from hocket.recipe import Recipe
from hocket.types import Evaluation, Message, Scenario, Trajectory

claim = Claims("optima", "arXiv:2410.08115 and its released code")


SEEDS = range(5)
ALICE, BOB = ("red", "blue"), ("north", "south")
FILLERS = ("well", "you see", "as it happens")
OPENERS = ("what i know is", "my half says")
ANSWERS = {(one, two): f"<answer>{one} {two}</answer>" for one in ALICE for two in BOB}
WORDS = (*FILLERS, *OPENERS, *ALICE, *BOB, *ANSWERS.values())
NEVER = -12.0


def halves() -> list[Scenario]:
    """Questions whose answer is a pair, of which Alice knows one and Bob the other."""
    return [
        Scenario(f"{one} {two}", "which", answer=ANSWERS[one, two], metadata={"halves": (one, two)})
        for one in ALICE
        for two in BOB
    ]


def told(messages: tuple[Message, ...]) -> tuple[str, frozenset[str]]:
    """What a speaker was given, and which names the other has said so far."""
    users = [str(message["content"]) for message in messages if message["role"] == "user"]
    lines = "\n".join(users).split("\n")
    own = next(line.removeprefix("You know: ") for line in lines if line.startswith("You know: "))
    heard = " ".join(line.partition(": ")[2] for line in lines if line.startswith(("Alice: ", "Bob: ")))
    return own, frozenset(name for name in (*ALICE, *BOB) if f" {name} " in f" {heard} ")


def view(messages: tuple[Message, ...]) -> Hashable:
    """A speaker knows what it was given, what the other said, and whether it has spoken."""
    spoke = any(message["role"] == "assistant" for message in messages)
    return (*told(messages), spoke)


def manners(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """The model before training: it rambles, then says what it knows, and is unsure of an answer it could give."""
    own, heard = told(messages)
    logits = dict.fromkeys((*WORDS, ""), NEVER)
    if said and (said[-1] in (*ALICE, *BOB) or said[-1] in ANSWERS.values()):
        return logits | {"": 0.0}
    if said and said[-1] in OPENERS:
        return logits | {own: 0.0}
    logits |= dict.fromkeys(FILLERS, 0.0) | dict.fromkeys(OPENERS, 0.0) | {own: -1.5}
    if len(said) >= 3:
        logits |= dict.fromkeys(FILLERS, NEVER)
    if heard:
        pair = {own, *heard}
        right = next((said for names, said in ANSWERS.items() if set(names) == pair), None)
        logits |= dict.fromkeys(ANSWERS.values(), -2.0) | ({} if right is None else {right: 0.5})
    return logits


def talkers(recipe: Recipe, seed: int, *, prior: Prior = manners, lr: float = 0.2, **settings: Any) -> TalkBench:
    flow = TwoHalves(messages=4, agree=False, system=None)
    return TalkBench(
        flow, halves(), WORDS, recipe, length=6, ends=True, view=view, prior=prior, seed=seed, lr=lr, **settings
    )


@functools.cache
def grown() -> tuple[Batch, list[Trajectory], Recipe]:
    """A credited batch of trees, from policies that have learnt a little."""
    bench = talkers(OPTIMA_DPO, 3).run(1)
    result = bench.step()
    assert result.batch is not None
    return result.batch, result.trajectories, bench.recipe


def rewards_by_hand(batch: Batch, trajectories: Sequence[Trajectory]) -> list[float]:
    """R of every dialogue, from its scores, its words and the reference's log-probs."""
    seen, reference = batch.occurrences, batch.logp["reference"].values.double()
    found = []
    for place, one in enumerate(trajectories):
        mates = [other for other in trajectories if other.scenario.id == one.scenario.id]
        own = (seen.trajectory == place).nonzero().flatten()
        parts = torch.split(reference[seen.decision[own]], [len(turn) for turn in one.turns])
        loss = max(max(float(-part.mean()), 0.1) for part in parts)
        found.append(total(one) - 0.6 * one.length / max(mate.length for mate in mates) + 1 / loss)
    return found


@claim("R = R_task - l_tok tokens / max tokens + l_lm / max NLL")
def reward_is_the_formula() -> Finding:
    batch, trajectories, _ = grown()
    gaps = [abs(a - b) for a, b in zip(returns(batch).tolist(), rewards_by_hand(batch, trajectories), strict=True)]
    return Finding(
        max(gaps) < 1e-6,
        f"{len(gaps)} dialogues: R_task - 0.6 tokens / max + 1 / max NLL by hand differs by at most {max(gaps):.1e}",
    )


def _paths(trajectories: Sequence[Trajectory]) -> list[tuple[tuple[str, str], ...]]:
    """What was said in each dialogue, and by whom."""
    return [tuple((turn.agent, turn.text) for turn in one.turns) for one in trajectories]


@claim("a node's value is the mean over its leaves")
def node_is_the_mean_of_its_leaves() -> Finding:
    """Values by hand, from texts alone, say which pairs there must be."""
    batch, trajectories, _ = grown()
    value, paths = rewards_by_hand(batch, trajectories), _paths(trajectories)
    leaves: dict[tuple[Any, ...], list[float]] = {}
    answers: dict[tuple[Any, ...], set[tuple[Any, ...]]] = {}
    for one, path, worth in zip(trajectories, paths, value, strict=True):
        for length in range(len(path)):
            node = (one.scenario.id, *path[: length + 1])
            leaves.setdefault(node, []).append(worth)
            answers.setdefault((one.scenario.id, *path[:length]), set()).add(node)
    mean = {node: statistics.fmean(found) for node, found in leaves.items()}
    want: dict[str, list[tuple[float, float]]] = {}
    for children in answers.values():
        ranked = sorted(mean[child] for child in children)
        if len(ranked) > 1 and ranked[-1] - ranked[0] > 0.3 and ranked[-1] > 0.15:
            want.setdefault(next(iter(children))[0], []).append((ranked[-1], ranked[0]))
    wanted = sorted(pair for found in want.values() for pair in sorted(found, reverse=True)[: max(1, len(found) // 2)])
    pairs, compared = batch.occurrences.pairs, batch.occurrences.compared
    assert pairs is not None
    assert compared is not None
    taken = []
    for leaf, turn in zip(pairs.tolist(), compared.tolist(), strict=True):
        taken.append(tuple(_through(batch, trajectories, mean, one, at) for one, at in zip(leaf, turn, strict=True)))
    same = len(taken) == len(wanted) and all(
        abs(a - b) < 1e-6
        for one, other in zip(sorted(taken), wanted, strict=True)
        for a, b in zip(one, other, strict=True)
    )
    shared = sum(len(found) > 1 for found in leaves.values())
    return Finding(
        same and len(wanted) >= 4 and shared > 10,
        f"{len(leaves)} messages in {len(paths)} dialogues, {shared} of them in several; the {len(wanted)} pairs are "
        "those that means over leaves, taken from texts, demand",
    )


def _place(batch: Batch, trajectories: Sequence[Trajectory], one: int, turn: int) -> int:
    """Which message of dialogue `one` the batch's `turn` is."""
    own = (batch.occurrences.trajectory == one).nonzero().flatten()
    visited = batch.turn[batch.occurrences.decision[own]].tolist()
    return list(dict.fromkeys(visited)).index(turn)


def _through(
    batch: Batch, trajectories: Sequence[Trajectory], mean: Mapping[tuple[Any, ...], float], one: int, turn: int
) -> float:
    length = _place(batch, trajectories, one, turn) + 1
    return mean[(trajectories[one].scenario.id, *_paths(trajectories)[one][:length])]


@claim("pairs share their history and differ in one turn; nothing else has a gradient")
def pairs_share_their_history() -> Finding:
    """Also: the gradient touches the two messages alone, and the loss is DPO's over them."""
    batch, trajectories, recipe = grown()
    seen, paths = batch.occurrences, _paths(trajectories)
    assert seen.pairs is not None
    assert seen.compared is not None
    histories, margins, touched = 0, [], set[int]()
    drift = (batch.logp["behaviour"].values - batch.logp["reference"].values).double()
    for (better, worse), turns in zip(seen.pairs.tolist(), seen.compared.tolist(), strict=True):
        places = [_place(batch, trajectories, one, at) for one, at in zip((better, worse), turns, strict=True)]
        before = [paths[one][:place] for one, place in zip((better, worse), places, strict=True)]
        said = [paths[one][place] for one, place in zip((better, worse), places, strict=True)]
        objects = [trajectories[one].turns[:place] for one, place in zip((better, worse), places, strict=True)]
        same = before[0] == before[1] and all(a is b for a, b in zip(*objects, strict=True))
        histories += same and said[0] != said[1] and said[0][0] == said[1][0]
        parts = [float(drift[batch.turn == turn].sum()) for turn in turns]
        margins.append(0.1 * (parts[0] - parts[1]))
        touched |= set(turns)
    logp = batch.logp["behaviour"].values.double().clone().requires_grad_()
    loss = recipe.loss(Evaluation(logp=logp), batch)[0].total()
    (gradient,) = torch.autograd.grad(loss, logp)
    found = float(loss.detach())
    by_hand = statistics.fmean(math.log1p(math.exp(-margin)) for margin in margins)
    moved = set(batch.turn[gradient != 0].tolist())
    size = len(margins)
    return Finding(
        histories == size and moved == touched and abs(found - by_hand) < 1e-9 and size >= 4,
        f"{histories} of {size} pairs have one history and differ in the next message, of one speaker; the gradient "
        f"touches {len(moved)} messages, those of the pairs; loss {found:.6f}, by hand {by_hand:.6f}",
    )


@claim("iSFT imitates the best dialogue of each scenario, above the threshold")
def best_dialogue_is_imitated() -> Finding:
    result = talkers(OPTIMA_SFT, 4).step()
    batch, trajectories = result.batch, result.trajectories
    assert batch is not None
    value, seen = rewards_by_hand(batch, trajectories), batch.occurrences
    size = len(trajectories)
    kept = (segment_sum(seen.weight.double(), seen.trajectory, size) > 0).nonzero().flatten().tolist()
    want = []
    for scenario in halves():
        mates = [place for place, one in enumerate(trajectories) if one.scenario.id == scenario.id]
        best = max(mates, key=lambda place: value[place])
        want += [best] if value[best] > 0.5 else []
    logp = batch.logp["behaviour"].values.double()
    loss = float(OPTIMA_SFT.loss(Evaluation(logp=logp), batch)[0].total())
    own = torch.isin(seen.trajectory, torch.tensor(want))
    by_hand = float(-logp[seen.decision[own]].mean())
    return Finding(
        kept == sorted(want) and abs(loss - by_hand) < 1e-9,
        f"of {size} dialogues the best of each of {len(want)} scenarios is kept; loss {loss:.6f}, by hand "
        f"{by_hand:.6f}",
    )


@functools.cache
def talked(seed: int, readable: float) -> tuple[tuple[float, float, float], ...]:
    """After 0 and 3 rounds: tokens per solved task, success, base loss of Alice's first message."""
    quick = {f"{slot}.every": 4 for slot in ("rollout", "credit", "objective")}
    recipe = OPTIMA.but({**quick, "shaping.1.weight": readable, "credit.members.0.least": 0.2})
    bench = talkers(recipe, seed, lr=0.3)
    before = measured(bench)
    return before, measured(bench.run(24))


def measured(bench: TalkBench) -> tuple[float, float, float]:
    played = bench.play(100, seed=1)
    batch, base = pack(played), bench.learners["policy"].reference
    assert base is not None
    loss = -base.evaluate(batch, ()).logp.detach()
    first = [float(loss[batch.turn == turn].mean()) for turn in range(batch.turns) if int(batch.index[turn]) == 0]
    solved = sum(map(total, played))
    tokens = sum(one.length for one in played)
    return tokens / max(solved, 1.0), solved / len(played), statistics.fmean(first)


@claim("with split facts three rounds halve the tokens per solved task, success not lower", slow=True)
def tokens_fall() -> Finding:
    found = [talked(seed, 1.0) for seed in SEEDS]
    shares = [after[0] / before[0] for before, after in found]
    gains = [after[1] - before[1] for before, after in found]
    start, end = [[one[when] for one in found] for when in (0, 1)]
    return Finding(
        max(shares) < 0.4 and min(gains) > 0.2,
        f"tokens per solved task {_mean(start, 0):.1f} before, {_mean(end, 0):.1f} after three rounds (largest share "
        f"of 5 seeds {max(shares):.2f}); success {_mean(start, 1):.2f} and {_mean(end, 1):.2f} (smallest gain "
        f"{min(gains):.2f})",
    )


@claim("with l_lm = 0 messages drift to a private code: the base model's loss is higher", slow=True)
def without_readability_a_code() -> Finding:
    plain = [talked(seed, 1.0) for seed in SEEDS]
    bare = [talked(seed, 0.0) for seed in SEEDS]
    gaps = [one[1][2] - other[1][2] for one, other in zip(bare, plain, strict=True)]
    rise = [after[2] - before[2] for before, after in bare]
    base, code = [_mean([one[when] for one in bare], 2) for when in (0, 1)]
    kept = _mean([one[1] for one in plain], 2)
    return Finding(
        min(gaps) > 0.15 and statistics.fmean(rise) > 0.1,
        f"base-model loss of Alice's message, nats per token: {base:.2f} before; after three rounds {code:.2f} with "
        f"l_lm = 0, {kept:.2f} with l_lm = 1 (smallest gap of 5 seeds {min(gaps):.2f}); it rose by "
        f"{statistics.fmean(rise):+.2f} and fell by {base - kept:.2f}",
    )


def _mean(rows: Sequence[tuple[float, float, float]], column: int) -> float:
    return statistics.fmean(row[column] for row in rows)
