"""What dr-grpo claims."""

from __future__ import annotations

import math
import statistics

import torch

from hocket import recipes
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.dialogue import Dialogue, DialogueBench
from hocket.lab.groups import gap, recorded
from hocket.lab.microscope import look
from hocket.lab.policy import Tabular
from hocket.lab.toys.group_statistics import EXACT, GRPO_EXACT, bandit, finding, sentences
from hocket.lab.toys.group_statistics_training import SEEDS, recipe_of, spread
from hocket.lab.world import Answer

claim = Claims("dr-grpo", "arXiv:2503.20783, section 3")


@claim("Its expected gradient is (G-1)/G of the true one, over L", "arXiv:2503.20783; factor derived here")
def _dr_grpo_is_the_policy_gradient() -> Finding:
    group, horizon = sentences({(1, 0): 1.0, (0,): 0.25}), 7
    recipe = recipes.find("dr-grpo").but({"objective.horizon": horizon})
    gaps = [
        gap(group.gradient(recipe, size), group.true_gradient() * (size - 1) / size / horizon) for size in (2, 3, 4, 6)
    ]
    return finding(
        f"G = 2, 3, 4, 6, answers of length 1 and 2: {max(gaps):.1e} from (G-1)/G grad J / L", max(gaps) < EXACT
    )


@claim("GRPO rescales each prompt's gradient by a factor that tends to 1/sqrt(p(1-p))")
def _grpo_weighs_prompts() -> Finding:
    """GRPO without its length term, ddof 0: the factor on a prompt's gradient as G grows."""
    recipe = GRPO_EXACT.but({"objective.aggregate": "sequence-sum", "credit.ddof": 0})
    saw, worst, far = [], 0.0, 0.0
    for success in (0.1, 0.5):
        group = bandit(success, wrong=1)
        factors = {}
        for size in (4, 16, 48):
            step, true = group.gradient(recipe, size), group.true_gradient()
            factors[size] = float((step * true).sum() / true.square().sum())
            worst = max(worst, gap(step, factors[size] * true))
        limit = 1 / math.sqrt(success * (1 - success))
        far = max(far, abs(factors[48] / limit - 1))
        saw.append(f"p {success}: {', '.join(f'{one:.3f}' for one in factors.values())} -> {limit:.3f}")
    return finding(f"{'; '.join(saw)} (G = 4, 16, 48)", worst < EXACT, far < 0.1)


@claim("Wrong answers of 10 and 100 tokens: equal per-token gradient, ten times different under GRPO")
def _wrong_answers_of_two_lengths() -> Finding:
    batch = recorded([[1.0, 0.0, 0.0]], lengths=[[5, 10, 100]])
    rows = {name: look(recipes.find(name), batch)["gradient"] for name in ("grpo", "dr-grpo")}
    ratio = {name: row[1][0] / row[2][0] for name, row in rows.items()}
    return finding(
        f"per-token gradient of the short wrong answer over the long one's: GRPO {ratio['grpo']:.6f}, "
        f"Dr. GRPO {ratio['dr-grpo']:.6f}",
        abs(ratio["grpo"] - 10) < 1e-9,
        abs(ratio["dr-grpo"] - 1) < EXACT,
    )


def _hopeless(horizon: int = 7) -> Dialogue:
    """The environment's first token says whether this attempt can succeed; then the policy writes until it ends."""
    return Dialogue(
        *(1, 3, horizon, lambda question, answer: 0.0),
        end=0,
        reply=lambda question, tokens, hidden: int(hidden) if not tokens else None,
        hide=lambda question, key: 1 + key.word % 2,
        verdict=lambda question, answer, hidden: float(hidden == 1),
    )


def _expected_length(policy: Tabular, tokens: Answer) -> float:
    """How many tokens the policy writes after these, exactly."""
    world = policy.world
    with torch.no_grad():
        table = torch.softmax(policy.logits, -1)

    def rest(prefix: Answer) -> float:
        if world.finished(prefix):
            return 0.0
        chances: list[float] = table[policy.row(0, prefix)].tolist()
        return 1.0 + math.fsum(chance * rest((*prefix, token)) for token, chance in enumerate(chances))

    return rest(tokens)


@claim("Wrong answers grow longer under GRPO and not under Dr. GRPO, at equal success", slow=True)
def _wrong_answers_grow_under_grpo() -> Finding:
    drift, rate = {}, {}
    start = 0.0
    for name in ("grpo", "dr-grpo"):
        lengths, success = [], []
        for seed in SEEDS:
            bench = DialogueBench(_hopeless(), recipe_of(name, {"rollout.samples": 16}), seed=seed, lr=0.02)
            start = _expected_length(bench.policy, (2,))
            bench.run(60)
            lengths.append(_expected_length(bench.policy, (2,)) - start)
            success.append(bench.earned(40))
        drift[name], rate[name] = lengths, statistics.fmean(success)
    error = statistics.stdev(drift["dr-grpo"]) / math.sqrt(len(SEEDS))
    return Finding(
        min(drift["grpo"]) > max(drift["dr-grpo"]) + 0.3
        and min(drift["grpo"]) > 0.5
        and statistics.fmean(drift["dr-grpo"]) < 2.5 * error,
        f"drift of the wrong answers' length from {start:.2f}: GRPO {spread(drift['grpo'], 2)}, Dr. GRPO "
        f"{spread(drift['dr-grpo'], 2)}; success {rate['grpo']:.2f} and {rate['dr-grpo']:.2f}",
    )
