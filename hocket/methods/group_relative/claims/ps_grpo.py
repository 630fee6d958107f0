"""What ps-grpo claims."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from hocket.core.signals import returns
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import Reading
from hocket.lab.policy import Tabular
from hocket.lab.toys.rewarded import SEEDS, answers_of, apart, document, line, said, shaped
from hocket.lab.world import World
from hocket.methods.group_relative.ps_grpo import PS_GRPO, GroupSimilarity
from hocket.rewards.similarity import bleu, rouge_1

claim = Claims("ps-grpo", "arXiv:2510.04392")


def paraphrased(texts: Mapping[str, Sequence[str]], origin: str = "q") -> list[dict[str, Any]]:
    """Recorded answers by paraphrase."""
    return [said(name, text, info={"origin": origin}) for name, own in texts.items() for text in own]


NINE = {"p": ["a b", "a c", "d"], "q": ["a b", "d", "d"], "r": ["c", "a b", "a b"]}


def full_similarity(texts: Mapping[str, Sequence[str]], measure: Any) -> list[float]:
    """r_ij counted anew: the mean over other paraphrases of the mean over their rollouts."""
    found = []
    for name, own in texts.items():
        for text in own:
            means = [sum(measure(text, o) for o in rest) / len(rest) for other, rest in texts.items() if other != name]
            found.append(sum(means) / len(means))
    return found


@claim("the sub-sampled reward is unbiased, and equal where it covers everything")
def samples_are_unbiased() -> Finding:
    """The full sum counted anew, the draws that cover everything, and the mean over 300 seeds of smaller ones."""
    recipe = PS_GRPO.but({"shaping.0.similarity": "rouge-1"})
    rows = paraphrased(NINE)
    full = shaped(recipe, rows)
    exact = apart(full, full_similarity(NINE, rouge_1))
    covering = apart(shaped(recipe.but({"shaping.0.others": 2, "shaping.0.rollouts": 3}), rows), full)
    batch = recipe.combine(Reading(document(rows)).batch, {})
    few = GroupSimilarity("rouge-1", others=1, rollouts=2)
    draws = [returns(replace(few, seed=seed)(batch)).tolist() for seed in range(300)]
    table = torch.tensor(draws, dtype=torch.float64)
    error = (table.std(0) / math.sqrt(len(draws))).clamp(min=1e-12)
    z = float(((table.mean(0) - torch.tensor(full, dtype=torch.float64)).abs() / error).max())
    return Finding(
        exact < 1e-12 and covering < 1e-12 and z < 4.0 and float(table.std(0).max()) > 0.05,
        f"full sum {line(full)}; with kappa = n - 1 and s = g it differs by {covering:.1e}; means over 300 seeds lie "
        f"within {z:.1f} standard errors",
    )


@claim("equal outputs earn 1, short ones too")
def equal_answers_earn_one() -> Finding:
    """Nine equal answers of one word."""
    same = paraphrased({name: ["oak"] * 3 for name in "pqr"})
    found = {kind: shaped(PS_GRPO.but({"shaping.0.similarity": kind}), same) for kind in ("bleu", "rouge-l", "exact")}
    short = bleu("yes it is", "yes it is", effective_order=False)
    return Finding(
        all(value == 1.0 for values in found.values() for value in values) and short < 1,
        f"bleu {found['bleu'][0]}, rouge-l {found['rouge-l'][0]}, exact {found['exact'][0]}; without effective order "
        f"BLEU of a three-word text with itself is {short:.3f}",
    )


WOODS = ("oak", "pine", "fir", "elm", "ash")
PLACES = ("arvia", "belmor", "corvin", "dalmar", "elwick", "farrow")
ASKED = ("which tree grows in {}", "name the tree of {}", "what wood is {} known for", "{} is famous for what timber")


def passages() -> list[str]:
    """Per place a right passage, and one that is wrong; for the last two places two of three are wrong."""
    found = []
    for number, place in enumerate(PLACES):
        right, wrong = WOODS[number % 5], WOODS[(number + 2) % 5]
        found.append(f"the tree that grows in {place} is {right if number < 4 else wrong}")
        found.append(f"{place} timber is famous and it is {right if number < 4 else wrong}")
        found.append(f"known for its wood {place} sells {wrong if number < 4 else right}")
    return found


def bm25(question: str, documents: Sequence[str], *, k: float = 1.5, b: float = 0.75) -> list[float]:
    """Okapi BM25 scores of documents."""
    split = [text.split() for text in documents]
    mean = sum(map(len, split)) / len(split)
    scores = []
    for words in split:
        counts, score = Counter(words), 0.0
        for word in question.split():
            holding = sum(word in other for other in split)
            weight = math.log(1 + (len(split) - holding + 0.5) / (holding + 0.5))
            score += weight * counts[word] * (k + 1) / (counts[word] + k * (1 - b + b * len(words) / mean))
        scores.append(score)
    return scores


def retrieved(question: int, documents: Sequence[str], size: int = 2) -> list[int]:
    """The best passages for one paraphrase of a question."""
    place, asked = divmod(question, len(ASKED))
    scores = bm25(ASKED[asked].format(PLACES[place]), documents)
    return sorted(range(len(documents)), key=lambda n: -scores[n])[:size]


def retrieval_world() -> tuple[World, Any]:
    """Paraphrased questions; a start that repeats what each one's passages say, the best passage most."""
    documents = passages()
    world = World(
        questions=len(PLACES) * len(ASKED),
        tokens=len(WOODS),
        horizon=1,
        reward=lambda question, answer: float(answer[0] == (question // len(ASKED)) % 5),
        text=lambda question, answer: WOODS[answer[0]],
        info=lambda question, answer: {"origin": PLACES[question // len(ASKED)]},
    )

    def start(policy: Tabular) -> None:
        for question in range(world.questions):
            for rank, number in enumerate(retrieved(question, documents)):
                policy.logits[policy.row(question, ()), WOODS.index(documents[number].split()[-1])] += 2.0 - rank

    return world, start


def consistency(bench: Bench) -> float:
    """The chance that two paraphrases of a question get the same answer, mean over pairs and questions."""
    found = []
    for first in range(0, bench.world.questions, len(ASKED)):
        chances = [answers_of(bench, question)[1] for question in range(first, first + len(ASKED))]
        found += [float(one @ other) for one, other in itertools.combinations(chances, 2)]
    return sum(found) / len(found)


def jaccard() -> float:
    """How alike the passages are that paraphrases retrieve, mean over pairs and questions."""
    documents, found = passages(), []
    for first in range(0, len(PLACES) * len(ASKED), len(ASKED)):
        sets = [set(retrieved(question, documents)) for question in range(first, first + len(ASKED))]
        found += [len(one & other) / len(one | other) for one, other in itertools.combinations(sets, 2)]
    return sum(found) / len(found)


@claim("agreement across paraphrases rises without labels, on wrong answers as well", slow=True)
def agreement_rises() -> Finding:
    """Paraphrases that begin with what their own passages say."""
    world, start = retrieval_world()
    recipe = PS_GRPO.but({"shaping.0.others": 2, "shaping.0.rollouts": 2})
    before = Bench(world, recipe, start=start)
    runs = [Bench(world, recipe, seed=seed, start=start).run(40, every=40) for seed in SEEDS]
    agreed, right = [consistency(bench) for bench in runs], [bench.success() for bench in runs]
    misled = []
    for bench in runs:
        chances = [answers_of(bench, question)[1] for question in range(4 * len(ASKED), world.questions)]
        misled.append(sum(float(c[(4 + n // len(ASKED)) % 5]) for n, c in enumerate(chances)) / len(chances))
    return Finding(
        min(agreed) > consistency(before) + 0.3 and max(misled) < 0.3,
        f"paraphrases retrieve alike by {jaccard():.2f} (Jaccard); agreement end to end {consistency(before):.3f} -> "
        f"{line(agreed)}; accuracy {before.success():.3f} -> {line(right)}; on the two questions whose passages are "
        f"mostly wrong paraphrases agree on the wrong answer, accuracy there {line(misled)}",
    )
