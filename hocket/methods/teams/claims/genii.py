"""GENII's claims."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from statistics import fmean
from typing import Any, Literal

import torch

from hocket import tasks
from hocket.agents.workflows.crowd_vote import CrowdVote
from hocket.core.batch import Level, LevelScores
from hocket.core.casting import Separate
from hocket.core.keys import Key
from hocket.core.signals import REWARD
from hocket.lab.claims.harness import SEEDS, Claims, Finding, below, gap, inspect_rows, say
from hocket.lab.claims.shipped_check import LEAST, configured, difference, run
from hocket.lab.microscope import RecordedBatch
from hocket.lab.talk import TalkBench
from hocket.lab.toys.recorded_answers import line
from hocket.lab.toys.talks import by_last
from hocket.methods.teams.genii.method import GENII, GroupConsistency, polled, polled_by_cosine, turn_values
from hocket.types import Scenario

claim = Claims("genii", "arXiv:2510.08145")
WORDS = ("first", "second")


def by_hand(answers: Mapping[str, Sequence[str | None]]) -> list[list[float]]:
    """The scores of all judgments, counted pair by pair."""

    def score(client: str, place: int, judgment: str | None) -> float:
        others = [said for server, said in answers.items() if server != client]
        own = [[*answers[client][:place], *answers[client][place + 1 :]]]
        votes = [fmean(one == judgment for one in said) for said in others or own if said and judgment is not None]
        return fmean(votes or [0.0])

    return [[score(client, *one) for one in enumerate(judgments)] for client, judgments in answers.items()]


def drawn(key: Key, judges: int, samples: int) -> dict[str, list[str | None]]:
    """What each judge says to one question; some say nothing that can be read."""
    rng, options = key.numpy(), (*WORDS, None)
    return {f"judge {number}": [options[int(rng.integers(3))] for _ in range(samples)] for number in range(judges)}


@claim(
    "The score of a judgment is the share of the other judges who agree, whatever their order; alone, of its "
    "own other samples.",
    "chosen here",
)
def the_score_of_a_judgment_is_the_share_of_the_other_judges_who() -> Finding:
    gaps, turned, none = [], [], [0.0]
    for number in range(60):
        answers = drawn(Key.of(number), judges=1 + number % 5, samples=1 + number % 4)
        scores, backwards = polled(answers), polled(dict(reversed(answers.items())))
        gaps.append(gap(list(scores.values()), by_hand(answers)))
        turned += [gap(scores[judge], backwards[judge]) for judge in answers]
        pairs = [pair for judge, said in answers.items() for pair in zip(scores[judge], said, strict=True)]
        none += [score for score, one in pairs if one is None]
    sure = polled({"client": [*WORDS], "a": ["first"], "b": ["first", "second"], "c": ["first"]})["client"]
    holds = max(gaps) < 1e-12 and max(turned) < 1e-12 and max(none) == 0 and gap(sure, [5 / 6, 1 / 6]) < 1e-12
    figures = say(polls=60, off_by=max(gaps), in_other_orders=max(turned), score_of_no_verdict=max(none))
    return Finding(holds, f"{figures}, two servers for first and one divided {line(sure)}")


def poll(key: Key) -> list[dict[str, Any]]:
    """Three questions, four samples each of three judges, a turn of two or three tokens per judge."""
    rng, rows = key.numpy(), []
    for question in range(3):
        answers = drawn(key.derive(question), judges=3, samples=4)
        for sample in range(4):
            lengths = [int(rng.integers(2, 4)) for _ in answers]
            row: dict[str, Any] = {"id": f"{question}{sample}", "group": f"question {question}", "scores": {}}
            row |= {"agent": list(answers)}
            row |= {name: rng.normal(-1.0, 0.5, sum(lengths)).tolist() for name in ("logp", "logp_ref")}
            row["turn"] = [turn for turn, length in enumerate(lengths) for _ in range(length)]
            told = {judge: said[sample] for judge, said in answers.items()}
            rows.append(row | {"turn_scores": [{"reward": 0.0}] * 3, "info": {"answers": told}})
    return rows


def dpo_by_hand(rows: Sequence[Mapping[str, Any]], beta: float = 0.1) -> tuple[float, list[list[float]]]:
    """The loss and its gradient: for each question and client one pair of judgments."""

    def drift(place: int, turn: int) -> float:
        parts = zip(*(rows[place][name] for name in ("logp", "logp_ref", "turn")), strict=True)
        return math.fsum(now - old for now, old, of in parts if of == turn)

    pairs: list[tuple[int, int, int]] = []
    for group in dict.fromkeys(row["group"] for row in rows):
        places = [place for place, row in enumerate(rows) if row["group"] == group]
        told = [rows[place]["info"]["answers"] for place in places]
        for turn, scores in enumerate(by_hand({judge: [one[judge] for one in told] for judge in told[0]})):
            if max(scores) > min(scores):
                pairs.append((turn, places[scores.index(max(scores))], places[scores.index(min(scores))]))
    loss, gradient = 0.0, [[0.0] * len(row["logp"]) for row in rows]
    for turn, better, worse in pairs:
        margin = beta * (drift(better, turn) - drift(worse, turn))
        loss += math.log1p(math.exp(-margin)) / len(pairs)
        slope = beta / (1 + math.exp(margin)) / len(pairs)
        for place, sign in ((better, -1.0), (worse, 1.0)):
            for token, of in enumerate(rows[place]["turn"]):
                gradient[place][token] += sign * slope * (of == turn)
    return loss, gradient


@claim("Each client's judgment of highest score is compared with that of lowest score by DPO, its own tokens alone.")
def each_clients_judgment_of_highest_score_is_compared_with_that_of() -> Finding:
    # A recorded batch knows one policy, so that roles tell the judges apart here.
    recipe, gaps, slopes = GENII.but({"shaping.0.models": "role"}), [], []
    for number in range(12):
        rows = poll(Key.of(number).derive("poll"))
        (loss, gradient), own = dpo_by_hand(rows), inspect_rows(recipe, rows)
        gaps += [abs(own["loss"] - loss), gap(own["gradient"], gradient)]
        slopes += [abs(slope) for row in gradient for slope in row]
    told = "12 polls of 3 questions by 3 judges of 4 samples"
    return Finding(max(gaps) < 1e-12 and max(slopes) > 1e-3, f"{told}: {say(loss_and_gradient_off_by=max(gaps))}")


@claim("With embeddings judgments agree by the mean cosine of theirs; alone, with its own others.", "counted by hand")
def with_embeddings_judgments_agree_by_the_mean_cosine_of_theirs() -> Finding:
    def wanted(judgments: Mapping[str, Sequence[Sequence[float] | None]], client: str, place: int) -> float:
        own = judgments[client][place]
        if own is None:
            return -9.0
        others = [said for server, said in judgments.items() if server != client and said]
        others = others or [[*judgments[client][:place], *judgments[client][place + 1 :]]]

        def near(one: Sequence[float] | None) -> float:
            if one is None:
                return 0.0
            return sum(a * b for a, b in zip(own, one, strict=True)) / (math.hypot(*own) * math.hypot(*one))

        votes = [fmean(map(near, said)) for said in others if said]
        return fmean(votes or [0.0])

    gaps, rng = [], Key.of(0).derive("vectors").numpy()
    for number in range(24):
        sizes = [1 + int(rng.integers(0, 4)) for _ in range(1 + number % 4)]
        judgments: dict[str, list[list[float] | None]] = {}
        for judge, size in enumerate(sizes):
            drawn_ones = [rng.normal(size=3).tolist() if rng.random() < 0.8 else None for _ in range(size)]
            judgments[f"judge {judge}"] = drawn_ones
        judgments |= {"silent": []} if number % 3 == 0 else {}
        found = polled_by_cosine(judgments, -9.0)
        gaps += [
            abs(score - wanted(judgments, judge, place))
            for judge, scores in found.items()
            for place, score in enumerate(scores)
        ]
    return Finding(max(gaps) < 1e-12, say(scores=len(gaps), off=max(gaps)))


@claim("Each turn's vector is its own; where an episode has none, nothing agrees with its judgments.", "derived")
def each_turns_vector_is_its_own_where_an_episode_has_none_nothing() -> Finding:
    row: dict[str, Any] = {"group": "g", "scores": {}, "logp": [-1.0, -1.0], "turn": [0, 1], "agent": ["a", "b"]}
    told = {"answers": {"a": "first", "b": "second"}}
    vectors = [[[1.0, 0.0], [0.0, 2.0]], [[3.0, 4.0], [-1.0, 0.0]], None]
    rows = [{**row, "info": {**told, "turn_embeddings": one}} for one in vectors]
    batch = GroupConsistency(models="role", missing=-9.0)(RecordedBatch({"version": 1, "trajectories": rows}).batch)
    found = batch.scores[REWARD[Level.TURN]].values.tolist()
    # Servers are the other's three judgments, of which the last has no vector and agrees with nothing.
    wanted = [-1 / 3, (0 + 0.8) / 3, (0.8 - 0.6) / 3, (-1 - 0.6) / 3, -9.0, -9.0]
    return below(1e-12, off=gap(found, wanted))


@claim("A turn is worth its own reward, those of its decisions and that of all; without weight it is in no pair.")
def a_turn_is_worth_its_own_reward_those_of_its_decisions_and_that() -> Finding:
    row: dict[str, Any] = {"group": "g", "logp": [-1.0] * 3, "logp_ref": [-1.0] * 3, "turn": [0, 0, 1]}
    rows = [{**row, "agent": ["a", "b"], "scores": {}} for _ in range(3)]
    rows[2]["trained"] = [False, False, True]
    batch = RecordedBatch({"version": 1, "trajectories": rows}).batch
    decisions, turns, whole = torch.arange(9.0), torch.arange(6.0) / 10, torch.arange(3.0) / 100
    parts = {Level.DECISION: decisions, Level.TURN: turns, Level.TRAJECTORY: whole}
    paid = batch.but(scores={REWARD[level]: LevelScores(level, part.double()) for level, part in parts.items()})
    wanted = [0 + 1 + 0.0, 2 + 0.1, 3 + 4 + 0.2 + 0.01, 5 + 0.3 + 0.01, 6 + 7 + 0.4 + 0.02, 8 + 0.5 + 0.02]
    off = gap(turn_values(paid), torch.tensor(wanted))
    compared = GENII.credit(paid).compared
    # The third's first turn, which is worth most, does not count: the second's is best.
    holds = compared is not None and sorted(compared.tolist()) == [[2, 0], [5, 1]]
    return Finding(holds and off < 1e-6, say(off=off, compared=str(None if compared is None else compared.tolist())))


@claim("As shipped a crowd votes, and each judge is the client for 10 steps in turn, the first at first.")
def as_shipped_a_crowd_votes_and_each_judge_is_the_client_for_10() -> Finding:
    names = ["voter_1", "voter_2", "voter_3"]
    learning = {step: sorted(GENII.cast.learning(names, step)) for step in (1, 10, 11, 20, 21, 30, 31)}
    wanted = dict(zip(learning, ([f"voter_{n}"] for n in (1, 1, 2, 2, 3, 3, 1)), strict=True))
    return Finding(learning == wanted and GENII.workflow == CrowdVote.name, say(learning=str(learning)))


JUDGES, STEPS = 4, 20
Favour = Literal["own", "same"]
# Two answers to be compared: their authors, and whether the first is better, which no judge is told.
PAIRS = {
    f"by {authors[0]} and {authors[1]}, {'one' if first else 'other'}": (authors, first)
    for authors, first in product(combinations(range(JUDGES), 2), (True, False))
}


def favoured(judge: int, authors: tuple[int, int], favour: Favour) -> int:
    """1 where a judge likes the style of the first, -1 that of the second, 0 neither."""
    liked = judge if favour == "own" else 0
    return (authors[0] == liked) - (authors[1] == liked)


def opinion(judge: int, favour: Favour, seed: int, prompt: str) -> dict[str, float]:
    """Log-odds of `first` before training: +-1.2 for the truth, +-2 for the favoured style, and an error of its own."""
    authors, first = PAIRS[prompt]
    error = Key.of(seed).derive("error", judge, prompt).numpy().normal(0.0, 0.7)
    return {"first": 1.2 * (1 if first else -1) + 2.0 * favoured(judge, authors, favour) + float(error)}


@dataclass(frozen=True)
class Judged:
    """What judges do, exactly: mean accuracy, and mean self-preference, the rate at which a judge's favoured style wins
    less the rate at which it is better."""

    accuracy: float
    preference: float


def judged(benches: Sequence[TalkBench], favour: Favour) -> Judged:
    right, wins = [], []
    for judge, policy in enumerate(policy for bench in benches for policy in bench.policies.values()):
        for prompt, (authors, first) in PAIRS.items():
            chance, side = float(policy.probabilities(prompt)[0]), favoured(judge, authors, favour)
            right.append(chance if first else 1 - chance)
            wins += [side * (chance - float(first))] if side else []
    return Judged(fmean(right), fmean(wins))


@functools.cache
def polling(favour: Favour, together: bool) -> tuple[list[Judged], list[Judged]]:
    """Before and after, by seed: judges that poll each other, or each by itself."""
    recipe = GENII.but({"rollout.samples": 4, "cast.every": STEPS // JUDGES})
    questions = [Scenario(pair, pair) for pair in PAIRS]
    sides: tuple[list[Judged], list[Judged]] = ([], [])
    for seed in SEEDS:
        priors = [by_last(functools.partial(opinion, judge, favour, seed)) for judge in range(JUDGES)]
        if together:
            named = {f"voter_{judge + 1}": prior for judge, prior in enumerate(priors)}
            benches = [TalkBench(CrowdVote(JUDGES), questions, WORDS, recipe, prior=named, seed=seed, lr=0.4)]
        else:
            crowd, alone = CrowdVote(1), recipe.but({"cast": Separate()})
            benches = [
                TalkBench(crowd, questions, WORDS, alone, prior=prior, seed=seed * JUDGES + judge, lr=0.4)
                for judge, prior in enumerate(priors)
            ]
        for side, steps in zip(sides, (0, STEPS if together else STEPS // JUDGES), strict=True):
            side.append(judged([bench.run(steps) for bench in benches], favour))
    return sides


def figures(before: Sequence[Judged], after: Sequence[Judged]) -> str:
    """Self-preference and accuracy, by seed."""
    sides, names = {"before": before, "after": after}, {"self_preference": "preference", "accuracy": "accuracy"}
    named = product(names.items(), sides.items())
    return say(**{f"{n}_{when}": line([getattr(one, name) for one in side]) for (n, name), (when, side) in named})


@claim(
    "Judges that each favour their own style: polling brings self-preference nearer 0 and accuracy above the "
    "mean judge's.",
    slow=True,
)
def judges_that_each_favour_their_own_style_polling_brings_self() -> Finding:
    runs = polling("own", True)
    pairs = list(zip(*runs, strict=True))
    shrunk = max(abs(after.preference / before.preference) for before, after in pairs)
    gained = min(after.accuracy - before.accuracy for before, after in pairs)
    return Finding(min(one.preference for one in runs[0]) > 0.2 and shrunk < 0.5 and gained > 0.1, figures(*runs))


@claim("A judge polled by itself alone keeps its bias: over seeds it does not shrink.", "derived", slow=True)
def a_judge_polled_by_itself_alone_keeps_its_bias_over_seeds_it() -> Finding:
    (before, after), (_, together) = polling("own", False), polling("own", True)
    holds = fmean(one.preference for one in after) > fmean(one.preference for one in before)
    holds &= min(one.preference for one in after) > 2 * max(one.preference for one in together)
    holds &= max(one.accuracy for one in after) < min(one.accuracy for one in together) - 0.1
    return Finding(holds, figures(before, after))


@claim("A bias that all judges share is not cured: the poll amplifies it.", "derived", slow=True)
def a_bias_that_all_judges_share_is_not_cured_the_poll_amplifies_it() -> Finding:
    before, after = polling("same", True)
    holds = all(b.preference > a.preference for a, b in zip(before, after, strict=True))
    return Finding(holds, f"4 judges that all favour one author: {figures(before, after)}")


@claim(
    "As `hocket train --recipe genii --embedder policy` votes are cosines of hidden states over whole judgments, and "
    "the gradient is another than by equal verdicts.",
    slow=True,
)
def as_hocket_train_recipe_genii_embedder_policy_votes_are_cosines() -> Finding:
    name = str(GENII.task)
    task = tasks.find(name)
    verdicts, meanings = (run(configured(GENII, name, task, how), task, 1) for how in ({}, {"embedder": "policy"}))
    change, pairs = difference(verdicts.gradients, meanings.gradients), meanings.mean("voter_1/pairs/total")
    return Finding(change > LEAST and pairs > 0, say(relative_change=change, pairs_of_the_client=pairs))


claim.shipped(GENII, "shaping", sees=lambda run: {"pairs of the client": run.mean("voter_1/pairs/total")})
