"""AVATAR's claims."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

import torch

from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.components import value_at
from hocket.core.keys import Key
from hocket.core.segments import segment_mean
from hocket.curriculum.random_order import Shuffled
from hocket.curriculum.scenario_worth import Weighted
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, gap, inspect_rows, say
from hocket.lab.talk import TalkBench, total
from hocket.lab.toys.hops import ASKED, WAYS, Hops, last
from hocket.lab.toys.recorded_answers import group_relative, line, sample
from hocket.methods.base.grpo import GRPO
from hocket.methods.data_and_rollout.avatar import AVATAR, ByDifficulty, EndsWeighted, ends_weight
from hocket.recipe import Recipe
from hocket.rollout.independent import Independent
from hocket.types import Scenario, Score, Trajectory

claim = Claims("avatar", "the abstract of arXiv:2508.03100; shapes recalled")
OURS = AVATAR.but({"curriculum": Shuffled(prompts=2)})
PLAIN = GRPO.but({"rollout.samples": 8})
NONE = {"rollout.earlier": 0, "rollout.medium": 0, "rollout.hard": 0}
TWO = [Scenario(one.id, "", answer=" ".join(one.answer.split()[:2])) for one in ASKED]


def bench(recipe: Recipe, seed: int = 0, lr: float = 0.1) -> TalkBench:
    return TalkBench(Hops(), TWO, WAYS, recipe, view=last, seed=seed, lr=lr)


@claim("With a flat weight and nothing brought back it is GRPO to the bit.")
def with_a_flat_weight_and_nothing_brought_back_it_is_grpo_to_the() -> Finding:
    ours, plain = (bench(one).run(6) for one in (OURS.but({**NONE, "credit.height": 0.0}), PLAIN))
    logits = [made.policies["policy"].module.logits for made in (ours, plain)]
    moved = float(logits[0].detach().abs().max())
    return Finding(torch.equal(*logits) and moved > 0, say(largest_weight_gap=gap(*logits), moved=moved))


@claim("The weight is (1 + lambda (2t/(L-1) - 1)^2) over its mean: 1 on average, and of one decision alone 1.")
def the_weight_is_1_2_over_its_mean_1_on_average_and_of_one() -> Finding:
    worst, draw = 0.0, Key.of(0).numpy()
    for _ in range(20):
        lengths, height = draw.integers(1, 9, 5).tolist(), float(draw.random() * 3)
        owner = torch.repeat_interleave(torch.arange(5), torch.tensor(lengths))
        found = ends_weight(owner, 5, height)
        due: list[float] = []
        for size in lengths:
            raised = [1 + height * (2 * t / (size - 1) - 1) ** 2 if size > 1 else 1.0 for t in range(size)]
            due += [one * size / sum(raised) for one in raised]
        worst = max(worst, gap(found, due), gap(segment_mean(found, owner, 5), torch.ones(5)))
    return Finding(worst < EXACT, say(largest_gap_to_hand=worst))


@claim("The fewer fresh samples succeed, the more come back; a group of equal rewards so gets a contrast.")
def the_fewer_fresh_samples_succeed_the_more_come_back_a_group_of() -> Finding:
    counts: dict[str, list[int]] = {"hard": [], "medium": [], "easy": []}
    contrast, equal = 0, 0
    for seed in range(4):
        made = bench(OURS.but({"rollout": ByDifficulty(samples=6, earlier=1, medium=2, hard=4)}), seed)
        for step in range(30):
            result = made.step()
            for asked in TWO if step > 3 else ():
                assert result.experience is not None
                group = [one for one in result.experience.trajectories if one.scenario.id == asked.id]
                fresh = [total(one) for one in group if one.source == "own"]
                share = fmean(fresh)
                counts["hard" if share < 1 / 3 else "medium" if share <= 2 / 3 else "easy"].append(len(group) - 6)
                if min(fresh) == max(fresh):
                    equal += 1
                    contrast += len({total(one) for one in group}) > 1
    holds = [set(row) for row in counts.values()] == [{4}, {2}, {1}] and contrast >= 5
    seen = {name: sorted(set(row)) for name, row in counts.items()}
    return Finding(holds, say(brought_back=str(seen), groups_of_equal_rewards=equal, with_contrast=contrast))


@claim(
    "As shipped 4 come back where fewer than a third of 8 succeed, else 2, and lambda is 1: weights 1.2, 0.6, 1.2 of 3."
)
def as_shipped_4_come_back_where_fewer_than_a_third_of_8_succeed() -> Finding:
    rollout, credit = AVATAR.rollout, AVATAR.credit
    assert isinstance(rollout, ByDifficulty)
    assert isinstance(credit, EndsWeighted)
    rows = [Trajectory(TWO[0], [], scores={"found": Score(float(n < 4))}) for n in range(8)]
    back = [rollout.wanted(group) for group in ([*rows[4:], *rows[:2]], rows, rows[:4])]
    weights = ends_weight(torch.zeros(3, dtype=torch.long), 1, credit.height).tolist()
    holds = back == [2, 2, 2] and rollout.wanted(rows[4:]) == 4 and gap(weights, [1.2, 0.6, 1.2]) < EXACT
    return Finding(holds and rollout.samples == 8, say(come_back=str(back), weights=str(weights)))


@claim(
    "Advantages are those of fresh and replayed samples together, times the weight; ratios are to who sampled, clipped "
    "at .8 and 1.2, and of what came back the share that is clipped is told."
)
def advantages_are_those_of_fresh_and_replayed_samples_together() -> Finding:
    # Ratios of e^-.3, e^-.1 and e^.5 of failures, and e^.5, e^.1 and e^.3 of what came back, by hand.
    rows = [sample("g", 0.0, [-1.0] * 3, logp_behaviour=[-0.7, -0.9, -1.5], source="own") for _ in range(3)]
    rows.append(sample("g", 1.0, [-1.0] * 3, logp_behaviour=[-1.5, -1.1, -1.3], source="replay"))
    seen = inspect_rows(AVATAR, rows)
    off = gap(seen["advantages"], [[one * w for w in (1.2, 0.6, 1.2)] for one in group_relative([0, 0, 0, 1])])
    stopped, told = [[slope == 0 for slope in row] for row in seen["gradient"]], seen["metrics"]["replay/clipped"]
    holds = stopped == [[True, False, False]] * 3 + [[True, False, True]] and abs(told - 2 / 3) < 1e-9
    return Finding(holds and off < 1e-9, say(advantages_off=off, clipped=told, no_gradient=str(stopped)))


@claim("As shipped 16 of all questions, which come again at random, 16 samples of each of 4096 kept.")
def as_shipped_16_of_all_questions_which_come_again_at_random_16() -> Finding:
    kept = [value_at(AVATAR, f"rollout.store.{name}") for name in ("size", "scenarios")]
    pool = AVATAR.curriculum == Weighted(prompts=16, pool=None, even=0.0)
    return Finding(pool and kept == [16, 4096], say(curriculum=str(AVATAR.curriculum), kept=str(kept)))


@dataclass(frozen=True)
class Noted(Workflow):
    """Six steps, paid for each of the decisive ones (the scenario's answer) that is right; the others are noise."""

    name = "noted"
    roles = ("policy",)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        said = [str(await team.policy(f"{scenario.id}, step {number}")) for number in range(6)]
        return Outcome(rewards={"found": fmean(float(said[place] == "north") for place in scenario.answer)})


def learnt(places: tuple[int, ...], height: float) -> list[float]:
    """The mean reward after some steps of plain descent where these places decide, by seed."""
    recipe = OURS.but({**NONE, "credit.height": height, "update.method": "sgd"})
    asked = [Scenario(f"{number}", "", answer=places) for number in range(2)]
    made = [TalkBench(Noted(), asked, WAYS, recipe, view=last, seed=seed, lr=12.0) for seed in SEEDS]
    return [one.run(12).success(100) for one in made]


@claim(
    "Where the first and the last step decide it learns faster than with even weights, and slower where those in the "
    "middle do.",
    slow=True,
)
def where_the_first_and_the_last_step_decide_it_learns_faster_than() -> Finding:
    ends, middle = ([learnt(places, height) for height in (1.0, 0.0)] for places in ((0, 5), (2, 3)))
    gains = [[a - b for a, b in zip(*pair, strict=True)] for pair in (ends, middle)]
    holds = fmean(gains[0]) > 0.02 and fmean(gains[1]) < -0.02
    saw = f"ends decide {line(ends[0])}, even weights {line(ends[1])}; the middle decides {line(middle[0])}"
    return Finding(holds, f"{saw}, even weights {line(middle[1])}")


claim.spares("avatar: objective.horizon = 5120", "no length divides a mean over sequences")
claim.shipped(
    AVATAR,
    without={"rollout": Independent(samples=8), "credit": GRPO.credit},
    steps=2,
    settings={"curriculum.prompts": 4, "curriculum.pool": 4},
    sees=lambda run: {"replayed": run.mean("replay/trajectories"), "groups": run.mean("groups/with_signal")},
)
