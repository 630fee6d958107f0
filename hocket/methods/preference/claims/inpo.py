"""INPO's claims."""

import torch

from hocket.lab.bandit import minimised
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.harness import below, gap, same_gradient, say
from hocket.lab.toys.games import CYCLE, GameBandit, random_game, regularised_gap, rule_of
from hocket.methods.base.dpo import ONLINE_DPO
from hocket.methods.preference.inpo import INPO
from hocket.objectives.measures import LogRatio
from hocket.recipe import Recipe

claim = Claims("inpo", "arXiv:2407.00617")
FLAT = torch.full((3,), 1 / 3, dtype=torch.float64).log()


def recipe_on(matrix: torch.Tensor, eta: float, tau: float) -> Recipe:
    return INPO.but(
        {"shaping.0.wins.rule": rule_of(matrix), "objective.beta": eta, "objective.measure.old": 1 - tau / eta}
    )


def mirror(matrix: torch.Tensor, old: torch.Tensor, reference: torch.Tensor, eta: float, tau: float) -> torch.Tensor:
    """ref^(tau/eta) pi_t^(1-tau/eta) exp(P(y > pi_t)/eta), normalised, from log-probs; the log of it."""
    logits = tau / eta * reference + (1 - tau / eta) * old + (matrix @ old.exp()) / eta
    return torch.log_softmax(logits, -1)


@claim("The minimum of its loss over samples of pi_t is the mirror step in closed form.")
def the_minimum_of_its_loss_over_samples_of_pi_t_is_the_mirror_step() -> Finding:
    copies, gaps = (2, 3, 5), []
    share = torch.tensor(copies, dtype=torch.float64) / 10
    for number in range(5):
        matrix = random_game(3, number)
        reference = torch.log_softmax(torch.tensor([0.3, -0.5, number / 5], dtype=torch.float64), -1)
        recipe = recipe_on(matrix, eta=0.6, tau=0.2)
        bandit = GameBandit((0, 0, 0), share.log(), reference, copies)
        found = bandit.minimise(recipe)
        gaps.append(gap(found, mirror(matrix, share.log(), reference, 0.6, 0.2).exp()))
    return below(1e-6, largest_distance=max(gaps))


@claim("As shipped the step is that of eta = 0.1 and of tau a third of it.", "derived")
def as_shipped_the_step_is_that_of_eta_0_1_and_of_tau_a_third_of_it() -> Finding:
    share = torch.tensor((2, 3, 5), dtype=torch.float64) / 10
    reference = torch.log_softmax(torch.tensor([0.3, -0.5, 0.2], dtype=torch.float64), -1)
    matrix = 0.5 + (random_game(3, "shipped") - 0.5) / 10  # Small, so that no answer dies out at so large a step.
    recipe = INPO.but({"shaping.0.wins.rule": rule_of(matrix)})
    found = GameBandit((0, 0, 0), share.log(), reference, (2, 3, 5)).minimise(recipe)
    return below(1e-6, distance=gap(found, mirror(matrix, share.log(), reference, 0.1, 0.1 / 3).exp()))


@claim("With tau = eta it is online IPO: the policy that sampled is no anchor.", "derived")
def with_tau_eta_it_is_online_ipo_the_policy_that_sampled_is_no() -> Finding:
    ours = INPO.but({"objective.measure.old": 0.0})
    ipo = ONLINE_DPO.but(
        {"shaping": INPO.shaping, "credit": INPO.credit, "objective.link": INPO.objective.link}  # type: ignore[attr-defined]
    )
    return same_gradient(ours, ipo)


@claim("A pair's gradient is that of (h - (2P - 1)/(2 eta))^2.", "derived")
def a_pairs_gradient_is_that_of_2() -> Finding:
    matrix = random_game(3, "targets")
    recipe = recipe_on(matrix, eta=0.5, tau=0.1)
    reference = torch.log_softmax(torch.tensor([0.2, 0.1, -0.4], dtype=torch.float64), -1)
    bandit = GameBandit((0, 0, 0), FLAT, reference, (1, 1, 1))
    logits = torch.tensor([0.7, -0.2, 0.4], dtype=torch.float64).requires_grad_()
    bandit.loss(recipe, logits, bandit.batch(recipe)).backward()  # type: ignore[no-untyped-call]
    again = logits.detach().clone().requires_grad_()
    d = torch.log_softmax(again, -1) - 0.2 * reference - 0.8 * FLAT
    pairs = [(0, 1), (0, 2), (1, 2)]
    loss = sum((d[i] - d[j] - (2 * matrix[i, j] - 1) / (2 * 0.5)) ** 2 for i, j in pairs) / 3
    assert isinstance(loss, torch.Tensor)
    loss.backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert again.grad is not None
    return below(1e-10, off=gap(logits.grad, again.grad))


def rounds(matrix: torch.Tensor, eta: float, tau: float, count: int) -> list[float]:
    """The duality gap of the regularised game after each round of exact mirror steps, from an uneven start."""
    reference = FLAT
    policy, gaps = torch.log_softmax(torch.tensor([1.0, 0.0, -1.0], dtype=torch.float64), -1), []
    for _ in range(count):
        policy = mirror(matrix, policy, reference, eta, tau)
        gaps.append(regularised_gap(matrix, policy.exp(), reference.exp(), tau))
    return gaps


@claim("On a strong cycle the last iterate converges for eta well above tau, and circles for less.")
def on_a_strong_cycle_the_last_iterate_converges_for_eta_well_above() -> Finding:
    calm, wild = rounds(CYCLE, eta=1.0, tau=0.1, count=400), rounds(CYCLE, eta=0.15, tau=0.1, count=400)
    return Finding(calm[-1] < 1e-6 and min(wild[-50:]) > 1e-2, say(eta_1=calm[-1], eta_015=min(wild[-50:])))


@claim("Rounds of its loss, each minimised, close the duality gap of the regularised game.")
def rounds_of_its_loss_each_minimised_close_the_duality_gap_of_the() -> Finding:
    """Samples in proportion to the policy to a thousandth; L-BFGS in place of steps."""
    eta, tau = 1.0, 0.3
    policy = torch.softmax(torch.tensor([1.0, 0.0, -1.0], dtype=torch.float64), -1)
    before = regularised_gap(CYCLE, policy, FLAT.exp(), tau)
    for _ in range(30):
        weight = policy[:, None] * policy

        def loss(logits: torch.Tensor, old: torch.Tensor = policy, weight: torch.Tensor = weight) -> torch.Tensor:
            logp = torch.log_softmax(logits, -1)
            h = LogRatio(old=1 - tau / eta)
            anchored = sum(share * column for share, column in zip(h.anchors.values(), (FLAT, old.log()), strict=True))
            d = logp - anchored
            return (weight * ((d[:, None] - d) - (2 * CYCLE - 1) / (2 * eta)) ** 2).sum()

        policy = minimised(loss, policy.log())
    after = regularised_gap(CYCLE, policy, FLAT.exp(), tau)
    return Finding(after < 1e-4 < before, say(before=before, after=after))


CHOSEN = "how many passes a round has is chosen here; the claims are about the minimum that they approach"
claim.spares("inpo: update = GradientStep", CHOSEN)
claim.spares("inpo: update.epochs = 160", CHOSEN)
claim.shipped(INPO, "objective", settings={"curriculum.prompts": 4})
