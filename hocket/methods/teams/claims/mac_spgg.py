"""MAC-SPGG's claims."""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace
from statistics import fmean

import numpy as np
import torch

from hocket.agents.workflows.library import find as find_workflow
from hocket.core.casting import Separate
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, gap, say
from hocket.lab.talk import TalkBench
from hocket.lab.toys.recorded_answers import line
from hocket.methods.teams.mac_spgg.method import MAC_SPGG, PublicGood, PublicGoods
from hocket.methods.teams.mac_spgg.sequential import Solution, backward_induction
from hocket.testing import Part, rehearse
from hocket.types import Decoding, Level, Scenario, Score, Trajectory, Turn

claim = Claims("mac-spgg", "derived")
LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)
COUNTS = (2, 3, 4)
RETURN, COST, STEP = 0.5, 1.0, 1 / 64
"""What a unit gives back to who paid it (multiplier / n), and what it costs: all numbers are exact in binary."""


def solved(agents: int, bonus: float, threshold: float | None = None, back: float = RETURN) -> Solution:
    """The equilibria of the game of `agents`."""
    return backward_induction(agents, LEVELS, PublicGood(back * agents, COST, bonus, threshold))


def _everywhere(solution: Solution, action: float) -> bool:
    """Whether `action` is chosen after every history, and nothing else."""
    return all(chosen == {action} for chosen in solution.choices.values())


@claim("backward induction: nobody contributes in the classical game, everybody all in the redesigned one")
def backward_induction_nobody_contributes_in_the_classical_game() -> Finding:
    free, full = ([_everywhere(solved(n, bonus), bonus) for n in COUNTS] for bonus in (0.0, 1.0))
    histories = {"levels": len(LEVELS), "histories_of_4": len(solved(4, 1.0).choices)}
    everywhere = {"nothing_everywhere_in_the_classical_game": str(free), "everything_with_bonus_1": str(full)}
    return Finding(all(free) and all(full), f"n = 2, 3, 4: {say(**everywhere, **histories)}")


@claim("as shipped an agent pays for the tokens it took, gets its share of what all gave, and a bonus for its own")
def as_shipped_an_agent_pays_for_the_tokens_it_took_gets_its_share() -> Finding:
    flow, texts = find_workflow(str(MAC_SPGG.workflow)), ("right", "wrong and rather a long one", "right again")
    parts = {role: [text] for role, text in zip(flow.roles, texts, strict=True)}
    (played,) = rehearse(
        flow,
        Scenario("s", "?"),
        parts,
        verifier=lambda text, _: float(text.startswith("right")),
        decoding=replace(Decoding(), max_tokens=64),
    )
    given, effort = (1.0, 0.0, 1.0), [len(turn) / 64 for turn in played.turns]
    hand = [0.5 * sum(given) - e + c for c, e in zip(given, effort, strict=True)]
    holds = gap(played.scores["payoff"].value, hand) < EXACT and len(set(effort)) == 3
    return Finding(holds, say(efforts=line(effort), payoffs=line(hand)))


@claim("as shipped each agent is its own learner, whose advantages are its own lambda returns, whitened among its own")
def as_shipped_each_agent_is_its_own_learner_whose_advantages_are() -> Finding:
    rng, names, played = Key.of(0).derive("payoffs").numpy(), ("agent_1", "agent_2", "agent_3"), list[Trajectory]()
    paid = rng.integers(-4, 5, (4, 3)) / 2.0
    values = torch.from_numpy(rng.integers(-4, 5, (4, 3, 2)) / 4.0)
    for number in range(4):
        none = np.zeros(2, np.int64)
        turns = [Turn(name, name, none[:1], none, logp=np.zeros(2, np.float32)) for name in names]
        scores = {"payoff": Score(paid[number].tolist(), Level.TURN)}
        played.append(Trajectory(Scenario("s"), turns, number, scores=scores))
    batch, _ = MAC_SPGG.compute_credit(pack(played).but(value=values.flatten()), MAC_SPGG.init(), {})
    due = torch.zeros(4, 3, 2, dtype=torch.float64)
    due[..., 1] = torch.from_numpy(paid) - values[..., 1]
    due[..., 0] = values[..., 1] - values[..., 0] + 0.95 * due[..., 1]
    for agent in range(3):
        mine = due[:, agent]
        due[:, agent] = (mine - mine.mean()) / (mine.std() + 1e-8)
    off = gap(batch.occurrences.advantage, due.flatten())
    return Finding(off < 1e-11 and MAC_SPGG.cast == Separate(), say(advantages_off=off))


@claim("an agent reads all earlier answers or the last alone, and the last answer is the team's")
def an_agent_reads_all_earlier_answers_or_the_last_alone_and_the() -> Finding:
    asked = {}
    for shown in ("all", "last"):
        parts = {f"agent_{n}": Part(f"say {n}") for n in (1, 2, 3)}
        (played,) = rehearse(PublicGoods(shown=shown), Scenario("s", "?"), parts, verifier=lambda *_: 1.0)
        asked[shown] = [part.questions for part in parts.values()] + [[played.answer]]
    one, two = "Agent 1: say 1", "Agent 2: say 2"
    wanted = {"all": [["?"], [f"?\n{one}"], [f"?\n{one}\n{two}"], ["say 3"]]}
    wanted["last"] = [["?"], [f"?\n{one}"], [f"?\n{two}"], ["say 3"]]
    return Finding(asked == wanted, str(asked["last"]))


@claim("it flips exactly at bonus = cost - multiplier / n")
def it_flips_exactly_at_bonus_cost_multiplier_n() -> Finding:
    """On a grid of bonuses, and of returns: below the margin nothing, above everything, on it every play."""
    wrong = {"off_the_margin": 0, "on_it": 0}
    grid = list(itertools.product(COUNTS, range(2, 13)))
    for n, eighth in grid:
        margin = COST - eighth / 8
        below, on, above = (solved(n, margin + step, back=eighth / 8) for step in (-STEP, 0, STEP))
        wrong["on_it"] += len(on.plays) != len(LEVELS) ** n or on.unique
        sides = ((below, 0.0), (above, 1.0))
        wrong["off_the_margin"] += sum(not (_everywhere(one, full) and one.unique) for one, full in sides)
    told = "full contribution iff bonus > cost - multiplier/n, on the margin every play"
    return Finding(not any(wrong.values()), f"{told}: {say(games=3 * len(grid), margins=len(grid), wrong=wrong)}")


@claim("a bonus on joint success keeps every history contributing iff the threshold is one agent's most")
def a_bonus_on_joint_success_keeps_every_history_contributing_iff() -> Finding:
    wrong, everywhere, on_path = 0, [], []
    for n in COUNTS:
        thresholds = [quarter / 4 for quarter in range(1, 4 * n + 3)]
        flip, full = ({t: solved(n, bonus, t) for t in thresholds} for bonus in (COST - RETURN + STEP, 2.0))
        for games, threshold in itertools.product((flip, full), thresholds):
            for history, chosen in games[threshold].choices.items():
                wrong += chosen != {float(sum(history) + (n - len(history)) >= threshold)}
        wrong += sum(not _everywhere(solved(n, COST - RETURN - STEP, t), 0.0) for t in thresholds)
        everywhere.append(max(t for t, one in full.items() if _everywhere(one, 1.0)))
        on_path.append(max(t for t, one in full.items() if one.plays == {(1.0,) * n}))
    limits = {"every_history_contributes_for_B_up_to": str(everywhere), "the_path_of_play_up_to": str(on_path)}
    told = f"n = 2, 3, 4: {say(**limits, choices_that_differ_from_all_iff_B_can_be_reached=wrong)}"
    return Finding(wrong == 0 and everywhere == [1.0] * 3 and on_path == [2.0, 3.0, 4.0], told)


@functools.cache
def learnt(bonus: float, threshold: float) -> list[float]:
    """The exact mean contribution of three agents after training, by seed; what a table reads are the earlier words."""
    flow = PublicGoods(3, RETURN * 3, COST, bonus, threshold, effort="quality")
    recipe = MAC_SPGG.but({"rollout.samples": 32, "update.minibatches": 1, "update.epochs": 2})
    made = (flow, [Scenario("good", "Contribute.")], ("0", "1", "2", "3"), recipe)
    benches = [TalkBench(*made, seed=s, lr=0.12, verifier=lambda text, scenario: int(text) / 3).run(50) for s in SEEDS]
    return [bench.expected(lambda played: fmean(played.info["contributions"])) for bench in benches]


@claim(
    "learners converge to the predicted equilibrium in the classical and the redesigned game", "section 4", slow=True
)
def learners_converge_to_the_predicted_equilibrium_in_the_classical() -> Finding:
    free, full, success = max(learnt(0.0, 0.0)), min(learnt(1.0, 0.0)), min(learnt(1.0, 1.0))
    worst = say(classical_predicted_0=free, bonus_1_predicted_1=full, bonus_1_for_a_sum_of_1_predicted_1=success)
    told = f"from 0.50, after 50 steps at worst of 5 seeds: {worst}"
    return Finding(free < 0.05 and full > 0.95 and success > 0.95, told)


@claim("with a threshold that needs all of everybody they do not, though it is the only equilibrium's play", slow=True)
def with_a_threshold_that_needs_all_of_everybody_they_do_not_though() -> Finding:
    unique, ends = solved(3, 1.0, 3.0).plays == {(1.0,) * 3}, learnt(1.0, 3.0)
    return Finding(unique and sum(one < 0.4 for one in ends) >= 3, f"B = n: {say(predicted=1, learners=line(ends))}")


claim.shipped(MAC_SPGG, "credit", trains=("agent_1", "agent_2", "agent_3"))
