"""MASHost's claims."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean, stdev
from typing import Any

from hocket import tasks
from hocket.core.components import value_at
from hocket.core.intervals import Z95
from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, cases, gap, inspect_rows, say
from hocket.lab.claims.lesson_data import Pupil, after_lessons
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.lab.talk import TalkBench, last_message
from hocket.lab.toys.recorded_answers import group_relative, lines
from hocket.methods.base.grpo import GRPO
from hocket.methods.teams.mashost import (
    EXIT,
    LESSONS,
    MASHOST,
    BuiltTeam,
    Graph,
    Member,
    Step,
    read_step,
    without,
    written,
)
from hocket.objectives.entropy import EntropyBonus
from hocket.recipe import Recipe
from hocket.testing import Part, rehearse
from hocket.train.aio import run_async
from hocket.types import Assignment, Message, Scenario, Trajectory

claim = Claims("mashost", "catalogue; Yang et al., arXiv 2506.08507; action reward and weights chosen here")

MOST, STEPS = 4, 50
RIGHT, WRONG = "right", "wrong"
SOLVER, CHECKER, PARROT = ROLES = ("solver", "checker", "parrot")


@dataclass(frozen=True)
class Kind:
    """How good roles are at a kind of query. A solver is right with chance `solves`, whatever it reads. A checker says
    a right message that it reads with chance `keeps`; one that reads none, but a wrong one of a solver, is right with
    chance `mends`; one that reads nothing with chance `alone`; one that reads only other wrong ones is wrong. A parrot
    repeats the last message it reads, and is wrong without one: it is never of use."""

    solves: float
    mends: float
    keeps: float = 0.98
    alone: float = 0.1

    def right(self, role: str, heard: Sequence[tuple[str, bool]]) -> float:
        """The chance that a role says the right thing after what it heard, and from whom."""
        if role != CHECKER:
            return self.solves if role == SOLVER else float(bool(heard) and heard[-1][1])
        if any(right for _, right in heard):
            return self.keeps
        return self.mends if any(other == SOLVER for other, _ in heard) else 0.0 if heard else self.alone


KINDS = {"easy": Kind(0.95, 0.5), "hard": Kind(0.4, 0.95), "known": Kind(0.3, 0.5, alone=0.9)}
PROMPTS = {role: f"you are the {role}" for role in ROLES}
FLOW = BuiltTeam(members=PROMPTS, most=MOST, steps=6, live=False, cost=0.06, edge=0.03)


def price(graph: Graph) -> float:
    """What its agents and edges cost."""
    return FLOW.cost * len(graph) + FLOW.edge * sum(len(member.reads) for member in graph)


def graphs(kind: Kind, most: int = MOST) -> Iterator[tuple[Graph, float]]:
    """Every graph of at most so many agents, in every order of building, and how likely its last agent is right."""
    # Which agents are right, and how likely.
    layer: list[tuple[Graph, Mapping[tuple[bool, ...], float]]] = [((), {(): 1.0})]
    for size in range(most + 1):
        yield from ((graph, sum(p for said, p in chances.items() if said and said[-1])) for graph, chances in layer)
        reads = [read for n in range(size + 1) for read in itertools.combinations(range(size), n)]
        longer = []
        for graph, chances in layer if size < most else ():
            for member in (Member(role, read) for role in ROLES for read in reads):
                more = {}
                for said, chance in chances.items():
                    sure = kind.right(member.role, [(graph[place].role, said[place]) for place in member.reads])
                    more[*said, True], more[*said, False] = chance * sure, chance * (1 - sure)
                longer.append(((*graph, member), more))
        layer = list(longer)


@cache
def ranking(name: str) -> list[tuple[float, str]]:
    """The graphs for a kind of query, best first: accuracy less cost, and the graph's actions."""
    values = [(right - price(graph), "; ".join(map(written, graph))) for graph, right in graphs(KINDS[name])]
    return sorted(values, key=lambda one: -one[0])


READS = [read for n in range(MOST) for read in itertools.combinations(range(MOST - 1), n)]
BUILDS = [written(Member(role, read)) for role in ROLES for read in READS]
ACTIONS = [*BUILDS, *(f"delete {place}" for place in range(1, MOST + 1)), EXIT]
WORDS = (RIGHT, WRONG, *ACTIONS)
Logits = Mapping[str, float]


def as_known(messages: tuple[Message, ...], said: tuple[str, ...]) -> Logits:
    """What an agent says, by its competence."""
    query, *lines = str(messages[-1]["content"]).splitlines()
    heard = [(one.partition("(")[2].partition(")")[0], one.endswith(RIGHT)) for one in lines]
    sure = KINDS[query].right(str(messages[0]["content"]).rpartition(" ")[2], heard)
    likely = {word: math.log(chance) for word, chance in ((RIGHT, sure), (WRONG, 1 - sure)) if chance > 0}
    return dict.fromkeys(WORDS, -math.inf) | likely


def _size(messages: tuple[Message, ...]) -> int:
    return len(str(messages[-1]["content"]).splitlines()) - 2


def sociable(messages: tuple[Message, ...], said: tuple[str, ...]) -> Logits:
    """A controller before training: what it says can be carried out; it rather goes on, and rather reads the last."""
    size = _size(messages)
    impossible = [word for word in WORDS if read_step(word, (Member(SOLVER),) * size, ROLES, MOST) is None]
    lean = {f"{role} from {size}": 0.5 for role in ROLES if 0 < size < MOST}
    return {EXIT: -0.5, **lean, **dict.fromkeys(impossible, -1e9)}


def following(graph: Graph) -> Any:
    """A controller that builds one graph."""
    plan = [*map(written, graph), EXIT]
    return lambda messages, said: {word: 0.0 if word == plan[_size(messages)] else -math.inf for word in WORDS}


def building(weight: float, seed: int, steps: int = 1, **setting: Any) -> TalkBench:
    """A bench for three queries; a small entropy bonus keeps the controller from settling early."""
    bonus = (EntropyBonus(coefficient=0.02),)
    recipe = MASHOST.but({"rollout.samples": 20, "credit.weight": weight, "regularisers": bonus})
    prior = {"controller": sociable, "others": as_known, **setting}
    scenarios = [Scenario(name, name, answer=RIGHT) for name in KINDS]
    run: dict[str, Any] = {"view": last_message, "frozen": frozenset({"others"}), "lr": 0.2, "seed": seed}
    return TalkBench(FLOW, scenarios, WORDS, recipe, prior=prior, steps=steps, **run)


def team(trajectory: Trajectory) -> float:
    """The verdict on the team's answer."""
    return float(trajectory.scores["team"].value)  # type: ignore[arg-type]


@claim("simulated roles with known competences: a graph's value in closed form is that of all its plays")
def simulated_roles_with_known_competences_a_graphs_value_in_closed() -> Finding:
    off, rng = [], Key.of(0).derive("graphs").numpy()
    for name, kind in KINDS.items():
        every = list(graphs(kind, 3))[1:]
        for place in rng.integers(len(every), size=3).tolist():
            graph, right = every[place]
            bench = building(1.0, 0, controller=following(graph))
            plays = list(bench.outcomes(Scenario(name, name, answer=RIGHT)))
            costs = {float(one.scores["cost"].value or 0.0) for _, one in plays}  # type: ignore[arg-type]
            played = sum(chance * team(one) for chance, one in plays)
            off.append(max(abs(played - right), *(abs(cost + price(graph)) for cost in costs)))
    return Finding(max(off) < 1e-6, say(graphs_of_up_to_3_agents=len(off), largest_difference=max(off)))


@claim("HRPO adds the action's reward to the group-relative advantage")
def hrpo_adds_the_actions_reward_to_the_group_relative_advantage() -> Finding:
    rng, rows, off = Key.of(1).derive("rows").numpy(), list[dict[str, Any]](), 0.0
    for _ in range(6):
        size = int(rng.integers(1, 5))
        row = {"turn": [n // 2 for n in range(2 * size)], "logp": [-1.0] * (2 * size), "group": "q"}
        row["turn_scores"] = [{"step": float(rng.normal())} for _ in range(size)]
        rows.append({**row, "scores": {"team": float(rng.integers(2)), "cost": -0.05 * size}})
    whole = group_relative([row["scores"]["team"] + row["scores"]["cost"] for row in rows])
    for weight in (0.0, 1.0, 0.3):
        wanted = [
            [base + weight * row["turn_scores"][turn]["step"] for turn in row["turn"]]
            for row, base in zip(rows, whole, strict=True)
        ]
        weights = {"team": 1.0, "cost": 1.0, "step": 1.0}
        recipe = MASHOST.but({"credit.weight": weight, "combine.weights": weights})
        off = max(off, gap(inspect_rows(recipe, rows)["advantages"], wanted))
    return below(1e-9, distance_from_GRPOs_advantage_plus_lambda_times_the_actions_reward=off)


@claim("the action reward penalises components that are redundant or irrational")
def the_action_reward_penalises_components_that_are_redundant_or() -> Finding:
    """A component that improves nothing, is taken back or cannot be read costs its price; the sum telescopes."""
    actions = ["solver", "parrot from 1", "delete 2", "critic from 1", "checker from 1", "parrot", EXIT]
    replies = {"controller": actions, SOLVER: [WRONG], CHECKER: [RIGHT], PARROT: [WRONG]}
    verify, question = lambda text, scenario: float(text == scenario.answer), Scenario("hard", "hard", answer=RIGHT)
    (played,) = rehearse(replace(FLOW, steps=8, price=0.1), question, replies, verifier=verify)
    steps = [value for value in played.scores["step"].value if value is not None]  # type: ignore[union-attr]
    off = [gap(steps, [-0.1, -0.1, -0.1, -0.1, 0.9, -1.1, 0.0]), abs(sum(steps) - (team(played) - 0.1 * 6))]
    return Finding(max(off) < 1e-9, say(**dict(zip(actions, steps, strict=True))))


@claim(
    "an action is the last line after the thought: a node and its edges, a deletion, exit, or nothing", "chosen here"
)
def an_action_is_the_last_line_after_the_thought_a_node_and_its() -> Finding:
    graph = Member(SOLVER), Member(CHECKER, (0,))
    texts: dict[str, Step | None] = {EXIT: "exit", "I add one.\n Solver. \n": Member(SOLVER), "delete 1": 0}
    texts |= {"delete 1\n</think> checker from 1, 2": Member(CHECKER, (0, 1)), "delete 3": None, "solver from 3": None}
    texts |= {"CHECKER  from 2 and 1": Member(CHECKER, (0, 1)), "parrot": None, "": None, "exit\nsolver it is": None}
    found = cases(texts.items(), lambda text, step: read_step(text, graph, (SOLVER, CHECKER), 3) == step)
    full = read_step("solver", (*graph, graph[0]), ROLES, 3) is None
    chain = Member("a"), Member("b", (0,)), Member("c", (0, 1)), Member("d", (1, 2))
    left = [[member.reads for member in without(chain, place)] for place in range(4)]
    gone = left == [[(), (0,), (0, 1)], [(), (0,), (1,)], [(), (0,), (1,)], [(), (0,), (0, 1)]]
    return Finding(found.holds and full and gone, found.saw)


def rehearsed(flow: BuiltTeam, *actions: str, **said: str) -> tuple[Trajectory, list[str], list[str]]:
    """What came of these actions, what the controller was shown at each, and what the checker was told."""
    parts = {"controller": Part(*actions), **{role: Part(otherwise=said.get(role, WRONG)) for role in flow.members}}
    question = Scenario("q", "What?", answer=RIGHT)
    (played,) = rehearse(flow, question, parts, verifier=lambda text, asked: float(text == asked.answer))
    parts["controller"].assert_done()
    return played, parts["controller"].questions, parts["checker"].questions


@claim("as shipped an agent costs 0.05, an edge 0.01, an action 0.1; agents act at once, 400 letters of each are read")
def as_shipped_an_agent_costs_0_05_an_edge_0_01_an_action_0_1() -> Finding:
    flow, wordy = BuiltTeam(), "word  " * 100
    actions = ["planner", "solver from 1", "checker from 1, 2", EXIT]
    played, shown, heard = rehearsed(flow, *actions, planner="plan  it", solver=wordy, checker=RIGHT)
    cut = ("word " * 100)[:400]
    seen = ["What?\nTeam: nobody yet", "What?\nTeam:\n1 planner: plan it"]
    seen += [f"{seen[1]}\n2 solver from 1: {cut}", f"{seen[1]}\n2 solver from 1: {cut}\n3 checker from 1, 2: {RIGHT}"]
    told = [f"What?\nAgent 1 (planner): plan it\nAgent 2 (solver): {cut}"]
    steps = [value for value in played.scores["step"].value if value is not None]  # type: ignore[union-attr]
    off = [gap(steps, [-0.1, -0.1, 0.9, 0.0]), abs(worth_of(played, "cost") + 3 * 0.05 + 3 * 0.01)]
    holds = shown == seen and heard == told and played.info["exited"] and played.info["actions"] == 4
    settings = [value_at(MASHOST, f"credit.{name}") for name in ("weight", "apart", "turn.baseline", "turn.gamma")]
    holds &= (
        settings == [1.0, True, "none", 0.0]
        and getattr(tasks.find(str(MASHOST.task)), "workflow", None) == flow
        and value_at(MASHOST, "objective.aggregate") == "turn-mean"
    )
    return Finding(holds and max(off) < EXACT, say(off_by_hand=max(off)))


def worth_of(played: Trajectory, name: str) -> float:
    return float(played.scores[name].value)  # type: ignore[arg-type]


@claim("node and edges are drawn from one joint distribution")
def node_and_edges_are_drawn_from_one_joint_distribution() -> Finding:
    bench, sums, counts = building(1.0, 0), [], []
    for size in range(MOST + 1):
        shown = ["hard", "Team:" if size else "Team: nobody yet", *(f"{place + 1} {SOLVER}" for place in range(size))]
        chances = bench.policies["controller"].probabilities("\n".join(shown), system=FLOW.prompts["controller"])
        sums.append(float(chances.sum()))
        counts.append(int((chances > 1e-12).sum()))
    # Roles times subsets of those who are there, what can be deleted, and exit.
    wanted = [(len(ROLES) * 2**size if size < MOST else 0) + size + 1 for size in range(MOST + 1)]
    single = all(len(turn) == 1 for turn in bench.play()[0].turns)
    holds = counts == wanted and single and max(abs(one - 1) for one in sums) < 1e-9
    return Finding(holds, f"possible actions with 0 to {MOST} agents: {counts}")


@cache
def trained(weight: float, seed: int) -> tuple[dict[str, str], dict[str, float]]:
    """A run of `STEPS` steps with lambda = `weight`: the likeliest graph by query; rates over training and after it."""
    bench = building(weight, seed, STEPS)
    during = [one for _ in range(STEPS) for one in bench.step().trajectories]
    after, likeliest, rates = bench.play(100), dict[str, str](), dict[str, float]()
    for name in KINDS:
        built = Counter("; ".join(one.info["graph"]) for one in after if one.scenario.id == name)
        likeliest[name] = built.most_common(1)[0][0]
    for when, played in (("", during), (" after", after)):
        useless = [sum(action.startswith(PARROT) for action in one.info["graph"]) for one in played]
        rates |= {f"useless agents a team{when}": fmean(useless), f"accuracy{when}": fmean(map(team, played))}
    return likeliest, rates


@claim(
    "the learnt controller finds the optimal small graph per query type, by brute force over up to 4 nodes", slow=True
)
def the_learnt_controller_finds_the_optimal_small_graph_per_query() -> Finding:
    best, count = {name: ranking(name)[0][1] for name in KINDS}, len(ranking("easy"))
    lead = min(ranking(name)[0][0] - ranking(name)[1][0] for name in KINDS)
    runs = [trained(1.0, seed) for seed in SEEDS]
    hits = [likeliest[name] == best[name] for likeliest, _ in runs for name in KINDS]
    text = lines(best_found=f"{sum(hits)} of {len(hits)}", steps=STEPS, best=best, graphs=count, least_lead=lead)
    accuracy = lines(accuracy=[rates["accuracy after"] for _, rates in runs])
    return Finding(all(hits) and count == 5422, f"{text}, {accuracy}")


@claim("HRPO uses fewer useless agents than the group-relative reward alone at equal accuracy", slow=True)
def hrpo_uses_fewer_useless_agents_than_the_group_relative_reward() -> Finding:
    """Fewer over training by three standard errors, no more after it, and no less rightly."""
    names = list(trained(1.0, 0)[1])
    both, alone = ({n: [trained(w, seed)[1][n] for seed in SEEDS] for n in names} for w in (1.0, 0.0))
    useless, right, useless_after, right_after = names
    saved = [other - one for one, other in zip(both[useless], alone[useless], strict=True)]
    holds = fmean(saved) > 3 * stdev(saved) / len(saved) ** 0.5
    holds &= fmean(both[useless_after]) <= fmean(alone[useless_after])
    holds &= all(fmean(both[one]) > fmean(alone[one]) - 0.01 for one in (right, right_after))
    return Finding(holds, lines(**both) + "; without the action reward " + lines(**alone))


claim.spares("mashost: credit.turn.ddof = 40", "an action's reward is taken as it is, over no deviation")
claim.spares("mashost: credit.turn.epsilon = 3.9999999999999996e-05", "an action's reward is taken as it is")
claim.spares("rng.random() < 0.5 -> rng.random() >= 0.5", "either half of the chances is half of them")
claim.spares("mashost: credit.turn.epsilon = 0.0", "an action's reward is taken as it is")


def seen(run: ShippedRun) -> dict[str, float]:
    """Actions that could be carried out, agents and edges of the teams, teams of several, and right answers."""
    episodes = [one for row in run.results for one in row.trajectories]
    graphs = [one.info["graph"] for one in episodes]
    return {
        "ended by the controller": fmean(float(one.info["exited"]) for one in episodes),
        "agents a team": fmean(map(len, graphs)),
        "edges": float(sum(" from " in action for graph in graphs for action in graph)),
        "teams of several": float(sum(len(graph) > 1 for graph in graphs)),
        "unlike teams": float(len(set(map(tuple, graphs)))),
        "right": fmean(map(team, episodes)),
    }


claim.shipped(
    MASHOST,
    without={"credit.weight": 0.0},
    trains=("controller",),
    settings={"curriculum.prompts": 6},
    first={"recipe": "sft", "steps": LESSONS, "update.lr": 0.003, "task": f"lessons:{MASHOST.task}"},
    sees=seen,
)


UNSEEN = 200


def _unseen(pupil: Pupil) -> float:
    """The share of unseen problems that a team, drawn as in training, answers rightly."""
    task, decoding = pupil.parts.task, pupil.parts.decoding
    assignments = [Assignment(task.scenario("eval", number), 2, decoding) for number in range(UNSEEN)]
    played = run_async(pupil.parts.player.play(assignments, key=Key.of(0).derive("unseen")))
    return fmean(map(task.success, played))


def _begun(recipe: Recipe) -> Pupil:
    """A run after the task's lessons, with the settings that it suggests."""
    task = str(MASHOST.task)
    then = {"curriculum.prompts": 8, "update.lr": 2.5e-4}
    return after_lessons(recipe, task, f"lessons:{task}", then, steps=LESSONS)


@claim(
    "`hocket train --recipe mashost --task built:worked-sums`: after 40 steps teams drawn by the controller answer "
    "more of 200 unseen problems rightly than before, by more than the interval, and not fewer, by more than .05, than "
    "after as many steps of GRPO that trains the controller alone too.",
    slow=True,
    learns=True,
)
def the_controller_learns_and_no_worse_than_by_grpo() -> Finding:
    before = _unseen(_begun(MASHOST))
    after, rival = (_unseen(_begun(recipe).run(40)) for recipe in (MASHOST, GRPO.but(cast=MASHOST.cast)))
    error = ((before * (1 - before) + after * (1 - after)) / UNSEEN) ** 0.5
    holds = after > before + Z95 * error and after > rival - 0.05
    return Finding(holds, say(before=before, after=after, by_GRPO=rival))
