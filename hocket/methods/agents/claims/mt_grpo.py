"""What mt-grpo claims."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.talk import TalkBench, last_message
from hocket.lab.toys.turn_toys import SEEDS, by_turn, episode, seen, worst
from hocket.methods.agents.mt_grpo import MT_GRPO
from hocket.methods.base.grpo import GRPO
from hocket.recipe import Recipe
from hocket.types import Message, Scenario
from hocket.workflows.reply import Reply
from hocket.workflows.team import Team
from hocket.workflows.workflow import Outcome, Workflow

claim = Claims("mt-grpo", "arXiv:2505.11821")


def right(trained: TalkBench) -> float:
    """The exact chance of a right answer."""
    return trained.expected(lambda one: float(RIGHT.get(one)))


RIGHT = InfoColumn("right", "Whether the answer was right.")


def called(group: str, turn: float, outcome: float, size: int = 2) -> dict[str, Any]:
    """An episode that calls the tool, which writes a result that is read, and then answers."""
    return episode(group, outcome, [{"tokens": [1] * size, "reward": turn}, {"tokens": [2] * size}])


def guessed(group: str, outcome: float, size: int = 2) -> dict[str, Any]:
    """An episode that answers at once."""
    return episode(group, outcome, [{"tokens": [3] * size}])


def random_calls(key: Key) -> list[Any]:
    """Groups of five, with calls that earn 0, 1/2 or 1, and guesses."""
    rng = key.numpy()
    rows = []
    for group in ("one", "two"):
        for _ in range(5):
            outcome, size = float(rng.integers(0, 2)), int(rng.integers(1, 4))
            call = float(rng.integers(0, 3)) / 2
            rows.append(called(group, call, outcome, size) if rng.random() < 0.7 else guessed(group, outcome, size))
    return rows


@claim("With c = 0 it equals trajectory-level GRPO.")
def without_turn_credit_it_is_grpo() -> Finding:
    """GRPO sees the outcome alone."""
    gap = 0.0
    for number in range(20):
        rows = random_calls(Key.of(number))
        blind = [{name: value for name, value in row.items() if name != "turn_scores"} for row in rows]
        left, right = seen(MT_GRPO.but({"credit.coefficient": 0.0}), rows), seen(GRPO, blind)
        gap = max(gap, worst(left["advantages"], right["advantages"]), worst(left["gradient"], right["gradient"]))
    return Finding(gap == 0.0, f"c = 0 against GRPO on the outcome, 20 random batches, guesses included: {gap:.1e}")


def normal(values: Sequence[float]) -> list[float]:
    """`N(x)` of one group, counted anew."""
    middle = fmean(values)
    spread = math.sqrt(sum((value - middle) ** 2 for value in values) / (len(values) - 1))
    return [(value - middle) / (spread + 1e-6) if spread > 0 else 0.0 for value in values]


@claim("Advantages are the normalised rewards, in both published forms.")
def it_is_the_formula() -> Finding:
    gap = 0.0
    for number in range(20):
        rows = random_calls(Key.of(number))
        for form in ("added", "cumulative"):
            recipe = MT_GRPO.but({"credit.form": form, "credit.coefficient": 0.7, "credit.gamma": 0.9})
            found = seen(recipe, rows)["advantages"]
            for group in ("one", "two"):
                members = [n for n, row in enumerate(rows) if row["group"] == group]
                outcome = [rows[n]["scores"]["reward"] for n in members]
                turn = [sum(t["reward"] for t in rows[n]["turn_scores"]) for n in members]
                final, call = normal(outcome), normal(turn)
                added = form == "added"
                joint = normal([o + 0.7 * t if added else t + 0.9 * o for o, t in zip(outcome, turn, strict=True)])
                for place, n in enumerate(members):
                    alone = rows[n]["turn"][-1] == 0
                    early = final[place] + 0.7 * call[place] if added else joint[place]
                    wanted = [
                        joint[place] if alone else early if turn == 0 else final[place] for turn in rows[n]["turn"]
                    ]
                    gap = max(gap, worst(found[n], wanted))
    return Finding(gap < 1e-12, f"both forms counted anew, 20 random batches: {gap:.1e}")


@claim("Two rollouts with the same outcome and different turn rewards differ on the first turn's tokens alone.")
def turn_rewards_reach_the_first_turn_alone() -> Finding:
    """Two rollouts with the same outcome and different turn rewards."""
    rows = [called("g", 1.0, 1.0), called("g", 0.0, 1.0), called("g", 0.5, 0.0), guessed("g", 0.0)]
    one, other = (
        by_turn(row, values) for row, values in zip(rows[:2], seen(MT_GRPO, rows)["advantages"], strict=False)
    )
    apart, alike = abs(one[0][0] - other[0][0]), worst(one[1], other[1])
    return Finding(apart > 1 and alike == 0.0, f"first turns differ by {apart:.2f}, answers by {alike:.1e}")


@claim("Gradients on tool-output tokens are zero.")
def tool_output_has_no_gradient() -> Finding:
    """A result that stands among the decisions is imposed; everything else keeps what it had without it."""
    rows = [called("g", 1.0, 1.0), called("g", 0.0, 1.0), called("g", 0.5, 0.0), guessed("g", 0.0)]
    shown = []
    for row in rows:
        size = len(row["logp"])
        shown.append({**row, "tokens": [*row["tokens"], 9], "logp": [*row["logp"], -3.0]})
        shown[-1]["turn"], shown[-1]["trained"] = [*row["turn"], row["turn"][-1]], [True] * size + [False]
    before, after = seen(MT_GRPO, rows), seen(MT_GRPO, shown)
    of_tool = max(abs(row[-1]) for row in after["gradient"])
    others = worst([row[:-1] for row in after["gradient"]], before["gradient"])
    return Finding(
        of_tool == 0.0 and others < 1e-15, f"gradient on tool output {of_tool:.1e}; elsewhere changed by {others:.1e}"
    )


ANSWERS, RUBBISH = ("red", "green", "blue"), tuple(f"word {number}" for number in range(12))
WORDS = (*ANSWERS, "look", *RUBBISH)


class LookUp(Workflow):
    """Nobody can know the answer, one of three, but looking it up tells it: answer at once, or look and then answer."""

    roles = ("solver",)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        first = await team.solver("question")
        if str(first) != "look":
            return _worth(float(str(first) == scenario.answer), {first: 0.0})
        second = await team.solver(f"found {scenario.answer}")
        return _worth(float(str(second) == scenario.answer), {first: 1.0, second: 0.0})


def _worth(right: float, calls: Mapping[Reply, float]) -> Outcome:
    return Outcome(rewards={"right": right}, turn_rewards={"call": calls}, info={RIGHT.name: right})


def hasty(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
    """Guesses among the three, looks rarely, and makes nothing of what it finds."""
    if str(messages[-1]["content"]) == "question":
        return {**dict.fromkeys(RUBBISH, -9.0), "look": -0.5}
    return {"look": -9.0}


def bench(recipe: Recipe, seed: int) -> TalkBench:
    scenarios = [Scenario(answer, "question", answer) for answer in ANSWERS]
    return TalkBench(LookUp(), scenarios, WORDS, recipe, view=last_message, prior=hasty, seed=seed, lr=0.1)


def calls(trained: TalkBench) -> float:
    """The exact chance of a call."""
    (policy,) = trained.policies.values()
    return float(policy.probabilities("question")[WORDS.index("look")])


STEPS = 45


@claim("Where guessing is sometimes right, the call rate goes to 1 with turn credit and to 0 without it.", slow=True)
def turn_credit_saves_the_call() -> Finding:
    outcome_alone = GRPO.but({"combine.weights": {"call": 0.0}})
    blind = [bench(outcome_alone, seed).run(STEPS) for seed in SEEDS]
    ours = [bench(MT_GRPO, seed).run(STEPS) for seed in SEEDS]
    lost, kept, won = [calls(b) for b in blind], [calls(b) for b in ours], [right(b) for b in ours]
    return Finding(
        max(lost) < 0.06 and min(kept) > 0.95 and min(won) > 0.8,
        f"{STEPS} steps, from 0.17 calls and 0.29 right: on the outcome alone calls {_shown(lost)}; with turn credit "
        f"{_shown(kept)}, right {_shown(won)}, 5 seeds",
    )


@claim("Answers get right sooner than with both rewards in one.", slow=True)
def apart_beats_added_up() -> Finding:
    """The answer's turn is credited for the answer alone."""
    summed = [right(bench(GRPO, seed).run(30)) for seed in SEEDS]
    ours = [right(bench(MT_GRPO, seed).run(30)) for seed in SEEDS]
    return Finding(
        fmean(ours) > fmean(summed) + 0.1 and sum(a > b for a, b in zip(ours, summed, strict=True)) == len(ours),
        f"right after 30 steps: GRPO on the sum of both rewards {_shown(summed)}, MT-GRPO {_shown(ours)}, 5 seeds",
    )


def _shown(numbers: Sequence[float]) -> str:
    return " ".join(f"{number:.2f}" for number in numbers)
