"""What genii claims."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from hocket.core.casting import Separate
from hocket.core.keys import Key
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.talk import Prior, TalkBench
from hocket.lab.toys.turn_toys import SEEDS, seen, worst
from hocket.methods.teams.genii import GENII, polled
from hocket.types import Message, Scenario
from hocket.workflows.crowd_vote import CrowdVote

claim = Claims("genii", "arXiv:2510.08145")


WORDS = ("first", "second")


def by_hand(answers: Mapping[str, Sequence[str | None]]) -> dict[str, list[float]]:
    """The scores of all judgments, counted pair by pair."""
    found: dict[str, list[float]] = {}
    for client, judgments in answers.items():
        found[client] = []
        for place, judgment in enumerate(judgments):
            votes = []
            for server, said in answers.items():
                heard = said if server != client else [*said[:place], *said[place + 1 :]]
                if (server != client) == (len(answers) > 1) and heard and judgment is not None:
                    votes.append(sum(one == judgment for one in heard) / len(heard))
            found[client].append(sum(votes) / len(votes) if votes else 0.0)
    return found


def drawn(key: Key, judges: int, samples: int) -> dict[str, list[str | None]]:
    """What each judge says to one question; some say nothing that can be read."""
    rng = key.numpy()
    options: tuple[str | None, ...] = (*WORDS, None)
    return {f"judge {number}": [options[int(rng.integers(3))] for _ in range(samples)] for number in range(judges)}


@claim(
    "The score of a judgment is the share of the other judges who agree, whatever their order; alone, of its "
    "own other samples.",
    "chosen here",
)
def the_score_is_agreement() -> Finding:
    gap, turned, none = 0.0, 0.0, 0.0
    for number in range(60):
        answers = drawn(Key.of(number), judges=1 + number % 5, samples=1 + number % 4)
        found = polled(answers)
        gap = max(gap, worst(list(found.values()), list(by_hand(answers).values())))
        backwards = polled(dict(reversed(answers.items())))
        turned = max(turned, *(worst(found[judge], backwards[judge]) for judge in answers))
        for judge, said in answers.items():
            none = max([none, *(score for score, one in zip(found[judge], said, strict=True) if one is None)])
    sure = polled({"client": [*WORDS], "a": ["first"], "b": ["first", "second"], "c": ["first"]})["client"]
    return Finding(
        gap < 1e-12 and turned < 1e-12 and none == 0 and worst(sure, [5 / 6, 1 / 6]) < 1e-12,
        f"60 random polls of 1 to 5 judges counted anew: off by {gap:.1e}; in other orders {turned:.1e}; what is "
        f"no verdict scores {none}; two servers for first and one divided: {sure[0]:.3f} and {sure[1]:.3f}",
    )


def poll(key: Key) -> list[dict[str, Any]]:
    """Three questions, four samples each of three judges, a turn of two or three tokens per judge."""
    rng, rows = key.numpy(), []
    for question in range(3):
        answers = drawn(key.derive(question), judges=3, samples=4)
        for sample in range(4):
            lengths = [int(rng.integers(2, 4)) for _ in answers]
            size = sum(lengths)
            rows.append(
                {
                    "id": f"{question}{sample}",
                    "group": f"question {question}",
                    "scores": {},
                    "logp": rng.normal(-1.0, 0.5, size).tolist(),
                    "logp_ref": rng.normal(-1.0, 0.5, size).tolist(),
                    "turn": [turn for turn, length in enumerate(lengths) for _ in range(length)],
                    "agent": list(answers),
                    "turn_scores": [{"reward": 0.0} for _ in answers],
                    "info": {"answers": {judge: said[sample] for judge, said in answers.items()}},
                }
            )
    return rows


def dpo_by_hand(rows: Sequence[Mapping[str, Any]], beta: float = 0.1) -> tuple[float, list[list[float]]]:
    """The loss and its gradient: for each question and client one pair of judgments."""
    gradient = [[0.0] * len(row["logp"]) for row in rows]
    pairs: list[tuple[tuple[int, int], tuple[int, int]]] = []
    for group in dict.fromkeys(row["group"] for row in rows):
        places = [place for place, row in enumerate(rows) if row["group"] == group]
        told = [rows[place]["info"]["answers"] for place in places]
        for turn, scores in enumerate(by_hand({judge: [one[judge] for one in told] for judge in told[0]}).values()):
            best, least = scores.index(max(scores)), scores.index(min(scores))
            if max(scores) > min(scores):
                pairs.append(((places[best], turn), (places[least], turn)))
    loss = 0.0
    for better, worse in pairs:
        margin = beta * (drift(rows, better) - drift(rows, worse))
        loss += math.log1p(math.exp(-margin)) / len(pairs)
        slope = beta / (1 + math.exp(margin)) / len(pairs)
        for (place, turn), sign in ((better, -1.0), (worse, 1.0)):
            for token, of in enumerate(rows[place]["turn"]):
                gradient[place][token] += sign * slope * (of == turn)
    return loss, gradient


def drift(rows: Sequence[Mapping[str, Any]], member: tuple[int, int]) -> float:
    """How far the policy has moved from the reference on one judgment."""
    row, turn = rows[member[0]], member[1]
    return math.fsum(
        now - old for now, old, of in zip(row["logp"], row["logp_ref"], row["turn"], strict=True) if of == turn
    )


@claim("Each client's judgment of highest score is compared with that of lowest score by DPO, its own tokens alone.")
def each_client_has_its_own_pairs() -> Finding:
    # A recorded batch knows one policy, so that roles tell the judges apart here.
    recipe, gap, moved = GENII.but({"shaping.0.models": "role"}), 0.0, 0.0
    for number in range(12):
        rows = poll(Key.of(number).derive("poll"))
        found = seen(recipe, rows)
        loss, gradient = dpo_by_hand(rows)
        gap = max(gap, abs(found["loss"] - loss), worst(found["gradient"], gradient))
        moved = max(moved, *(abs(slope) for row in gradient for slope in row))
    return Finding(
        gap < 1e-12 and moved > 1e-3,
        f"12 polls of 3 questions by 3 judges of 4 samples: loss and gradient counted anew, off by {gap:.1e}",
    )


JUDGES, STEPS, SAMPLES = 4, 20, 4
SKILL, BIAS, NOISE = 1.2, 2.0, 0.7
Favour = Literal["own", "same"]


@dataclass(frozen=True)
class Pair:
    """Two answers to be compared: their authors, and whether the first is better, which no judge is told."""

    authors: tuple[int, int]
    first: bool

    @property
    def scenario(self) -> Scenario:
        name = f"by {self.authors[0]} and {self.authors[1]}, {'one' if self.first else 'other'}"
        return Scenario(name, name)


PAIRS = tuple(
    Pair((one, other), first) for one in range(JUDGES) for other in range(one + 1, JUDGES) for first in (True, False)
)


def favoured(judge: int, pair: Pair, favour: Favour) -> int:
    """1 where a judge likes the style of the first, -1 that of the second, 0 neither."""
    liked = judge if favour == "own" else 0
    return (pair.authors[0] == liked) - (pair.authors[1] == liked)


def opinion(judge: int, favour: Favour, seed: int) -> Prior:
    """A judge before training: log-odds of `first` of +-SKILL for the truth, +-BIAS for the style it favours, and an
    error of its own."""
    known = {pair.scenario.prompt: pair for pair in PAIRS}

    def logits(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
        pair = known[str(messages[-1]["content"])]
        error = Key.of(seed).derive("error", judge, str(pair.scenario.prompt)).numpy().normal(0.0, NOISE)
        return {"first": SKILL * (1 if pair.first else -1) + BIAS * favoured(judge, pair, favour) + float(error)}

    return logits


@dataclass(frozen=True)
class Judged:
    """What judges do, exactly: mean accuracy, and mean self-preference, the rate at which a judge's favoured style wins
    less the rate at which it is better."""

    accuracy: float
    preference: float


def judged(benches: Sequence[TalkBench], favour: Favour) -> Judged:
    policies = [policy for bench in benches for policy in bench.policies.values()]
    right, wins = [], []
    for judge, policy in enumerate(policies):
        for pair in PAIRS:
            chance = float(policy.probabilities(str(pair.scenario.prompt))[0])
            right.append(chance if pair.first else 1 - chance)
            side = favoured(judge, pair, favour)
            if side:
                wins.append(side * (chance - float(pair.first)))
    return Judged(fmean(right), fmean(wins))


@functools.cache
def polling(favour: Favour, together: bool, seed: int) -> tuple[Judged, Judged]:
    """Before and after: judges that poll each other, or each by itself."""
    recipe = GENII.but({"rollout.samples": SAMPLES, "cast.every": STEPS // JUDGES})
    questions = [pair.scenario for pair in PAIRS]
    priors = [opinion(judge, favour, seed) for judge in range(JUDGES)]
    if together:
        named = {f"voter_{judge + 1}": prior for judge, prior in enumerate(priors)}
        benches = [TalkBench(CrowdVote(JUDGES), questions, WORDS, recipe, prior=named, seed=seed, lr=0.4)]
    else:
        alone = recipe.but({"cast": Separate()})
        benches = [
            TalkBench(CrowdVote(1), questions, WORDS, alone, prior=prior, seed=seed * JUDGES + judge, lr=0.4)
            for judge, prior in enumerate(priors)
        ]
    before = judged(benches, favour)
    for bench in benches:
        bench.run(STEPS if together else STEPS // JUDGES)
    return before, judged(benches, favour)


@claim(
    "Judges that each favour their own style: polling brings self-preference nearer 0 and accuracy above the "
    "mean judge's.",
    slow=True,
)
def polled_judges_lose_their_bias() -> Finding:
    runs = [polling("own", True, seed) for seed in SEEDS]
    shrunk = [after.preference / before.preference for before, after in runs]
    gained = [after.accuracy - before.accuracy for before, after in runs]
    return Finding(
        min(before.preference for before, _ in runs) > 0.2 and max(map(abs, shrunk)) < 0.5 and min(gained) > 0.1,
        f"4 judges that favour themselves, {STEPS} steps, 5 seeds: self-preference "
        f"{_shown(before.preference for before, _ in runs)} before, {_shown(after.preference for _, after in runs)} "
        f"after; mean accuracy {_shown(before.accuracy for before, _ in runs)} before, "
        f"{_shown(after.accuracy for _, after in runs)} after",
    )


@claim("A judge polled by itself alone keeps its bias: over seeds it does not shrink.", "derived", slow=True)
def alone_bias_stays() -> Finding:
    runs = [polling("own", False, seed) for seed in SEEDS]
    together = [polling("own", True, seed) for seed in SEEDS]
    return Finding(
        fmean(after.preference for _, after in runs) > fmean(before.preference for before, _ in runs)
        and min(after.preference for _, after in runs) > 2 * max(after.preference for _, after in together)
        and max(after.accuracy for _, after in runs) < min(after.accuracy for _, after in together) - 0.1,
        f"each judge polled by its own samples, as many updates: self-preference "
        f"{_shown(before.preference for before, _ in runs)} before, {_shown(after.preference for _, after in runs)} "
        f"after; mean accuracy {_shown(after.accuracy for _, after in runs)}",
    )


@claim("A bias that all judges share is not cured: the poll amplifies it.", "derived", slow=True)
def shared_bias_is_not_cured() -> Finding:
    runs = [polling("same", True, seed) for seed in SEEDS]
    return Finding(
        all(after.preference > before.preference for before, after in runs),
        f"4 judges that all favour one author: preference for it {_shown(before.preference for before, _ in runs)} "
        f"before, {_shown(after.preference for _, after in runs)} after polling, 5 seeds",
    )


def _shown(numbers: Iterable[float]) -> str:
    return " ".join(f"{number:.2f}" for number in numbers)
