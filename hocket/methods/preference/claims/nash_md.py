"""Nash-MD's claims."""

import torch
from torch import Tensor

from hocket.core.signals import returns
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.harness import below, gap, say
from hocket.lab.toys.games import CYCLE, UNEVEN, GameBandit, regularised_gap, rule_of
from hocket.methods.preference.nash_md import NASH_MD, MixtureWins, shares_against
from hocket.methods.preference.spo_minimax import SPO_MINIMAX
from hocket.recipe import Recipe
from hocket.rewards.shaping import KLInReward

claim = Claims("nash-md", "arXiv:2312.00886")
REFERENCE = torch.log_softmax(torch.tensor([0.4, -0.3, 0.1], dtype=torch.float64), -1)
SHARE = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)


def on(matrix: Tensor, mixture: float, tau: float = 0.1) -> Recipe:
    return NASH_MD.but({"shaping": (MixtureWins(mixture=mixture), KLInReward(coefficient=tau, estimator="k1"))}).but(
        {"shaping.0.wins.rule": rule_of(matrix)}
    )


def worth(recipe: Recipe, copies: tuple[int, ...]) -> Tensor:
    """What the shaping makes of the return of each answer, in samples in these proportions."""
    bandit = GameBandit((0, 0, 0), SHARE.log(), REFERENCE, copies)
    value, answers = returns(bandit.batch(recipe)), bandit.answers()
    return torch.stack([value[answers == answer].mean() for answer in range(3)])


def mixed(policy: Tensor, mixture: float, reference: Tensor = REFERENCE) -> Tensor:
    """pi^(1-m) ref^m, normalised."""
    return torch.softmax((1 - mixture) * policy.log() + mixture * reference, 0)


@claim("Its reward is the win rate against the geometric mixture less 1/2; the error falls with the samples.")
def its_reward_is_the_win_rate_against_the_geometric_mixture_less_1() -> Finding:
    wanted = UNEVEN @ mixed(SHARE, 0.5) - 0.5
    few, many = (gap(worth(on(UNEVEN, 0.5, 0.0), tuple(n * k for n in (2, 3, 5))), wanted) for k in (4, 16))
    return Finding(many < 0.3 * few and many < 5e-3, say(of_40=few, of_160=many))


@claim("The reference wins a share of the opponent: at 0 it is self-play, at 1 the reference alone.", "derived")
def the_reference_wins_a_share_of_the_opponent_at_0_it_is_self_play() -> Finding:
    bandit = GameBandit((0, 0, 0), SHARE.log(), REFERENCE, (2, 3, 5))
    own = returns(bandit.batch(on(UNEVEN, 0.0, 0.0))) + 0.5
    spo = returns(bandit.batch(SPO_MINIMAX.but({"shaping.0.wins.rule": rule_of(UNEVEN)})))
    far = gap(worth(on(UNEVEN, 1.0, 0.0), (40, 60, 100)), UNEVEN @ REFERENCE.exp() - 0.5)
    return Finding(gap(own, spo) < 1e-12 and far < 5e-3, say(self_play=gap(own, spo), reference=far))


@claim("A sample's gradient is -(P - 1/2 - tau log pi/ref) grad log pi, over the samples.", "derived")
def a_samples_gradient_is_grad_log_pi_over_the_samples() -> Finding:
    copies, recipe = (2, 3, 5), on(UNEVEN, 0.5)
    bandit = GameBandit((0, 0, 0), SHARE.log(), REFERENCE, copies)
    logits = SHARE.log().clone().requires_grad_()
    (found,) = torch.autograd.grad(bandit.loss(recipe, logits, bandit.batch(recipe)), logits)
    answers, wanted = bandit.answers().tolist(), torch.zeros(3, dtype=torch.float64)
    for number, i in enumerate(answers):
        rivals = [(float((REFERENCE[j] - SHARE[j].log()) / 2), j) for n, j in enumerate(answers) if n != number]
        weight = torch.tensor([one for one, _ in rivals], dtype=torch.float64).exp()
        won = float((weight * torch.stack([UNEVEN[i, j] for _, j in rivals])).sum() / weight.sum())
        score = won - 0.5 - 0.1 * float(SHARE[i].log() - REFERENCE[i])
        wanted -= score * (torch.eye(3, dtype=torch.float64)[i] - SHARE) / len(answers)
    return below(1e-12, off=gap(found, wanted))


def flow(matrix: Tensor, mixture: float, reference: Tensor, tau: float, rate: float, steps: int) -> float:
    """The regularised duality gap after steps of its expected gradient, natural as mirror descent takes it."""
    policy = torch.softmax(torch.tensor([1.0, 0.0, -1.0], dtype=torch.float64), -1)
    for _ in range(steps):
        score = matrix @ mixed(policy, mixture, reference) - tau * (policy.log() - reference)
        policy = torch.softmax(policy.log() + rate * score, 0)
    return regularised_gap(matrix, policy, reference.exp(), tau)


@claim("On a strong cycle the mixture calms steps at which self-play circles.")
def on_a_strong_cycle_the_mixture_calms_steps_at_which_self_play() -> Finding:
    flat = torch.full((3,), 1 / 3, dtype=torch.float64).log()
    calm, wild = (flow(CYCLE, mixture, flat, tau=0.02, rate=1.5, steps=1500) for mixture in (0.5, 0.0))
    return Finding(calm < 1e-6 and wild > 1e-2, say(mixture_05=calm, self_play=wild))


@claim(
    "Its fixed point is off the regularised game's equilibrium by what the mixture adds, and near it for a small one."
)
def its_fixed_point_is_off_the_regularised_games_equilibrium_by() -> Finding:
    gaps = [flow(UNEVEN, mixture, REFERENCE, tau=0.3, rate=0.3, steps=4000) for mixture in (0.5, 0.125, 0.02)]
    falls = gaps[0] > 10 * gaps[1] > 100 * gaps[2] and gaps[2] < 1e-5
    return Finding(falls, say(of_05=gaps[0], of_0125=gaps[1], of_002=gaps[2]))


@claim("As shipped the mixture is half and half and tau 0.1; an answer without others ties.")
def as_shipped_the_mixture_is_half_and_half_and_tau_0_1_an_answer() -> Finding:
    recipe = NASH_MD.but({"shaping.0.wins.rule": rule_of(UNEVEN)})
    bandit = GameBandit((0, 0, 0), SHARE.log(), REFERENCE, (1, 1, 1))
    found, wanted = returns(bandit.batch(recipe)), []
    for i in range(3):
        weight = {j: float(((REFERENCE[j] - SHARE[j].log()) / 2).exp()) for j in range(3) if j != i}
        won = sum(one * float(UNEVEN[i, j]) for j, one in weight.items()) / sum(weight.values())
        wanted.append(won - 0.5 - 0.1 * float(SHARE[i].log() - REFERENCE[i]))
    half, none = torch.full((1, 1), 0.5, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    return below(1e-12, off=gap(found, wanted), alone=gap(shares_against(half, none), [0.5]))


claim.shipped(NASH_MD, "shaping", settings={"curriculum.prompts": 4})
