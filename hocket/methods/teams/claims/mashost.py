"""What mashost claims."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean, stdev
from typing import Any

from hocket.core.keys import Key
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import look
from hocket.lab.talk import TalkBench, last_message
from hocket.lab.toys.rewarded import SEEDS, apart, group_relative, line
from hocket.methods.teams.mashost import EXIT, MASHOST, BuiltTeam, Graph, Member, read_step, written
from hocket.objectives.entropy import EntropyBonus
from hocket.testing import rehearse
from hocket.types import Message, Scenario, Trajectory

claim = Claims("mashost", "catalogue; Yang et al., arXiv 2506.08507; action reward and weights chosen here")


MOST = 4
RIGHT, WRONG = "right", "wrong"
SOLVER, CHECKER, PARROT = ROLES = ("solver", "checker", "parrot")


@dataclass(frozen=True)
class Kind:
    """How good roles are at a kind of query.

    A solver is right with chance `solves`, whatever it reads. A checker says a right message that it reads with chance
    `keeps`; one that reads none, but a wrong one of a solver, is right with chance `mends`; one that reads nothing with
    chance `alone`; one that reads only other wrong ones is wrong. A parrot repeats the last message it reads, and is
    wrong without one: it is never of use.
    """

    solves: float
    mends: float
    keeps: float = 0.98
    alone: float = 0.1

    def right(self, role: str, heard: Sequence[tuple[str, bool]]) -> float:
        """The chance that a role says the right thing after what it heard, and from whom."""
        if role == SOLVER:
            return self.solves
        if role == PARROT:
            return float(bool(heard) and heard[-1][1])
        if any(right for _, right in heard):
            return self.keeps
        if any(other == SOLVER for other, _ in heard):
            return self.mends
        return 0.0 if heard else self.alone


KINDS: Mapping[str, Kind] = {
    "easy": Kind(solves=0.95, mends=0.5),
    "hard": Kind(solves=0.4, mends=0.95),
    "known": Kind(solves=0.3, mends=0.5, alone=0.9),
}
FLOW = BuiltTeam(
    members={role: f"you are the {role}" for role in ROLES}, most=MOST, steps=6, live=False, cost=0.06, edge=0.03
)


Chances = Mapping[tuple[bool, ...], float]
"""How likely it is that exactly these agents are right."""


def extended(graph: Graph, chances: Chances, member: Member, kind: Kind) -> Chances:
    """With one agent more."""
    found = {}
    for said, chance in chances.items():
        sure = kind.right(member.role, [(graph[place].role, said[place]) for place in member.reads])
        found[*said, True], found[*said, False] = chance * sure, chance * (1 - sure)
    return found


def accuracy(chances: Chances) -> float:
    """The chance that the last agent is right."""
    return sum(chance for said, chance in chances.items() if said and said[-1])


def price(graph: Graph) -> float:
    """What its agents and edges cost."""
    return FLOW.cost * len(graph) + FLOW.edge * sum(len(member.reads) for member in graph)


def graphs(kind: Kind, most: int = MOST) -> Iterator[tuple[Graph, float]]:
    """Every graph of at most so many agents, in every order of building, with its exact accuracy."""
    layer: list[tuple[Graph, Chances]] = [((), {(): 1.0})]
    for size in range(most + 1):
        yield from ((graph, accuracy(chances)) for graph, chances in layer)
        reads = [read for n in range(size + 1) for read in itertools.combinations(range(size), n)]
        members = [Member(role, read) for role in ROLES for read in reads] if size < most else []
        layer = [
            ((*graph, member), extended(graph, chances, member, kind)) for graph, chances in layer for member in members
        ]


@cache
def ranking(name: str) -> tuple[tuple[float, str], ...]:
    """The graphs for a kind of query, best first: accuracy less cost, and the graph in words."""
    found = [(right - price(graph), words(graph)) for graph, right in graphs(KINDS[name])]
    return tuple(sorted(found, key=lambda one: -one[0]))


def words(graph: Graph) -> str:
    """Its actions."""
    return "; ".join(map(written, graph))


READS = [read for n in range(MOST) for read in itertools.combinations(range(MOST - 1), n)]
ACTIONS = [
    *(written(Member(role, read)) for role in ROLES for read in READS),
    *(f"delete {place}" for place in range(1, MOST + 1)),
    EXIT,
]
WORDS = (RIGHT, WRONG, *ACTIONS)
Logits = Mapping[str, float]


def as_known(messages: tuple[Message, ...], said: tuple[str, ...]) -> Logits:
    """What an agent says, by its competence."""
    role = str(messages[0]["content"]).rpartition(" ")[2]
    query, *lines = str(messages[-1]["content"]).splitlines()
    heard = [(one.partition("(")[2].partition(")")[0], one.endswith(RIGHT)) for one in lines]
    sure = KINDS[query].right(role, heard)
    chances = {RIGHT: sure, WRONG: 1 - sure}
    return {**dict.fromkeys(ACTIONS, -math.inf), **{w: math.log(c) if c > 0 else -math.inf for w, c in chances.items()}}


def sociable(messages: tuple[Message, ...], said: tuple[str, ...]) -> Logits:
    """A controller before training: what it says can be carried out; it rather goes on, and rather reads the last."""
    size = len(str(messages[-1]["content"]).splitlines()) - 2
    graph = (Member(SOLVER),) * size
    impossible = [word for word in WORDS if read_step(word, graph, ROLES, MOST) is None]
    lean = {f"{role} from {size}": 0.5 for role in ROLES if 0 < size < MOST}
    return {EXIT: -0.5, **lean, **dict.fromkeys(impossible, -1e9)}


def following(plan: Sequence[str]) -> Any:
    """A controller that builds one graph."""

    def prior(messages: tuple[Message, ...], said: tuple[str, ...]) -> Logits:
        size = len(str(messages[-1]["content"]).splitlines()) - 2
        chosen = [*plan, EXIT][size]
        return {word: 0.0 if word == chosen else -math.inf for word in WORDS}

    return prior


def building(weight: float, seed: int, steps: int = 1, **setting: Any) -> TalkBench:
    """A bench for three queries; a small entropy bonus keeps the controller from settling early."""
    recipe = MASHOST.but(
        {
            "rollout.samples": 20,
            "credit.weight": weight,
            "regularisers": (EntropyBonus(coefficient=0.02),),
        }
    )
    return TalkBench(
        FLOW,
        [Scenario(name, name, answer=RIGHT) for name in KINDS],
        WORDS,
        recipe,
        view=last_message,
        prior={"controller": sociable, "others": as_known, **setting},
        frozen=frozenset({"others"}),
        lr=0.2,
        seed=seed,
        steps=steps,
    )


@claim("simulated roles with known competences: a graph's value in closed form is that of all its plays")
def values_are_those_of_plays() -> Finding:
    """The closed form of a graph's accuracy is that of every possible play of the workflow, summed."""
    worst, tried = 0.0, 0
    rng = Key.of(0).derive("graphs").numpy()
    known = {name: list(graphs(kind, 3))[1:] for name, kind in KINDS.items()}
    for name, every in known.items():
        for place in rng.integers(len(every), size=3).tolist():
            graph, right = every[place]
            bench = building(1.0, 0, controller=following([written(member) for member in graph]))
            plays = list(bench.outcomes(Scenario(name, name, answer=RIGHT)))
            played = sum(chance * team(one) for chance, one in plays)
            costs = {float(one.scores["cost"].value or 0.0) for _, one in plays}  # type: ignore[arg-type]
            worst = max(worst, abs(played - right), *(abs(cost + price(graph)) for cost in costs))
            tried += 1
    return Finding(worst < 1e-6, f"{tried} graphs of up to 3 agents: {worst:.1e} apart")


def team(trajectory: Trajectory) -> float:
    """The verdict on the team's answer."""
    value = trajectory.scores["team"].value
    assert isinstance(value, float)
    return value


def rows() -> list[dict[str, Any]]:
    """Six recorded teams of one query: rewards of the whole, and of each action."""
    rng = Key.of(1).derive("rows").numpy()
    found = []
    for _ in range(6):
        actions = int(rng.integers(1, 5))
        steps = [{"step": float(rng.normal())} for _ in range(actions)]
        whole = {"team": float(rng.integers(2)), "cost": -0.05 * actions}
        logp = [-1.0] * (2 * actions)
        turns = [n // 2 for n in range(2 * actions)]
        found.append({"group": "q", "scores": whole, "turn_scores": steps, "turn": turns, "logp": logp})
    return found


WEIGHTS = {"team": 1.0, "cost": 1.0, "step": 1.0}


@claim("HRPO adds the action's reward to the group-relative advantage")
def both_signals() -> Finding:
    """Every decision has the group-relative advantage of its team plus its own action's reward; lambda = 0 is GRPO."""
    recorded = rows()
    whole = group_relative([row["scores"]["team"] + row["scores"]["cost"] for row in recorded])
    worst = 0.0
    for weight in (0.0, 1.0, 0.3):
        recipe = MASHOST.but({"credit.weight": weight, "combine.weights": WEIGHTS})
        found = look(recipe, {"version": 1, "trajectories": recorded})["advantages"]
        for row, credit, base in zip(recorded, found, whole, strict=True):
            wanted = [base + weight * row["turn_scores"][turn]["step"] for turn in row["turn"]]
            worst = max(worst, apart(credit, wanted))
    return Finding(worst < 1e-9, f"{worst:.1e} from GRPO's advantage plus lambda times the action's reward")


@claim("the action reward penalises components that are redundant or irrational")
def irrational_steps_are_penalised() -> Finding:
    """A component that improves nothing, is taken back or cannot be read costs its price; the sum telescopes."""
    flow = replace(FLOW, steps=8, price=0.1)
    question = Scenario("hard", "hard", answer=RIGHT)
    actions = ["solver", "parrot from 1", "delete 2", "critic from 1", "checker from 1", "parrot", EXIT]
    replies = {"controller": actions, SOLVER: [WRONG], CHECKER: [RIGHT], PARROT: [WRONG]}
    (played,) = rehearse(flow, question, replies, verifier=lambda text, scenario: float(text == scenario.answer))
    steps = [value for value in played.scores["step"].value if value is not None]  # type: ignore[union-attr]
    wanted = [-0.1, -0.1, -0.1, -0.1, 0.9, -1.1, 0.0]
    holds = apart(steps, wanted) < 1e-9 and abs(sum(steps) - (team(played) - 0.1 * 6)) < 1e-9
    return Finding(holds, "; ".join(f"{action}: {step:+.1f}" for action, step in zip(actions, steps, strict=True)))


@claim("node and edges are drawn from one joint distribution")
def node_and_edges_at_once() -> Finding:
    """An action is one draw: node and edges from one distribution over all that can be carried out."""
    bench = building(1.0, 0)
    policy = bench.policies["controller"]
    sums, counts = [], []
    for size in range(MOST + 1):
        lines = [f"{place + 1} {SOLVER}" for place in range(size)]
        told = "\n".join(["hard", "Team:" if size else "Team: nobody yet", *lines])
        chances = policy.probabilities(told, system=FLOW.prompts["controller"])
        sums.append(float(chances.sum()))
        counts.append(int((chances > 1e-12).sum()))
    # Roles times subsets of those who are there, what can be deleted, and exit.
    wanted = [(len(ROLES) * 2**size if size < MOST else 0) + size + 1 for size in range(MOST + 1)]
    single = all(len(turn) == 1 for turn in bench.play()[0].turns)
    holds = counts == wanted and single and max(abs(one - 1) for one in sums) < 1e-9
    return Finding(holds, f"possible actions with 0 to {MOST} agents: {counts}")


STEPS = 50


@dataclass(frozen=True)
class Run:
    """What came of one training run: the likeliest graph by query, and per team over training and after it."""

    likeliest: Mapping[str, str]
    useless: float
    accuracy: float
    after: float
    right: float


def useless(trajectory: Trajectory) -> int:
    """How many agents of the useless role are in a team."""
    return sum(action.startswith(PARROT) for action in trajectory.info["graph"])


@cache
def trained(weight: float, seed: int) -> Run:
    """A run of `STEPS` steps with lambda = `weight`."""
    bench = building(weight, seed, STEPS)
    seen = [one for _ in range(STEPS) for one in bench.step().trajectories]
    after = bench.play(100)
    likeliest = {
        name: Counter("; ".join(one.info["graph"]) for one in after if one.scenario.id == name).most_common(1)[0][0]
        for name in KINDS
    }
    return Run(
        likeliest,
        fmean(map(useless, seen)),
        fmean(map(team, seen)),
        fmean(map(useless, after)),
        fmean(map(team, after)),
    )


@claim(
    "the learnt controller finds the optimal small graph per query type, by brute force over up to 4 nodes",
    slow=True,
)
def finds_the_best_graph() -> Finding:
    """For each kind of query the likeliest graph after training is the best of all 5422."""
    count = len(ranking("easy"))
    lead = min(ranking(name)[0][0] - ranking(name)[1][0] for name in KINDS)
    best = {name: ranking(name)[0][1] for name in KINDS}
    runs = [trained(1.0, seed) for seed in SEEDS]
    found = [run.likeliest[name] == best[name] for run in runs for name in KINDS]
    told = ", ".join(f"{name}: {graph}" for name, graph in best.items())
    return Finding(
        all(found) and count == 5422,
        f"{sum(found)} of {len(found)} after {STEPS} steps; {told} (best of {count} graphs by at least {lead:.3f}); "
        f"accuracy {line([run.right for run in runs])}",
    )


@claim("HRPO uses fewer useless agents than the group-relative reward alone at equal accuracy", slow=True)
def fewer_useless_agents() -> Finding:
    """With the action reward fewer useless agents are used over training, by three standard errors, no less rightly."""
    both, alone = ([trained(weight, seed) for seed in SEEDS] for weight in (1.0, 0.0))
    saved = [other.useless - one.useless for one, other in zip(both, alone, strict=True)]
    beyond_noise = fmean(saved) > 3 * stdev(saved) / len(saved) ** 0.5
    right = fmean(one.accuracy for one in both) > fmean(one.accuracy for one in alone) - 0.01
    after = fmean(one.after for one in both) <= fmean(one.after for one in alone)
    kept = fmean(one.right for one in both) > fmean(one.right for one in alone) - 0.01
    return Finding(
        beyond_noise and right and after and kept,
        f"useless agents a team over training {line([one.useless for one in both])} against "
        f"{line([one.useless for one in alone])} without the action reward, at accuracy "
        f"{line([one.accuracy for one in both])} against {line([one.accuracy for one in alone])}; after training "
        f"{line([one.after for one in both])} against {line([one.after for one in alone])}, accuracy "
        f"{line([one.right for one in both])} against {line([one.right for one in alone])}",
    )
