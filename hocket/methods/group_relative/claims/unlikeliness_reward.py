"""What unlikeliness-reward claims."""

from __future__ import annotations

import torch
from torch import Tensor

from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import look
from hocket.lab.policy import Tabular
from hocket.lab.toys.token_weights import SEEDS, chances, document, drawn, same, sample, shown, spread, trained
from hocket.lab.world import World
from hocket.recipes import find

claim = Claims("unlikeliness-reward", "arXiv 2506.02355, section 4")


UNLIKELY = find("unlikeliness-reward")


@claim("Of two right samples the less likely one gains more, wrong ones stay alike.")
def rare_gains_more() -> Finding:
    """Two right samples of different likelihood, by hand."""
    rows = document(
        sample("a", 1.0, [-0.5, -0.5]),
        sample("a", 1.0, [-3.0]),
        sample("a", 0.0, [-0.1]),
        sample("a", 0.0, [-5.0, -5.0]),
    )
    likely, rare, *wrong = spread(look(UNLIKELY, rows)["advantages"])
    # Ranks 2, 1, 3, 0 of G = 4: rewards 1 - 0.25 * 2/4 and 1 - 0.25 * 1/4.
    reward = torch.tensor([0.875, 0.9375, 0.0, 0.0], dtype=torch.float64)
    expected = ((reward - reward.mean()) / (reward.std() + 1e-6)).tolist()
    holds = rare > likely > 0 and wrong[0] == wrong[1] and same([likely, rare, *wrong], expected)
    return Finding(
        holds, f"advantages likely {likely:.4f}, rare {rare:.4f}, wrong {shown(wrong)}, by hand {shown(expected)}"
    )


@claim("With beta = 0 it is GRPO.", "derived")
def no_unlikeliness_is_grpo() -> Finding:
    """Gradients with beta = 0."""
    plain = UNLIKELY.but({"shaping.0.beta": 0.0})
    equal = [look(plain, drawn(seed))["gradient"] == look(find("grpo"), drawn(seed))["gradient"] for seed in range(20)]
    return Finding(all(equal), f"gradients equal to the bit on {sum(equal)} of {len(equal)} batches")


MODES = (0.55, 0.2, 0.04, 0.01, 0.1, 0.1)
"""Four right modes of very different probability, two wrong ones."""


def pass_at(chance: Tensor, tries: int) -> float:
    """The mean over problems, each solved by one mode, of the chance that one of `tries` samples solves it."""
    return float((1 - (1 - chance) ** tries).mean())


@claim(
    "pass@N for large N does not fall below the base's, while GRPO's does although its pass@1 is higher.",
    "arXiv 2506.02355, figure 1",
    slow=True,
)
def rare_modes_survive() -> Finding:
    """pass@N after training on one reward with four right modes."""
    world = World(questions=1, tokens=6, horizon=1, reward=lambda question, answer: float(answer[0] < 4))

    def start(policy: Tabular) -> None:
        policy.logits[:] = torch.tensor(MODES, dtype=torch.float64).log()

    base = torch.tensor(MODES[:4], dtype=torch.float64)
    before = pass_at(base, 64)
    after: dict[str, list[tuple[float, float]]] = {}
    for name in ("grpo", "unlikeliness-reward"):
        recipe = find(name).but({"rollout.samples": 16})
        runs = [chances(trained(Bench(world, recipe, seed=seed, start=start), 200))[:4] for seed in SEEDS]
        after[name] = [(pass_at(run, 1), pass_at(run, 64)) for run in runs]
    ours, grpo = after["unlikeliness-reward"], after["grpo"]
    holds = all(many >= before for _, many in ours) and all(one > 0.2 and many < before for one, many in grpo)
    return Finding(
        holds,
        f"problems each solved by one of four modes: pass@64 {before:.3f} before, GRPO {shown([m for _, m in grpo])}, "
        f"the unlikeliness reward {shown([m for _, m in ours])}; pass@1 from 0.2, GRPO {shown([o for o, _ in grpo])}",
    )
