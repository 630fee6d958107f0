"""Sirius's claims."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hocket import tasks
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.methods.base.bc import BC
from hocket.methods.control.sirius.deployment import Person, demonstrations, deployed, joined
from hocket.methods.control.sirius.method import BEFORE, DEMONSTRATION, INTERVENTION, ROBOT, SIRIUS, weights
from hocket.recipe import Recipe
from hocket.rollout.transitions import Transitions
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import RunContext, train_step

claim = Claims("sirius", "arXiv:2211.08416")
FIRST_ROUND = Path(__file__).parent.parent / "sirius" / "first_round.npz"


@claim("After weighting each kind has its target share in total; before an intervention nothing counts.", "section 4.2")
def after_weighting_each_kind_has_its_target_share() -> Finding:
    rng, off = np.random.default_rng(0), 0.0
    for shares in ((0.2, 0.5, 0.2, 0.1), (0.1, 0.8, 0.02, 0.08), (0.5, 0.5, 0.0, 0.0), (0.7, 0.1, 0.1, 0.1)):
        kinds = rng.choice(4, p=shares, size=5000) + 1
        weight = weights(torch.from_numpy(kinds), 0.5).numpy()
        shown = float(np.mean(kinds == DEMONSTRATION))
        taken_over = min(0.5, 1 - shown) if (kinds == INTERVENTION).any() else 0.0
        target = {DEMONSTRATION: shown, INTERVENTION: taken_over, BEFORE: 0.0, ROBOT: max(1 - shown - taken_over, 0.0)}
        off = max(off, *(abs(weight[kinds == kind].sum() / 5000 - share) for kind, share in target.items()))
    return Finding(bool(off < 1e-12), say(off=off))


@claim("In a drawn batch the loss is the weighted likelihood, and rows before an intervention have no gradient.")
def the_loss_is_the_weighted_likelihood() -> Finding:
    store = Transitions(rows=64, begin=1, data=str(FIRST_ROUND))
    batch = store.draw(store.init(), 600, Key.of(0))
    credited = batch.but(occurrences=SIRIUS.credit(batch))
    kinds = batch.annotations["kind"].numpy()
    logp = torch.linspace(-3, 1, 600, dtype=torch.float64, requires_grad=True)
    loss = SIRIUS.objective(_evaluation(logp), credited).total()
    (gradient,) = torch.autograd.grad(loss, logp)
    share = {kind: float(np.mean(kinds == kind)) for kind in (1, 2, 3, 4)}
    taken_over = min(0.5, 1 - share[1])
    target = {1: share[1], 2: 1 - share[1] - taken_over, 3: taken_over, 4: 0.0}
    weight = np.array([target[kind] / share[kind] for kind in kinds.tolist()])
    expected = -(weight * logp.detach().numpy()).sum() / (weight > 0).sum()
    off = abs(float(loss.detach()) - expected)
    idle = bool((gradient.numpy()[kinds == BEFORE] == 0).all()) and (kinds == BEFORE).any()
    return Finding(off < 1e-6 and bool(idle), say(off=off, before=share[4]))


@claim(
    "After 3 rounds of deployment it needs fewer takeovers than plain cloning of its own data.", "figure 5", slow=True
)
def over_three_rounds_it_needs_fewer_takeovers_than_plain_cloning() -> Finding:
    lines = {recipe.name: np.array([rounds(recipe, seed) for seed in range(2)]) for recipe in (SIRIUS, BC)}
    takeovers = {name: line[:, :, 0].mean(0) for name, line in lines.items()}
    alone = {name: line[:, -1, 1].mean() for name, line in lines.items()}
    fewer = takeovers["sirius"][-1] < takeovers["bc"][-1] and takeovers["sirius"][-1] < takeovers["sirius"][0]
    figures = {name: str(np.round(line, 2).tolist()) for name, line in takeovers.items()}
    return Finding(
        bool(fewer and alone["sirius"] > alone["bc"]), say(**figures, alone=f"{alone['sirius']:.2f}, {alone['bc']:.2f}")
    )


def rounds(recipe: Recipe, seed: int, count: int = 3) -> list[tuple[float, float]]:
    """Takeovers an episode, and the share without any, of every round's deployment."""
    rows, takeovers_by_round = demonstrations(40, Key.of(seed)), []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count + 1):
            file = Path(folder) / f"{number}.npz"
            np.savez(file, **rows)  # type: ignore[arg-type]
            start = 1_000_000 * (seed + 1) + 100 * number
            played = deployed(trained(recipe, file, seed), list(range(start, start + 40)), person=Person())
            rows = joined(rows, played.rows)
            takeovers_by_round.append((played.takeovers, played.alone))
    return takeovers_by_round


def trained(recipe: Recipe, file: Path, seed: int, steps: int = 5) -> Callable[[NDArray[np.float32]], NDArray[Any]]:
    """A policy that `hocket train --store.data FILE` gives, which acts greedily."""
    policy: Any = _run(recipe, file, seed, steps).lead.policy

    def acts(seen: NDArray[np.float32]) -> NDArray[Any]:
        count = len(seen)
        chosen: NDArray[Any] = policy.sample(seen, np.full((count, 2), 0.5), np.zeros(count, np.float32))[0]
        return chosen

    return acts


def _run(recipe: Recipe, file: Path, seed: int, steps: int) -> RunContext:
    world = tasks.find("gates:point")
    common = {"store.data": str(file), "store.gradients_per_step": 200}
    pairs = [("task", "gates:point"), ("recipe", recipe), ("seed", seed), *common.items()]
    parts = build_parts(configure(pairs, world), world)
    for step in range(1, steps + 1):
        run_async(train_step(parts, step))
    return parts


def _evaluation(logp: torch.Tensor) -> Any:
    from hocket.types import Evaluation

    return Evaluation(logp)


claim.shipped(SIRIUS, "credit", settings={"store.data": str(FIRST_ROUND)})
