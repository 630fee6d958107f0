"""Optima's claims."""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
import torch

from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.core.segments import segment_sum
from hocket.core.signals import returns
from hocket.lab.claims.harness import SEEDS, Claims, Finding, below, gap, say
from hocket.lab.microscope import RecordedBatch
from hocket.lab.talk import TalkBench, total
from hocket.lab.toys.talks import stepped
from hocket.methods.teams.optima import (
    OPTIMA,
    OPTIMA_DPO,
    OPTIMA_SFT,
    BestAbove,
    DialogueTree,
    SiblingTurns,
    TwoHalves,
)
from hocket.recipe import Recipe
from hocket.rollout.message_tree import MessageNode
from hocket.types import Evaluation, Message, Scenario, Trajectory, Turn

claim = Claims("optima", "arXiv:2410.08115 and its released code")
ALICE, BOB = ("red", "blue"), ("north", "south")
FILLERS, OPENERS, NEVER = ("well", "you see", "as it happens"), ("what i know is", "my half says"), -12.0
ANSWERS = {(one, two): f"<answer>{one} {two}</answer>" for one in ALICE for two in BOB}
WORDS = (*FILLERS, *OPENERS, *ALICE, *BOB, *ANSWERS.values())
HALVES = [Scenario(" ".join(pair), "which", answer=right, metadata={"halves": pair}) for pair, right in ANSWERS.items()]
"""Questions whose answer is a pair, of which Alice knows one and Bob the other."""


def told(messages: tuple[Message, ...]) -> tuple[str, frozenset[str]]:
    """What a speaker was given, and which names the other has said so far."""
    lines = "\n".join([str(message["content"]) for message in messages if message["role"] == "user"]).split("\n")
    own = next(line.removeprefix("You know: ") for line in lines if line.startswith("You know: "))
    heard = " ".join(line.partition(": ")[2] for line in lines if line.startswith(("Alice: ", "Bob: ")))
    return own, frozenset(name for name in (*ALICE, *BOB) if f" {name} " in f" {heard} ")


def view(messages: tuple[Message, ...]) -> Hashable:
    """A speaker knows what it was given, what the other said, and whether it has spoken."""
    return (*told(messages), any(message["role"] == "assistant" for message in messages))


def manners(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """The model before training: it rambles, then says what it knows, and is unsure of an answer it could give."""
    own, heard = told(messages)
    logits = dict.fromkeys((*WORDS, ""), NEVER)
    if said and (said[-1] in (*ALICE, *BOB) or said[-1] in ANSWERS.values()):
        return logits | {"": 0.0}
    if said and said[-1] in OPENERS:
        return logits | {own: 0.0}
    logits |= dict.fromkeys(FILLERS, 0.0 if len(said) < 3 else NEVER) | dict.fromkeys(OPENERS, 0.0) | {own: -1.5}
    if heard:
        logits |= dict.fromkeys(ANSWERS.values(), -2.0)
        logits |= {right: 0.5 for names, right in ANSWERS.items() if set(names) == {own, *heard}}
    return logits


def talkers(recipe: Recipe, seed: int, *, lr: float = 0.2) -> TalkBench:
    flow = TwoHalves(messages=4, agree=False, system=None)
    return TalkBench(flow, HALVES, WORDS, recipe, length=6, ends=True, view=view, prior=manners, seed=seed, lr=lr)


@dataclass(frozen=True)
class Talks:
    """A credited batch of dialogues, and R by hand from scores, words and the reference's log-probs."""

    batch: Batch
    trajectories: Sequence[Trajectory]
    recipe: Recipe

    @functools.cached_property
    def rewards(self) -> list[float]:
        reference = self.batch.logp["reference"].values.double()[self.batch.occurrences.decision]
        rewards = []
        for place, one in enumerate(self.trajectories):
            own = reference[self.batch.occurrences.trajectory == place]
            loss = max(max(float(-part.mean()), 0.1) for part in torch.split(own, [len(turn) for turn in one.turns]))
            longest = max(other.length for other in self.trajectories if other.scenario.id == one.scenario.id)
            rewards.append(total(one) - 0.6 * one.length / longest + 1 / loss)
        return rewards

    def path(self, one: int, length: int | None = None) -> tuple[Any, ...]:
        """What was asked and said in a dialogue, and by whom, up to so many messages."""
        trajectory = self.trajectories[one]
        return (trajectory.scenario.id, *((turn.agent, turn.text) for turn in trajectory.turns[:length]))

    def pairs(self) -> list[list[tuple[int, int, int]]]:
        """The pairs of the batch, better first: a dialogue, which message, and which turn of the batch that is."""
        taken = self.batch.occurrences
        assert taken.pairs is not None
        assert taken.compared is not None
        turn = self.batch.turn[taken.decision]

        def message(one: int, at: int) -> tuple[int, int, int]:
            return one, list(dict.fromkeys(turn[taken.trajectory == one].tolist())).index(at), at

        pairs = zip(taken.pairs.tolist(), taken.compared.tolist(), strict=True)
        return [[message(*side) for side in zip(*pair, strict=True)] for pair in pairs]


@functools.cache
def grown() -> Talks:
    """Trees of dialogues from policies that have learnt a little."""
    return credited(talkers(OPTIMA_DPO, 3).run(1))


def credited(bench: TalkBench) -> Talks:
    return Talks(*stepped(bench), bench.recipe)


@claim("R = R_task - l_tok tokens / max tokens + l_lm / max NLL")
def r_r_task_l_tok_tokens_max_tokens_l_lm_max_nll() -> Finding:
    talks = grown()
    finding = below(1e-6, gap_to_R_by_hand=gap(returns(talks.batch), talks.rewards))
    return Finding(finding.holds, f"{len(talks.rewards)} dialogues, l_tok 0.6: {finding.saw}")


@claim("a node's value is the mean over its leaves")
def a_nodes_value_is_the_mean_over_its_leaves() -> Finding:
    talks, leaves, children = grown(), dict[Any, list[float]](), dict[Any, set[Any]]()
    right: set[Any] = set()
    for one, worth in enumerate(talks.rewards):
        whole = talks.path(one)
        for length in range(1, len(whole)):
            right |= {whole[: length + 1]} if total(talks.trajectories[one]) > 0 else set()
            leaves.setdefault(whole[: length + 1], []).append(worth)
            children.setdefault(whole[:length], set()).add(whole[: length + 1])
    mean, want = {node: fmean(values) for node, values in leaves.items()}, dict[str, list[tuple[float, float]]]()
    for node, nodes in children.items():
        best, ranked = max(nodes, key=lambda child: mean[child]), sorted(mean[child] for child in nodes)
        if best in right and len(ranked) > 1 and ranked[-1] - ranked[0] > 0.3 and ranked[-1] > 0.15:
            want.setdefault(node[0], []).append((ranked[-1], ranked[0]))
    wanted = sorted(pair for some in want.values() for pair in sorted(some, reverse=True)[: max(1, len(some) // 2)])
    taken = sorted(tuple(mean[talks.path(one, place + 1)] for one, place, _ in pair) for pair in talks.pairs())
    shared = sum(len(values) > 1 for values in leaves.values())
    holds = len(taken) == len(wanted) >= 4 and gap(taken, wanted) < 1e-6 and shared > 10
    saw = say(messages=len(leaves), dialogues=len(talks.rewards), messages_in_several=shared)
    return Finding(holds, f"{saw}, {say(pairs=len(taken), wanted_by_means_over_leaves_taken_from_texts=len(wanted))}")


@claim("pairs share their history and differ in one turn; nothing else has a gradient")
def pairs_share_their_history_and_differ_in_one_turn_nothing_else() -> Finding:
    """Also: the gradient touches the two messages alone, and the loss is DPO's over them."""
    talks, histories, margins, touched = grown(), 0, [], set[int]()
    batch, logp = talks.batch, talks.batch.logp["behaviour"].values.double().clone().requires_grad_()
    drift = (batch.logp["behaviour"].values - batch.logp["reference"].values).double()
    for pair in talks.pairs():
        messages = [(talks.path(one, place), talks.path(one, place + 1)[-1]) for one, place, _ in pair]
        (before, said), (before_other, said_other) = messages
        turns = zip(*(talks.trajectories[one].turns[:place] for one, place, _ in pair), strict=True)
        same = before == before_other and all(a is b for a, b in turns)
        histories += same and said != said_other and said[0] == said_other[0]
        good, bad = (float(drift[batch.turn == turn].sum()) for *_, turn in pair)
        margins.append(0.1 * (good - bad))
        touched |= {turn for *_, turn in pair}
    loss = talks.recipe.loss(Evaluation(logp=logp), batch)[0].total()
    (gradient,) = torch.autograd.grad(loss, logp)
    by_hand = fmean(math.log1p(math.exp(-margin)) for margin in margins)
    moved = set(batch.turn[gradient != 0].tolist())
    holds = histories == len(margins) >= 4 and moved == touched and abs(float(loss.detach()) - by_hand) < 1e-9
    saw = say(pairs=len(margins), with_one_history_and_one_speaker=histories, messages_with_a_gradient=len(moved))
    value = float(loss.detach())
    return Finding(holds, f"{saw}, messages of pairs {len(touched)}, loss {value:.6f}, by hand {by_hand:.6f}")


@claim("iSFT imitates the best dialogue of each scenario, above the threshold")
def isft_imitates_the_best_dialogue_of_each_scenario_above_the() -> Finding:
    talks = credited(talkers(OPTIMA_SFT, 4))
    taken, size, want = talks.batch.occurrences, len(talks.trajectories), []
    kept = (segment_sum(taken.weight.double(), taken.trajectory, size) > 0).nonzero().flatten().tolist()
    for scenario in HALVES:
        mates = [place for place, one in enumerate(talks.trajectories) if one.scenario.id == scenario.id]
        mates = [place for place in mates if total(talks.trajectories[place]) > 0]
        best = max(mates, key=lambda place: talks.rewards[place], default=None)
        want += [best] if best is not None and talks.rewards[best] > 0.5 else []
    logp = talks.batch.logp["behaviour"].values.double()
    loss = float(OPTIMA_SFT.loss(Evaluation(logp=logp), talks.batch)[0].total())
    by_hand = float(-logp[taken.decision[torch.isin(taken.trajectory, torch.tensor(want))]].mean())
    saw = f"{say(dialogues=size, kept=len(kept), best_ones=len(want))}; loss {loss:.6f}, by hand {by_hand:.6f}"
    return Finding(kept == sorted(want) and abs(loss - by_hand) < 1e-9, saw)


@claim("a dialogue with a task score of 0 is neither imitated nor preferred, however brief and readable", "derived")
def a_dialogue_with_a_task_score_of_0_is_neither_imitated_nor() -> Finding:
    """Readability is weighed so high that every R passes the thresholds."""
    passed, wrong, pairs = 0, 0, 0
    for recipe in (OPTIMA_SFT, OPTIMA_DPO):
        talks = credited(talkers(recipe.but({"shaping.1.weight": 10.0}), 5))
        right = [total(one) > 0 for one in talks.trajectories]
        passed += sum(worth > 0.5 and not good for worth, good in zip(talks.rewards, right, strict=True))
        taken = talks.batch.occurrences
        if taken.pairs is None:
            wrong += sum(not right[place] for place in taken.trajectory[taken.weight != 0].tolist())
            continue
        solved = {id(turn) for one, good in zip(talks.trajectories, right, strict=True) if good for turn in one.turns}
        chosen = [talks.trajectories[one].turns[place] for (one, place, _), _ in talks.pairs()]
        pairs, wrong = len(chosen), wrong + sum(id(turn) not in solved for turn in chosen)
    saw = say(wrong_dialogues_above_the_threshold=passed, of_them_taken=wrong, pairs=pairs)
    return Finding(passed >= 10 and wrong == 0 and pairs > 0, saw)


@claim("The beginning first; then one of the best messages by exp(mean), none like one that was gone on from.")
def the_beginning_first_then_one_of_the_best_messages_by_exp_none() -> Finding:
    """Means are large, so that only their differences can be told; `end` was said last and `abcx` is like `abcd`."""
    root, means = (
        MessageNode(),
        {"abcd": 800.0, "abcx": 805.0, "quite another": 799.0, "a third one": 798.5, "low": 1.0},
    )
    kids = {}
    for number, (text, mean) in enumerate(means.items()):
        kids[text] = root.add(Turn("a", "p", np.zeros(1, np.int64), np.array([number]), text=text))
        kids[text].add(Turn("b", "p", np.zeros(1, np.int64), np.array([0]), text="end")).back_up(mean)
    tree, chosen, wanted = DialogueTree(alike=0.25, top=2), [], []
    best, odds = ("quite another", "a third one"), 1 / (1 + math.exp(-0.5))
    for number in range(100):
        key = Key.of(number)
        chosen.append(tree._chosen(root, [root, kids["abcd"]], key))
        wanted.append(kids[best[float(key.numpy().random()) >= odds]])
    firsts = [tree._chosen(root, [], Key.of(0)), tree._chosen(root, [root, *kids.values()], Key.of(0))]
    # 2 of 8 characters are missing: 2/9 of the longer one's length and 1.
    near = MessageNode()
    for number, text in enumerate(("abcdefgh", "abcdef")):
        near.add(Turn("a", "p", np.zeros(1, np.int64), np.array([number]), text=text))
        near.children[-1].add(Turn("b", "p", np.zeros(1, np.int64), np.array([0]), text="end"))
    firsts.append(tree._chosen(near, [near, near.children[0]], Key.of(0)))
    both = len(set(map(id, chosen))) == 2
    return Finding(chosen == wanted and both and firsts == [root, root, near], say(draws=len(chosen)))


@claim("Of the best dialogues a share is kept, the best of them; without scores of its own a batch counts as solved.")
def of_the_best_dialogues_a_share_is_kept_the_best_of_them_without() -> Finding:
    """The share is a hair above 2/3, as rounding makes it."""
    share, values = 2 / 3 + 4e-16, {"a": (0.1, 0.7), "b": (0.9, 0.2), "c": (0.6, 0.8), "d": (0.4, 0.3)}
    rows = [
        {"id": f"{group}{n}", "group": group, "scores": {"reward": value}, "logp": [-1.0]}
        for group, pair in values.items()
        for n, value in enumerate(pair)
    ]
    batch = RecordedBatch({"version": 1, "trajectories": rows}).batch
    kept = BestAbove(share=share)(batch)
    return Finding(
        share * 3 > 2 and kept.weight.tolist() == [0, 0, 1, 0, 0, 1, 0, 0], say(weights=str(kept.weight.tolist()))
    )


@claim("Siblings closer than the margin are no pair; of a tree's pairs the share whose better turn is worth most.")
def siblings_closer_than_the_margin_are_no_pair_of_a_trees_pairs() -> Finding:
    """Group one's first answers are 0.1 apart. In group two a first answer worth 0.6 has two replies, of 1 and 0.2."""
    one, both = {"logp": [-1.0], "turn": [0]}, {"logp": [-1.0] * 2, "turn": [0, 1]}
    rows = [
        {**one, "id": "p", "group": "one", "scores": {"reward": 0.5}},
        {**one, "id": "q", "group": "one", "scores": {"reward": 0.4}},
        {**both, "id": "r", "group": "two", "scores": {"reward": 1.0}},
        {**both, "id": "s", "group": "two", "scores": {"reward": 0.2}, "parent": {"id": "r", "length": 1}},
        {**one, "id": "t", "group": "two", "scores": {"reward": -0.5}},
    ]
    batch, found = RecordedBatch({"version": 1, "trajectories": rows}).batch, []
    for share in (0.5, math.nextafter(1, 0)):
        pairs = SiblingTurns(share=share)(batch).pairs
        found.append([] if pairs is None else pairs.tolist())
    return Finding(found == [[[2, 3]], [[2, 3], [2, 4]]], say(pairs=str(found)))


claim.constants(
    "As shipped ten dialogues or a tree of 8 by 3, ten steps of each in turn, and the released thresholds.",
    OPTIMA,
    {
        "rollout.members.0.samples": 10,
        "rollout.members.1.expansions": 8,
        "rollout.members.1.children": 3,
        "shaping.0.weight": 0.6,
        "shaping.1.weight": 1.0,
        "credit.members.0.least": 0.5,
        "credit.members.1.margin": 0.3,
        "credit.members.1.least": 0.15,
        "credit.members.1.share": 0.5,
        **{f"{slot}.every": 10 for slot in ("rollout", "credit", "objective")},
        **{f"{slot}.members.0": getattr(OPTIMA_SFT, slot) for slot in ("rollout", "credit", "objective")},
        **{f"{slot}.members.1": getattr(OPTIMA_DPO, slot) for slot in ("rollout", "credit", "objective")},
        **{slot: getattr(OPTIMA_SFT, slot) for slot in ("update", "shaping", "curriculum")},
        **{slot: getattr(OPTIMA_DPO, slot) for slot in ("update", "shaping")},
    },
)


Round = tuple[float, float, float]


@functools.cache
def talked(readable: float) -> tuple[list[Round], list[Round]]:
    """By seed, before and after three rounds: tokens per solved task, success, base loss of Alice's first message."""
    quick = {f"{slot}.every": 4 for slot in ("rollout", "credit", "objective")}
    recipe = OPTIMA.but({**quick, "shaping.1.weight": readable, "credit.members.0.least": 0.2})
    benches = [talkers(recipe, seed, lr=0.3) for seed in SEEDS]
    return [measured(bench) for bench in benches], [measured(bench.run(24)) for bench in benches]


def measured(bench: TalkBench) -> Round:
    played = bench.play(100, seed=1)
    batch, base = pack(played), bench.learners["policy"].reference
    assert base is not None
    loss = -base.evaluate(batch, ()).logp.detach()
    first = fmean(float(loss[batch.turn == turn].mean()) for turn in range(batch.turns) if int(batch.index[turn]) == 0)
    solved = sum(map(total, played))
    return sum(one.length for one in played) / max(solved, 1.0), solved / len(played), first


@claim("with split facts three rounds halve the tokens per solved task, success not lower", slow=True)
def with_split_facts_three_rounds_halve_the_tokens_per_solved_task() -> Finding:
    (tokens, success, _), (fewer, better, _) = (list(zip(*rows, strict=True)) for rows in talked(1.0))
    shares = [after / before for before, after in zip(tokens, fewer, strict=True)]
    gains = [after - before for before, after in zip(success, better, strict=True)]
    saw = say(tokens_per_solved_task=fmean(tokens), after_three_rounds=fmean(fewer), largest_share=max(shares))
    saw += ", " + say(success=fmean(success), after_three_rounds=fmean(better), smallest_gain=min(gains))
    return Finding(max(shares) < 0.4 and min(gains) > 0.2, f"{saw} (5 seeds)")


@claim("with l_lm = 0 messages drift to a private code: the base model's loss is higher", slow=True)
def with_l_lm_0_messages_drift_to_a_private_code_the_base_models() -> Finding:
    before, code, plain = ([one[2] for one in rows] for rows in (*talked(0.0), talked(1.0)[1]))
    gaps = [one - other for one, other in zip(code, plain, strict=True)]
    rise = fmean(code) - fmean(before)
    saw = say(before=fmean(before), after_three_rounds_with_l_lm_0=fmean(code), with_l_lm_1=fmean(plain), rose_by=rise)
    saw = f"nats per token, 5 seeds: {saw}, {say(fell_by=fmean(before) - fmean(plain), smallest_gap=min(gaps))}"
    return Finding(min(gaps) > 0.15 and rise > 0.1, f"base-model loss of Alice's message, {saw}")


claim.spares("len(best) - 1 -> len(best) + 1", "a draw lies below the sum of weights; only rounding could exceed it")
claim.spares("len(best) - 1 -> len(best)", "a draw lies below the sum of weights; only rounding could exceed it")
claim.spares("1e-09 -> 4e-08", "only makes up for rounding")

claim.shipped(OPTIMA, without={"shaping": ()}, trains=("alice", "bob"))
