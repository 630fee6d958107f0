"""MNPO's claims."""

from typing import cast

import torch
from torch import Tensor

from hocket.core.batch import Level
from hocket.core.components import value_at
from hocket.core.keys import Key
from hocket.lab.bandit import minimised
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.harness import below, gap, same_gradient, say
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.lab.toys.answers import AnswerPolicy, Updating
from hocket.lab.toys.games import UNEVEN, GameBandit, exploitability, random_game, regularised_gap, rule_of
from hocket.methods.base.dpo import ONLINE_DPO
from hocket.methods.preference.inpo import INPO
from hocket.methods.preference.mnpo import MNPO, population_weights
from hocket.recipe import Recipe
from hocket.stages import Policy
from hocket.types import Quantity
from hocket.update.problem import Problem

claim = Claims("mnpo", "arXiv:2509.23102")
FLAT = torch.full((3,), 1 / 3, dtype=torch.float64).log()
REFERENCE = torch.log_softmax(torch.tensor([0.3, -0.4, 0.1], dtype=torch.float64), -1)


def on(recipe: Recipe, matrix: Tensor) -> Recipe:
    return recipe.but({"shaping.0.wins.rule": rule_of(matrix), "objective.beta": 0.5, "update.epochs": 1})


def walked(recipe: Recipe, matrix: Tensor, steps: int) -> list[Tensor]:
    """The log-probs before each update and after the last; answers are sampled once each."""
    updating, logits = Updating(recipe, lr=0.05), torch.tensor([0.5, 0.0, -0.5], dtype=torch.float64)
    path = [torch.log_softmax(logits, 0)]
    for _ in range(steps):
        bandit = GameBandit((0, 0, 0), path[-1], REFERENCE, (1, 1, 1))
        policy = AnswerPolicy(bandit, path[-1])
        updating.step(bandit, policy)
        path.append(torch.log_softmax(policy.logits.detach(), 0))
    return path


@claim("One opponent gives INPO's updates, to the last bit.")
def one_opponent_gives_inpos_updates_to_the_last_bit() -> Finding:
    matrix = random_game(3, "one")
    one, other = (walked(on(recipe, matrix), matrix, 4) for recipe in (MNPO.but({"update.opponents": 1}), INPO))
    three = walked(on(MNPO, matrix), matrix, 4)
    apart = gap(three[-1], other[-1])
    return Finding(gap(one[-1], other[-1]) == 0 and apart > 1e-4, say(one=gap(one[-1], other[-1]), three=apart))


@claim("With r = 1 it is IPO: the population is no anchor.")
def with_r_1_it_is_ipo_the_population_is_no_anchor() -> Finding:
    ipo = ONLINE_DPO.but(
        {"shaping": INPO.shaping, "credit": INPO.credit, "objective.link": INPO.objective.link}  # type: ignore[attr-defined]
    )
    return same_gradient(MNPO.but({"objective.measure.old": 0.0}), ipo)


@claim("An update is a step on (h - (2P - 1)/(2 eta))^2, h taken to the weighted past policies.")
def an_update_is_a_step_on_2_h_taken_to_the_weighted_past_policies() -> Finding:
    matrix, gaps = random_game(3, "population"), []
    for decay in (1.0, 0.5):
        path = walked(on(MNPO.but({"update.decay": decay}), matrix), matrix, 5)
        for t in range(5):
            past = [path[max(t - j, 0)] for j in range(min(3, t + 1))]
            shares = population_weights(len(past), decay)
            anchor = REFERENCE / 3 + 2 / 3 * torch.stack([w * one for w, one in zip(shares, past, strict=True)]).sum(0)
            logits = path[t].clone().requires_grad_()
            d = torch.log_softmax(logits, 0) - anchor
            terms = [(d[i] - d[j] - (2 * matrix[i, j] - 1) / (2 * 0.5)) ** 2 for i, j in ((0, 1), (0, 2), (1, 2))]
            (slope,) = torch.autograd.grad(torch.stack(terms).mean(), logits)
            gaps.append(gap(path[t + 1], torch.log_softmax(path[t] - 0.05 * slope, 0)))
    return below(1e-12, off=max(gaps))


@claim("Opponents' weights are proportional to decay^j, the newest first; a policy enters after every round.")
def opponents_weights_are_proportional_to_decay_j_the_newest_first() -> Finding:
    """With rounds of two steps: who is there is asked of the weights kept after each."""
    matrix, told, kept, entered = random_game(3, "rounds"), [], list[list[float]](), list[list[float]]()
    recipe = on(MNPO.but({"update.every": 2, "update.clip_norm": None}), matrix)
    logits, memory = torch.tensor([0.5, 0.0, -0.5], dtype=torch.float64), recipe.init()["update"]
    for number in range(6):
        bandit = GameBandit((0, 0, 0), torch.log_softmax(logits, 0), REFERENCE, (1, 1, 1))
        policy, needs = AnswerPolicy(bandit, logits), frozenset({Quantity.LOGP})
        optimiser, batch = torch.optim.SGD([policy.logits], lr=0.05), bandit.batch(recipe)
        learner = cast(Policy, policy)
        problem = Problem(batch, learner, optimiser, recipe.loss, needs, Level.BATCH, False, memory=memory)
        told.append(recipe.update.step(problem, Key.of(0))["population/opponents"])
        memory = problem.memory
        if number % 2 == 0:
            entered = [logits.tolist(), *entered][:2]
        kept.append([gap([one[0].tolist() for one in memory["past"]], entered)])
        logits = policy.logits.detach()
    shares = gap(population_weights(3, 0.5), [4 / 7, 2 / 7, 1 / 7]) + gap(population_weights(2, 1.0), [0.5, 0.5])
    return below(1e-12, told == [1, 2, 2, 3, 3, 3], shares=shares, who_is_kept=max(map(max, kept)))


@claim("As shipped passes, parts, clip and decay of an update are INPO's, of a population of three.", "chosen here")
def as_shipped_passes_parts_clip_and_decay_of_an_update_are_inpos() -> Finding:
    names = ("epochs", "minibatches", "clip_norm", "warmup", "weight_decay")
    ours, theirs = ([value_at(one, f"update.{name}") for name in names] for one in (MNPO, INPO))
    return Finding(ours == theirs and value_at(MNPO, "update.opponents") == 3, say(updates=str(ours)))


def rounds(matrix: Tensor, opponents: int, eta: float, tau: float, count: int) -> Tensor:
    """The policy after rounds whose loss is minimised exactly: ref^r prod_j pi_{t-j}^((1-r) l_j) exp(P pi_t / eta)."""
    past = [torch.log_softmax(torch.tensor([1.0, 0.0, -1.0], dtype=torch.float64), 0)]
    for _ in range(count):
        known = past[:opponents]
        shares = population_weights(len(known), 1.0)
        anchor = torch.stack([share * one for share, one in zip(shares, known, strict=True)]).sum(0)
        won = matrix @ past[0].exp() / eta
        past.insert(0, torch.log_softmax(tau / eta * FLAT + (1 - tau / eta) * anchor + won, 0))
    return past[0].exp()


@claim("Where preferences cycle, rounds close the regularised duality gap, and DPO on Bradley-Terry ends at a corner.")
def where_preferences_cycle_rounds_close_the_regularised_duality() -> Finding:
    eta, tau = 3.0, 0.3
    ours = {count: rounds(UNEVEN, count, eta, tau, 400) for count in (1, 3)}
    gaps = {count: regularised_gap(UNEVEN, policy, FLAT.exp(), tau) for count, policy in ours.items()}

    def likelihood(reward: Tensor) -> Tensor:
        return -(UNEVEN * torch.nn.functional.logsigmoid(reward[:, None] - reward)).sum()

    rewards = minimised(likelihood, torch.zeros(3, dtype=torch.float64)).log()
    # DPO's optimum for these rewards at a weak leash.
    dpo = torch.softmax(rewards / 0.01, 0)
    found = exploitability(UNEVEN, dpo)
    return Finding(
        max(gaps.values()) < 1e-6 and float(dpo.max()) > 0.99 and found > 0.09,
        say(one_opponent=gaps[1], three=gaps[3], dpo_largest=float(dpo.max()), dpo_exploitability=found),
    )


def met(run: ShippedRun) -> dict[str, float]:
    """How many opponents there were beyond the sampler, on average."""
    return {"past selves": run.mean("population/opponents") - 1}


claim.spares("int(known['steps']) + 1 -> int(known['steps']) - 1", "counted downwards, rounds are as long")
claim.spares("self.opponents - 1 -> self.opponents + 1", "as many are told of as there are, and no more are kept")
claim.spares("self.opponents - 1 -> self.opponents", "as many are told of as there are, and no more are kept")

claim.shipped(MNPO, "update", settings={"curriculum.prompts": 4}, steps=3, sees=met)
