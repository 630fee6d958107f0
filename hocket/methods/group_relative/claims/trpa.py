"""TRPA's claims."""

import math
from statistics import mean

import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.signals import RIGHT
from hocket.lab.bandit import Bandit, minimised
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import (
    EXACT,
    Claims,
    Finding,
    batches,
    below,
    each,
    gap,
    gradient,
    inspect_rows,
    runs,
    say,
)
from hocket.lab.microscope import RecordedBatch, inspect
from hocket.lab.toys.enumerable_groups import documents, softmax
from hocket.lab.toys.recorded_answers import document, said, shaped
from hocket.lab.world import World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.trpa import TRPA
from hocket.recipe import Recipe
from hocket.types import Evaluation

claim = Claims("trpa", "arXiv 2504.04524")
GRADED = TRPA.but({"shaping": ()})
"""With returns as levels."""


@claim("the loss is invariant to any monotone change of reward values, that of a right answer among them, unlike GRPO")
def the_loss_is_invariant_to_any_monotone_change_of_reward_values() -> Finding:
    gaps: dict[str, list[float]] = {"trpa": [], "grpo": []}
    for plain in documents(6, "preferences", "order", graded=True):
        # A straight line leaves GRPO alone too, other rising functions do not.
        for bend in (lambda r: 3 * r - 7, lambda r: math.exp(4 * r), lambda r: r**3):
            bent = [{**row, "scores": {"reward": bend(row["scores"]["reward"])}} for row in plain["trajectories"]]
            for kind, plainly, now in (
                ("trpa", TRPA, TRPA.but({"shaping.0.right": bend(RIGHT)})),
                ("trpa", GRADED, GRADED.but({"credit.right": bend(RIGHT)})),
                ("grpo", GRPO, GRPO),
            ):
                gaps[kind].append(gap(gradient(now, document(bent)), gradient(plainly, plain)))
    ours, theirs = map(max, gaps.values())
    return Finding(ours == 0 and theirs > 1e-2, say(TRPAs_gradient_moves_by=ours, GRPOs_by_up_to=theirs))


@claim(
    "for two answers the expected loss has the DPO closed form as minimiser", "arXiv 2305.18290, equation 5", slow=True
)
def for_two_answers_the_expected_loss_has_the_dpo_closed_form_as() -> Finding:
    # The first is preferred in a share of the groups: the log-odds move by logit(share) / (c beta).
    reference, errors, which = softmax(0.4, -0.3), [], torch.tensor([0, 1] * 10)
    for wins, top in ((7, 1.0), (6, 1.0), (9, 2.5)):
        rows = []
        for number, answer in enumerate(which.tolist()):
            better, own = (answer == 0) == (number // 2 < wins), [float(reference[answer])]
            rows.append({"group": f"{number // 2}", "scores": {"reward": float(better)}, "logp": own, "logp_ref": own})
        recipe = TRPA.but({"regularisers": (), "objective.top": top})
        batch, _ = recipe.compute_credit(RecordedBatch(document(rows)).batch, recipe.init(), {})

        def loss(logits: Tensor, recipe: Recipe = recipe, batch: Batch = batch) -> Tensor:
            terms = recipe.loss(Evaluation(torch.log_softmax(logits, 0)[which]), batch)
            return torch.stack([term.total() for term in terms]).sum()

        left, right = minimised(loss, reference, 60).log().tolist()
        wanted = float(reference[0] - reference[1]) + math.log(wins / (10 - wins)) / (0.1 * top)
        errors.append(abs(left - right - wanted) / abs(wanted))
    return below(1e-4, largest_relative_error_of_the_log_odds=max(errors))


@claim("small steps do not reduce the preference probability against the old policy", "arXiv 2504.04524, theorem")
def small_steps_do_not_reduce_the_preference_probability_against() -> Finding:
    """All pairs of a bandit's answers weighted by their probability; a small gradient step from the old policy."""
    rng, gains = Key.of(0).derive("checks", "preferences", "small steps").numpy(), []
    for trial in range(40):
        size = int(rng.integers(3, 8))
        level = torch.from_numpy(rng.integers(0, 3, size))
        if level.min() == level.max():
            continue
        logits = torch.from_numpy(rng.normal(size=size))
        reference = torch.log_softmax(logits + (trial % 2) * torch.from_numpy(rng.normal(size=size)), 0)
        copies = torch.from_numpy(rng.integers(1, 6, size))
        old = torch.log((copies / copies.sum()).double())
        recipe = TRPA.but({"regularisers.0.coefficient": (0.001, 1.0)[trial % 2], "credit.right": 2.0})
        bandit, leaf = Bandit(level.tolist(), old, reference, copies.tolist()), old.clone().requires_grad_()
        (slope,) = torch.autograd.grad(bandit.loss(recipe, leaf, bandit.batch(recipe)), leaf)
        stepped = torch.softmax(old - 1e-3 / float(slope.norm()) * slope, 0)
        # The probability that an answer now is of a higher level than one of the old policy, ties counted half.
        above = (level[:, None] > level).double() + 0.5 * (level[:, None] == level).double()
        gains.append(float(stepped @ above @ old.exp()) - 0.5)
    return Finding(min(gains) >= 0, say(bandits=len(gains), least_gain_of_the_preference_probability=min(gains)))


@claim("groups of one level fall back to -log sigmoid(+-mean log-ratio)", "released code, core_algos.py")
def groups_of_one_level_fall_back_to_log_sigmoid() -> Finding:
    row, drift = {"logp": [-1.0, -0.5], "logp_ref": [-1.2, -0.9]}, 0.3
    rows = [{**row, "group": f"{reward}", "scores": {"reward": reward}} for reward in (1.0, 1.0, 0.0, 0.0)]
    up, down = (sign / (1 + math.exp(-sign * drift)) / 8 for sign in (-1, 1))
    slopes = inspect_rows(TRPA.but({"regularisers": ()}), rows)["gradient"]
    return below(EXACT, largest_difference=gap(slopes, [[up] * 2] * 2 + [[down] * 2] * 2))


@claim("where nobody is right wrong answers are pushed down, and right ones up where nobody is wrong")
def where_nobody_is_right_wrong_answers_are_pushed_down_and_right() -> Finding:
    row = {"logp": [-1.0], "logp_ref": [-1.0]}
    recipe, slopes = TRPA.but({"regularisers": ()}), {}
    for name, reward in (("wrong", 0.0), ("right", 1.0)):
        rows = [{**row, "group": f"{n // 2}", "scores": {"reward": reward}} for n in range(4)]
        slopes[name] = [slope for (slope,) in inspect_rows(recipe, rows)["gradient"]]
    off = gap(slopes["wrong"], [0.5 / 4] * 4), gap(slopes["right"], [-0.5 / 4] * 4)
    return below(EXACT, off_where_nobody_is_right=off[0], off_where_all_are=off[1])


@claim("pairs that a right answer wins count 2.5-fold in the margin, those between wrong levels once", "released code")
def pairs_that_a_right_answer_wins_count_2_5_fold_in_the_margin() -> Finding:
    found = []
    for reward in (1.0, 0.4):
        rows = [
            {"group": "g", "scores": {"reward": own}, "logp": [logp], "logp_ref": [-1.0]}
            for own, logp in ((reward, -0.6), (0.0, -0.9))
        ]
        found.append(inspect_rows(TRPA.but({"regularisers": ()}), rows)["gradient"][0][0])
    wanted = [-0.1 * factor / (1 + math.exp(0.1 * factor * 0.3)) for factor in (2.5, 1.0)]
    return below(EXACT, largest_difference=gap(found, wanted))


@claim("levels are right, wrong, without a readable answer and malformed; a group of wrong ones still has pairs")
def levels_are_right_wrong_without_a_readable_answer_and_malformed() -> Finding:
    texts = (
        ("<think>3+4</think><answer>7</answer>", 1.0, "7"),
        ("<answer>8</answer>", 0.0, "8"),
        ("<answer></answer>", 0.0, ""),
        ("The answer is 7", 0.0, None),
        ("<answer>7</answer><answer>7</answer>", 1.0, "7"),
    )
    rows = [said("g", text, reward, label=label, logp_ref=[-1.0, -0.5]) for text, reward, label in texts]
    levels, (wrong, lost) = shaped(TRPA, rows), (inspect_rows(TRPA, rows[1:4])["gradient"][n][0] for n in (0, 2))
    holds = levels == [1.0, 0.0, -1.0, -2.0, -2.0] and wrong < 0 < lost
    return Finding(holds, say(levels=str(levels), wrong_answer_is_pulled=wrong, malformed_one=lost))


LOOSE = GRADED.but({"regularisers": ()})
"""Without its trust region."""


@claim("the trust region is .001 times the mean of k3 to the old policy, in the second form of sqrt(that mean + a)")
def the_trust_region_is_001_times_the_mean_of_k3_to_the_old_policy() -> Finding:
    gaps = []
    for batch in batches(20, "trust region"):
        rows = batch["trajectories"]
        told = ([one for row in rows for one in row[name]] for name in ("logp", "logp_proximal"))
        now, old = (torch.tensor(one, dtype=torch.float64) for one in told)
        apart = now - old
        k3, slope = float(((-apart).exp() - 1 + apart).mean()), (1 - (-apart).exp()) / len(apart)
        for root, value, outer in ((None, k3, 1.0), (0.25, (k3 + 0.25) ** 0.5, 0.5 / (k3 + 0.25) ** 0.5)):
            recipe = GRADED.but({"regularisers.0.root": root})
            seen, loose = inspect(recipe, batch), inspect(LOOSE, batch)
            gaps += [gap(seen["loss"] - loose["loss"], 0.001 * value), gap(seen["metrics"]["kl/old"], k3)]
            gaps.append(gap(gradient(recipe, batch) - gradient(LOOSE, batch), 0.001 * outer * slope))
    return below(EXACT, off_by_hand=max(gaps))


ORDERED = TRPA.but({"shaping": (), "credit.order": ("first", "second"), "regularisers": (), "objective.top": 1.0})


@claim("scores named by credit.order rank in turn, a missing opinion lowest, and one that nobody gave is refused")
def scores_named_by_credit_order_rank_in_turn_a_missing_opinion() -> Finding:
    # The second decides among equal firsts alone; whoever lacks the first loses to both.
    opinions = ({"reward": 0.0, "first": 1.0, "second": second} for second in (0.0, 3.0))
    found = [*opinions, {"reward": 0.0, "second": 9.0}]
    rows = [{"group": "g", "scores": one, "logp": [-1.0], "logp_ref": [-1.0]} for one in found]
    slopes = [slope for (slope,) in inspect_rows(ORDERED, rows)["gradient"]]
    refused = False
    try:
        inspect_rows(ORDERED.but({"credit.order": ("none",)}), rows)
    except ConfigurationError:
        refused = True
    # Each of three pairs pulls with beta/2 of a third: won less lost are 0, 2 and -2.
    return below(EXACT, refused, off_by_hand=gap(slopes, [0.0, -0.1 / 3, 0.1 / 3]))


RULES = {"correct": lambda q, a: float(a[0] != 0 and sum(a) % 4 == q), "bonus": lambda q, a: 1.5 * (a[0] == 0)}
"""The bonus pays any answer that begins with token 0, which is never right, more than being right pays."""
HACKS = World(2, 4, 2, reward=lambda question, answer: 0.0, parts=RULES, correct=RULES["correct"])


@claim("level order blocks a bonus hack that a reward-sum GRPO takes", slow=True)
def level_order_blocks_a_bonus_hack_that_a_reward_sum_grpo_takes() -> Finding:
    made = runs(HACKS, TRPA.but({"credit.order": ("correct",)}), GRPO, steps=50, every=50, lr=0.1)
    right, hacks = each(made, Bench.success), each(made, lambda bench: bench.expected(lambda q, a: float(a[0] == 0)))
    ours, theirs = right["trpa"], right["grpo"]
    saw = say(TRPA_right=mean(ours), worst=min(ours), hacked=mean(hacks["trpa"]), GRPO_right=mean(theirs))
    holds = min(ours) > max(theirs) + 0.2 and max(hacks["trpa"]) < 0.2
    return Finding(holds, f"5 seeds: {saw}, {say(hacked=mean(hacks['grpo']))}")


claim.spares("1.0 -> 40.0", "of an advantage the pairwise objective reads the sign alone")
claim.spares("trpa: regularisers.0.horizon = 5120", "no length divides a mean over tokens")

claim.shipped(TRPA, "credit", "objective", "regularisers", steps=2)
