"""Meta policy optimisation's claims."""

from collections.abc import Mapping, Sequence
from typing import Any

from hocket.core.errors import ConfigurationError
from hocket.core.signals import returns
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.harness import batches, below, cases, gap, inspect_rows, say
from hocket.lab.microscope import RecordedBatch
from hocket.lab.toys.recorded_answers import document
from hocket.lab.world import Answer as Said
from hocket.lab.world import World
from hocket.methods.base.ppo import PPO_RLHF
from hocket.methods.preference.mpo_meta_reward import MPO_META_REWARD, START, EvolvingRubric
from hocket.rewards.combine import WeightedSum
from hocket.rewards.judging import Answer, Judge, Question
from hocket.stages import State

claim = Claims("mpo-meta-reward", "arXiv:2504.20157")

LISTED = EvolvingRubric(checklist={"solid": 0.3, "flashy": 0.7}, truth="truth", every=4)


def rows(number: int, solid: float = 0.5, flashy: float = 0.5, truth: float = 0.5) -> list[dict[str, Any]]:
    """A random batch whose scores have these means."""
    found = next(batches(1, "rubric", number, graded=True))["trajectories"]
    means = {"solid": solid, "flashy": flashy, "truth": truth}
    return [
        {
            **row,
            "scores": {name: mean + 0.1 * (-1) ** place * row["scores"]["reward"] for name, mean in means.items()},
        }
        for place, row in enumerate(found)
    ]


def graded(rubric: EvolvingRubric, steps: Sequence[Sequence[dict[str, Any]]]) -> State:
    """The state after these batches."""
    state = rubric.init()
    for step in steps:
        _, state = rubric(RecordedBatch(document(step)).batch, state)
    return state


@claim(
    "Until the rubric is revised, and for ever with every = 0, it is PPO on the judge's fixed grades, step for step."
)
def until_the_rubric_is_revised_and_for_ever_with_every_0_it_is_ppo() -> Finding:
    gaps, state = [], EvolvingRubric(checklist=LISTED.checklist, truth="truth", every=0).init()
    recipe = MPO_META_REWARD.but({"shaping.0": EvolvingRubric(checklist=LISTED.checklist, truth="truth", every=0)})
    fixed = PPO_RLHF.but({"shaping.0.coefficient": 0.05}).but(
        {"combine": WeightedSum({"solid": 0.3, "flashy": 0.7, "truth": 0.0})}
    )
    for number in range(12):
        step = rows(number, flashy=number / 12)
        gaps.append(gap(*(inspect_rows(one, step)["gradient"] for one in (recipe, fixed))))
        _, state = recipe.shaping[0](RecordedBatch(document(step)).batch, state)  # type: ignore[call-arg,misc]
    kept = state["weights"] == dict(LISTED.checklist) and state["steps"] == 12
    before = graded(LISTED, [rows(n, flashy=n / 4) for n in range(3)])["weights"]
    after = graded(LISTED, [rows(n, flashy=n / 4) for n in range(4)])["weights"]
    return below(1e-9, kept, before == dict(LISTED.checklist), after != before, off=max(gaps))


@claim(
    "The rule halves the weight of what rose while the truth did not, and of nothing else; the window then begins anew."
)
def the_rule_halves_the_weight_of_what_rose_while_the_truth_did_not() -> Finding:
    def weights(rise: Mapping[str, float]) -> dict[str, float]:
        moved = [{name: 0.4 + by * (number >= 2) for name, by in rise.items()} for number in range(4)]
        state = graded(LISTED, [rows(7, **means) for means in moved])
        return {name: round(weight, 9) for name, weight in state["weights"].items()} | {"seen": len(state["means"])}

    cut, same = {"solid": 0.3, "flashy": 0.35, "seen": 0}, {"solid": 0.3, "flashy": 0.7, "seen": 0}
    ways = [
        ({"solid": 0.0, "flashy": 0.1, "truth": 0.0}, cut),
        ({"solid": -0.1, "flashy": 0.1, "truth": -0.1}, cut),
        ({"solid": 0.1, "flashy": 0.1, "truth": 0.1}, same),
        ({"solid": 0.1, "flashy": 0.1, "truth": 0.0}, {"solid": 0.15, "flashy": 0.35, "seen": 0}),
        ({"solid": 0.005, "flashy": 0.005, "truth": 0.0}, same),
        ({"solid": -0.1, "flashy": -0.1, "truth": -0.1}, same),
    ]
    found = cases(ways, lambda rise, wanted: weights(rise) == wanted)
    short = LISTED.revised({"solid": 1.0}, [{"solid": 1.0, "truth": 0.0}]) == {"solid": 1.0}
    return Finding(found.holds and short, f"{found.saw}; one step revises: {not short}")


@claim("A grade is the weighted mean of the checklist's scores; the checklist as shipped leaves a batch that has none "
       "of them its rewards, and a part of them, or one that was set, is asked for.")  # fmt: skip
def a_grade_is_the_weighted_mean_of_the_checklists_scores_the() -> Finding:
    def paid(rubric: EvolvingRubric, scores: Mapping[str, float], **of_turns: Any) -> list[float] | None:
        row = {"group": "g", "scores": scores, "logp": [-1.0], **of_turns}
        try:
            return returns(rubric(RecordedBatch(document([row])).batch, rubric.init())[0]).tolist()
        except ConfigurationError:
            return None

    shipped, other = EvolvingRubric(), EvolvingRubric(checklist={"form": 3.0, "model": 1.0})
    ways: list[tuple[EvolvingRubric, dict[str, float], list[float] | None]] = [
        (shipped, {"form": 0.25, "model": 0.75, "correct": 1.0}, [0.5]),
        (other, {"form": 0.25, "model": 0.75, "correct": 1.0}, [0.375]),
        (shipped, {"reward": 0.625}, [0.625]),
        (shipped, {"form": 0.25, "correct": 1.0}, None),
        (shipped, {"form": 0.25, "model": 0.75}, None),
        (other, {"reward": 0.625}, None),
    ]
    found = cases(ways, lambda rubric, scores, wanted: paid(rubric, scores) == wanted)
    of_turns = paid(shipped, {"model": 0.5, "correct": 1.0}, turn_scores=[{"form": 0.5}])
    return Finding(found.holds and of_turns is None, f"{found.saw}, of turns {of_turns}")


class Meta(Judge):
    """Grades by the words of a rubric, doubts answers that say `pad`, and writes rubrics that name what it saw.

    With `naming` each names the first word of the answer that it is about.
    """

    def __init__(self, silent: bool = False, naming: bool = False) -> None:
        super().__init__("meta")
        self.asked, self.silent, self.naming = list[str](), silent, naming

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        self.asked += [question.prompt for question in questions]
        return [Answer(self.answer(question.prompt)) for question in questions]

    def answer(self, prompt: str) -> str | None:
        if prompt.startswith("Grade an answer"):
            rubric, _, text = prompt.partition("Answer:\n")
            return "2" if "no padding" in rubric and "pad" in text else "9" if "pad" in text else "5"
        if self.silent:
            return None
        if "Is this grade wrong" in prompt:
            return "yes" if "pad" in prompt.split("Answer:")[1] else "no"
        if prompt.startswith("Merge"):
            return f"merged {prompt.count('no padding')}: no padding"
        if self.naming and "What is wrong" in prompt:
            return f"not like {prompt.split('Answer:')[1].split()[0]}"
        return "rubric: no padding" if "What is wrong" in prompt else "padding is paid for"


def answers(number: int) -> list[dict[str, Any]]:
    """Six answers, two of which pad."""
    told = ("short", "pad pad", "right", "pad", "so", "well")
    return [
        {"group": "g", "scores": {"reward": 0.0}, "logp": [-1.0], "text": f"{text} {number}"}
        | {"info": {"prompt": f"question {number}"}}
        for text in told
    ]


@claim(
    "With a judge a revision prescreens the newest cases, analyses and refines those alone, merges what came of them "
    "into one rubric, and grades by that from the next step on."
)
def with_a_judge_a_revision_prescreens_the_newest_cases_analyses() -> Finding:
    judge = Meta()
    rubric = EvolvingRubric(every=2, sample=9, judge=judge)
    state, seen = rubric.init(), []
    for number in range(3):
        batch, state = rubric(RecordedBatch(document(answers(number))).batch, state)
        seen.append((state["rubric"], batch.scores["reward"].values.tolist()))
    asked = {
        "prescreened": sum("Is this grade wrong" in prompt for prompt in judge.asked),
        "analysed": sum("Say where the rubric" in prompt for prompt in judge.asked),
        "refined": sum("Write a better rubric" in prompt for prompt in judge.asked),
        "merged": sum(prompt.startswith("Merge") for prompt in judge.asked),
    }
    # Of the newest nine cases three answers pad: one of the first step's and two of the second's.
    counts = tuple(asked.values()) == (9, 3, 3, 1)
    rubrics = [one for one, _ in seen] == [START, "merged 3: no padding", "merged 3: no padding"]
    paid = seen[1][1][1] == 0.9 and seen[2][1][1] == 0.2 and seen[2][1][0] == 0.5
    return Finding(counts and rubrics and paid and len(state["cases"]) == 6, say(**asked))


claim.constants(
    "It ships with a revision after ten steps from the newest 20 answers, picked first and merged last, and a "
    "checklist of form and model whose gamed weights are halved.",
    MPO_META_REWARD,
    {
        "shaping.0": EvolvingRubric(
            every=10, sample=20, prescreen=True, merge=True, truth="correct", factor=0.5, least=0.01, scale=10,
            checklist={"form": 1.0, "model": 1.0}, rubric=START, judge=None,
        ),
        "shaping.1": PPO_RLHF.but({"shaping.0.coefficient": 0.05}).shaping[0],
    },
)  # fmt: skip


# ---------------------------------------------------------------- what is learnt

PLACES = 2


def share(token: int, answer: Said) -> float:
    """The share of an answer's places that one token takes."""
    return answer.count(token) / PLACES


WRITTEN = World(
    1,
    3,
    PLACES,
    lambda _, answer: share(0, answer),
    parts={"solid": lambda _, answer: share(0, answer), "flashy": lambda _, answer: share(1, answer)},
    context="position",
)
"""A place is solid, which is what is truly wanted, or flashy, for which the rubric pays more, or neither."""


@claim(
    "Under a fixed rubric the policy learns the feature that pays most and the true metric falls to nothing; revised "
    "early, at a slow learning rate, the rubric stops paying for it and the true metric ends above where it began.",
    slow=True,
)
def under_a_fixed_rubric_the_policy_learns_the_feature_that_pays() -> Finding:
    rubric = EvolvingRubric(checklist={"solid": 0.3, "flashy": 0.7}, truth="reward", every=5)
    recipe = MPO_META_REWARD.but(
        {"shaping.0": rubric, "rollout.samples": 32, "update.minibatches": 1, "shaping.1.coefficient": 0.01}
    )
    figures = {
        name: [Bench(WRITTEN, one, seed, lr=0.02, steps=80).run(80, every=999).success() for seed in range(3)]
        for name, one in (("fixed", recipe.but({"shaping.0.every": 0})), ("revised", recipe))
    }
    return Finding(max(figures["fixed"]) < 0.05 and min(figures["revised"]) > 0.5, say(before=1 / 3, **figures))


claim.shipped(MPO_META_REWARD, "shaping")
claim.shipped(
    MPO_META_REWARD,
    "shaping",
    without={"shaping.0.every": 0},
    settings={"judge": "nano", "shaping.0.every": 1, "shaping.0.sample": 4, "shaping.0.prescreen": False},
    steps=2,
)
