"""VAPO's claims."""

import math
from typing import Any

import torch

from hocket.core.components import value_at
from hocket.lab.claims.harness import EXACT, Claims, Finding, batches, below, gap, gradient, inspect_rows, say
from hocket.lab.hand_formulas import stale_rows
from hocket.lab.microscope import RecordedBatch
from hocket.methods.base.ppo import PPO
from hocket.methods.group_relative.vapo import VAPO

claim = Claims("vapo", "arXiv:2504.05118")
RAW = VAPO.but({"credit.whiten": False})


def answer(length: int, reward: float, value: float = 0.5) -> dict[str, Any]:
    """An answer of equal values, paid at its end."""
    return {"group": "g", "scores": {"reward": reward}, "logp": [-1.0] * length, "value": [value] * length}


@claim("Lambda is 1 - 1/(0.05 l): a difference l/2 decisions away counts lambda to that power.")
def lambda_is_1_1_a_difference_l_2_decisions_away_counts_lambda_to() -> Finding:
    off, lams = 0.0, []
    for length in (21, 40, 100, 400):
        # With equal values the only difference that is not 0 is the last one, 1 - 0.5.
        found = inspect_rows(RAW, [answer(length, 1.0)])["advantages"][0]
        lam = 1 - 1 / (0.05 * length)
        off = max(off, gap(found, [0.5 * lam ** (length - 1 - t) for t in range(length)]))
        lams.append(lam)
    return Finding(off < EXACT and lams == sorted(lams), say(off=off, lambdas=lams))


@claim("Answers of up to 20 decisions have one-step differences.", "derived: lambda would not be positive")
def answers_of_up_to_20_decisions_have_one_step_differences() -> Finding:
    found = [inspect_rows(RAW, [answer(length, 1.0)])["advantages"][0] for length in (1, 5, 20)]
    return below(EXACT, off=max(gap(row, [0.0] * (len(row) - 1) + [0.5]) for row in found))


@claim("The critic's targets are whole returns, whatever the length.", "decoupled GAE, section 4.1")
def the_critics_targets_are_whole_returns_whatever_the_length() -> Finding:
    off = 0.0
    for length in (3, 50):
        for reward in (1.0, 0.0):
            document = {"version": 1, "trajectories": [answer(length, reward), answer(2, 0.3)]}
            batch, _ = VAPO.compute_credit(RecordedBatch(document).batch, VAPO.init(), {})
            assert batch.occurrences.target is not None
            off = max(off, gap(batch.occurrences.target[:length], torch.full((length,), reward)))
    return below(EXACT, off=off)


@claim("Right answers are imitated besides: minus 0.1 over their tokens; the rest is PPO's with its clip.")
def right_answers_are_imitated_besides_minus_0_1_over_their_tokens() -> Finding:
    plain, off, right = VAPO.but({"regularisers": VAPO.regularisers[:1]}), 0.0, 0
    for batch in batches(10, "vapo", gap=0.3):
        rows = batch["trajectories"]
        marks = torch.tensor([float(r["scores"]["reward"] >= 0.5) for r in rows for _ in r["logp"]]).double()
        extra = gradient(VAPO, batch) - gradient(plain, batch)
        off, right = max(off, gap(extra, -0.1 * marks / marks.sum().clamp(min=1))), right + int(marks.sum())
    return below(1e-12, right > 0, off=off)


@claim("Advantages, loss and all gradients are the formulas', counted by hand: 8 samples, 4 epochs of 4 mini-batches.")
def advantages_loss_and_all_gradients_are_the_formulas_counted_by() -> Finding:
    gaps = []
    for rows in stale_rows("vapo", count=3, masked=False, longest=45, samples=3):
        size = sum(len(row["logp"]) for row in rows)
        ends, raws, targets = list[float](), list[list[float]](), list[list[float]]()
        for row in rows:
            length = len(row["logp"])
            ends.append(0.6 if row["truncated"] else 0.0)
            row["final_value"] = 0.6
            lam, value = max(0.0, 1 - 1 / (0.05 * length)), [*row["value"], ends[-1]]
            rewards = [0.0] * (length - 1) + [row["scores"]["reward"]]
            raw, whole = [0.0] * (length + 1), [0.0] * length + [ends[-1]]
            for t in reversed(range(length)):
                raw[t] = rewards[t] + value[t + 1] - value[t] + lam * raw[t + 1]
                whole[t] = rewards[t] + whole[t + 1]
            raws.append(raw[:-1])
            targets.append(whole[:-1])
        every = torch.tensor([one for raw in raws for one in raw], dtype=torch.float64)
        made, loss = inspect_rows(VAPO, rows), 0.0
        right = sum(len(row["logp"]) for row in rows if row["scores"]["reward"] >= 0.5)
        for row, raw, whole, given, of_v in zip(
            rows, raws, targets, made["advantages"], made["gradient_value"], strict=True
        ):
            wanted = [(one - float(every.mean())) / (float(every.std()) + 1e-8) for one in raw]
            gaps.append(gap(given, wanted))
            for t, a in enumerate(wanted):
                ratio = math.exp(row["logp"][t] - row["logp_proximal"][t])
                loss -= min(ratio * a, min(max(ratio, 0.8), 1.28) * a) / size
                loss += 0.5 * (row["value"][t] - whole[t]) ** 2 / size
                loss -= 0.1 * row["logp"][t] / right if row["scores"]["reward"] >= 0.5 else 0.0
                gaps.append(abs(of_v[t] - (row["value"][t] - whole[t]) / size))
        gaps.append(abs(made["loss"] - loss))
    settings = [value_at(VAPO, name) for name in ("rollout.samples", "update.epochs", "update.minibatches")]
    return below(EXACT, settings == [8, 4, 4], off_by_hand=max(gaps))


@claim("Praised tokens may rise to 1.28 times their probability, blamed ones fall to 0.8.")
def praised_tokens_may_rise_to_1_28_times_their_probability_blamed() -> Finding:
    ratios = torch.tensor([0.7, 0.79, 0.81, 1.21, 1.27, 1.29], dtype=torch.float64)
    plain = VAPO.but({"regularisers": VAPO.regularisers[:1], "credit.whiten": False})
    silent = {}
    for reward in (1.0, 0.0):
        rows = [
            {**answer(1, reward), "logp": [float(one.log())], "logp_behaviour": [0.0], "group": str(n)}
            for n, one in enumerate(ratios)
        ]
        found = gradient(plain, {"version": 1, "trajectories": rows})
        silent[reward] = [float(one) for one in ratios[found == 0]]
    return Finding(
        silent == {1.0: [1.29], 0.0: [0.7, 0.79]}, say(silent_when_right=str(silent[1.0]), wrong=str(silent[0.0]))
    )


claim.spares("vapo: regularisers.0.horizon = 5120", "no length divides a mean over tokens")
claim.spares("vapo: regularisers.1.horizon = 5120", "no length divides a mean over tokens")

claim.shipped(VAPO, without={"credit": PPO.credit})
claim.shipped(VAPO, without={"regularisers": PPO.regularisers})
