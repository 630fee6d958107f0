"""MARLHF's claims."""

import math
from itertools import pairwise, product
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.credit.each_agent import EachAgent
from hocket.credit.pairs import AllPairs
from hocket.credit.score_positions import ReadAt
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.harness import EXACT, below, gap, inspect_rows, say
from hocket.methods.base.rloo import RLOO
from hocket.methods.preference.marlhf import MARLHF, MARLHF_POLICY, ReferenceBonus, SmoothScores
from hocket.rewards.combine import WeightedSum
from hocket.types import Batch, Evaluation, Scenario, Score, Trajectory, Turn

claim = Claims("marlhf", "arXiv:2409.00717")

# ---------------------------------------------------------------- matrix games

Game = Tensor
"""What each of two players earns, `[2, A, B]`."""


def nash_gap(game: Game, first: Tensor, second: Tensor) -> float:
    """What the players could gain in all by deviating alone from a pair of mixed strategies."""
    ours, theirs = game[0] @ second, first @ game[1]
    return float(ours.max() - first @ ours + theirs.max() - theirs @ second)


def equilibria(game: Game) -> list[tuple[int, int]]:
    """The pure equilibria."""
    ours, theirs = game
    return [
        (i, j)
        for i, j in product(range(ours.shape[0]), range(ours.shape[1]))
        if ours[i, j] >= ours[:, j].max() and theirs[i, j] >= theirs[i].max()
    ]


def likelihood(reward: Tensor, pairs: list[tuple[tuple[int, int], tuple[int, int]]], target: Tensor) -> float:
    """The mean loss of one player's reward on cells compared with cells; `target` is P(first preferred)."""
    gaps = torch.stack([reward[one] - reward[other] for one, other in pairs])
    return float((torch.nn.functional.softplus(gaps) - target * gaps).mean())


DILEMMA: Game = torch.tensor([[[2.0, 0.0], [3.0, 1.0]], [[2.0, 3.0], [0.0, 1.0]]], dtype=torch.float64)
"""A prisoners' dilemma: both defect (1, 1)."""

HUNT: Game = torch.tensor([[[4.0, 0.0], [3.0, 1.0]], [[4.0, 3.0], [0.0, 1.0]]], dtype=torch.float64)
"""A stag hunt: both (0, 0) and (1, 1) are equilibria, and a third game below moves the only one to (0, 1)."""


@claim("Preferences on the equilibrium cell alone fit games of different equilibria equally well.")
def preferences_on_the_equilibrium_cell_alone_fit_games_of() -> Finding:
    other = DILEMMA.clone()
    other[0, 0, 1] = 5.0
    games = {"dilemma": DILEMMA, "other": other, "hunt": HUNT}
    only = [((1, 1), (1, 1))]
    losses = [likelihood(r, only, torch.tensor([0.5], dtype=torch.float64)) for game in games.values() for r in game]
    found = {name: equilibria(game) for name, game in games.items()}
    apart = found["dilemma"] != found["other"] and found["dilemma"] != found["hunt"]
    # A deviation of one player tells the first two apart.
    more = [((1, 1), (0, 1)), ((0, 1), (1, 1))]
    truth = torch.sigmoid(torch.stack([DILEMMA[0][a] - DILEMMA[0][b] for a, b in more]))
    told = likelihood(other[0], more, truth) - likelihood(DILEMMA[0], more, truth)
    return Finding(max(losses) - min(losses) == 0 and apart and told > 0.1, say(losses=losses, loss_told_apart=told))


def mixed(game: Game) -> tuple[Tensor, Tensor]:
    """The mixed equilibrium of a game of two actions each: each makes the other indifferent."""
    ours, theirs = game
    second = (ours[1, 1] - ours[0, 1]) / (ours[0, 0] - ours[0, 1] - ours[1, 0] + ours[1, 1])
    first = (theirs[1, 1] - theirs[1, 0]) / (theirs[0, 0] - theirs[0, 1] - theirs[1, 0] + theirs[1, 1])
    chances = torch.stack([first, second]).clamp(0, 1)
    return torch.stack([chances[0], 1 - chances[0]]), torch.stack([chances[1], 1 - chances[1]])


PENNIES: Game = torch.tensor([[[1.0, -0.5], [-1.0, 1.0]], [[-1.0, 0.5], [1.0, -0.3]]], dtype=torch.float64)
"""Matching pennies of unequal stakes: its only equilibrium mixes, and deviations from it reach every cell."""


def recovered(game: Game, count: int, key: Key) -> Game:
    """Rewards fitted by maximum likelihood to `count` sampled preferences of each player between cells."""
    fitted = torch.zeros_like(game)
    for player, reward in enumerate(game):
        value = reward.flatten().numpy()
        # How often each cell was shown against each other, and preferred.
        shown = key.derive(player, "shown").numpy().multinomial(count, np.full(16, 1 / 16)).reshape(4, 4)
        chances = 1 / (1 + np.exp(value[None, :] - value[:, None]))
        wins = key.derive(player, "wins").numpy().binomial(shown, chances)
        theta = np.zeros(4)
        for _ in range(30):
            chance = 1 / (1 + np.exp(theta[None, :] - theta[:, None]))
            pull, bend = shown * chance - wins, shown * chance * (1 - chance)
            slope = pull.sum(1) - pull.sum(0) + 1e-6 * theta
            both = bend + bend.T
            theta = theta - np.linalg.solve(np.diag(both.sum(1)) - both + 1e-6 * np.eye(4), slope)
        fitted[player] = torch.from_numpy(theta).reshape(2, 2)
    return fitted


@claim("With all unilateral deviations the recovered equilibrium's Nash gap falls like 1/sqrt(N).")
def with_all_unilateral_deviations_the_recovered_equilibriums_nash() -> Finding:
    sizes = (1000, 4000, 16000, 64000)
    gaps = [
        fmean(nash_gap(PENNIES, *mixed(recovered(PENNIES, n, Key.of(seed).derive("pennies", n)))) for seed in range(24))
        for n in sizes
    ]
    slope = float(np.polyfit(np.log(sizes), np.log(gaps), 1)[0])
    start = nash_gap(PENNIES, *mixed(PENNIES))
    return Finding(-0.65 < slope < -0.35 and start < EXACT, say(slope=slope, gap_at_1000=gaps[0], at_64000=gaps[-1]))


@claim("What the data never show is guessed at; the clone's log-prob keeps the recovered equilibrium where they are.")
def what_the_data_never_show_is_guessed_at_the_clones_log_prob() -> Finding:
    size = 4
    kept: list[float] = []
    strayed: list[float] = []
    for seed in range(20):
        draw = Key.of(seed).derive("pessimism").numpy()
        game = torch.from_numpy(draw.uniform(-1, 0, (2, size, size)))
        game[:, 0, 0] = 0.5
        shown = np.zeros((size, size))
        shown[0, :] = shown[:, 0] = 1
        # Fitted to the cells that are shown; of the others a network says anything.
        seen, guess = torch.from_numpy(shown).bool(), torch.from_numpy(draw.normal(size=(2, size, size)))
        reference = torch.from_numpy(np.log((shown + 1e-3) / (shown + 1e-3).sum()))
        for b, found in ((1.0, kept), (0.0, strayed)):
            # The best cell for both, checked to be an equilibrium of the true game.
            cell = int((torch.where(seen, game, guess) + b * reference).sum(0).argmax())
            found.append(float(divmod(cell, size) in equilibria(game)))
    return Finding(
        fmean(kept) == 1 and fmean(strayed) < 0.3, say(an_equilibrium_with=fmean(kept), without=fmean(strayed))
    )


# ---------------------------------------------------------------- the reward of every step


def trajectories(count: int, key: Key, longest: int = 6) -> Batch:
    """Pairs of unequal lengths, read at every decision."""
    draw, played = key.numpy(), []
    for number in range(count):
        for sample in range(2):
            turn = Turn("a", "policy", np.array([1]), draw.integers(0, 9, draw.integers(1, longest)))
            scores = {"preference": Score(1.0 - sample)}
            played.append(Trajectory(Scenario(str(number)), [turn], sample, scores=scores))
    batch = WeightedSum()(pack(played), {})
    return batch.but(occurrences=MARLHF.credit(batch))


@claim("Its loss is that of the formula: preferences of sums, and alpha times the mean squared change over time.")
def its_loss_is_that_of_the_formula_preferences_of_sums_and_alpha() -> Finding:
    gaps = []
    for seed in range(3):
        batch = trajectories(7, Key.of(seed).derive("formula"))
        scores = torch.from_numpy(Key.of(seed).derive("scores").numpy().normal(size=(batch.decisions, 1)))
        ends = np.cumsum([0, *batch.lengths().tolist()])
        rows = [scores[a:b, 0].tolist() for a, b in pairwise(ends)]
        assert batch.occurrences.pairs is not None
        pairs = batch.occurrences.pairs.tolist()
        bt = fmean(math.log1p(math.exp(sum(rows[w]) - sum(rows[b]))) for b, w in pairs)
        long = [row for row in rows if len(row) > 1]
        smooth = fmean(fmean((b - a) ** 2 for a, b in pairwise(row)) for row in long)
        now = Evaluation(logp=torch.zeros(batch.decisions), score=scores)
        found = sum(float(term.total()) for term in MARLHF.loss(now, batch))
        gaps.append(abs(found - (bt + 0.1 * smooth)))
        gaps.append(abs(float(SmoothScores(alpha=0.3)(now, batch).metrics["scores/change"]) - math.sqrt(smooth)))
    return below(EXACT, off=max(gaps))


SPREAD, STEPS = 8, 16
"""Two agents on a line of cells, and how long they walk."""


def walks(count: int, key: Key) -> tuple[np.ndarray, np.ndarray]:
    """Joint places `[count, STEPS]` of random walks, and every step's true reward: minus the landmarks' distances."""
    draw = key.numpy()
    places, rewards = np.zeros((count, STEPS), np.int64), np.zeros((count, STEPS))
    for row in range(count):
        at = draw.integers(0, SPREAD, 2)
        for step in range(STEPS):
            at = np.clip(at + draw.integers(-1, 2, 2), 0, SPREAD - 1)
            places[row, step] = at[0] * SPREAD + at[1]
            rewards[row, step] = -sum(min(abs(at - mark)) for mark in (1, SPREAD - 2))
    return places, rewards


def correlation(alpha: float, seed: int, pairs: int = 60) -> float:
    """Of learnt and true step rewards on fresh walks, a table of rewards fitted by the library's loss."""
    key = Key.of(seed).derive("spread")
    places, rewards = walks(2 * pairs, key.derive("train"))
    truth = rewards.sum(1)
    better = key.derive("labels").numpy().random(pairs) < 1 / (1 + np.exp(truth[1::2] - truth[::2]))
    played = []
    for row in range(2 * pairs):
        won = float(better[row // 2] == (row % 2 == 0))
        turn = Turn("a", "policy", np.array([1]), places[row])
        played.append(Trajectory(Scenario(str(row // 2)), [turn], row % 2, scores={"preference": Score(won)}))
    batch = WeightedSum()(pack(played), {})
    batch = batch.but(occurrences=MARLHF.credit(batch))
    objective, smooth = MARLHF.objective, SmoothScores(alpha=alpha)
    table = torch.zeros(SPREAD * SPREAD, dtype=torch.float64, requires_grad=True)
    solver = torch.optim.Adam([table], lr=0.05)
    for _ in range(200):
        solver.zero_grad()
        now = Evaluation(logp=torch.zeros(batch.decisions), score=table[batch.action.long()][:, None])
        loss = objective(now, batch).total() + smooth(now, batch).total() + 1e-3 * table.square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        solver.step()
    fresh, wanted = walks(50, key.derive("fresh"))
    return float(np.corrcoef(table.detach().numpy()[fresh].ravel(), wanted.ravel())[0, 1])


@claim(
    "On two agents that spread out over landmarks the smoothness term raises the correlation with true step rewards.",
    slow=True,
)
def on_two_agents_that_spread_out_over_landmarks_the_smoothness() -> Finding:
    with_it, without = ([correlation(alpha, seed) for seed in range(5)] for alpha in (1.0, 0.0))
    more = [one - other for one, other in zip(with_it, without, strict=True)]
    return Finding(fmean(more) > 0.03 and min(more) > 0, say(with_smoothness=with_it, without=without))


# ---------------------------------------------------------------- pessimism


@claim("The bonus adds b log pi_ref to every decision, and the credit is leave-one-out of what each agent then earns.")
def the_bonus_adds_b_log_pi_ref_to_every_decision_and_the_credit_is() -> Finding:
    rows = [
        {"group": "g", "scores": {"reward": 1.0}, "logp": [-1.0, -2.0], "logp_ref": [-0.5, -3.0]},
        {"group": "g", "scores": {"reward": 0.0}, "logp": [-1.5], "logp_ref": [-2.0]},
    ]
    found = inspect_rows(MARLHF_POLICY, rows)["advantages"]
    whole = (1.0 + 0.05 * -3.5) - 0.05 * -2.0
    return below(EXACT, off=gap(found, [[whole, whole], [-whole]]))


@claim("Of two agents each earns the episode's reward and the bonus of its own decisions, and is compared with itself.")
def of_two_agents_each_earns_the_episodes_reward_and_the_bonus_of() -> Finding:
    draw = Key.of(0).derive("two agents").numpy()
    rows, earned = list[dict[str, Any]](), list[tuple[float, float]]()
    for mine, theirs in ((1, 2), (3, 1), (2, 2)):
        told, reward = (-draw.exponential(size=mine + theirs)).tolist(), float(draw.normal())
        rows.append(
            {"group": "g", "scores": {"reward": reward}, "logp": [-1.0] * (mine + theirs), "logp_ref": told}
            | {"turn": [0] * mine + [1] * theirs, "agent": ["a", "b"]}
        )
        earned.append((reward + 0.05 * sum(told[:mine]), reward + 0.05 * sum(told[mine:])))
    wanted = []
    for number, row in enumerate(rows):
        others = [one for place, one in enumerate(earned) if place != number]
        above = [earned[number][agent] - fmean(one[agent] for one in others) for agent in (0, 1)]
        wanted.append([above[agent] for agent in row["turn"]])
    return below(EXACT, off=gap(inspect_rows(MARLHF_POLICY, rows)["advantages"], wanted))


@claim(
    "It ships with alpha = 0.1 on the scores of all decisions of recorded pairs, b = 0.05 and RLOO's credit per role."
)
def it_ships_with_alpha_0_1_on_the_scores_of_all_decisions_of() -> Finding:
    fitted = MARLHF.credit == ReadAt(AllPairs(), where="decisions")
    fitted = fitted and MARLHF.regularisers == (SmoothScores(alpha=0.1),)
    played = MARLHF_POLICY.shaping == (ReferenceBonus(b=0.05),)
    played = played and MARLHF_POLICY.credit == EachAgent(RLOO.credit, by="role")
    return Finding(fitted and played, say(reward_model=fitted, policy=played))


claim.shipped(MARLHF, "credit", "regularisers")
claim.shipped(MARLHF_POLICY, "shaping")
