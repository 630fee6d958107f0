"""What mmgrpo claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.credit.units import turn_units
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.documents import random_document
from hocket.lab.microscope import Reading, look
from hocket.lab.talk import TalkBench, last_message
from hocket.lab.toys.rewarded import SEEDS, apart, document, group_relative, line
from hocket.methods.base.grpo import GRPO
from hocket.methods.teams.mmgrpo import MMGRPO, ModuleRelative
from hocket.recipe import Recipe
from hocket.types import Message, Scenario, Trajectory
from hocket.workflows.team import Team
from hocket.workflows.workflow import Outcome, Workflow

claim = Claims("mmgrpo", "arXiv:2508.04660 and dspy.GRPO")


def queried(trajectory: Trajectory) -> float:
    """Whether the query was right."""
    return float(QUERIED.get(trajectory))


QUERIED = InfoColumn("queried", "Whether the right thing was asked.")


def program(calls: Sequence[str], reward: float, formats: Sequence[float | None] = ()) -> dict[str, Any]:
    """A rollout of a program that calls modules in this order, one decision per call."""
    told = [{} if value is None else {"format": value} for value in formats]
    row = {
        "group": "x",
        "scores": {"reward": reward},
        "logp": [-1.0] * len(calls),
        "turn": list(range(len(calls))),
        "agent": list(calls),
    }
    return row if not formats else {**row, "turn_scores": told}


def recorded(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Rollouts in this order."""
    return document([{**row, "id": str(number)} for number, row in enumerate(rows)])


def flat(rows: Sequence[Sequence[float]]) -> list[float]:
    """All numbers in a row."""
    return [value for row in rows for value in row]


@claim("for a one-module program called once per rollout the update equals GRPO")
def one_module_is_grpo() -> Finding:
    """A program of one module, called once: the same gradient as GRPO, whatever the mode."""
    batch = random_document(Key.of(8), graded=True)
    want = look(GRPO, batch)["gradient"]
    worst = 0.0
    for counts in ("truncate", "fill-random", "fill-last", "ragged"):
        got = look(MMGRPO.but({"credit.counts": counts}), batch)["gradient"]
        worst = max(worst, *(apart(a, b) for a, b in zip(got, want, strict=True)))
    return Finding(worst < 1e-12, f"gradients within {worst:.1e} of GRPO's in four modes")


@claim("the grouping modes give the hand-computed groups for call counts 1, 2, 3")
def groups_by_hand() -> Finding:
    """Call counts (1, 2, 3): the groups, advantages and weights of every mode, counted by hand."""
    rewards = (1.0, 0.0, 0.25)
    rows = [program(["search"] * (n + 1), reward) for n, reward in enumerate(rewards)]
    read = Reading(recorded(rows))
    units = turn_units(read.batch)
    # Visits: rollout 0 has call 0; rollout 1 calls 1, 2; rollout 2 calls 3, 4, 5.
    wanted = {
        "truncate": [[0, 1, 3]],
        "fill-last": [[0, 1, 3], [0, 2, 4], [0, 2, 5]],
        "ragged": [[0, 1, 3], [2, 4], [5]],
    }
    whole, pair = group_relative(rewards), group_relative(rewards[1:])
    advantages = {
        "truncate": [whole[0], whole[1], 0.0, whole[2], 0.0, 0.0],
        "fill-last": [whole[0], whole[1], whole[1], *[whole[2]] * 3],
        "ragged": [whole[0], whole[1], pair[0], whole[2], pair[1], 0.0],
    }
    weights = {
        "truncate": [1.0, 1.0, 0.0, 1.0, 0.0, 0.0],
        # Nine members of six calls: 1.5 each on the mean.
        "fill-last": [2.0, 2 / 3, 4 / 3, *[2 / 3] * 3],
        "ragged": [1.0] * 6,
    }
    worst, wrong = 0.0, []
    for counts, groups in wanted.items():
        credit = ModuleRelative(counts=counts)  # type: ignore[arg-type]
        found = [group.members for group in credit.groups(read.batch, units, units.counted)]
        wrong += [counts] if found != groups else []
        seen = look(MMGRPO.but(credit=credit), recorded(rows))
        worst = max(worst, apart(flat(seen["advantages"]), advantages[counts]))
        worst = max(worst, apart(flat(seen["weight"]), weights[counts]))
    drawn = [
        ModuleRelative(counts="fill-random", seed=seed).groups(read.batch, units, units.counted) for seed in range(9)
    ]
    filled = {tuple(one.members[0] for one in groups) for groups in drawn} == {(0, 0, 0)}
    places = {groups[2].members[1] for groups in drawn}
    holds = worst < 1e-12 and not wrong and filled and places == {1, 2}
    return Finding(
        holds,
        f"groups of 3 modes {wrong or 'right'}, numbers within {worst:.1e}; random fill draws calls "
        f"{sorted(places)} of the rollout with two",
    )


@claim("inputs without a call are left out, groups with lost rollouts repeat members")
def left_out_and_lost() -> Finding:
    """An input some rollout of which never calls a module is left out for it; lost rollouts repeat the others."""
    rows = [program(["search", "answer"], 1.0), program(["answer"], 0.0), program(["search", "answer"], 0.5)]
    seen = look(MMGRPO, recorded(rows))
    whole = group_relative((1.0, 0.0, 0.5))
    wanted = [[0.0, whole[0]], [whole[1]], [0.0, whole[2]]]
    worst = apart(flat(seen["advantages"]), flat(wanted))
    kept = [row != 0 for row in flat(seen["weight"])] == [False, True, True, False, True]
    padded = look(MMGRPO.but({"credit.group_size": 4}), recorded([program(["a"], r) for r in (1.0, 0.0, 0.5)]))
    four = group_relative((1.0, 0.0, 0.5, 1.0))
    worst = max(worst, apart(flat(padded["advantages"]), four[:3]))
    worst = max(worst, apart(flat(padded["weight"]), [1.5, 0.75, 0.75]))
    return Finding(worst < 1e-12 and kept, f"numbers within {worst:.1e}; calls left out have weight 0: {kept}")


@claim("a call that cannot be read gets a format reward in place of the program's")
def format_failures() -> Finding:
    """A call that could not be read gets its own score, between the two, and stands alone for its rollout."""
    rows = [
        program(["search", "answer"], 1.0, [1.0, 1.0]),
        program(["search", "answer"], 0.25, [None, None]),
        program(["search", "answer"], 0.0, [1.0, 0.5]),
    ]
    # `answer` of the third rollout: half read, so -0.5; its `search` is not learnt from.
    seen = look(MMGRPO, recorded(rows))
    third = group_relative((1.0, 0.25, -0.5))
    wanted = [[0.0, third[0]], [0.0, third[1]], [0.0, third[2]]]
    worst = apart(flat(seen["advantages"]), flat(wanted))
    # The first two searches: in the third rollout none counts, so the input is left out for that module.
    first = [row[0] for row in seen["weight"]]
    others = look(MMGRPO.but({"credit.keep_others": True}), recorded(rows))
    search = group_relative((1.0, 0.25, 0.0))
    wanted = [[s, t] for s, t in zip(search, third, strict=True)]
    worst = max(worst, apart(flat(others["advantages"]), flat(wanted)))
    return Finding(worst < 1e-12 and first == [0.0, 0.0, 0.0], f"advantages within {worst:.1e} of those by hand")


TOPICS = ("sun", "sea", "fox", "oak")
FACTS: Mapping[str, str] = {"sun": "hot", "sea": "deep", "fox": "red", "oak": "old"}


class QueryAnswer(Workflow):
    """The first module writes a query, an index answers it, the second writes the answer. One reward, at the end."""

    roles = ("query", "answer")

    def __init__(self, instruction: str = "") -> None:
        self.instruction = instruction

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        asked = await team.query(f"{self.instruction} {scenario.prompt}".strip())
        found = f"about {asked}" if asked.text in FACTS else "nothing"
        said = await team.answer(f"{self.instruction} {scenario.prompt} : {found}".strip())
        right = asked.text == scenario.answer and said.text == FACTS[str(scenario.answer)]
        return Outcome(rewards={"right": float(right)}, info={QUERIED.name: float(asked.text == scenario.answer)})


SCENARIOS = [Scenario(topic, f"what of the {topic} ?", answer=topic) for topic in TOPICS]


PROMPTS = ("go", "be brief", "look it up")
"""Instructions to choose from. The policy takes to them differently: see `obedient`."""


def obedient(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float] | None:
    """A prior that knows a little of what is asked for, more so under the last instruction."""
    told = str(messages[-1]["content"])
    knows = 1.5 if told.startswith(PROMPTS[2]) else 0.75 if told.startswith(PROMPTS[1]) else 0.0
    topic = next(topic for topic in TOPICS if topic in told)
    return {(FACTS[topic] if ":" in told else topic): knows}


def program_bench(recipe: Recipe, seed: int, instruction: str = PROMPTS[0], prompts: int | None = None) -> TalkBench:
    words = (*TOPICS, *FACTS.values())
    flow = QueryAnswer(instruction)
    return TalkBench(
        flow, SCENARIOS, words, recipe, prior=obedient, view=last_message, seed=seed, lr=0.1, prompts=prompts
    )


def answered(bench: TalkBench) -> float:
    """How likely the answer is right after a right query: exact, the mean over questions."""
    policy = bench.policies["policy"]
    words = list(bench.words)
    found = []
    for topic in TOPICS:
        told = f"{PROMPTS[0]} what of the {topic} ? : about {topic}"
        found.append(float(policy.probabilities(told)[words.index(FACTS[topic])]))
    return fmean(found)


@claim("with a reward at the end alone both modules improve", slow=True)
def both_modules_improve() -> Finding:
    """The reward comes at the end alone; the query and the answer both get better."""
    before, queries, answers, whole = (0.0, 0.0), [], [], []
    for seed in SEEDS:
        bench = program_bench(MMGRPO, seed)
        before = (bench.expected(queried), answered(bench))
        bench.run(60)
        queries.append(bench.expected(queried))
        answers.append(answered(bench))
        whole.append(bench.expected())
    holds = min(queries) > 0.8 and min(answers) > 0.8 and max(before) < 0.2
    return Finding(
        holds,
        f"right before {line(before)}; after 60 steps, 5 seeds: queries {line(queries)}, answers {line(answers)}, both "
        f"{line(whole)}",
    )


BUDGET = 40
"""Steps of training that all three may spend, a step being 8 rollouts of each of 4 questions."""


def chosen_prompt(seed: int, steps: int) -> str:
    """The best of the instructions by what they earn: rollouts of `steps` steps, shared out evenly among them."""
    earned = {}
    for number, prompt in enumerate(PROMPTS):
        bench = program_bench(MMGRPO, seed, prompt)
        samples = steps * 8 // len(PROMPTS)
        earned[prompt] = fmean(trajectory_right(one) for one in bench.play(samples, seed=number))
    return max(earned, key=lambda prompt: earned[prompt])


def trajectory_right(trajectory: Trajectory) -> float:
    return float(trajectory.scores["right"].value or 0.0)  # type: ignore[arg-type]


@claim("prompt optimisation, then RL is at least as good as either alone at the same number of calls", slow=True)
def prompt_first_then_weights() -> Finding:
    """At the same number of calls: a prompt alone, weights alone, a prompt and then weights."""
    found: dict[str, list[float]] = {"prompt": [], "weights": [], "both": []}
    picked = []
    for seed in SEEDS:
        picked.append(chosen_prompt(seed, BUDGET))
        found["prompt"].append(program_bench(MMGRPO, seed, picked[-1]).expected())
        found["weights"].append(program_bench(MMGRPO, seed).run(BUDGET).expected())
        prompt = chosen_prompt(seed, BUDGET // 4)
        found["both"].append(program_bench(MMGRPO, seed, prompt).run(BUDGET - BUDGET // 4).expected())
    least = min(b - max(a, w) for a, w, b in zip(*found.values(), strict=True))
    return Finding(
        least >= 0.0,
        f"right answers at {BUDGET * 64} calls, 5 seeds: prompt {line(found['prompt'])}, weights "
        f"{line(found['weights'])}, both {line(found['both'])}; least gain {least:.3f}",
    )
