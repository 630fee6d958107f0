"""Recipes against an independent float64 computation, on random documents."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from oracle import reference as by
from oracle.documents import document

from hocket.lab.microscope import inspect
from hocket.recipes import find

ORACLES: dict[str, by.Oracle] = {
    "grpo": by.grpo,
    "two-grpo": partial(by.grpo, ddof=0),
    "grpo-kl": by.with_kl(0.04),
    "grpo-iterative": by.with_kl(0.04),
    "hrpo": by.with_kl(0.005),
    "othink-mr1": lambda b: by.with_kl(0.04 * b.progress)(b),
    "multi-objective-grpo": by.grpo,
    "sfpo": by.grpo,
    "dr-grpo": by.dr_grpo,
    "loop": by.loop,
    "mapo": by.mapo,
    "bnpo": by.bnpo,
    "ngrpo": by.ngrpo,
    "s-grpo-noise": by.s_grpo_noise,
    "seed-grpo": by.seed_grpo,
    "gpg": by.gpg,
    "gmpo": by.gmpo,
    "gvpo": by.gvpo,
    "nft": by.nft,
    "disco": by.disco,
    "trpa": by.trpa,
    "bapo": by.bapo,
    "kimi-k1-5": by.kimi,
    "deepvideo-r1": by.deepvideo,
    "lens": by.lens,
    "unlikeliness-reward": by.unlikeliness,
    "edge-grpo": by.edge,
    "fc-entropy-grpo": by.fc_entropy,
    "gtpo-trajectory": by.gtpo,
    "vital-dgrpo": by.vital,
    "noisy-verifier-correction": by.noisy_backward,
    "noisy-verifier-forward": by.noisy_forward,
    "noisy-verifier-appeals": partial(by.noisy_forward, rho1=0.0),
    "tempsamp-r1": by.tempsamp,
    "grpo-lead": by.grpo_lead,
    "conciser": by.conciser,
    "otc": by.otc,
    "dra-grpo": by.dra,
    "ttrv": by.ttrv,
    "rec-reinforce": by.rec_reinforce,
    "rec-asymre": by.rec_asymre,
    "rec-one-side": by.rec_one_side,
    "rec-one-side-is": partial(by.rec_one_side, weighted=True),
    "rec-opmd": by.rec_opmd,
    "rec-weight": by.rec_weight,
    "spo": by.actor_critic(by.spo_term),
    "mdpo": by.actor_critic(by.mdpo_term),
    "discovered-policy-optimisation": by.actor_critic(by.dpo_term),
    "trpo": by.actor_critic(by.trpo_term),
    "ppo": by.actor_critic(by.ppo_term),
    "ppo-rlhf": by.actor_critic(by.ppo_term, by.charged(0.02)),
    "nlpo": by.actor_critic(by.ppo_term, by.charged(0.1)),
}
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "graded": {"grades": "graded"},
    "masks": {"masks": True},
    "far": {"gap": 40.0},
    "one decision": {"longest": 1},
    "turns": {"turns": True},
    "late": {"state": {"progress": 0.6, "step": 30}},
    "one group": {"groups": 1},
}
# Corrections of these reach only what a trajectory earned as a whole; imposed tokens break GTPO's runs.
LEFT_OUT = {
    ("unlikeliness-reward", "turns"),
    ("lens", "turns"),
    ("noisy-verifier-correction", "turns"),
    ("noisy-verifier-forward", "turns"),
    ("noisy-verifier-appeals", "turns"),
    ("gtpo-trajectory", "masks"),
}


def agrees(recipe: Any, given: dict[str, Any], oracle: by.Oracle) -> None:
    b = by.Recorded(given)
    printed = inspect(recipe, given)
    said = oracle(b)
    value, gradient = by.value_and_gradient(said.loss, b.logp)
    if said.advantages:
        live = [
            [np.asarray(x)[m] for x, m in zip(z, b.trained, strict=True)]
            for z in (printed["advantages"], said.advantages)
        ]
        assert by.gap(*live) < 1e-9, "advantages"
    assert printed["loss"] == pytest.approx(value, rel=1e-9, abs=1e-9)
    assert by.gap(printed["gradient"], gradient) < 1e-9, "gradient"
    assert printed["kept"] == [any(w) for w in printed["weight"]]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ORACLES)
def test_formula(name: str, case: str) -> None:
    if (name, case) in LEFT_OUT:
        pytest.skip("the conventions do not settle it")
    for seed in range(3):
        agrees(find(name), document(seed, **CASES[case]), ORACLES[name])


SETTINGS: list[tuple[str, dict[str, Any], by.Oracle]] = [
    ("grpo", {"credit.ddof": 0}, partial(by.grpo, ddof=0)),
    ("grpo", {"credit.epsilon": 0.1}, partial(by.grpo, epsilon=0.1)),
    ("grpo", {"credit.scale": None}, by.mean_centred),
    ("grpo", {"credit.scale": None, "credit.leave_one_out": True}, by.loop),
    ("grpo", {"credit.virtual": [2.0], "objective.low": 0.16, "objective.high": 0.24}, partial(by.ngrpo, largest=2.0)),
    ("grpo", {"objective.low": 0.05, "objective.high": 0.4}, partial(by.grpo, low=0.05, high=0.4)),
    ("grpo", {"objective.aggregate": "token-mean"}, partial(by.grpo, mean="token_mean")),
    ("grpo", {"objective.aggregate": "sequence-sum"}, partial(by.grpo, mean="sequence_sum")),
    ("grpo", {"objective.aggregate": "constant-length"}, partial(by.grpo, mean="constant_length")),
    ("grpo-kl", {"regularisers.0.coefficient": 0.5}, by.with_kl(0.5)),
    ("ngrpo", {"credit.virtual": [3.0]}, partial(by.ngrpo, largest=3.0)),
    ("mapo", {"credit.weigh.0.ddof": 0}, partial(by.mapo, ddof=0)),
    (
        "bnpo",
        {"credit.credit.weigh.0.alpha": 1.5, "credit.credit.weigh.0.beta": 1.5},
        partial(by.bnpo, fixed=(1.5, 1.5)),
    ),
    ("s-grpo-noise", {"credit.weigh.0.flip": 0.3}, partial(by.s_grpo_noise, flip=0.3)),
    ("seed-grpo", {"credit.weigh.0.alpha": 0.7}, partial(by.seed_grpo, alpha=0.7)),
    ("gpg", {"credit.scale": "std"}, partial(by.gpg, rule=by.standardised)),
    ("gmpo", {"objective.low": 0.1, "objective.high": 0.1}, partial(by.gmpo, bound=0.1)),
    ("gvpo", {"objective.temperature": 0.7}, partial(by.gvpo, beta=0.7)),
    ("gvpo", {"objective.against": "old"}, partial(by.gvpo, old=True)),
    ("nft", {"objective.prompts": "deviation"}, partial(by.nft, prompts="deviation")),
    ("nft", {"objective.floor": 0.1}, partial(by.nft, floor=0.1)),
    ("disco", {"objective.temperature": None}, partial(by.disco, tau=None)),
    ("disco", {"objective.temperature": 0.5}, partial(by.disco, tau=0.5)),
    (
        "disco",
        {"regularisers.0.radius": 0.01, "regularisers.0.coefficient": 2.0},
        partial(by.disco, radius=0.01, beta=2.0),
    ),
    ("trpa", {"regularisers.0.root": 0.25}, partial(by.trpa, root=0.25)),
    ("trpa", {"objective.beta": 1.0, "objective.top": 1.0}, partial(by.trpa, beta=1.0, top=1.0)),
    ("kimi-k1-5", {"objective.temperature": 0.9}, partial(by.kimi, tau=0.9)),
    ("deepvideo-r1", {"objective.temperature": 0.5}, partial(by.deepvideo, scale=0.5)),
    ("lens", {"shaping.0.limit": 0.3}, partial(by.lens, limit=0.3)),
    ("lens", {"shaping.0.limit": None, "shaping.0.difficulty": 1.0}, partial(by.lens, limit=None, difficulty=1.0)),
    ("lens", {"shaping.0.confidence": "sequence"}, partial(by.lens, whole=True)),
    ("unlikeliness-reward", {"shaping.0.beta": 0.9}, partial(by.unlikeliness, beta=0.9)),
    ("edge-grpo", {"credit.low": 0.9, "credit.high": 1.1}, partial(by.edge, low=0.9, high=1.1)),
    ("fc-entropy-grpo", {"credit.gain": 2.0, "credit.share": 0.2}, partial(by.fc_entropy, gain=2.0, share=0.2)),
    ("vital-dgrpo", {"credit.weigh.0.strength": 3.0}, partial(by.vital, strength=3.0)),
    (
        "noisy-verifier-correction",
        {"shaping.0.false_positive": 0.2, "shaping.0.false_negative": 0.05},
        partial(by.noisy_backward, rho0=0.2, rho1=0.05),
    ),
    ("noisy-verifier-forward", {"shaping.0.false_negative": 0.3}, partial(by.noisy_forward, rho1=0.3)),
    ("tempsamp-r1", {"shaping.0.threshold": 0.5, "shaping.0.above": 0.2}, partial(by.tempsamp, t=0.5, above=0.2)),
    ("grpo-lead", {"shaping.0.alpha": 0.5}, partial(by.grpo_lead, alpha=0.5)),
    ("conciser", {"shaping.0.limit": 10}, partial(by.conciser, limit=10)),
    ("otc", {"shaping.0.smooth": 1.0}, partial(by.otc, smooth=1.0)),
    ("dra-grpo", {"shaping.0.nonnegative": False}, partial(by.dra, nonnegative=False)),
    ("ttrv", {"shaping.0.vote": "majority"}, partial(by.ttrv, majority=True)),
    ("rec-asymre", {"correction.shift": 0.5}, partial(by.rec_asymre, shift=0.5)),
    ("rec-weight", {"correction.temperature": 0.2}, partial(by.rec_weight, temperature=0.2)),
    ("rec-opmd", {"regularisers.0.coefficient": 0.4}, partial(by.rec_opmd, half=0.4)),
]


@pytest.mark.parametrize(("name", "changes", "oracle"), SETTINGS, ids=[f"{n} {c}" for n, c, _ in SETTINGS])
def test_setting(name: str, changes: dict[str, Any], oracle: by.Oracle) -> None:
    for seed in range(3):
        agrees(find(name).but(changes), document(seed), oracle)
