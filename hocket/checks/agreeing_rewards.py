"""Rewards by agreement and difference of answers: dra-grpo, ttrv, ps-grpo, multirole-r1."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from hocket.checks.check import Check, Finding
from hocket.checks.rewarded import (
    SEEDS,
    advantages,
    answers_of,
    apart,
    document,
    group_relative,
    line,
    said,
    shaped,
    trained,
)
from hocket.credit import ReturnToGo
from hocket.errors import ConfigurationError
from hocket.keys import Key
from hocket.lab import Answer, Bench, Tabular, World
from hocket.microscope import Reading, look
from hocket.recipes.graded_rewards import DRA_GRPO, MULTIROLE_R1, PS_GRPO, TTRV
from hocket.recipes.group_relative import GRPO
from hocket.rewards.diversity import distinct_n, redundancy, roles_of
from hocket.rewards.paraphrases import GroupSimilarity
from hocket.rewards.similarity import bleu, rouge_1
from hocket.signals import returns

# ---------------------------------------------------------------- dra-grpo


def clusters_share() -> Finding:
    """Three equal answers and two of their own kind, all right; one wrong."""
    axes = [[1.0, 0, 0, 0]] * 3 + [[0, 1.0, 0, 0], [0, 0, 1.0, 0], [0, 0, 0, 1.0]]
    rows = [said("q", f"t{n}", float(n < 5), embedding=axis) for n, axis in enumerate(axes)]
    found = shaped(DRA_GRPO, rows)
    wanted = [1 / (3 + 1e-6)] * 3 + [1 / (1 + 1e-6)] * 2 + [0.0]
    credit = apart(advantages(DRA_GRPO, rows), group_relative(wanted))
    texts = [said("q", text, 1.0) for text in ("maple", "maple", "quartz")]
    own = shaped(DRA_GRPO, texts)
    return Finding(
        apart(found, wanted) < 1e-12 and credit < 1e-9 and own[0] == own[1] < 0.51 and own[2] > 0.95,
        f"weights {line(found)}; 3 equal ones earn {sum(found[:3]):.6f}, one alone {found[3]:.6f}; texts {line(own)}",
    )


def order_does_not_matter() -> Finding:
    """Eight answers in twenty orders."""
    generator = Key.of(1).numpy()
    rows = [said("q", f"t{n}", float(n % 3), embedding=generator.normal(size=4).tolist()) for n in range(8)]
    found, worst = shaped(DRA_GRPO, rows), 0.0
    for trial in range(20):
        order = Key.of(2).derive(trial).numpy().permutation(8).tolist()
        worst = max(worst, apart(shaped(DRA_GRPO, [rows[n] for n in order]), [found[n] for n in order]))
    return Finding(worst == 0.0, f"largest difference over 20 orders {worst}")


def signs_stay() -> Finding:
    """Random directions, and one vector against three opposite ones, whose released sum is 1 - 3 = -2."""
    generator, lowest = Key.of(3).numpy(), math.inf
    for trial in range(50):
        rows = [said("q", f"{trial}/{n}", 1.0, embedding=generator.normal(size=3).tolist()) for n in range(6)]
        lowest = min(lowest, *shaped(DRA_GRPO, rows))
    opposite = torch.tensor([[1.0, 0], [-1, 0], [-1, 0], [-1, 0]], dtype=torch.float64)
    released = redundancy(opposite, nonnegative=False).tolist()
    rows = [said("q", f"t{n}", 1.0, embedding=vector) for n, vector in enumerate(opposite.tolist())]
    guarded = shaped(DRA_GRPO, rows)
    try:
        shaped(DRA_GRPO.but({"shaping.0.nonnegative": False}), rows)
        refused = False
    except ConfigurationError:
        refused = True
    return Finding(
        lowest > 0 and min(guarded) > 0 and released[0] < 0 and refused,
        f"least reward of 300 right answers {lowest:.3f}; the plain sum would be {released[0]:.0f}, which is refused; "
        f"with cosines below 0 as 0 the rewards are {line(guarded)}",
    )


TREES = ("alder", "birch", "cedar", "maple", "quartz", "slate", "flint", "jasper")


def four_right() -> World:
    """Two questions with four right answers of eight."""
    return World(
        questions=2,
        tokens=8,
        horizon=1,
        reward=lambda question, answer: float((answer[0] + 4 * question) % 8 < 4),
        text=lambda question, answer: TREES[answer[0]],
    )


def uneven(policy: Tabular) -> None:
    """The right answers are not equally likely at first."""
    for question, (place, logit) in itertools.product(range(2), enumerate([1.0, 0.5, 0.0, -0.5])):
        policy.logits[policy.row(question, ()), (place + 4 * question) % 8] = logit


def right_entropy(bench: Bench) -> float:
    """The entropy among right answers in nats, mean over questions."""
    found = []
    for question in range(bench.world.questions):
        answers, chance = answers_of(bench, question)
        own = torch.tensor([bench.world.reward(question, answer) for answer in answers]) * chance
        share = (own / own.sum()).clamp(min=1e-300)
        found.append(float(-(share * share.log()).sum()))
    return sum(found) / len(found)


def entropy_when_accurate(recipe: Any) -> list[float]:
    """The entropy among right answers when the success rate first reaches 0.95, for five seeds."""
    found = []
    for seed in SEEDS:
        bench = Bench(four_right(), recipe, seed=seed, start=uneven)
        while bench.success() < 0.95 and bench.done < 120:
            bench.step()
        found.append(right_entropy(bench))
    return found


def more_right_answers_survive() -> Finding:
    """GRPO and DRA-GRPO from one start."""
    plain, diverse = entropy_when_accurate(GRPO), entropy_when_accurate(DRA_GRPO)
    return Finding(
        min(diverse) > max(plain) + 0.1,
        f"entropy among the 4 right answers at 95 % accuracy (of {math.log(4):.3f}): dra-grpo {line(diverse)}; "
        f"grpo {line(plain)}",
    )


# ---------------------------------------------------------------- ttrv


def frequency_grows() -> Finding:
    """All 3^4 groups of four answers, each weighted by its probability under p = (0.5, 0.3, 0.2)."""
    chance, names = (0.5, 0.3, 0.2), "abc"
    groups = list(itertools.product(range(3), repeat=4))
    rows = [said(str(g), "", label=names[own]) for g, group in enumerate(groups) for own in group]
    graded = shaped(TTRV.but({"shaping.0.entropy": 0.0}), rows)
    mean = [0.0, 0.0, 0.0]
    for g, group in enumerate(groups):
        weight = math.prod(chance[own] for own in group)
        mean[group[0]] += weight * graded[4 * g] / chance[group[0]]
    wanted = [1 / 4 + 3 / 4 * p for p in chance]
    return Finding(
        apart(mean, wanted) < 1e-12 and mean[0] > mean[1] > mean[2],
        f"E[r | y] = {line(mean)} for p = 0.5, 0.3, 0.2: 1/N + (N - 1)/N p",
    )


def entropy_cancels() -> Finding:
    """Two groups, one with a sample without an answer; with a group baseline and without any."""
    labels = ["a", "a", "b", "c", None, "a", "b", "b"]
    rows = [said(str(n // 4), "", label=label) for n, label in enumerate(labels)]
    without = TTRV.but({"shaping.0.entropy": 0.0})
    centred = apart(advantages(TTRV, rows), advantages(without, rows))
    credit = ReturnToGo()
    open_ = apart(advantages(TTRV.but(credit=credit), rows), advantages(without.but(credit=credit), rows))
    return Finding(
        centred < 1e-12 and open_ > 0.1,
        f"largest change of an advantage {centred:.1e} with the group baseline, {open_:.3f} without a baseline",
    )


def majority_grades_ends_only() -> Finding:
    """Three, two and one of six agree."""
    rows = [said("q", "", label=label) for label in "aaabbc"]
    graded = shaped(TTRV.but({"shaping.0.entropy": 0.0}), rows)
    votes = shaped(TTRV.but({"shaping.0.entropy": 0.0, "shaping.0.vote": "majority"}), rows)
    return Finding(
        apart(graded, [1 / 2] * 3 + [1 / 3] * 2 + [1 / 6]) < 1e-12 and votes == [1.0] * 3 + [0.0] * 3,
        f"shares {line(graded)}; majority vote {line(votes)}",
    )


def classifier(rows: Sequence[Sequence[float]]) -> tuple[World, Any]:
    """A world of one question per row of starting probabilities, answer 0 right; and what sets them."""
    world = World(
        questions=len(rows), tokens=len(rows[0]), horizon=1, reward=lambda question, answer: float(answer[0] == 0)
    )

    def start(policy: Tabular) -> None:
        for question, row in enumerate(rows):
            policy.logits[policy.row(question, ())] = torch.tensor(row, dtype=torch.float64).log()

    return world, start


def the_mode_wins() -> Finding:
    """60 % accurate with a majority vote of 80 %, and 40 % accurate with a wrong answer at 50 % everywhere."""
    good, good_start = classifier([(0.72, 0.2, 0.04, 0.04)] * 8 + [(0.12, 0.8, 0.04, 0.04)] * 2)
    bad, bad_start = classifier([(0.4, 0.5, 0.05, 0.05)] * 10)
    recipe = TTRV.but({"rollout.samples": 16})
    rises = trained(good, recipe, 50, Bench.success, start=good_start)
    falls = trained(bad, recipe, 50, Bench.success, start=bad_start)
    return Finding(
        min(rises) > 0.76 and max(rises) < 0.81 and max(falls) < 0.2,
        f"from 0.60 with a majority vote of 0.80: {line(rises)}; from 0.40 with a wrong mode it falls: {line(falls)}",
    )


# ---------------------------------------------------------------- ps-grpo


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


# ---------------------------------------------------------------- multirole-r1

VIEWS = ("As a teacher:", "As a parent:", "As a mayor:", "As a nurse:")
REMARKS = ("this seems fair to me", "costs matter here too", "time is short", "people differ")


def opinions() -> World:
    """Four stakeholders ask; three lines of thought, each a role's heading or a remark, and the answer that suits."""

    def text(question: int, answer: Answer) -> str:
        lines = [(VIEWS[token] + f" {REMARKS[token]}") if token < 4 else REMARKS[token - 2] for token in answer[:-1]]
        return "\n".join([*lines, f"<answer>{answer[-1] % 4}</answer>"])

    return World(
        questions=4,
        tokens=6,
        horizon=4,
        context="last",
        reward=lambda question, answer: float(answer[-1] % 4 == question),
        text=text,
    )


def roles(bench: Bench) -> float:
    """Expected number of different roles in a chain."""
    return bench.expected(lambda question, answer: float(len(roles_of(bench.world.written(question, answer)))))


def variety(bench: Bench) -> float:
    """Expected distinct-2 of a chain."""
    return bench.expected(lambda question, answer: distinct_n(bench.world.written(question, answer)))


def weight_zero_is_grpo() -> Finding:
    """In the microscope, and after five steps of training."""
    rows = [said("q", VIEWS[n % 4] + " yes", float(n % 2)) for n in range(6)]
    bare = MULTIROLE_R1.but({"shaping.0.weight": 0.0})
    same = {**look(bare, document(rows)), "recipe": ""} == {**look(GRPO, document(rows)), "recipe": ""}
    world = replace(four_right(), text=lambda question, answer: VIEWS[answer[0] % 4] + TREES[answer[0] // 2])
    tables = [
        Bench(world, recipe, seed=1).run(5, every=5).policy.logits.detach() for recipe in (bare, GRPO, MULTIROLE_R1)
    ]
    return Finding(
        same and torch.equal(tables[0], tables[1]) and not torch.equal(tables[0], tables[2]),
        f"microscope equal: {same}; weights after 5 steps equal bit for bit: {torch.equal(tables[0], tables[1])}",
    )


def shaped_reward_is_counted_right() -> Finding:
    """One text, counted by hand."""
    text = "As a teacher: yes yes yes\nRole: parent: no\n<answer>1</answer>"
    words = ["as", "a", "teacher", "yes", "yes", "yes", "role", "parent", "no", "answer", "1", "answer"]
    share = len(set(itertools.pairwise(words))) / (len(words) - 1)
    wanted = 1.0 + 0.2 * (0.5 * 2 / 3 + 0.5 * share)
    found = shaped(MULTIROLE_R1, [said("q", text, 1.0)])[0]
    return Finding(abs(found - wanted) < 1e-12, f"{found:.6f} for two roles of three and distinct-2 {share:.3f}")


def more_roles() -> Finding:
    """GRPO and MultiRole-R1 from one start."""
    world, steps = opinions(), 120
    runs = {
        recipe.name: [Bench(world, recipe, seed=seed).run(steps, every=steps) for seed in SEEDS]
        for recipe in (GRPO, MULTIROLE_R1)
    }
    plain, varied = runs["grpo"], runs["multirole-r1"]
    named = [[roles(bench) for bench in side] for side in (varied, plain)]
    spread = [[variety(bench) for bench in side] for side in (varied, plain)]
    right = [[bench.success() for bench in side] for side in (varied, plain)]
    return Finding(
        min(named[0]) > max(named[1]) + 0.3
        and min(spread[0]) > max(spread[1]) + 0.01
        and sum(right[0]) / 5 >= sum(right[1]) / 5 - 0.02,
        f"roles per chain {line(named[0])} against {line(named[1])}; distinct-2 {line(spread[0])} against "
        f"{line(spread[1])}; accuracy {line(right[0])} against {line(right[1])}",
    )


_DRA = "DRA-GRPO, arXiv:2505.09655, released trainer"
_TTRV = "TTRV, arXiv:2510.06783"
_PS = "arXiv:2510.04392"
_ROLES = "arXiv:2507.20187; terms chosen here"

CHECKS = (
    Check("dra-grpo", "k equal answers unlike all others weigh 1/k each", clusters_share, _DRA),
    Check("dra-grpo", "weights do not depend on the order of the group", order_does_not_matter, "derived here"),
    Check("dra-grpo", "the sum stays positive, so no reward changes its sign", signs_stay, "derived here"),
    Check(
        "dra-grpo",
        "at equal accuracy more entropy over right answers than GRPO",
        more_right_answers_survive,
        _DRA,
        slow=True,
    ),
    Check("ttrv", "the expected frequency reward of an answer grows with its probability", frequency_grows, _TTRV),
    Check("ttrv", "the entropy term leaves group-centred advantages unchanged", entropy_cancels, "derived here"),
    Check("ttrv", "minority answers get graded credit where a majority vote gives 0", majority_grades_ends_only, _TTRV),
    Check(
        "ttrv",
        "accuracy approaches that of majority voting, and falls where the mode is wrong",
        the_mode_wins,
        _TTRV,
        slow=True,
    ),
    Check(
        "ps-grpo", "the sub-sampled reward is unbiased, and equal where it covers everything", samples_are_unbiased, _PS
    ),
    Check("ps-grpo", "equal outputs earn 1, short ones too", equal_answers_earn_one, _PS),
    Check(
        "ps-grpo",
        "agreement across paraphrases rises without labels, on wrong answers as well",
        agreement_rises,
        _PS,
        slow=True,
    ),
    Check("multirole-r1", "with w = 0 it is plain GRPO bit for bit", weight_zero_is_grpo, _ROLES),
    Check(
        "multirole-r1", "the shaped reward counts roles and distinct bigrams", shaped_reward_is_counted_right, _ROLES
    ),
    Check(
        "multirole-r1",
        "more roles per chain and more distinct bigrams at no loss of accuracy",
        more_roles,
        _ROLES,
        slow=True,
    ),
)
