"""PS-GRPO's claims."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any
from unittest import mock

import torch

from hocket.core.keys import Key
from hocket.core.signals import returns
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, gap, say
from hocket.lab.claims.lesson_data import Pupil, begin
from hocket.lab.microscope import RecordedBatch
from hocket.lab.policy import Tabular
from hocket.lab.toys.recorded_answers import document, lines, said, shaped, shown
from hocket.lab.toys.training import answers_of, trained
from hocket.lab.world import World
from hocket.methods.group_relative.ps_grpo import PS_GRPO, GroupSimilarity
from hocket.rewards.similarity import SIMILARITIES, bleu, rouge_1, rouge_l
from hocket.tasks.sums import Sums
from hocket.train.aio import run_async
from hocket.train.ledger import Ledger
from hocket.types import Assignment

claim = Claims("ps-grpo", "arXiv:2510.04392")
NINE = {"p": ["a b", "a c", "d"], "q": ["a b", "d", "d"], "r": ["c", "a b", "a b"]}


def paraphrased(texts: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    return [said(name, text, info={"origin": "q"}) for name, own in texts.items() for text in own]


@claim("the sub-sampled reward is unbiased, and equal where it covers everything")
def the_sub_sampled_reward_is_unbiased_and_equal_where_it_covers() -> Finding:
    recipe, rows = PS_GRPO.but({"shaping.0.similarity": "rouge-1"}), paraphrased(NINE)
    full, covered = shaped(recipe, rows), shaped(recipe.but({"shaping.0.others": 2, "shaping.0.rollouts": 3}), rows)
    by_hand = [  # r_ij: the mean over other paraphrases of the mean over their rollouts.
        fmean(fmean(rouge_1(text, one) for one in rest) for other, rest in NINE.items() if other != name)
        for name, own in NINE.items()
        for text in own
    ]
    batch = recipe.combine(RecordedBatch(document(rows)).batch, {})
    few = GroupSimilarity("rouge-1", others=1, rollouts=2)
    table = torch.tensor([returns(replace(few, seed=seed)(batch)).tolist() for seed in range(300)], dtype=torch.float64)
    error = (table.std(0) / math.sqrt(len(table))).clamp(min=EXACT)
    z = float(((table.mean(0) - torch.tensor(full, dtype=torch.float64)).abs() / error).max())
    saw = lines(full_sum=full, off_by_hand=gap(full, by_hand), with_kappa_n_1_and_s_g_off=gap(covered, full))
    holds = gap(full, by_hand) < EXACT and gap(covered, full) < EXACT and z < 4.0 and float(table.std(0).max()) > 0.05
    return Finding(holds, f"{saw}; means over 300 seeds lie within {z:.3f} standard errors")


@claim("equal outputs earn 1, short ones too")
def equal_outputs_earn_1_short_ones_too() -> Finding:
    """Nine equal answers of one word."""
    same, kinds = paraphrased({name: ["oak"] * 3 for name in "pqr"}), ("bleu", "rouge-l", "exact")
    earned = {kind: shaped(PS_GRPO.but({"shaping.0.similarity": kind}), same) for kind in kinds}
    short = bleu("yes it is", "yes it is", effective_order=False)
    saw = f"{say(earned=earned)}; without effective order BLEU of a three-word text with itself is {short:.3f}"
    return Finding(all(value == 1.0 for values in earned.values() for value in values) and short < 1, saw)


@claim("The reward is the formula, by hand: of paraphrases, of one question alone, and with a part of the verdict.")
def the_reward_is_the_formula_by_hand_of_paraphrases_of_one() -> Finding:
    texts = {**NINE, "alone": ["a b", "a b c", "d"], "single": ["a b"]}
    rows = [said(name, text, 0.5 * (text == "d"), label=text[0]) for name, own in texts.items() for text in own]
    for row in rows:
        row["info"] = {"origin": "q"} if row["group"] in NINE else {}
    gaps = []
    forms: list[tuple[dict[str, Any], Callable[[str, str], float], float]]
    forms = [({}, bleu, 0.0), ({"similarity": "rouge-l", "accuracy": 0.4}, rouge_l, 0.4)]
    for changes, measure, part in forms:
        wanted = []
        for number, row in enumerate(rows):
            mine, group = row["text"], str(row["group"])
            rest = [own for name, own in NINE.items() if name != group]
            if group not in NINE:
                rest = [[one["text"] for n, one in enumerate(rows) if one["group"] == group and n != number]]
            alike = [fmean(measure(mine, one) for one in own) for own in rest if own]
            wanted.append(part * row["scores"]["reward"] + (fmean(alike) if alike else 0.0))
        recipe = PS_GRPO.but({f"shaping.0.{name}": value for name, value in changes.items()})
        gaps.append(gap(shaped(recipe, rows), wanted))
    letters = shaped(PS_GRPO.but({"shaping.0.column": "label", "shaping.0.similarity": "exact"}), rows)
    first = fmean((fmean(t[0] == "a" for t in NINE["q"]), fmean(t[0] == "a" for t in NINE["r"])))
    bare = [said(name, "", 0.5, label=name, info={"origin": "q"}) | {"text": ""} for name in "pq"]
    worded = [said(name, name, 0.5, label="", info={"origin": "q"}) for name in "pq"]
    by_label = PS_GRPO.but({"shaping.0.column": "label", "shaping.0.similarity": "exact"})
    holds = shaped(by_label, bare) == [0.0, 0.0] and shaped(by_label, worded) == [1.0, 1.0]
    silent = [said("p", "", reward, info={"origin": "q"}) for reward in (0.0, 0.25, 1.0)]
    holds &= shaped(PS_GRPO, silent) == [0.0, 0.25, 1.0] and abs(letters[0] - first) < EXACT
    return below(EXACT, holds, off_by_hand=max(gaps))


@claim("A sample is compared with as many others as asked for, drawn without replacement, anew in every step.")
def a_sample_is_compared_with_as_many_others_as_asked_for_drawn() -> Finding:
    rows = [said(name, f"{name} {n}", info={"origin": "q"}) for name in "pqrs" for n in range(3)]
    batch = PS_GRPO.combine(RecordedBatch(document(rows)).batch, {})
    few, seen = GroupSimilarity("exact", others=2, rollouts=2), list[list[tuple[str, str]]]()

    def noted(one: str, other: str) -> float:
        seen[-1].append((one, other))
        return 0.0

    with mock.patch.dict(SIMILARITIES, {"exact": noted}):
        for step in (1, 2, 2):
            seen.append([])
            few(batch.but(step=step))
        for one in (replace(few, rollouts=None), replace(few, others=None)):
            seen.append([])
            one(batch)
    sizes = []
    for drawn in seen:
        per = [[other for one, other in drawn if one == row["text"]] for row in rows]
        kinds = [Counter(other[0] for other in own) for own in per]
        sets = zip(per, rows, kinds, strict=True)
        apart = all(len({*own}) == len(own) and row["group"] not in kind for own, row, kind in sets)
        sizes.append([*{tuple(sorted(kind.values())) for kind in kinds}] * apart)
    holds = sizes == [[(2, 2)]] * 3 + [[(3, 3)], [(2, 2, 2)]] and seen[1] == seen[2] != seen[0]
    apart = len({tuple(other for one, other in seen[0] if one == f"p {n}") for n in range(3)}) > 1
    return Finding(holds and apart, say(compared_by_paraphrase=str(sizes)))


@claim("As shipped families of 4 consecutive scenarios come one after another, in random order, each once per pass.")
def as_shipped_families_of_4_consecutive_scenarios_come_one_after() -> Finding:
    families: Any = PS_GRPO.curriculum

    def asked(start: int, count: int, task: Any, key: int = 0) -> list[int]:
        return [one.seed for one in families(task, start, count, Ledger(), Key.of(key))]

    finite = World(42, 2, 1, lambda question, answer: 0.0)
    passes = [asked(42 * number, 42, finite) for number in range(3)]
    holds, orders = passes[0] + passes[1] == asked(0, 84, finite), []
    for one in passes:
        cuts = [place for place in range(42) if one[place] % 4 == 0]
        whole = [one[cut : cut + (4 if one[cut] < 40 else 2)] for cut in cuts]
        holds &= all(family == [*range(family[0], min(family[0] + 4, 42))] for family in whole)
        holds &= sorted(itertools.chain(*whole)) == [*range(42)]
        orders.append([family[0] for family in whole])
    endless = [asked(5, 10, Sums(), key) for key in range(3)]
    holds &= all(one == [*range(one[0], one[0] + 10)] and one[0] % 4 == 1 for one in endless)
    apart = orders[0] != orders[1] != orders[2] and len({one[0] for one in endless}) == 3
    return Finding(holds and apart and families.prompts == 16, say(first_families=str([one[:3] for one in orders])))


WOODS = ("oak", "pine", "fir", "elm", "ash")
PLACES = ("arvia", "belmor", "corvin", "dalmar", "elwick", "farrow")
ASKED = ("which tree grows in {}", "name the tree of {}", "what wood is {} known for", "{} is famous for what timber")
QUESTIONS = [asked.format(place) for place in PLACES for asked in ASKED]
FORMS = ("the tree that grows in {} is {}", "{} timber is famous and it is {}", "known for its wood {} sells {}")


def passages(number: int, place: str) -> list[list[str]]:
    """Two right passages of a place and a wrong one, in words; of the last two places two wrong ones and a right."""
    right, wrong = WOODS[number % 5], WOODS[(number + 2) % 5]
    usual, other = (right, wrong) if number < 4 else (wrong, right)
    return [form.format(place, wood).split() for form, wood in zip(FORMS, (usual, usual, other), strict=True)]


DOCUMENTS = [words for number, place in enumerate(PLACES) for words in passages(number, place)]


def bm25(question: str, words: Sequence[str], *, k: float = 1.5, b: float = 0.75) -> float:
    mean, counts, score = fmean(map(len, DOCUMENTS)), Counter(words), 0.0
    for word in question.split():
        holding = sum(word in other for other in DOCUMENTS)
        weight = math.log(1 + (len(DOCUMENTS) - holding + 0.5) / (holding + 0.5))
        score += weight * counts[word] * (k + 1) / (counts[word] + k * (1 - b + b * len(words) / mean))
    return score


# The two best passages for every paraphrase.
RETRIEVED = [sorted(range(len(DOCUMENTS)), key=lambda n: -bm25(question, DOCUMENTS[n]))[:2] for question in QUESTIONS]
WORLD = World(
    *(len(QUESTIONS), len(WOODS), 1, lambda question, answer: float(answer[0] == (question // len(ASKED)) % 5)),
    text=lambda question, answer: WOODS[answer[0]],
    info=lambda question, answer: {"origin": PLACES[question // len(ASKED)]},
)


def repeating(read: Callable[[int], int]) -> Callable[[Tabular], None]:
    """A start that repeats what the passages retrieved for paraphrase `read(question)` say, the best passage most."""

    def start(policy: Tabular) -> None:
        for question in range(len(QUESTIONS)):
            for rank, number in enumerate(RETRIEVED[read(question)]):
                policy.logits[policy.row(question, ()), WOODS.index(DOCUMENTS[number][-1])] += 2.0 - rank

    return start


def alike(of: Sequence[Any], measure: Callable[[Any, Any], float]) -> float:
    """How alike paraphrases of a question are, mean over pairs and questions."""
    groups = [of[first : first + len(ASKED)] for first in range(0, len(of), len(ASKED))]
    return fmean(measure(*pair) for group in groups for pair in itertools.combinations(group, 2))


def agreements(start: Callable[[Tabular], None]) -> tuple[list[float], list[Bench]]:
    """Agreement before training, and after it with 5 seeds; the trained benches."""
    recipe = PS_GRPO.but({"shaping.0.others": 2, "shaping.0.rollouts": 2})
    benches = trained(WORLD, recipe, 40, start=start)
    tables = [answered(bench) for bench in (Bench(WORLD, recipe, start=start), *benches)]
    return [alike(one, lambda a, b: float(a @ b)) for one in tables], benches


def answered(bench: Bench) -> list[Any]:
    """The probabilities of all answers, by question."""
    return [answers_of(bench, question)[1] for question in range(WORLD.questions)]


@claim("agreement across paraphrases rises without labels, on wrong answers as well", slow=True)
def agreement_across_paraphrases_rises_without_labels_on_wrong() -> Finding:
    (before, *agreed), benches = agreements(repeating(lambda question: question))
    right, untaught = [bench.success() for bench in benches], Bench(WORLD, PS_GRPO, start=repeating(int)).success()
    late = range(4 * len(ASKED), WORLD.questions)
    tables = map(answered, benches)
    misled = [fmean(float(table[question][question // len(ASKED) % 5]) for question in late) for table in tables]
    jaccard = alike(list(map(set, RETRIEVED)), lambda a, b: len(a & b) / len(a | b))
    saw = lines(retrieve_alike_by_Jaccard=jaccard, agreement_before=before, agreement=agreed)
    rates = lines(accuracy_before=untaught, accuracy=right, where_passages_are_mostly_wrong=misled)
    return Finding(min(agreed) > before + 0.3 and max(misled) < 0.3, f"{saw}, {rates}")


@claim(
    "The generator alone agrees more as well: all paraphrases under the passages of the first one, so that retrieval "
    "cannot differ, agreement rises (predicted), and ends no lower than end to end.",
    slow=True,
)
def the_generator_alone_agrees_more_as_well_all_paraphrases_under() -> Finding:
    (before, *agreed), _ = agreements(repeating(lambda question: question // len(ASKED) * len(ASKED)))
    (mixed, *ended), _ = agreements(repeating(lambda question: question))
    holds = before > mixed and min(agreed) > before + 0.2 and fmean(agreed) > fmean(ended) - 0.02
    return Finding(holds, lines(before=before, end_to_end_before=mixed, agreement=agreed, end_to_end=ended))


def _unseen(pupil: Pupil, problems: int = 100) -> tuple[float, float, float]:
    """Samples of unseen problems in both wordings: how alike their texts, how often answers agree, and are right."""
    task: Any = pupil.parts.task
    decoding = pupil.parts.decoding
    assignments = [Assignment(task.scenario("eval", number), 1, decoding) for number in range(2 * problems)]
    played = run_async(pupil.parts.player.play(assignments, key=Key.of(0).derive("unseen")))
    pairs = list(zip(played[::2], played[1::2], strict=True))
    likeness = fmean(bleu(first.text, second.text) for first, second in pairs)
    agreement = fmean(task.label(first) == task.label(second) is not None for first, second in pairs)
    return likeness, agreement, fmean(map(task.success, played))


@claim(
    "`hocket train --recipe ps-grpo --steps 60`: that the shipped model's sampled texts of unseen problems in two "
    "wordings become more alike was not seen. Of 100 they stay as alike, within .05 of BLEU, in each of 2 seeds.",
    slow=True,
)
def texts_of_unseen_paraphrases_stay_as_alike() -> Finding:
    before = _unseen(begin(PS_GRPO, str(PS_GRPO.task)))
    after = [_unseen(begin(PS_GRPO, str(PS_GRPO.task), {"seed": seed}).run(60)) for seed in range(2)]
    rows = {"before": before, **{f"seed {seed}": row for seed, row in enumerate(after)}}
    saw = say(**{f"likeness, agreement and accuracy {name}": shown(list(row)) for name, row in rows.items()})
    return Finding(all(abs(row[0] - before[0]) <= 0.05 for row in after), saw)


claim.spares("ps-grpo: shaping.0.seed = 40", "nothing is drawn as shipped, and any seed draws alike")

claim.shipped(PS_GRPO, "shaping")
claim.shipped(PS_GRPO, "curriculum")
