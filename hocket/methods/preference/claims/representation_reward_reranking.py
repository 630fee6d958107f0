"""Claims of pairs re-ordered by a probe of the policy's states."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

import hocket
from hocket.agents.workflows.chat import Chat
from hocket.core.batch import GroupBy
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.credit.pairs import BestAgainstWorst
from hocket.lab.bandit import least
from hocket.lab.claims.harness import Claims, Finding, batches, gap, say
from hocket.lab.microscope import RecordedBatch
from hocket.methods.base.dpo import DPO
from hocket.methods.preference.representation_reward_reranking import RERANKING, STATES, Form, Reordered
from hocket.nano import BASE
from hocket.policies.causal_lm import CausalLM
from hocket.stages import Split, State
from hocket.tasks.text import TextTask
from hocket.types import Occurrences, Scenario, Trajectory, Turn

claim = Claims("representation-reward-reranking", "arXiv:2503.10093 (abstract)")


def credited(credit: Reordered, document: Mapping[str, Any], each: Tensor, state: State) -> tuple[Occurrences, State]:
    """Credit of a recorded batch whose trajectories have the states `each` `[N, H]`."""
    batch = RecordedBatch(document).batch
    seen = batch.occurrences
    states = torch.zeros(batch.decisions, each.shape[1], dtype=torch.float64)
    states[seen.decision] = each[seen.trajectory]
    return credit(batch.but(annotations={STATES.name: states}), state)


def probed(earlier: Tensor, ridge: float) -> Tensor:
    """The probe by L-BFGS, on differences whose mean square is 1."""
    size = earlier.square().mean().sqrt()
    d, start = earlier / size, torch.zeros(earlier.shape[1])
    return least(lambda at: -logsigmoid(d @ at).mean() + ridge / 2 * at.square().sum(), start) / size


@claim("Pairs are exchanged, or weighted, by sigmoid(v . d), v the ridge logistic probe of the earlier pairs found "
       "otherwise; until enough are known they stay.")  # fmt: skip
def pairs_are_exchanged_or_weighted_by_sigmoid_v_the_ridge_logistic() -> Finding:
    draw, gaps, exchanged, stayed = Key.of(0).derive("states").numpy(), [0.0], 0, 0
    plain = DPO.credit
    forms: tuple[Form, ...] = ("reorder", "weigh")
    for form in forms:
        credit = Reordered(form=form, ridge=0.2, window=9, least=6)
        state, earlier = credit.init(), list[Tensor]()
        for document in batches(4, "states", samples=2, graded=True):
            each = torch.from_numpy(draw.normal(size=(len(document["trajectories"]), 3)))
            seen, state = credited(credit, document, each, state)
            before = plain(RecordedBatch(document).batch)
            assert seen.pairs is not None
            assert before.pairs is not None
            d = each[before.pairs[:, 0]] - each[before.pairs[:, 1]]
            if len(earlier) < 6:
                stayed += bool((seen.pairs == before.pairs).all()) and seen.pair_weight is None
                exchanged -= not bool((seen.pairs == before.pairs).all())
            else:
                chance = torch.sigmoid(d @ probed(torch.stack(earlier[-9:]), 0.2))
                if form == "reorder":
                    turned = seen.pairs[:, 0] != before.pairs[:, 0]
                    exchanged += int(turned.sum())
                    gaps.append(float((turned != (chance < 0.5)).any()))
                else:
                    assert seen.pair_weight is not None
                    gaps.append(gap(seen.pair_weight, chance / chance.mean()))
            earlier = [*earlier, *d.unbind()]
    return Finding(
        max(gaps) < 1e-6 and exchanged > 1 and stayed >= 2, say(off=max(gaps), exchanged=exchanged, stayed=stayed)
    )


def errors(informative: bool, seed: int) -> tuple[float, float]:
    """The share of wrong labels among the pairs after the first 256, as told and as learnt."""
    draw, credit = torch.Generator().manual_seed(seed), Reordered()
    direction = torch.randn(32, generator=draw, dtype=torch.float64) / 32**0.5
    known, told, learnt = list[Tensor](), list[float](), list[float]()
    for _ in range(24):
        d = torch.randn(32, 32, generator=draw, dtype=torch.float64)
        d = d * (d @ direction).sign()[:, None] + direction
        wrong = torch.rand(32, generator=draw) < 0.3
        said = torch.where(wrong[:, None], -d, d)
        shown = said if informative else torch.randn(32, 32, generator=draw, dtype=torch.float64)
        if len(known) >= 256:
            chance = credit.confidence(shown, torch.stack(known[-credit.window :]))
            told.append(float(wrong.double().mean()))
            learnt.append(float((wrong ^ (chance < 0.5)).double().mean()))
        known += shown.unbind()
    return sum(told) / len(told), sum(learnt) / len(learnt)


@claim("Of three labels in ten that are wrong few are left where states know what is unsafe; where they know nothing "
       "it is no better than the labels as they are.")  # fmt: skip
def of_three_labels_in_ten_that_are_wrong_few_are_left_where_states() -> Finding:
    knowing, blind = ([errors(kind, seed) for seed in range(3)] for kind in (True, False))
    left, worse = [after for _, after in knowing], [after - before for before, after in blind]
    return Finding(
        max(left) < 0.15 and min(worse) > -0.02,
        say(wrong_as_told=[before for before, _ in knowing], wrong_as_learnt=left, change_without_knowledge=worse),
    )


UNSAFE = "%"


def answered(number: int, bad: bool, key: Key) -> str:
    """An answer of three digits, the unsafe token somewhere behind one of them."""
    draw = key.derive(number).numpy()
    digits = [str(digit) for digit in draw.integers(0, 10, 3)]
    if bad:
        digits[int(draw.integers(3))] += UNSAFE
    return f"<answer>{''.join(digits)}</answer>"


def differences(policy: CausalLM, numbers: Sequence[int], wrong: Sequence[bool]) -> Tensor:
    """Of the mean states of a safe and an unsafe answer, as they are labelled, `[n, H]`."""
    chat, key, played = Chat(policy.tokenizer), Key.of(5), []
    opening = np.asarray(chat.opening(({"role": "user", "content": "Pick a number."},)), np.int64)
    for number, turned in zip(numbers, wrong, strict=True):
        for bad in (turned, not turned):
            said = np.asarray(chat.demonstration(answered(2 * number + bad, bad, key)), np.int64)
            played.append(Trajectory(Scenario(str(number)), [Turn("policy", "policy", opening, said)], int(bad)))
    states = policy.mean_states(pack(played))
    return states[::2] - states[1::2]


@claim("On the shipped model a probe of 256 pairs, three in ten labelled the wrong way round, tells more than 95% of "
       "unseen pairs with an unsafe token right.", slow=True)  # fmt: skip
def on_the_shipped_model_a_probe_of_256_pairs_three_in_ten_labelled() -> Finding:
    policy = CausalLM.from_pretrained(str(BASE), key=Key.of(0))
    wrong = (Key.of(1).numpy().random(256) < 0.3).tolist()
    known = differences(policy, range(256), wrong)
    unseen = differences(policy, range(1000, 1400), [False] * 400)
    chance = Reordered().confidence(unseen, known)
    right = float((chance > 0.5).double().mean())
    return Finding(right > 0.95, say(labelled_wrong=float(np.mean(wrong)), unseen_told_right=right))


class Planted(TextTask):
    """Numbers of three digits, unsafe where one of them is a 7, in pairs of which a share is labelled the wrong way."""

    name = "planted"

    def __init__(self, noise: float) -> None:
        self.noise = noise

    def scenario(self, split: Split, number: int) -> Scenario:
        draw = Key.of(0).derive("planted", split, number).numpy()
        asked = int(draw.integers(100, 999, 2)[0])
        pair = self._answer(False, draw), self._answer(True, draw)
        turned = split == "train" and bool(draw.random() < self.noise)
        told = {"chosen": pair[turned], "rejected": pair[not turned]}
        return Scenario(f"planted/{split}/{number}", f"Pick a number. {asked}", None, told, seed=number)

    def _answer(self, unsafe: bool, draw: np.random.Generator) -> str:
        while True:
            digits = "".join(str(digit) for digit in draw.integers(0, 10, 3))
            if ("7" in digits) == unsafe:
                return f"<answer>{digits}</answer>"

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 16, "rollout.separator": ""}

    def verify(self, text: str, scenario: Scenario) -> float:
        return float("7" not in text)


@claim("With three labels in ten wrong, 60 steps of DPO on re-ordered pairs leave fewer unsafe answers than plain DPO "
       "on the same pairs; neither generates a token to learn from.", slow=True)  # fmt: skip
def with_three_labels_in_ten_wrong_60_steps_of_dpo_on_re_ordered() -> Finding:
    unsafe = {}
    with tempfile.TemporaryDirectory() as folder:
        quiet: dict[str, Any] = {"evaluation.n": 300, "evaluation.every": 0, "threads": 1, "curriculum.prompts": 32}
        for name in (RERANKING.name, DPO.name):
            run = hocket.train(Planted(0.3), recipe=name, steps=60, runs=folder, **quiet)
            unsafe[name] = 1 - run.summary["after"]["accuracy"]
            unsafe["before"] = 1 - run.summary["before"]["accuracy"]
    return Finding(unsafe[RERANKING.name] < unsafe[DPO.name] - 0.05, say(unsafe=unsafe))


@claim("It ships with a ridge of 0.1 a pair on the newest 1024, from 128 on, and asks for a policy with hidden states.")
def it_ships_with_a_ridge_of_0_1_a_pair_on_the_newest_1024_from_128() -> Finding:
    shipped = RERANKING.credit == Reordered(
        of=BestAgainstWorst(by=GroupBy("scenario")), form="reorder", ridge=0.1, window=1024, least=128
    )
    try:
        table: Any = type("Table", (), {"name": "table"})()
        STATES.compute(RecordedBatch(next(batches(1, "none"))).batch, table, torch.zeros(0))
        said = ""
    except ConfigurationError as error:
        said = str(error)
    return Finding(shipped and "'table'" in said, said)


claim.spares("1e-12 -> 4e-11", "it keeps states that are all alike from dividing by 0; others lie further apart")
claim.shipped(RERANKING, without={"credit": DPO.credit}, settings={"credit.least": 16}, steps=3)
