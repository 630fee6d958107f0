"""GRPO's claims."""

import math
import tempfile
from functools import partial
from statistics import fmean, stdev
from typing import Any

import torch

import hocket
from hocket.core.components import value_at
from hocket.core.keys import Key
from hocket.credit.corrections import TruncatedImportance
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, gap, gradient, inspect_rows, say
from hocket.lab.groups import first_advantages, recorded
from hocket.lab.groups import gap as relative
from hocket.lab.hand_formulas import clipped, off, stale_rows
from hocket.lab.policy import Tabular
from hocket.lab.toys.enumerable_groups import GRPO_EXACT, bandit, softmax
from hocket.recipes import find
from hocket.rollout.independent import Independent
from hocket.train.learner import Learner

claim = Claims("grpo", "derived here")


@claim(
    "Advantages have mean 0 and (sample) standard deviation 1, and are 0 in an all-equal group",
    "arXiv:2402.03300, 4.1.2",
)
def advantages_have_mean_0_and_standard_deviation_1_and_are_0_in_an() -> Finding:
    rng = Key.of(1).numpy()
    groups = [rng.normal(size=size).tolist() for size in (2, 3, 5, 8)] + [[0.7] * 4]
    advantages = iter(first_advantages(GRPO_EXACT, recorded(groups)))
    own = [[next(advantages) for _ in group] for group in groups]
    means, deviations = [abs(fmean(one)) for one in own], [stdev(one) for one in own]
    figures = say(largest_mean=max(means), sample_deviations=str([round(one, 12) for one in deviations]))
    return Finding(max(means) < EXACT and gap(deviations[:-1], [1.0] * 4) < EXACT and deviations[-1] == 0, figures)


@claim("Advantages, losses and gradients of GRPO and of its KL form are those counted by hand")
def advantages_losses_and_gradients_of_grpo_and_of_its_kl_form_are() -> Finding:
    gaps = []
    for rows in stale_rows("grpo"):
        gaps += [off(find("grpo"), rows), off(find("grpo-kl"), rows, partial(clipped, kl=0.04))]
        gaps.append(off(find("grpo-iterative"), rows, partial(clipped, kl=0.04)))
    corrected = find("grpo-tis").correction == TruncatedImportance(cap=2.0, level="decision")
    return below(EXACT, find("grpo").rollout == Independent(samples=8), corrected, off_by_hand=max(gaps))


@claim(
    "k3 is not negative, its value is unbiased for KL(pi || ref), its gradient that of KL(ref || pi)",
    "arXiv:2402.03300, equation 4; Schulman 2020; gradient derived here",
)
def k3_is_not_negative_its_value_is_unbiased_for_kl_its_gradient() -> Finding:
    policy = torch.tensor([0.2, -0.4, 1.1, 0.0], dtype=torch.float64, requires_grad=True)
    logp, reference = torch.log_softmax(policy, 0), softmax(0.5, 0.3, -0.2, -1.0)
    recipe = find("grpo-kl").but({"regularisers.0.coefficient": 1.0})
    pairs = zip(logp.tolist(), reference.tolist(), strict=True)
    rows = [{"group": "0", "scores": {"r": 1.0}, "logp": [now], "logp_ref": [old]} for now, old in pairs]
    seen = [inspect_rows(recipe, [row]) for row in rows]
    values, slopes = torch.tensor([(one["loss"], one["gradient"][0][0]) for one in seen], dtype=torch.float64).T
    chance, least = logp.detach().exp(), float(values.min())
    divergences = (logp.exp() * (logp - reference)).sum(), (reference.exp() * (reference - logp)).sum()
    bias, step = gap((chance * values).sum(), divergences[0]), chance * slopes - chance * (chance * slopes).sum()
    forward, backward = (relative(step, torch.autograd.grad(kl, policy, retain_graph=True)[0]) for kl in divergences)
    figures = say(mean_of_k3_off_KL_of_pi=bias, gradient_off_KL_of_ref=backward, off_KL_of_pi=forward, least_k3=least)
    return Finding(max(bias, backward) < EXACT and forward > 0.05 and least >= 0, figures)


@claim("The process form with one final step equals the outcome form")
def the_process_form_with_one_final_step_equals_the_outcome_form() -> Finding:
    groups = [Key.of(2).numpy().normal(size=4).tolist(), [1.0, 0.0, 0.0], [0.5, 0.5]]
    outcome, process = (gradient(find(one), recorded(groups, lengths=3)) for one in ("grpo", "grpo-process"))
    return below(1e-15, float(outcome.abs().max()) > 0, largest_difference_of_gradients=gap(outcome, process))


@claim("The process form sums normalised step rewards from each token on", "arXiv:2402.03300, 4.1.3")
def the_process_form_sums_normalised_step_rewards_from_each_token() -> Finding:
    # Steps of two decisions, scored at the second.
    rows, sums = [], []
    for number, group in enumerate([[[0.1, 0.9, 0.4], [0.3], [0.8, 0.2]], [[1.0, 1.0], [1.0]]]):
        pool = [reward for rewards in group for reward in rewards]
        for rewards in group:
            twice = range(2 * len(rewards))
            row: dict[str, Any] = {"group": str(number), "scores": {}, "logp": [-0.4 for _ in twice]}
            row["token_scores"] = {"reward/decision": [value for reward in rewards for value in (0.0, reward)]}
            rows.append(row | {"segment": [place // 2 for place in twice]})
            normal = [(reward - fmean(pool)) / (stdev(pool) or math.inf) for reward in rewards]
            sums.append([math.fsum(normal[place // 2 :]) for place in twice])
    advantages = inspect_rows(find("grpo-process").but({"credit.epsilon": 0.0}), rows)["advantages"]
    return below(EXACT, largest_difference_from_the_sum_by_hand=gap(advantages, sums))


@claim("At pi = pi_old the gradient is REINFORCE's, each sequence weighted 1/(G |o_i|)")
def at_pi_pi_old_the_gradient_is_reinforces_each_sequence_weighted() -> Finding:
    group, lengths = [1.0, 0.0, 0.25, 1.0], [3, 1, 7, 4]
    mean, deviation = fmean(group), stdev(group)
    slopes = [(mean - r) / deviation / (4 * n) for r, n in zip(group, lengths, strict=True) for _ in range(n)]
    return below(EXACT, largest_difference=gap(gradient(GRPO_EXACT, recorded([group], lengths=[lengths])), slopes))


@claim("The iterative form resets the reference to the policy at each round", "arXiv:2402.03300, algorithm 1")
def the_iterative_form_resets_the_reference_to_the_policy_at_each() -> Finding:
    policy = bandit(0.3).policy
    references = [Learner(policy, find("grpo-iterative"), total_steps=1).reference]
    policy.logits.data += torch.arange(3, dtype=torch.float64)
    references.append(Learner(policy, find("grpo-iterative"), total_steps=1).reference)
    old, new = (gap(one.logits, policy.logits) for one in references if isinstance(one, Tabular))
    figures = f"distance of the reference from the policy: {say(first=old, second_round=new)}"
    return Finding(old > 1 and new == 0, figures)


@claim("One update follows each batch", "arXiv:2402.03300, 4.2: a single update after each exploration stage")
def one_update_follows_each_batch() -> Finding:
    updates = [value_at(find("grpo"), f"update.{name}") for name in ("epochs", "minibatches")]
    return Finding(updates == [1, 1], f"epochs and mini-batches {updates}")


@claim("A small language model clearly improves over its start on arithmetic", "arXiv:2402.03300", slow=True)
def a_small_language_model_clearly_improves_over_its_start_on() -> Finding:
    with tempfile.TemporaryDirectory() as folder:
        quiet: dict[str, Any] = {"evaluation.n": 200, "evaluation.every": 0, "threads": 1}
        run = hocket.train("sums", recipe=find("grpo"), steps=40, runs=folder, **quiet)
        before, after = (run.summary[when]["accuracy"] for when in ("before", "after"))
    error = math.sqrt((before * (1 - before) + after * (1 - after)) / 200)
    figures = f"greedy accuracy on unseen sums {say(before=before, after_40_steps=after, standard_error=error)}"
    return Finding(after - before > 4 * error, figures)


HOUSE = "what a run takes where neither recipe nor user says; the paper names none"
MEAN = "no length divides a mean over sequences"

claim.spares("grpo: curriculum.prompts = 640", HOUSE)
claim.spares("grpo: update.clip_norm = 40.0", HOUSE)
claim.spares("grpo: update.clip_norm = 0.0", HOUSE)
claim.spares("grpo: update.warmup = 40", HOUSE)
claim.spares("grpo: update.weight_decay = 1.0", HOUSE)
claim.spares("grpo: objective.horizon = 5120", MEAN)
claim.spares("grpo-kl: regularisers.0.horizon = 5120", MEAN)

claim.shipped(find("grpo"), without={"credit": find("reinforce").credit})
claim.shipped(
    find("grpo-kl"),
    "regularisers",
    steps=2,
    small="a KL to the policy before training is 0 in the first step, and small in those after it",
)
claim.shipped(find("grpo-process"), "credit", task="calculator", settings={"workflow": "tool-use?call_reward=0.1"})
