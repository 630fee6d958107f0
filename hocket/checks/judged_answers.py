"""Rewards by kind of task, gates, checklists, and formats that get harder."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, ClassVar

import torch
from torch import Tensor

from hocket.checks.check import Check, Finding
from hocket.keys import Key
from hocket.lab import Bench, World
from hocket.lab.policy import Tabular
from hocket.lab.world import Answer, Graded
from hocket.microscope import look, relation
from hocket.recipe import Recipe
from hocket.recipes.group_relative import GRPO
from hocket.recipes.many_objectives import ACE_RL, CURR_REFT, CURR_REFT_SELF, MIXED_R1, QWEN3_KOREAN
from hocket.rewards import EndsWith, HasSection, InOrder, LanguageShare, Mentions, NoisyJudge, WeightedSum, WordRange
from hocket.rewards.checklist import Constraint, decompose, instruction, satisfied
from hocket.rewards.similarity_bags import bag_similarity, box_overlap, near_number, overlap
from hocket.stages import Reward
from hocket.types import Scenario, Trajectory

SEEDS = range(5)


def trained(world: World, recipe: Recipe, seed: int, steps: int, **settings: Any) -> Bench:
    """A bench after `steps`."""
    return Bench(world, recipe, seed, **settings).run(steps, every=steps)


def span(values: Sequence[float]) -> str:
    """The least and the largest."""
    return f"{min(values):.2f} to {max(values):.2f}"


# ---------------------------------------------------------------- mixed-r1


def similarities_by_hand() -> Finding:
    """BMAS on shuffled and swapped texts, boxes and numbers whose grades are known."""
    rng = Key.of(0).derive("bags").numpy()
    words = ["the", "red", "box", "lies", "left", "of", "a", "small", "green", "table", "near", "two", "chairs"]
    worst = 0.0
    for _ in range(50):
        one, other = (" ".join(rng.choice(words, int(rng.integers(1, 8)))) for _ in range(2))
        mixed = " ".join(rng.permutation(one.split()))
        gaps = (
            bag_similarity(one, mixed) - 1,
            bag_similarity(one, other) - bag_similarity(other, one),
            bag_similarity(one, other) - bag_similarity(mixed, other),
        )
        worst = max(worst, *map(abs, gaps))
    boxes = {
        ((0, 0, 2, 2), (1, 1, 3, 3)): 1 / 7,
        ((0, 0, 4, 4), (1, 1, 3, 3)): 4 / 16,
        ((0, 0, 1, 1), (1, 0, 2, 1)): 0.0,
        ((1, 2, 5, 4), (1, 2, 5, 4)): 1.0,
        ((0, 0, 3, 1), (1, 0, 4, 1)): 0.5,
        ((2, 2, 2, 5), (0, 0, 9, 9)): 0.0,
    }
    for (first, second), known in boxes.items():
        worst = max(worst, abs(overlap(first, second) - known), abs(box_overlap(f"[{first}]", second) - known))
    numbers = [near_number("it is 104", 100), near_number("105.1", 100), near_number("about 9.6", "10")]
    holds = worst < 1e-12 and numbers == [1.0, 0.0, 1.0]
    return Finding(holds, f"50 pairs of texts and {len(boxes)} of boxes: largest gap {worst:.1e}")


MIXTURE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("match", "7", ("5", "6", "7", "8", "12", "70")),
    ("match", "12", ("5", "6", "7", "8", "12", "70")),
    ("box", "0 0 4 4", ("0 0 4 4", "0 0 4 2", "2 2 6 6", "9 9 10 10", "1 1 4 4", "0 4")),
    ("box", "2 2 6 6", ("0 0 4 4", "0 0 4 2", "2 2 6 6", "9 9 10 10", "1 1 4 4", "0 4")),
    ("open", "a red box", ("a red box", "box red a dog", "the green box", "two dogs run", "a red fox", "")),
    ("open", "two dogs run", ("a red box", "box red a dog", "the green box", "two dogs run", "a red fox", "")),
    ("chart", "40", ("41", "45", "4", "400", "-40", "many")),
)
"""Kind, reference and the answers a policy can give."""


@dataclass(frozen=True)
class Mixture(World):
    """Questions of several kinds, each with a reference answer."""

    def scenario(self, split: Any, number: int) -> Scenario:
        kind, reference, _ = MIXTURE[number]
        told = replace(super().scenario(split, number), answer=reference)
        return replace(told, metadata={**told.metadata, "reward": kind})


def graded(question: int, answer: Answer) -> float:
    """The grade that the question's own reward gives."""
    kind, reference, options = MIXTURE[question]
    route: Any = next(route for route in MIXED_R1.rewards if route.name == kind)
    return float(route.graded(options[answer[0]], reference))


def mixture_loses_nothing() -> Finding:
    """One policy on all kinds at once, against one per question with as many updates."""
    world = Mixture(questions=len(MIXTURE), tokens=6, horizon=1, reward=graded, text=lambda q, a: MIXTURE[q][2][a[0]])
    kinds = list(dict.fromkeys(kind for kind, _, _ in MIXTURE))
    together: dict[str, list[float]] = {kind: [] for kind in kinds}
    alone: dict[str, list[float]] = {kind: [] for kind in kinds}
    worst = 0.0
    for seed in SEEDS:
        bench = trained(world, MIXED_R1, seed, 60)
        for kind in kinds:
            mine = [q for q, row in enumerate(MIXTURE) if row[0] == kind]
            single = trained(world, MIXED_R1.but({"curriculum": _Only(tuple(mine))}), seed, 60, prompts=len(mine))
            together[kind].append(bench.expected(_of(mine)) * len(MIXTURE) / len(mine))
            alone[kind].append(single.expected(_of(mine)) * len(MIXTURE) / len(mine))
        last = bench.step()
        for kind in kinds:
            given: list[Any] = [
                one.scores[kind].value for one in last.trajectories if one.scenario.metadata["reward"] == kind
            ]
            worst = max(worst, abs(last.metrics[f"reward/{kind}"] - sum(given) / len(given)))
    saw = ", ".join(f"{kind} {fmean(together[kind]):.2f} ({fmean(alone[kind]):.2f})" for kind in kinds)
    lost = max(fmean(alone[kind]) - fmean(together[kind]) for kind in kinds)
    saw = f"mixed (alone), means of 5 seeds: {saw}; each kind's reported reward is off by at most {worst:.0e}"
    return Finding(lost < 0.03 and min(map(fmean, together.values())) > 0.8 and worst < 1e-9, saw)


@dataclass(frozen=True)
class _Only:
    """The same few scenarios in every step."""

    numbers: tuple[int, ...]
    prompts: int = 1

    def __call__(self, task: Any, asked: int, count: int, ledger: Any, key: Key) -> list[Scenario]:
        return [task.scenario("train", self.numbers[(asked + n) % len(self.numbers)]) for n in range(count)]


def _of(questions: Sequence[int]) -> Callable[[int, Answer], float]:
    return lambda q, a: graded(q, a) if q in questions else 0.0


# ---------------------------------------------------------------- qwen3-korean

TARGET, FOREIGN = ("hana", "dul", "set", "net"), ("one", "two", "three", "four")
DUMP = 8
"""The token that writes all candidates."""


def wanted(question: int) -> int:
    """The right answer. Of three problems that look alike two have one answer, the third another: 2/3 is the best."""
    return (question + (question // 4 == 2)) % 4


def korean(question: int, answer: Answer) -> str:
    """Two words of thought in either vocabulary, then a number."""
    every = " ".join(map(str, range(4)))
    thought = " ".join(every if token == DUMP else (TARGET + FOREIGN)[token] for token in answer[:2])
    return f"<think>{thought}</think><answer>{every if answer[2] == DUMP else answer[2] % 4}</answer>"


def truly(question: int, answer: Answer) -> float:
    """Whether the answer is the right number and nothing else."""
    return float(answer[2] != DUMP and answer[2] % 4 == wanted(question))


def leaky(question: int, answer: Answer) -> float:
    """Whether the right number stands anywhere."""
    return float(str(wanted(question)) in korean(question, answer))


def tuned(policy: Tabular) -> None:
    """As after the first stage: the commoner answer, and the target's words, are likelier."""
    for kind in range(4):
        policy.logits[policy.row(kind, (0, 0)), [kind, kind + 4]] += 1.5
        for prefix in ((), (0,)):
            policy.logits[policy.row(kind, prefix), :4] += 1.0


def judge_stops_the_leak() -> Finding:
    """A verifier that accepts an answer anywhere, with and without a judge that errs in 2 of 100 cases."""
    world = World(
        questions=12,
        tokens=9,
        horizon=3,
        reward=truly,
        text=korean,
        context=lambda question, prefix: (question % 4, len(prefix)),
    )
    rule, language = Graded("correct", leaky), LanguageShare(words=TARGET, weight=0.5)
    judge = NoisyJudge(Graded("truth", truly), 0.02, 0.02, name="judge")
    plain = QWEN3_KOREAN.but(rewards=(rule, language), combine=WeightedSum())
    gated = QWEN3_KOREAN.but(rewards=(rule, judge, language))
    start = Bench(world, GRPO, start=tuned).success()
    right: dict[str, list[float]] = {}
    share: dict[str, list[float]] = {}
    halfway = []
    for name, recipe in (("plain", plain), ("gated", gated)):
        benches = [trained(world, recipe, seed, 50, start=tuned) for seed in SEEDS]
        if name == "gated":
            halfway = [bench.success() for bench in benches]
        benches = [bench.run(50, every=50) for bench in benches]
        right[name] = [bench.success() for bench in benches]
        share[name] = [bench.expected(lambda q, a: sum(token < 4 for token in a[:2]) / 2) for bench in benches]
    saw = (
        f"true accuracy from {start:.2f}: without judge {span(right['plain'])}, with judge {span(halfway)} at half and "
    )
    saw += f"{span(right['gated'])} (0.67 is the most); target's words {span(share['gated'])}"
    rises = min(halfway) > start and min(b - a for a, b in zip(halfway, right["gated"], strict=True)) > -0.02
    fell = max(right["plain"]) < start / 2
    return Finding(fell and rises and min(right["gated"]) > 0.6 and min(share["gated"]) > 0.95, saw)


def gate_bars_everything() -> Finding:
    """Rewards of the eight combinations of rule, judge and language, by hand."""
    rows: list[dict[str, Any]] = []
    known: list[dict[str, Any]] = []
    for number, (rule, judge, words) in enumerate(itertools.product((0.0, 1.0), (0.0, 1.0), (0.25, 0.75))):
        row = {"id": str(number), "group": "g", "logp": [-1.0, -2.0]}
        rows.append({**row, "scores": {"correct": rule, "judge": judge, "language": words}})
        known.append({**row, "scores": {"reward": 1.0 + words if rule == judge == 1.0 else 0.0}})
    gated, plain = ({"version": 1, "trajectories": given} for given in (rows, known))
    found = relation(look(QWEN3_KOREAN, gated), look(GRPO, plain))
    return Finding(found == "equal", f"8 combinations: {found}")


# ---------------------------------------------------------------- ace-rl

LINES = ("alpha", "beta", "gamma:", "omega", "lorem", "ipsum")
"""What a line may say; a text has four."""

POOL: tuple[Constraint, ...] = (Mentions("lorem"), InOrder("alpha", "beta"), HasSection("gamma"), EndsWith("omega"))
CONCERNS = ((0,), (1,), (1, 2), (3,))
"""By line, the constraints that are looked at when it is written: so what is learnt carries over to other sets."""

SETS = tuple(chosen for size in range(1, 5) for chosen in itertools.combinations(range(len(POOL)), size))
TRAINED = tuple(chosen for number, chosen in enumerate(SETS) if number % 2 == 0)
UNSEEN = tuple(chosen for number, chosen in enumerate(SETS) if number % 2 == 1)
ORDER = TRAINED + UNSEEN


def asked_of(question: int) -> tuple[Constraint, ...]:
    """The checklist of a question."""
    return tuple(POOL[number] for number in ORDER[question])


def lines(question: int, answer: Answer) -> str:
    """The text."""
    return "\n".join(LINES[token] for token in answer)


def satisfied_share(question: int, answer: Answer) -> float:
    """The share of the question's constraints that are met."""
    verdicts = satisfied(lines(question, answer), asked_of(question))
    return sum(verdicts) / len(verdicts)


def reads(question: int, prefix: Answer) -> Hashable:
    """What the policy sees: which of the constraints that concern this line are asked, and what was written."""
    chosen = ORDER[question]
    return (
        len(prefix),
        tuple(number in chosen for number in CONCERNS[len(prefix)]),
        "alpha" in map(LINES.__getitem__, prefix),
    )


@dataclass(frozen=True)
class NoisyChecklist(Reward):
    """The satisfied share by a judge that reverses each verdict with probability `error`."""

    error: float
    name: str = "checklist"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        shares: list[float | None] = []
        for one in trajectories:
            verdicts = satisfied(one.text, one.scenario.metadata["constraints"])
            flips = key.derive(one.scenario.id, one.sample).numpy().random(len(verdicts)) < self.error
            shares.append(sum(said != bool(flip) for said, flip in zip(verdicts, flips, strict=True)) / len(verdicts))
        return shares


def checklist_beats_one_score() -> Finding:
    """Verdicts per constraint against one verdict on the whole, both reversed in 20 of 100 cases."""
    world = World(
        questions=len(TRAINED),
        tokens=len(LINES),
        horizon=4,
        reward=satisfied_share,
        text=lines,
        context=reads,
        metadata=lambda q: {"constraints": asked_of(q)},
    )
    whole = NoisyJudge(Graded("truth", lambda q, a: float(satisfied_share(q, a) == 1.0)), 0.2, 0.2)
    found: dict[str, list[tuple[float, float]]] = {"checklist": [], "one score": []}
    for name, reward in (("checklist", NoisyChecklist(0.2)), ("one score", whole)):
        for seed in SEEDS:
            bench = trained(world, ACE_RL.but(rewards=(reward,)), seed, 60)
            answers = list(world.answers())
            with torch.no_grad():
                new = [
                    float(bench.policy.expectation(q, [satisfied_share(q, answer) for answer in answers]))
                    for q in range(len(TRAINED), len(ORDER))
                ]
            found[name].append((bench.success(), fmean(new)))
    seen = {name: span([run[0] for run in runs]) for name, runs in found.items()}
    new_sets = {name: [run[1] for run in runs] for name, runs in found.items()}
    saw = f"satisfied share on {len(TRAINED)} trained sets {seen['checklist']} (one score {seen['one score']}), "
    saw += f"on {len(UNSEEN)} unseen sets {span(new_sets['checklist'])} ({span(new_sets['one score'])})"
    ahead = min(new_sets["checklist"]) > max(new_sets["one score"]) + 0.05
    return Finding(ahead and fmean([a[0] - b[0] for a, b in zip(*found.values(), strict=True)]) > 0.05, saw)


def reward_is_the_share() -> Finding:
    """The recipe's own reward on generated instructions, and what meeting one more constraint does."""
    pool: tuple[Constraint, ...] = (*POOL, WordRange(3, 5), Mentions("beta"))
    rng = Key.of(0).derive("instructions").numpy()
    reward: Any = ACE_RL.rewards[0]
    right = rising = tried = 0
    for _ in range(200):
        chosen = tuple(pool[int(n)] for n in rng.permutation(len(pool))[: int(rng.integers(1, len(pool) + 1))])
        read = decompose(instruction(chosen))
        text = "\n".join(LINES[int(n)] for n in rng.integers(0, len(LINES), int(rng.integers(1, 7))))
        share = reward.share(text, {"constraints": read})
        met = [one(text) for one in chosen]
        right += read == chosen and share == sum(met) / len(met)
        if met[-1] and len(met) > 1:
            tried += 1
            rising += share >= reward.share(text, {"constraints": read[:-1]})
    return Finding(right == 200 and rising == tried > 20, f"{right} of 200 equal the share; {rising} of {tried} rise")


# ---------------------------------------------------------------- curr-reft

PROBLEMS, STEPS = 3, 3
"""Problems of three steps, each with one right token of six: yes/no needs the first, a choice two, open all."""

FORMS = ("binary", "choice", "open")
NEEDED = (1, 2, 3)

HEDGE = 0
"""A first token that gives a vague answer; any other begins to reason."""


def step_of(problem: int, place: int) -> int:
    """The right token of a step."""
    return (2 * problem + 3 * place + 1) % 6


def posed_as(scenario: Scenario, form: str, key: Key) -> Scenario:
    """The problem in a format."""
    problem = int(scenario.metadata["question"]) % PROBLEMS
    code = _code([step_of(problem, place) for place in range(STEPS)])
    answer = {"binary": "yes", "choice": "AB", "open": f"{code} apples"}
    told = {"question": problem + PROBLEMS * FORMS.index(form), "format": form}
    return replace(scenario, id=f"lab/{problem}/{form}", answer=answer[form], metadata=told)


def _code(tokens: Sequence[int]) -> str:
    return "-".join(map(str, tokens))


def _right(question: int, answer: Answer) -> list[bool]:
    """Which steps are right."""
    return [token == step_of(question % PROBLEMS, place) for place, token in enumerate(answer[1:])]


def concluded(vague: str) -> Callable[[int, Answer], str]:
    """What an answer says in the question's format, when a hedge says `vague` to an open question."""

    def text(question: int, answer: Answer) -> str:
        form, right = FORMS[question // PROBLEMS], _right(question, answer)
        if answer[0] == HEDGE:
            return vague if form == "open" else "perhaps"
        if form == "binary":
            return "yes" if right[0] else "no"
        if form == "choice":
            return "AB" if right[0] and right[1] else "A" if right[0] else "C"
        return f"{_code(answer[1:])} {'apples' if all(right) else 'pears'}"

    return text


def solved(question: int, answer: Answer) -> float:
    """Whether an open question is answered; others do not count."""
    return float(question // PROBLEMS == 2 and answer[0] != HEDGE and all(_right(question, answer)))


def shared_steps(question: int, prefix: Answer) -> Hashable:
    """Steps that a format needs are taken in contexts that all formats share; all else is its own."""
    problem, form = question % PROBLEMS, question // PROBLEMS
    if not prefix or prefix[0] == HEDGE or len(prefix) > NEEDED[form]:
        return problem, form, len(prefix)
    return problem, prefix[1:]


def orders_compared(vague: str, names: Sequence[str], updates: int = 75) -> dict[str, list[float]]:
    """Accuracy on open questions by order, 5 seeds."""
    world = World(
        questions=PROBLEMS * len(FORMS),
        tokens=6,
        horizon=STEPS + 1,
        reward=solved,
        text=concluded(vague),
        context=shared_steps,
    )
    base = CURR_REFT.but({"curriculum.pose": posed_as, "curriculum.per_stage": updates * PROBLEMS // 3})
    orders = {
        "staged": base,
        "shuffled": base.but({"curriculum.order": "shuffled"}),
        "open alone": base.but({"curriculum.stages": ("open",)}),
    }
    return {
        name: [
            len(FORMS) * trained(world, orders[name], seed, updates, prompts=PROBLEMS, lr=0.2).success()
            for seed in SEEDS
        ]
        for name in names
    }


def _listed(found: Mapping[str, Sequence[float]]) -> str:
    told = "; ".join(f"{name} {span(values)}, mean {fmean(values):.2f}" for name, values in found.items())
    return f"accuracy on open questions after 75 updates, 5 seeds: {told}"


def easy_to_hard_wins() -> Finding:
    """Where a vague answer to an open question earns a third, by the words it shares."""
    found = orders_compared("some of the apples", ("staged", "shuffled", "open alone"))
    ahead = fmean(found["staged"]) - max(fmean(found["shuffled"]), fmean(found["open alone"]))
    return Finding(ahead > 0.2, _listed(found))


def shuffled_may_do() -> Finding:
    """Where a vague answer earns nothing."""
    found = orders_compared("something", ("staged", "shuffled"))
    return Finding(fmean(found["shuffled"]) > fmean(found["staged"]) - 0.1, _listed(found))


def _new_only(scenario: Scenario, form: str, key: Key) -> Scenario:
    """The new skill alone."""
    return replace(scenario, id="lab/0", metadata={"question": 0})


def skills(question: int, answer: Answer) -> float:
    """Question 0, the new skill, wants (0, 1); question 1, the old one, (0, 2) or (1, 2)."""
    return float(answer == (0, 1) if question == 0 else answer in ((0, 2), (1, 2)))


def _skilled(policy: Tabular) -> None:
    """Before RL: both begin mostly with 0, and after any beginning 2 follows."""
    for question in range(2):
        policy.logits[policy.row(question, ()), 0] += 3.0
        policy.logits[policy.row(question, ()), 1] += 1.5
    for first in range(4):
        policy.logits[policy.row(0, (first,)), 2] += 3.0


def self_training_restores() -> Finding:
    """What RL on the new skill does to the old one, which shares its second step, and what self-training does then."""
    world = World(
        questions=2,
        tokens=4,
        horizon=2,
        reward=skills,
        context=lambda question, prefix: ("shared", prefix) if prefix else question,
    )
    rows = []
    for seed in SEEDS:
        recipe = CURR_REFT.but({"curriculum.pose": _new_only}, rewards=())
        bench = Bench(world, recipe, seed, start=_skilled)
        before = _both(bench)
        bench.run(60, every=60)
        after = bench.policy.logits.detach().clone()
        second = Bench(world, CURR_REFT_SELF, seed, start=_from(after))
        rows.append((*before, *_both(bench), *_both(second.run(60, every=60))))
    columns = [fmean(column) for column in zip(*rows, strict=True)]
    saw = (
        "new and old skill, means of 5 seeds: {:.2f} {:.2f}, after RL {:.2f} {:.2f}, after self-training {:.2f} {:.2f}"
    )
    least = min(row[5] - row[3] for row in rows)
    kept = min(row[4] - row[2] for row in rows)
    return Finding(columns[3] < columns[1] - 0.2 and least > 0.2 and kept > -0.05, saw.format(*columns))


def _from(table: Tensor) -> Callable[[Tabular], None]:
    def start(policy: Tabular) -> None:
        policy.logits.copy_(table)

    return start


def _both(bench: Bench) -> tuple[float, float]:
    """The success rates of the new and the old skill."""
    new, old = (2 * bench.expected(_on(question)) for question in range(2))
    return new, old


def _on(question: int) -> Callable[[int, Answer], float]:
    return lambda q, a: skills(q, a) if q == question else 0.0


# ---------------------------------------------------------------- the checks

CHECKS = (
    Check(
        "mixed-r1",
        "BMAS is 1 for equal bags of words, symmetric, and blind to their order; IoU is that of boxes done by hand",
        similarities_by_hand,
        "arXiv:2505.24164",
    ),
    Check(
        "mixed-r1",
        "one policy on a mixture of tasks loses no accuracy on any, and each task's reward is reported apart",
        mixture_loses_nothing,
        "arXiv:2505.24164",
        slow=True,
    ),
    Check("qwen3-korean", "nothing is paid unless rule and judge agree", gate_bars_everything, "the gate is ours"),
    Check(
        "qwen3-korean",
        "with a leaky verifier plain GRPO learns the leak and true accuracy falls; with the judge it rises and more "
        "than 95% of the thoughts are in the target vocabulary",
        judge_stops_the_leak,
        "arXiv:2508.10355",
        slow=True,
    ),
    Check("ace-rl", "the reward is the satisfied share and never falls with a constraint more", reward_is_the_share),
    Check(
        "ace-rl",
        "trained on a checklist a policy meets more constraints than on one score of equal noise, also in unseen sets",
        checklist_beats_one_score,
        "arXiv:2509.04903",
        slow=True,
    ),
    Check(
        "curr-reft",
        "at equal updates formats from easy to hard beat a shuffled order and open questions alone, on open questions, "
        "where vague answers tempt",
        easy_to_hard_wins,
        "arXiv:2503.07065",
        slow=True,
    ),
    Check(
        "curr-reft",
        "where nothing tempts, a shuffled order does as well: the claim needs open questions that mislead early",
        shuffled_may_do,
        "derived: a counter-example",
        slow=True,
    ),
    Check(
        "curr-reft",
        "self-training on selected samples restores an old skill that fell during RL, and keeps the new one",
        self_training_restores,
        "arXiv:2503.07065",
        slow=True,
    ),
)
