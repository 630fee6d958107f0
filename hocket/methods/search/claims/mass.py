"""MASS's claims."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean
from typing import Any

from hocket.agents.search.plain import VARY, prompt_of, with_prompt
from hocket.agents.search.searcher import SearchBench, Searcher
from hocket.core.keys import Key
from hocket.core.texts import Texts
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.texts_worlds import searched
from hocket.methods.search.mass.blocks_world import SKILLS, Built, Effect, mending, rule
from hocket.methods.search.mass.method import MASS, BlocksToTeams, activation, drawn

claim = Claims("mass", "arXiv:2502.02533")
SEEDS, MOST, PLENTY = range(12), 12, 4000
ENOUGH = BlocksToTeams(proposals=4, topologies=12, rounds=3)
EVERY = {role: " ".join(rule(role, n) for n in range(SKILLS)) for role in Built().roles}
"""The best prompts."""


def world(seed: int) -> Built:
    """Two of the four blocks help, where their prompts are good; which, and how much, is drawn."""
    draw = Key.of(seed).derive("blocks").numpy()
    gains = draw.permutation([draw.uniform(0.12, 0.2), draw.uniform(0.08, 0.12), -0.03, -0.15]).tolist()
    useful = draw.integers(1, 3, 4).tolist()
    names = ("predict", "summarise", "reflect", "debate")
    needs = [0.1 if gain > 0 and name != "predict" else None for name, gain in zip(names, gains, strict=True)]
    effects = {n: Effect(g, u, d) for n, g, u, d in zip(names, gains, useful, needs, strict=True)}
    return Built(able=0.3, effects=effects)


@dataclass(frozen=True)
class Blind(Searcher):
    """The baseline: a team drawn evenly, or a prompt mutated blindly; the best goes on."""

    def search(self, bench: SearchBench) -> None:
        draw = bench.key.derive("blind").numpy()
        for number in range(2000):
            best, role = bench.best, bench.roles[int(draw.integers(len(bench.roles)))]
            said = bench.ask(VARY.format(prompt=prompt_of(best.texts, role), number=number))
            blocks = drawn(bench.blocks, {block.name: 0.5 for block in bench.blocks}, draw)
            team = replace(best.texts, blocks=blocks)
            texts = team if number % 2 else with_prompt(best.texts, role, said)
            if bench.calls(texts) <= MOST:
                bench.measure(texts, "blindly", best)


def varying(seed: int) -> Any:
    """A reflecting model that also answers who asks blindly: it adds one rule of one role, or one that says nothing."""

    def reflect(question: str) -> str:
        if "wrong" in question:
            return mending(question)
        draw = Key.of(seed).derive("vary", question).numpy()
        role = ("predictor", "summariser", "reflector", "debater")[int(draw.integers(4))]
        own = question.partition("Instruction:\n")[2].partition("\n\nVersion")[0].replace("(none)", "")
        return f"{own} Rule {draw.integers(6)} of the {role}.".strip()

    return reflect


def run(
    seed: int, searcher: Searcher, budget: int = PLENTY, start: Texts | None = None, **changes: Any
) -> tuple[Built, SearchBench]:
    """A search; development is exact, so one case suffices."""
    one = replace(world(seed), **changes)
    return one, searched(one, varying(seed), searcher, seed=seed, budget=budget, practice=6, development=1, start=start)


@cache
def ours(seed: int) -> tuple[Built, SearchBench]:
    return run(seed, ENOUGH)


@claim(
    "It finds a team within 2 % of the best of all with the best prompts, by measuring at most a third of the teams."
)
def it_finds_a_team_within_2_of_the_best_of_all_with_the_best() -> Finding:
    behind, teams = [], []
    for seed in SEEDS:
        one, bench = ours(seed)
        behind.append(1 - one.accuracy(bench.best.texts) / one.best(MOST))
        teams.append(len({tuple(sorted((trial.texts.blocks or {}).items())) for trial in bench.trials}))
    return Finding(max(behind) < 0.02 and max(teams) <= 54 / 3, say(behind=behind, teams_measured_of_54=teams))


@claim("At the calls that it took, random teams and blind mutation of prompts come less far, in every seed.")
def at_the_calls_that_it_took_random_teams_and_blind_mutation_of() -> Finding:
    found, blind = [], []
    for seed in SEEDS:
        one, bench = ours(seed)
        found.append(one.accuracy(bench.best.texts))
        blind.append(one.accuracy(run(seed, Blind(), bench.spent)[1].best.texts))
    ahead = [a - b for a, b in zip(found, blind, strict=True)]
    return Finding(min(ahead) > 0, say(ours=found, random_search=blind, ahead=ahead))


@claim("Prompts before topology beats topology before prompts, where a block's worth depends on its prompt.")
def prompts_before_topology_beats_topology_before_prompts_where_a() -> Finding:
    found, turned = [], []
    for seed in SEEDS:
        one, bench = ours(seed)
        found.append(one.accuracy(bench.best.texts))
        turned.append(one.accuracy(run(seed, replace(ENOUGH, first="topology"))[1].best.texts))
    worse = sum(a < b - 1e-12 for a, b in zip(found, turned, strict=True))
    return Finding(fmean(found) > fmean(turned) + 0.02 and worse == 0, say(prompts_first=found, topology_first=turned))


@claim("A block is there as often as softmax(I / t) says, so one of less influence never more often than one of more.")
def a_block_is_there_as_often_as_softmax_says_so_one_of_less() -> Finding:
    blocks, influence = Built().blocks, {"predict": 1.1, "summarise": 0.4, "reflect": 1.3, "debate": 0.9}
    weights = {name: math.exp(one / 0.5) for name, one in influence.items()}
    due = {name: one / sum(weights.values()) for name, one in weights.items()}
    chances, draw, times = activation(influence, 0.5), Key.of(0).derive("often").numpy(), 20_000
    teams = [drawn(blocks, chances, draw) for _ in range(times)]
    often = {block.name: fmean(team[block.name] > block.counts[0] for team in teams) for block in blocks}
    formula = max(abs(chances[name] - due[name]) for name in due)
    # Four standard errors of a share.
    off = max(abs(often[name] - due[name]) for name in due)
    order = sorted(often, key=lambda name: often[name]) == sorted(influence, key=lambda name: influence[name])
    counts = {count: fmean(team["predict"] == count for team in teams) for count in (3, 5)}
    even = abs(counts[3] - counts[5]) < 4 * math.sqrt(0.25 / times)
    cold = activation({"a": 1.0, "b": 3.0}, 1e-3) == {"a": 0.0, "b": 1.0}
    holds = formula < 1e-12 and off < 4 * math.sqrt(0.25 / times) and order and even and cold
    return Finding(holds, say(off_the_formula=formula, off_in_draws=off) + f", in order of influence: {order}")


@claim("Influence is E(with) / E(without), each with the prompts improved so far, and no team is over its calls.")
def influence_is_e_e_each_with_the_prompts_improved_so_far_and_no() -> Finding:
    gaps, over = [], 0
    seen: dict[str, float] = {}

    @dataclass(frozen=True)
    class Watched(BlocksToTeams):
        def _by_topology(self, bench: SearchBench, base: Any, influence: Mapping[str, float]) -> Any:
            seen.update(influence)
            return super()._by_topology(bench, base, influence)

    for seed, able in itertools.product(SEEDS, (0.3, -0.1)):
        # The second is never right alone: a share of 0 counts as half a case, of which there is one.
        start = Texts() if able > 0 else Texts(EVERY)
        one, bench = run(seed, Watched(proposals=4, topologies=12, rounds=3), start=start, able=able)
        alone = one.accuracy(Texts(EVERY)) or 0.5
        for block in one.blocks:
            due = (one.accuracy(Texts(EVERY, blocks={block.name: block.counts[1]})) or 0.5) / alone
            gaps.append(abs(seen[block.name] - due))
        over += sum(bench.calls(trial.texts) > MOST for trial in bench.trials if "topology" in trial.how)
    return Finding(max(gaps) < 1e-12 and over == 0, say(influence_off_by=gaps, teams_over_their_calls=over))


@claim("The last stage improves the prompts of the best team's blocks, and of no others, whatever was drawn after it.")
def the_last_stage_improves_the_prompts_of_the_best_teams_blocks() -> Finding:
    short, wrong, kept = 0, 0, []
    for seed in SEEDS:
        one, bench = run(seed, replace(ENOUGH, proposals=1))
        last = max(t.number for t in bench.trials if t.how.startswith("topology"))
        team = max(bench.trials[1 : last + 1], key=lambda t: (t.score, -t.number))
        joint = bench.trials[last + 1 :]
        there = {b.role for b in one.blocks if (team.texts.blocks or {})[b.name] > b.counts[0]} | {"predictor"}
        kept.append(all(trial.texts.blocks == team.texts.blocks for trial in joint))
        wrong += sum(set(trial.texts.prompts) - there != set() for trial in joint)
        short += any(one.quality(bench.best.texts, role) < 1 for role in there)
    return Finding(
        all(kept) and not wrong and not short, say(teams_changed=len(kept) - sum(kept), others=wrong, short=short)
    )


@claim("Where scores on development tell nothing it gains nothing: the team found is no better than one at random.")
def where_scores_on_development_tell_nothing_it_gains_nothing_the() -> Finding:
    gains, even = [], []
    for seed in SEEDS:
        one, bench = run(seed, ENOUGH, noise=True)
        topologies = [trial for trial in bench.trials if trial.how.startswith("topology")]
        chosen = max(topologies, key=lambda trial: trial.score)
        gains.append(one.accuracy(chosen.texts))
        even.append(fmean(one.accuracy(trial.texts) for trial in topologies))
    ahead = [a - b for a, b in zip(gains, even, strict=True)]
    error = math.sqrt(sum((a - fmean(ahead)) ** 2 for a in ahead) / len(ahead) / (len(ahead) - 1))
    return Finding(fmean(ahead) < 2 * error, say(chosen=gains, mean_of_those_drawn=even, standard_error=error))


def speaking(question: str) -> str:
    """A reflecting model that has another version of every prompt."""
    return f"Add the numbers carefully ({len(question)})."


SMALL = {"workflow": "blocks", "budget": 400, "practice": 4, "development": 6, "evaluation": 4}
claim.searched(MASS, speaking, **SMALL)
