"""MARFT's claims, on games of two agents that act in turn, the second seeing what the first did."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome
from hocket.core.casting import Separate
from hocket.core.components import value_at
from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, gap, say
from hocket.lab.microscope import RecordedBatch
from hocket.lab.talk import TalkBench, last_message
from hocket.lab.toys.recorded_answers import document, line
from hocket.lab.toys.talks import played_by
from hocket.methods.teams.marft import MARFT, MARFT_TOKEN
from hocket.recipe import Recipe
from hocket.types import Evaluation, Message, Scenario

claim = Claims(
    "marft", "arXiv:2504.16129 and the authors' code; the identity is the standard multi-agent decomposition"
)
Path = tuple[tuple[int, int], ...]  # The joint actions of a game, step by step.
PATHS: list[Path] = list(itertools.product([(one, two) for one in (0, 1) for two in (0, 1)], repeat=2))


@dataclass
class Game:
    """Two steps, two states, two actions, known policies: `reward` and the next state `following` by `[state, a1, a2]`,
    logits `first` by `[step, state, a1]` and `second` by `[step, state, a1, a2]`; `gamma` discounts from step to step,
    `within` from the first agent to the second."""

    reward: Tensor
    following: Tensor
    first: Tensor
    second: Tensor
    gamma: float = 1.0
    within: float = 1.0

    @classmethod
    def random(cls, seed: int, **discounts: float) -> Game:
        how: dict[str, Any] = {"generator": Key.of(seed).torch()}
        real = how | {"dtype": torch.float64}
        reward, following = torch.randn((2, 2, 2), **real), torch.randint(2, (2, 2, 2), **how)
        return cls(reward, following, torch.randn((2, 2, 2), **real), torch.randn((2, 2, 2, 2), **real), **discounts)

    def q(self, step: int, state: int, one: int, two: int) -> float:
        """The value of a joint action."""
        after = 0.0 if step == 1 else self.value(step + 1, int(self.following[state, one, two]))
        return float(self.reward[state, one, two]) + self.gamma * after

    def value(self, step: int, state: int, one: int | None = None) -> float:
        """What the first agent's input is worth, or with its action the second's."""
        if one is not None:
            chances = torch.softmax(self.second[step, state, one], -1).tolist()
            return math.fsum(chance * self.q(step, state, one, two) for two, chance in enumerate(chances))
        chances = torch.softmax(self.first[step, state], -1).tolist()
        return self.within * math.fsum(chance * self.value(step, state, one) for one, chance in enumerate(chances))

    def steps(self, path: Path) -> Iterator[tuple[int, int, int, int]]:
        """Each step, the state before it and its actions."""
        state = 0
        for step, (one, two) in enumerate(path):
            yield step, state, one, two
            state = int(self.following[state, one, two])

    def logp(self) -> Tensor:
        """Log-probs of all decisions of all paths in a row, differentiable."""
        one, two = torch.log_softmax(self.first, -1), torch.log_softmax(self.second, -1)
        at = (place for path in PATHS for place in self.steps(path))
        return torch.stack([entry for i, s, a, b in at for entry in (one[i, s, a], two[i, s, a, b])])

    def document(self) -> dict[str, Any]:
        """Every path as a recorded episode with exact values; rewards stand at the second agent's turns."""
        rows, fixed = [], {"group": "game", "scores": {}, "turn": [0, 1, 2, 3], "agent": ["first", "second"] * 2}
        for number, (path, logp) in enumerate(zip(PATHS, self.logp().detach().reshape(-1, 4).tolist(), strict=True)):
            at = list(self.steps(path))
            values = [value for i, s, a, _ in at for value in (self.value(i, s), self.value(i, s, a))]
            earned = [{"step": value} for _, s, a, b in at for value in (0.0, float(self.reward[s, a, b]))]
            rows.append({"id": f"path {number:02}", "logp": logp, "value": values, "turn_scores": earned, **fixed})
        return {"version": 1, "trajectories": rows}


def exact(recipe: Recipe, gamma: float, within: float | None = None) -> Recipe:
    """The recipe with one-step advantages that are not whitened: exact where values are."""
    between = {} if within is None else {"credit.within": within}
    return recipe.but({"credit.lam": 0.0, "credit.whiten": False, "credit.gamma": gamma, **between})


@claim(
    "the advantages of a step's agents sum to that of their joint action without discount between them; with "
    "the released code's discount only the discounted sum does"
)
def the_advantages_of_a_steps_agents_sum_to_that_of_their_joint() -> Finding:
    plain, discounted, missed = 0.0, 0.0, []
    for seed, recipe, within in itertools.product(range(10), (MARFT, MARFT_TOKEN), (1.0, 0.9)):
        game = Game.random(seed, gamma=0.9, within=within)
        read = RecordedBatch(game.document())
        assessed, _ = exact(recipe, 0.9, within).compute_credit(read.batch, {}, {})
        for path, row in zip(PATHS, read.by_trajectory(assessed.occurrences.advantage), strict=True):
            for step, state, one, two in game.steps(path):
                a, b = row[2 * step : 2 * step + 2]
                q, v = game.q(step, state, one, two), game.value(step, state)
                if within == 1.0:
                    plain = max(plain, abs(a + b - (q - v)))
                else:
                    discounted = max(discounted, abs(a + within * b - (within * q - v)))
                    missed.append(abs(a + b - (q - v)))
    with_discount = {"plain sum misses by (mean)": fmean(missed), "discounted sum by": discounted}
    holds = plain < 1e-8 and discounted < 1e-8 and fmean(missed) > 0.01
    return Finding(holds, say(games=10, levels=2, largest_difference=plain, discounted_between_agents=with_discount))


def expected_gradient(recipe: Recipe, game: Game, agent: int) -> Tensor:
    """The exact expected gradient of the recipe's policy loss in one agent's logits."""
    assessed, _ = recipe.compute_credit(RecordedBatch(game.document()).batch, {}, {})
    at, chance = assessed.occurrences, game.logp().detach().reshape(-1, 4).sum(1).exp()
    # Occurrence weights are probabilities, so the sum over paths is the expectation.
    mine = torch.where(torch.arange(len(at)) % 2 == agent, chance[at.trajectory] * len(PATHS), 0.0)
    table = (game.first, game.second)[agent].requires_grad_()
    loss = recipe.objective(Evaluation(game.logp()), assessed.credited(weight=mine)).total()
    (gradient,) = torch.autograd.grad(loss, table)
    table.requires_grad_(False)
    return gradient


@claim("with exact advantages, one-agent-at-a-time updates do not decrease the true return for small steps")
def with_exact_advantages_one_agent_at_a_time_updates_do_not() -> Finding:
    recipe, changes, gains = exact(MARFT, 1.0), [], []
    for game in map(Game.random, range(8)):
        values = [game.value(0, 0)]
        for turn in range(8):
            table = (game.first, game.second)[turn % 2]
            table -= 0.05 * expected_gradient(recipe, game, turn % 2)
            values.append(game.value(0, 0))
        changes += [after - before for before, after in itertools.pairwise(values)]
        gains.append(values[-1] - values[0])
    return Finding(min(changes) >= -EXACT and min(gains) > 0, say(largest_fall=max(0.0, -min(changes)), gains=gains))


@claim("as shipped credit and losses are counted by hand, by action and by token: 0.99, lam 0.95, clips 0.2, KL 1e-3")
def as_shipped_credit_and_losses_are_counted_by_hand_by_action_and() -> Finding:
    def chained(row: dict[str, Any], by_token: bool) -> Iterator[tuple[float, slice]]:
        """The advantage of each link, the last first, and its decisions."""
        turns, after, following = row["turn"], 0.0, row["final_value"]
        begins = [at for at in range(len(turns)) if by_token or at == 0 or turns[at] != turns[at - 1]]
        for begin, end in reversed(list(itertools.pairwise([*begins, len(turns)]))):
            last = end == len(turns)
            earned = 0.0 if not last and turns[end] == turns[begin] else row["turn_scores"][turns[begin]]["step"]
            earned += row["scores"]["right"] if last else 0.0
            # Nothing is discounted within a turn and to the second agent; whenever the first acts a step has ended.
            over = last or (turns[end] != turns[begin] and row["agent"][turns[end]] == "first")
            discount = 0.99 if over else 1.0
            after = earned + discount * following - row["value"][begin] + discount * 0.95 * after
            following = row["value"][begin]
            yield after, slice(begin, end)

    off = 0.0
    for seed, (recipe, by_token) in itertools.product(range(8), ((MARFT, False), (MARFT_TOKEN, True))):
        rng, rows, links = Key.of(seed).derive("by hand").numpy(), list[dict[str, Any]](), list[tuple[float, float]]()
        errors, shift = list[float](), 0.3
        for number in range(6):
            agents = ["first", "second", "first", "second"] if number % 2 else ["first", "first", "second"]
            turn = [place for place in range(len(agents)) for _ in range(int(rng.integers(1, 4)))]
            old, moves = -rng.exponential(1.0, len(turn)) - 1, 0.15 * rng.normal(size=len(turn))
            row: dict[str, Any] = {"group": "g", "scores": {"right": float(rng.integers(2))}, "turn": turn}
            row |= {"turn_scores": [{"step": float(rng.random())} for _ in agents], "agent": agents}
            row |= {"logp_behaviour": old.tolist(), "logp": (old + moves).tolist()}
            cut = number % 3 == 0  # What is cut short goes on from the value of its last state.
            row |= {"value": rng.normal(size=len(turn)).tolist(), "truncated": cut, "final_value": 0.5 * cut}
            rows.append(row)
            for advantage, mine in chained(row, by_token):
                links.append((advantage, math.exp(moves[mine].sum())))
                target = advantage + row["value"][mine.start]
                # Every value has risen by 0.3, of which the clip counts 0.2.
                errors += [max((v + shift - target) ** 2, (v + 0.2 - target) ** 2) for v in row["value"][mine]]
        mean = fmean(advantage for advantage, _ in links)
        spread = math.sqrt(fmean((advantage - mean) ** 2 for advantage, _ in links)) + 1e-8
        shown = [((advantage - mean) / spread, ratio) for advantage, ratio in links]
        wanted = [-fmean(min(r * a, min(1.2, max(0.8, r)) * a) for a, r in shown), 0.5 * fmean(errors)]
        read = RecordedBatch(document(rows))
        batch, _ = recipe.compute_credit(read.batch, {}, {})
        assert batch.value is not None
        terms = recipe.loss(Evaluation(read.logp, value=batch.value + shift), batch)
        off = max(off, gap([float(term.total()) for term in terms], wanted))
    shipped = [value_at(MARFT, name) for name in ("update.target_kl", "workflow", "cast")]
    return below(EXACT, shipped == [1e-3, "pipeline?agents=2", Separate()], off_by_hand=off)


COLOURS, SHAPES = ("red", "blue"), ("box", "ring")


@played_by("hinter", "solver")
async def hint_and_solve(scenario: Scenario, team: Team) -> Outcome:
    """The hinter sees a coloured shape and says two words; the solver hears them alone and must name it."""
    hint = await team.hinter(f"hint at {scenario.prompt}")
    answer = await team.solver(f"solve {hint}")
    return Outcome(rewards={"right": float(answer.text == scenario.answer)})


def leaning(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float] | None:
    """The base both roles begin from: it leans to repeating the word that is due."""
    words = str(messages[-1]["content"]).split()[-2:]
    return {words[len(said)]: 0.5} if len(said) < len(words) else None


def hinting(recipe: Recipe, seed: int, *frozen: str) -> TalkBench:
    """Two tables on top of one base that is never trained: what adapters on a shared model are."""
    often = {"rollout.samples": 8, "update.epochs": 4, "update.minibatches": 1, "update.target_kl": 1e-2}
    targets = [f"{colour} {shape}" for colour in COLOURS for shape in SHAPES]
    asked, trained = [Scenario(target, target, answer=target) for target in targets], recipe.but(often)
    how: dict[str, Any] = {"view": last_message, "prior": leaning, "frozen": frozenset(frozen), "seed": seed}
    return TalkBench(hint_and_solve, asked, (*COLOURS, *SHAPES), trained, 2, lr=0.1, **how)


@claim("hinter and solver on one base: joint training beats training one role; both levels learn", slow=True)
def hinter_and_solver_on_one_base_joint_training_beats_training_one() -> Finding:
    ways: dict[str, list[Any]] = {"action": [MARFT], "token": [MARFT_TOKEN]}
    alone = {"hinter alone": [MARFT, "solver"], "solver alone": [MARFT, "hinter"]}
    right = {
        name: [hinting(recipe, seed, *frozen).run(20).expected() for seed in SEEDS]
        for name, (recipe, *frozen) in (ways | alone).items()
    }
    joint, single = min(map(min, (right[name] for name in ways))), max(map(max, (right[name] for name in alone)))
    after = {name: line(values) for name, values in right.items()}
    saw = say(right_before=hinting(MARFT, 0).expected(), after_20_steps=after)
    return Finding(joint > single + 0.2 and joint > 0.7, saw)


claim.spares("marft: credit.between = 0.0", "within a link, which an utterance is as a whole")
claim.spares("marft: objective.horizon = 5120", "no length divides a mean over turns")
claim.spares("marft-token: objective.horizon = 5120", "no length divides a mean over tokens")

claim.shipped(MARFT, "credit", "objective", trains=("agent_1", "agent_2"))
