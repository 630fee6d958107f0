"""Claims of factored rewards."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from hocket.core.batch import Batch
from hocket.core.columns import METADATA
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.bandit import least
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, gap, say
from hocket.methods.preference.pref_factorization import PREF_FACTORIZATION, FactoredPairs, next_query
from hocket.objectives.scores import BradleyTerry
from hocket.recipe import Recipe
from hocket.rewards.judge import logistic
from hocket.types import Evaluation, Scenario, Score, Trajectory, Turn

claim = Claims("pref-factorization", "arXiv:2503.06358, recalled")


def preferring(difference: Tensor, ridge: float) -> Tensor:
    """What a user weighs, who preferred the first of every pair; `difference` is the first less the second."""
    return logistic(difference, torch.ones(len(difference), dtype=torch.float64), ridge)


def compared(users: Sequence[str], length: int = 1) -> Batch:
    """Pairs of answers of so many decisions, each of a user; answer 2i is preferred to 2i + 1."""
    played = []
    for number, user in enumerate(users):
        scenario = Scenario(str(number), metadata={"group": user})
        for sample in range(2):
            turn = Turn("a", "policy", np.array([1]), np.zeros(length, np.int64))
            told = {METADATA.name: scenario.metadata}
            played.append(Trajectory(scenario, [turn], sample, scores={"preference": Score(1.0 - sample)}, info=told))
    recipe: Recipe = PREF_FACTORIZATION
    return recipe.compute_credit(pack(played), recipe.init(), {})[0]


def loss_of(objective: FactoredPairs | BradleyTerry, batch: Batch, score: Tensor) -> Tensor:
    return objective(Evaluation(torch.zeros(len(score), dtype=score.dtype), score=score), batch).total()


def solved(difference: Tensor, ridge: float) -> Tensor:
    """The user's weights by plain L-BFGS."""
    start = torch.zeros(difference.shape[1])
    return least(lambda at: -logsigmoid(difference @ at).sum() + ridge / 2 * at.square().sum(), start)


@claim("Loss and gradient are the formula's: each user's weights the minimiser, found otherwise, and held constant.")
def loss_and_gradient_are_the_formulas_each_users_weights_the() -> Finding:
    draw, gaps = Key.of(0).derive("factors").numpy(), []
    for number in range(3):
        users = ["ann"] * 6 + ["bob"] * 9 + ["cy"]
        batch, objective = compared(users), FactoredPairs(rank=3, ridge=0.3 + number / 5, spread=0.05)
        score = torch.from_numpy(draw.normal(size=(32, 3)) * 2).requires_grad_()
        loss = loss_of(objective, batch, score)
        (slope,) = torch.autograd.grad(loss, score)
        wanted, by_hand, told = 0.0, torch.zeros_like(slope), dict[str, Tensor]()
        for pair, user in enumerate(users):
            if user not in told:
                own = [2 * i for i, one in enumerate(users) if one == user]
                told[user] = solved(torch.stack([score[i] - score[i + 1] for i in own]).detach(), objective.ridge)
            weights, d = told[user], (score[2 * pair] - score[2 * pair + 1]).detach()
            h = weights @ d
            wanted += float(-logsigmoid(h) + 0.025 * d.square().sum()) / 16
            pull = (-torch.sigmoid(-h) * weights + 0.05 * d) / 16
            by_hand[2 * pair] += pull
            by_hand[2 * pair + 1] -= pull
        gaps += [abs(float(loss.detach()) - wanted), gap(slope, by_hand)]
    return below(1e-6, off=max(gaps))


@claim("phi is what is read where credit says, by its weights; a pair counts where both its members are read; accuracy "
       "and margin are of the pairs that count.")  # fmt: skip
def phi_is_what_is_read_where_credit_says_by_its_weights_a_pair() -> Finding:
    users = ["ann"] * 5 + ["bob"] * 4
    batch, objective = compared(users, 2), FactoredPairs(rank=2, ridge=0.4, spread=0.1)
    seen, draw = batch.occurrences, Key.of(1).derive("read").numpy()
    factor = torch.from_numpy(draw.uniform(0.5, 2.0, size=18))
    factor[7] = 0.0
    batch = batch.credited(weight=seen.weight * factor[seen.trajectory])
    score = torch.from_numpy(draw.normal(size=(36, 2)) * 2)
    phi = factor[:, None] * score[1::2]
    difference, counted = phi[::2] - phi[1::2], [pair for pair in range(9) if pair != 3]
    wanted, h = 0.0, list[float]()
    for user in ("ann", "bob"):
        mine = [pair for pair in counted if users[pair] == user]
        weights = solved(difference[mine], 0.4)
        h += (difference[mine] @ weights).tolist()
        wanted += float((-logsigmoid(difference[mine] @ weights) + 0.05 * difference[mine].square().sum(1)).sum()) / 8
    terms = objective(Evaluation(torch.zeros(36, dtype=score.dtype), score=score), batch)
    right = fmean(one > 0 for one in h)
    found = {name: float(value) for name, value in terms.metrics.items()}
    told = {"pairs/total": 8.0, "pairs/accuracy": right, "pairs/margin": fmean(h), "users/total": 2.0}
    off = max(abs(found[name] - value) for name, value in told.items())
    return below(1e-6, 0.5 < right < 1, loss_off=abs(float(terms.total()) - wanted), metrics_off=off)


@claim("With one base reward and one user it is the reward model of pairs at the reward lambda phi, lambda > 0 where "
       "most pairs agree with phi.")  # fmt: skip
def with_one_base_reward_and_one_user_it_is_the_reward_model_of() -> Finding:
    batch, gaps, least = compared(["all"] * 12), [], 9.0
    plain = FactoredPairs(rank=1, spread=0.0)
    for seed in range(5):
        score = torch.from_numpy(Key.of(seed).numpy().normal(size=(24, 1)))
        score[::2] += 1.5
        weight = preferring(score[::2] - score[1::2], plain.ridge)
        least = min(least, float(weight))
        slopes = []
        for objective, at, scale in ((plain, score, 1.0), (BradleyTerry(), score * weight, float(weight))):
            leaf = at.clone().requires_grad_()
            (slope,) = torch.autograd.grad(loss_of(objective, batch, leaf), leaf)
            slopes.append(scale * slope)
        gaps.append(gap(*slopes))
    return below(EXACT, least > 0, off=max(gaps))


class Crowd:
    """Users with weights in R^4 over base rewards that are linear in 12 features, who prefer by chance."""

    def __init__(self, seed: int) -> None:
        self.draw = torch.Generator().manual_seed(seed)
        self.base = self.normal(12, 4) / 12**0.5

    def normal(self, *size: int) -> Tensor:
        return torch.randn(*size, generator=self.draw, dtype=torch.float64)

    def user(self) -> Tensor:
        return 3 * self.normal(4)

    def answer(self, user: Tensor, difference: Tensor) -> Tensor:
        """Differences of features `[n, 12]`, turned so that the preferred member comes first."""
        chance = torch.sigmoid(difference @ self.base @ user)
        first = torch.rand(len(chance), generator=self.draw, dtype=torch.float64) < chance
        return torch.where(first[:, None], difference, -difference)

    def asked(self, user: Tensor, candidates: Tensor, learnt: Tensor, *, by_chance: bool) -> Tensor:
        """The user's weights after ten queries, each chosen by what the earlier ones said."""
        told, weights = torch.zeros(0, 12, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)
        for _ in range(10):
            place = next_query(candidates @ learnt, told @ learnt, weights, 0.1, by_chance=by_chance)
            told = torch.cat([told, self.answer(user, candidates[place : place + 1])])
            weights = preferring(told @ learnt, 0.1)
        return weights

    def learnt(self, users: int, pairs: int) -> tuple[Tensor, Tensor]:
        """The map from features to base rewards `[12, 4]`, and all differences as they were preferred."""
        told = torch.cat([self.answer(self.user(), self.normal(pairs, 12)) for _ in range(users)])
        batch = compared([str(number) for number in range(users) for _ in range(pairs)])
        objective, start = FactoredPairs(rank=4, ridge=0.05, spread=0.05), self.normal(12, 4) / 12**0.5
        at = start.requires_grad_()
        adam = torch.optim.Adam([at], lr=0.05)
        for _ in range(60):
            score = torch.stack([told @ at, torch.zeros(len(told), 4, dtype=torch.float64)], 1).flatten(0, 1)
            adam.zero_grad()
            loss_of(objective, batch, score).backward()  # type: ignore[no-untyped-call]
            adam.step()
        return at.detach(), told


@claim("Of 40 users with 50 comparisons each the base rewards come back up to a linear map (R^2 > .95); a new user is "
       "known better from 10 chosen queries than from 10 random ones, and far better than by one pooled reward; chosen "
       "without p(1-p) queries are no better than random where answers are nearly certain.", slow=True)  # fmt: skip
def of_40_users_with_50_comparisons_each_the_base_rewards_come_back() -> Finding:
    found: dict[str, list[float]] = {name: [] for name in ("fit", "chosen", "without p(1-p)", "random", "pooled")}
    for seed in range(2):
        crowd = Crowd(seed)
        learnt, told = crowd.learnt(40, 50)
        items = crowd.normal(1000, 12)
        true, phi = items @ crowd.base, items @ learnt
        rest = true - phi @ torch.linalg.lstsq(phi, true).solution
        found["fit"].append(float(1 - rest.square().sum() / (true - true.mean(0)).square().sum()))
        pooled = preferring(told @ learnt, 0.1)
        for _ in range(50):
            user, unseen, candidates = crowd.user(), crowd.normal(1000, 12), crowd.normal(200, 12)
            right = (unseen @ crowd.base @ user).sign()
            weights = {
                "chosen": crowd.asked(user, candidates, learnt, by_chance=True),
                "without p(1-p)": crowd.asked(user, candidates, learnt, by_chance=False),
                "random": preferring(crowd.answer(user, candidates[:10]) @ learnt, 0.1),
                "pooled": pooled,
            }
            for name, one in weights.items():
                found[name].append(float(((unseen @ learnt @ one).sign() == right).double().mean()))
    means = {name: fmean(values) for name, values in found.items()}
    ahead = [one - other for one, other in zip(found["chosen"], found["random"], strict=True)]
    error = stdev(ahead) / len(ahead) ** 0.5
    holds = fmean(ahead) > 3 * error and abs(means["without p(1-p)"] - means["random"]) < 0.03
    holds = holds and min(found["fit"]) > 0.95 and means["random"] - means["pooled"] > 0.1
    return Finding(holds, say(R2=found["fit"], **{k: v for k, v in means.items() if k != "fit"}, error_of_ahead=error))


@claim("The next query is where the posterior narrows most: the determinant of H grows most by it.", "derived")
def the_next_query_is_where_the_posterior_narrows_most_the() -> Finding:
    draw, right, plain = Key.of(3).numpy(), 0, 0
    for _ in range(20):
        asked, candidates = (torch.from_numpy(draw.normal(size=(n, 3))) for n in (4, 30))
        weights = preferring(asked, 0.5)
        H = 0.5 * torch.eye(3, dtype=torch.float64)
        for d in asked:
            H = H + _variance(d, weights) * torch.outer(d, d)
        # By the matrix determinant lemma det(H + v d d^T) = det H (1 + v d^T H^-1 d).
        grown = [float(torch.linalg.det(H + _variance(d, weights) * torch.outer(d, d))) for d in candidates]
        whole = [float(torch.linalg.det(H + torch.outer(d, d))) for d in candidates]
        right += next_query(candidates, asked, weights, 0.5) == grown.index(max(grown))
        plain += next_query(candidates, asked, weights, 0.5, by_chance=False) == whole.index(max(whole))
    return Finding(right == plain == 20, say(of_20=right, without_the_chance=plain))


def _variance(difference: Tensor, weights: Tensor) -> float:
    """Of the answer to a comparison."""
    chance = float(torch.sigmoid(difference @ weights))
    return chance * (1 - chance)


@claim("It ships with two base rewards, a ridge of 0.1 and c = 0.01, and needs to know who prefers.")
def it_ships_with_two_base_rewards_a_ridge_of_0_1_and_c_0_01_and() -> Finding:
    shipped = PREF_FACTORIZATION.objective == FactoredPairs(rank=2, column="group", ridge=0.1, spread=0.01)
    try:
        loss_of(FactoredPairs(column="annotator"), compared(["ann"]), torch.zeros(2, 2))
        said = ""
    except ConfigurationError as error:
        said = str(error)
    return Finding(shipped and PREF_FACTORIZATION.outputs == 2 and "'annotator' of every pair" in said, said)


claim.shipped(PREF_FACTORIZATION, without={"objective": BradleyTerry()})
