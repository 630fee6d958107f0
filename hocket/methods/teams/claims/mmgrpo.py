"""mmGRPO's claims."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

from hocket.agents.search.plain import Reflective
from hocket.agents.search.searcher import CaseResult
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.core.texts import Block, Texts
from hocket.credit.units import turn_units
from hocket.lab.claims.harness import SEEDS, Claims, Finding, below, gap, gradient, inspect_rows, say
from hocket.lab.documents import random_document
from hocket.lab.microscope import RecordedBatch
from hocket.lab.talk import TalkBench, last_message
from hocket.lab.texts_worlds import searched
from hocket.lab.toys.recorded_answers import document, group_relative, lines
from hocket.lab.toys.talks import played_by
from hocket.methods.base.grpo import GRPO
from hocket.methods.teams.mmgrpo import MMGRPO, ModuleRelative
from hocket.train.pipeline import PlanPipeline, phase_runs
from hocket.types import Message, Scenario

claim = Claims("mmgrpo", "arXiv:2508.04660 and dspy.GRPO")

QUERIED = InfoColumn("queried", "Whether the right thing was asked.")


def programs(
    calls: Sequence[Sequence[str]], rewards: Sequence[float], formats: Sequence[Sequence[float | None]] = ()
) -> list[dict[str, Any]]:
    """Rollouts of a program that call modules in these orders, one decision per call."""
    rows: list[dict[str, Any]] = []
    for number, (agents, reward) in enumerate(zip(calls, rewards, strict=True)):
        row = {"id": str(number), "group": "x", "scores": {"reward": reward}, "logp": [-1.0] * len(agents)}
        rows.append({**row, "turn": list(range(len(agents))), "agent": list(agents)})
        if formats:
            rows[-1]["turn_scores"] = [{} if value is None else {"format": value} for value in formats[number]]
    return rows


@claim("for a one-module program called once per rollout the update equals GRPO")
def for_a_one_module_program_called_once_per_rollout_the_update() -> Finding:
    batch, modes = random_document(Key.of(8), graded=True), ("truncate", "fill-random", "fill-last", "ragged")
    grpo = gradient(GRPO, batch)
    off = max(gap(gradient(MMGRPO.but({"credit.counts": counts}), batch), grpo) for counts in modes)
    # Of several modules: a mean over calls, each the mean over its decisions.
    rows = [row | {"logp": [-1.0] * 4} for row in programs([["a", "b"]] * 2, (1.0, 0.0))]
    rows[0]["turn"], rows[1]["turn"] = [0, 0, 0, 1], [0, 1, 1, 1]
    a, b = (value / 4 for value in group_relative((1.0, 0.0)))
    calls = gap(inspect_rows(MMGRPO, rows)["gradient"], [[-a / 3] * 3 + [-a], [-b] + [-b / 3] * 3])
    return below(1e-12, gradients_in_four_modes_off_GRPOs=off, of_several_calls_off_a_mean_over_calls=calls)


@claim("the grouping modes give the hand-computed groups for call counts 1, 2, 3")
def the_grouping_modes_give_the_hand_computed_groups_for_call() -> Finding:
    rewards = (1.0, 0.0, 0.25)
    rows = programs([["search"] * n for n in (1, 2, 3)], rewards)
    batch = RecordedBatch(document(rows)).batch
    units = turn_units(batch)
    (a, b, c), (d, e) = group_relative(rewards), group_relative(rewards[1:])
    # Groups, advantages and weights. Visits: rollout 0 has call 0; rollout 1 calls 1, 2; rollout 2 calls 3, 4, 5.
    wanted: dict[str, tuple[list[list[int]], list[float], list[float]]] = {
        "truncate": ([[0, 1, 3]], [a, b, 0, c, 0, 0], [1, 1, 0, 1, 0, 0]),
        # Nine members of six calls: 1.5 each on the mean.
        "fill-last": ([[0, 1, 3], [0, 2, 4], [0, 2, 5]], [a, b, b, c, c, c], [2, 2 / 3, 4 / 3, *[2 / 3] * 3]),
        "ragged": ([[0, 1, 3], [2, 4], [5]], [a, b, d, c, e, 0], [1] * 6),
    }
    off, wrong = 0.0, []
    for counts, (groups, advantages, weights) in wanted.items():
        credit = ModuleRelative(counts=counts)  # type: ignore[arg-type]
        own = [group.members for group in credit.groups(batch, units, units.counted)]
        wrong += [counts] if own != groups else []
        result = inspect_rows(MMGRPO.but(credit=credit), rows)
        off = max(off, gap([*chain(*result["advantages"])], advantages), gap([*chain(*result["weight"])], weights))
    fills = [ModuleRelative(counts="fill-random", seed=s).groups(batch, units, units.counted) for s in range(9)]
    filled = {tuple(one.members[0] for one in groups) for groups in fills} == {(0, 0, 0)}
    places = {groups[2].members[1] for groups in fills}
    figures = say(groups_of_3_modes_wrong=wrong or "none", numbers_off=off, random_fill_draws_calls=sorted(places))
    return Finding(off < 1e-12 and not wrong and filled and places == {1, 2}, f"{figures} of the rollout with two")


@claim("inputs without a call are left out, groups with lost rollouts repeat members")
def inputs_without_a_call_are_left_out_groups_with_lost_rollouts() -> Finding:
    rewards = (1.0, 0.0, 0.5)
    a, b, c = group_relative(rewards)
    some = inspect_rows(MMGRPO, programs([["search", "answer"], ["answer"], ["search", "answer"]], rewards))
    kept = [row != 0 for row in chain(*some["weight"])] == [False, True, True, False, True]
    padded = inspect_rows(MMGRPO.but({"credit.group_size": 4}), programs([["a"]] * 3, rewards))
    four = group_relative((*rewards, 1.0))
    off = [gap([*chain(*some["advantages"])], [0.0, a, b, 0.0, c]), gap([*chain(*padded["advantages"])], four[:3])]
    off.append(gap([*chain(*padded["weight"])], [1.5, 0.75, 0.75]))
    return Finding(max(off) < 1e-12 and kept, say(numbers_off=max(off), calls_left_out_have_weight_0=kept))


@claim("a call that cannot be read gets a format reward in place of the program's")
def a_call_that_cannot_be_read_gets_a_format_reward_in_place_of_the() -> Finding:
    """A call that could not be read gets its own score, between the two, and stands alone for its rollout."""
    formats: list[list[float | None]] = [[1.0, 1.0], [None, None], [1.0, 0.5]]
    rows = programs([["search", "answer"]] * 3, (1.0, 0.25, 0.0), formats)
    # `answer` of the third rollout: half read, so -0.5; its `search` is not learnt from.
    third, search = group_relative((1.0, 0.25, -0.5)), group_relative((1.0, 0.25, 0.0))
    own, others = inspect_rows(MMGRPO, rows), inspect_rows(MMGRPO.but({"credit.keep_others": True}), rows)
    off = gap(own["advantages"], [[0.0, value] for value in third])
    off = max(off, gap(others["advantages"], [list(pair) for pair in zip(search, third, strict=True)]))
    # The format score is no reward of the program's, whatever its verifier weighs.
    raw = RecordedBatch(document([{**row, "scores": {"right": row["scores"]["reward"]}} for row in rows])).batch
    weighed, _ = MMGRPO.compute_credit(raw, {}, {"right": 1.0, "format": 1.0})
    off = max(off, gap(weighed.occurrences.advantage, [*chain(*own["advantages"])]))
    scores = {"credit.failure_score": -0.25, "credit.format_failure_score": -1.5}
    third = group_relative((1.0, 0.25, -0.25 - 0.5 * 1.25))
    off = max(off, gap(inspect_rows(MMGRPO.but(scores), rows)["advantages"], [[0.0, value] for value in third]))
    # The first two searches: in the third rollout none counts, so the input is left out for that module.
    return below(1e-12, [row[0] for row in own["weight"]] == [0.0, 0.0, 0.0], advantages_off_those_by_hand=off)


claim.constants(
    "As shipped its modules are a planner and a worker.", MMGRPO, {"workflow": "planner-worker"}, "chosen here"
)
claim.spares("mmgrpo: credit.seed = 40", "nothing is drawn where groups are as long as the fewest calls")


TOPICS = ("sun", "sea", "fox", "oak")
FACTS: Mapping[str, str] = {"sun": "hot", "sea": "deep", "fox": "red", "oak": "old"}
WORDS = (*TOPICS, *FACTS.values())
PROMPTS = ("go", "be brief", "look it up")
"""Instructions to choose from. The policy takes to them differently: see `obedient`."""


def query_and_answer(instruction: str) -> Workflow:
    """The first module writes a query, an index answers it, the second writes the answer. One reward, at the end."""

    @played_by("query", "answer")
    async def flow(scenario: Scenario, team: Team) -> Outcome:
        asked = await team.query(f"{instruction} {scenario.prompt}")
        result = f"about {asked}" if asked.text in FACTS else "nothing"
        said = await team.answer(f"{instruction} {scenario.prompt} : {result}")
        queried = float(asked.text == scenario.answer)
        right = queried * (said.text == FACTS[str(scenario.answer)])
        return Outcome(rewards={"right": right}, info={QUERIED.name: queried})

    return flow


def obedient(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float] | None:
    """A prior that knows a little of what is asked for, more so under the last instruction."""
    text = str(messages[-1]["content"])
    knows = 1.5 if text.startswith(PROMPTS[2]) else 0.75 if text.startswith(PROMPTS[1]) else 0.0
    topic = next(topic for topic in TOPICS if topic in text)
    return {(FACTS[topic] if ":" in text else topic): knows}


def bench(seed: int, prompt: str = PROMPTS[0]) -> TalkBench:
    scenarios = [Scenario(topic, f"what of the {topic} ?", answer=topic) for topic in TOPICS]
    flow = query_and_answer(prompt)
    return TalkBench(flow, scenarios, WORDS, MMGRPO, prior=obedient, view=last_message, seed=seed, lr=0.1)


def modules(made: TalkBench) -> tuple[float, float, float]:
    """Exact rates: the right query; the right answer after a right query; both."""
    policy = made.policies["policy"]
    rows = {topic: policy.probabilities(f"{PROMPTS[0]} what of the {topic} ? : about {topic}") for topic in TOPICS}
    answers = fmean(float(row[WORDS.index(FACTS[topic])]) for topic, row in rows.items())
    return made.expected(lambda one: float(QUERIED.get(one))), answers, made.expected()


@claim("with a reward at the end alone both modules improve", slow=True)
def with_a_reward_at_the_end_alone_both_modules_improve() -> Finding:
    before = modules(bench(SEEDS[-1]))[:2]
    queries, answers, both = zip(*(modules(bench(seed).run(60)) for seed in SEEDS), strict=True)
    holds = min(queries) > 0.8 and min(answers) > 0.8 and max(before) < 0.2
    return Finding(holds, lines(before=before, steps=60, queries=queries, answers=answers, both=both))


BUDGET = 40  # Steps of training that all three may spend, a step being 8 rollouts of each of 4 questions.


@dataclass(frozen=True)
class Program:
    """The program before training, as a target of searches: its instruction is the prompt of the one role."""

    seed: int
    roles: Sequence[str] = ("program",)
    blocks: Sequence[Block] = ()

    def calls(self, texts: Texts) -> int:
        return 2

    def play(
        self, texts: Texts, cases: Sequence[int], samples: int, *, first: int = 0, greedy: bool, key: Key
    ) -> list[CaseResult]:
        """Drawn, as training samples are, whatever is asked; a case is another play of one of the questions."""
        times = -(-max(cases, default=0) // len(TOPICS)) + 1
        played = bench(self.seed, texts.prompts["program"]).play(times, seed=1)
        right = [float(one.scores["right"].value or 0.0) for one in played]  # type: ignore[arg-type]
        found = [(case, right[case % len(TOPICS) * times + case // len(TOPICS)]) for case in cases]
        return [CaseResult(case, 0, score, 2, "?", "", "") for case, score in found for _ in range(samples)]

    def refuses(self, texts: Texts) -> str | None:
        return None


def another(question: str) -> str:
    """A reflecting model that has three instructions, and proposes the one after that it is shown."""
    shown = next(place for place, prompt in enumerate(PROMPTS) if f"instruction:\n{prompt}\n" in question)
    return PROMPTS[(shown + 1) % len(PROMPTS)]


def chosen_prompt(seed: int, steps: int) -> str:
    """The instruction that a search finds with the calls of so many steps of training, some kept to look at."""
    calls = steps * 64
    development = (calls - 120) // 2 // len(PROMPTS)
    found = searched(
        Program(seed),
        another,
        Reflective(patience=4),
        seed=seed,
        budget=calls,
        practice=16,
        development=development,
        start=Texts({"program": PROMPTS[0]}),
    )
    assert found.spent <= calls
    return found.best.texts.prompts["program"]


@claim("prompt optimisation, then RL is at least as good as either alone at the same number of calls", slow=True)
def prompt_optimisation_then_rl_is_at_least_as_good_as_either_alone() -> Finding:
    right = {
        "prompt": [bench(seed, chosen_prompt(seed, BUDGET)).expected() for seed in SEEDS],
        "weights": [bench(seed).run(BUDGET).expected() for seed in SEEDS],
        "both": [bench(s, chosen_prompt(s, BUDGET // 4)).run(BUDGET - BUDGET // 4).expected() for s in SEEDS],
    }
    least = min(both - max(prompt, weights) for prompt, weights, both in zip(*right.values(), strict=True))
    return Finding(least >= 0.0, lines(calls=BUDGET * 64, right=right, least_gain=least))


@claim("as shipped: a plan searches a prompt for each module, and mmGRPO trains the policy that is told it", slow=True)
def as_shipped_a_plan_searches_a_prompt_for_each_module_and_mmgrpo() -> Finding:
    prompts = {"worker": "You are a worker who adds. Answer the one step you are given."}
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "start.json").write_text(json.dumps({"prompts": prompts}))
        (Path(place) / "reflects.py").write_text(
            "def reflects(prompts):\n    return [f'Add with care ({len(one)}).' for one in prompts]\n"
        )
        sizes = {"budget": 60, "practice": 2, "development": 4, "evaluation": 2}
        search = {
            "searcher": "reflective",
            "start": f"{place}/start.json",
            "reflector": f"{place}/reflects.py:reflects",
        }
        plan = [{"name": "prompts", **search, **sizes}, {"recipe": "mmgrpo", "steps": 1, "task": "sums"}]
        small = {"evaluation.n": 2, "rollout.samples": 4, "curriculum.prompts": 4, "threads": 1, "task": "sums"}
        pairs = [("plan", plan), ("runs", place), ("run", "both"), *small.items()]
        pipeline = PlanPipeline.begin(phase_runs(pairs), pairs)
        for trainer in pipeline.trainers():
            trainer.run()
        best = json.loads((pipeline.folder / "1-prompts" / "best.json").read_text())["prompts"]
        rows = (pipeline.folder / "2-mmgrpo" / "rollouts" / "step-000001.jsonl").read_text()
        tried = len((pipeline.folder / "1-prompts" / "trials.jsonl").read_text().splitlines())
        learnt = pipeline.finished(pipeline.runs[1])
    told = [role for role in best if best[role] in rows]
    return Finding(
        learnt and sorted(told) == ["planner", "worker"] and tried > 1, f"versions {tried}, told {', '.join(told)}"
    )


claim.shipped(MMGRPO, "credit", trains=("planner", "worker"))
