"""MAC-SPGG's claims."""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace
from statistics import fmean

from hocket.core.casting import Separate
from hocket.credit.each_agent import EachAgent
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, gap, say
from hocket.lab.sequential import Solution, backward_induction
from hocket.lab.talk import TalkBench
from hocket.lab.toys.rewarded import line
from hocket.methods.base.ppo import PPO
from hocket.methods.teams.mac_spgg import CONTRIBUTIONS, EFFORTS, MAC_SPGG, PublicGood, PublicGoods
from hocket.testing import Part, rehearse
from hocket.types import Decoding, Scenario
from hocket.workflows.library import find as find_workflow

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
def _() -> Finding:
    free, full = ([_everywhere(solved(n, bonus), bonus) for n in COUNTS] for bonus in (0.0, 1.0))
    histories = {"levels": len(LEVELS), "histories_of_4": len(solved(4, 1.0).choices)}
    everywhere = {"nothing_everywhere_in_the_classical_game": str(free), "everything_with_bonus_1": str(full)}
    return Finding(all(free) and all(full), f"n = 2, 3, 4: {say(**everywhere, **histories)}")


@claim("as shipped an agent pays for the tokens it took, gets its share of what all gave, and a bonus for its own")
def _() -> Finding:
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


@claim("it flips exactly at bonus = cost - multiplier / n")
def _() -> Finding:
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
def _() -> Finding:
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
def _() -> Finding:
    free, full, success = max(learnt(0.0, 0.0)), min(learnt(1.0, 0.0)), min(learnt(1.0, 1.0))
    worst = say(classical_predicted_0=free, bonus_1_predicted_1=full, bonus_1_for_a_sum_of_1_predicted_1=success)
    told = f"from 0.50, after 50 steps at worst of 5 seeds: {worst}"
    return Finding(free < 0.05 and full > 0.95 and success > 0.95, told)


@claim("with a threshold that needs all of everybody they do not, though it is the only equilibrium's play", slow=True)
def _() -> Finding:
    unique, ends = solved(3, 1.0, 3.0).plays == {(1.0,) * 3}, learnt(1.0, 3.0)
    return Finding(unique and sum(one < 0.4 for one in ends) >= 3, f"B = n: {say(predicted=1, learners=line(ends))}")


@claim("payoffs are u_i = rho/n sum_j q_j - k e_i + g q_i [sum_j q_j >= B], by hand; usually 1.5, 1, 1 and no B")
def _() -> Finding:
    off, given = [], (0.2, 0.9, 0.4)
    for threshold, efforts in itertools.product((None, 0.0, 1.5, 1.75), (None, (0.5, 0.1, 0.3))):
        found = PublicGood(2.4, 0.7, 0.6, threshold)(given, efforts)
        paid = threshold is None or threshold <= 1.5
        spent = efforts or given
        off.append(
            gap(found, [0.8 * 1.5 - 0.7 * e + (0.6 * q if paid else 0) for q, e in zip(given, spent, strict=True)])
        )
    usual = gap(PublicGood()(given), [0.5 * 1.5 - q + q for q in given])
    same = PublicGoods().game == PublicGood(1.5, 1.0, 1.0, 0.0)
    return Finding(max(*off, usual) < EXACT and same, say(off=max(off), usual=usual))


@claim("an agent reads all earlier answers, a line each, or the last alone; contributions and efforts are told")
def _() -> Finding:
    read, told, right = {}, [], lambda text, _: float(text == "two")
    for shown in ("all", "last"):
        parts = [Part(word) for word in ("one", "two", "three")]
        flow = PublicGoods(effort="quality" if shown == "last" else "length", shown=shown)
        script, usual = dict(zip(flow.roles, parts, strict=True)), replace(Decoding(), max_tokens=32)
        (played,) = rehearse(flow, Scenario("s", "?"), script, verifier=right, decoding=usual)
        read[shown] = [part.questions for part in parts]
        lengths = [len(turn) / 32 for turn in played.turns]
        told.append(CONTRIBUTIONS.get(played) == [0.0, 1.0, 0.0])
        told.append(EFFORTS.get(played) == ([0.0, 1.0, 0.0] if shown == "last" else lengths))
        told.append(played.info["answer"] == "three")
    wanted = {"all": [["?"], ["?\nAgent 1: one"], ["?\nAgent 1: one\nAgent 2: two"]]}
    wanted["last"] = [["?"], ["?\nAgent 1: one"], ["?\nAgent 2: two"]]
    return Finding(read == wanted and all(told), say(read=str(read), told=sum(told)))


@claim("it ships as a chain of three whose policies are apart, each with PPO's credit of its own")
def _() -> Finding:
    refused = 0
    for settings in ({"agents": 1}, {"effort": "time"}, {"shown": "none"}):
        try:
            PublicGoods(**settings)
        except ValueError:
            refused += 1
    held = [
        MAC_SPGG.workflow == "public-goods",
        MAC_SPGG.cast == Separate(),
        MAC_SPGG.credit == EachAgent(PPO.credit, by="policy"),
        find_workflow("public-goods") == PublicGoods(3, 1.5, 1.0, 1.0, 0.0, "length", "all"),
        PublicGoods(2).roles == ("agent_1", "agent_2"),
    ]
    return Finding(all(held) and refused == 3, say(held=sum(held), refused=refused))


claim.shipped(MAC_SPGG, "credit", trains=("agent_1", "agent_2", "agent_3"))
