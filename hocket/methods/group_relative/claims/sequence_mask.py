"""Off-policy sequence masking: its claims."""

from hocket.lab.claims.harness import (
    EXACT,
    Claims,
    Finding,
    batches,
    below,
    gap,
    gradient,
    inspect_rows,
    same_gradient,
    say,
)
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.sequence_mask import GRPO_SEQUENCE_MASK

claim = Claims("sequence-mask", "arXiv:2512.02556")


@claim("On the policy's own samples it is GRPO, and so it is with a threshold that nothing exceeds.", "derived")
def on_the_policys_own_samples_it_is_grpo_and_so_it_is_with_a() -> Finding:
    own = same_gradient(GRPO_SEQUENCE_MASK, GRPO, gap=0.0)
    never = same_gradient(GRPO_SEQUENCE_MASK.but({"objective.threshold": 1e9}), GRPO, gap=0.5)
    return Finding(own.holds and never.holds, f"own samples: {own.saw}; no threshold: {never.saw}")


@claim("Wrong answers that became improbable lose their gradient, right ones and those that did not keep GRPO's.")
def wrong_answers_that_became_improbable_lose_their_gradient_right() -> Finding:
    # The first token of an answer is within GRPO's clip, the second decides how improbable the answer became.
    moved = {"gone": (-0.05, -1.0), "near": (-0.05, -0.1), "likelier": (0.05, 0.5)}
    rows = [
        {"group": "g", "scores": {"reward": reward}, "logp": [-1.0 + by for by in steps], "logp_behaviour": [-1.0] * 2}
        for reward in (0.0, 1.0)
        for steps in moved.values()
    ]
    document = {"version": 1, "trajectories": rows}
    ours, theirs = (gradient(one, document).view(-1, 2) for one in (GRPO_SEQUENCE_MASK, GRPO))
    return below(
        EXACT,
        float(theirs[0, 0]) > 0.01,
        of_the_masked=gap(ours[0], [0.0] * 2),
        others_off_GRPO=gap(ours[1:], theirs[1:]),
    )


@claim("It masks more the further the policy has moved, and never a right answer.", "derived")
def it_masks_more_the_further_the_policy_has_moved_and_never_a() -> Finding:
    masked, right = {}, 0
    for far in (0.1, 0.5, 1.0):
        silent = 0
        for document in batches(20, "sequence mask", gap=far):
            ours, theirs = (gradient(one, document) for one in (GRPO_SEQUENCE_MASK, GRPO))
            gone = (ours == 0) & (theirs != 0)
            silent += int(gone.sum())
            # A right answer's loss falls with its log-prob.
            right += int((gone & (theirs < 0)).sum())
        masked[f"moved_by_{far}"] = silent
    counts = list(masked.values())
    return Finding(
        counts == sorted(counts) and counts[-1] > counts[0] and right == 0, say(tokens=masked, right_ones=right)
    )


@claim(
    "It tells the share of decisions that are left out, of those that count; a batch serves in four parts.", "derived"
)
def it_tells_the_share_of_decisions_that_are_left_out_of_those_that() -> Finding:
    rows = [
        {"group": "g", "scores": {"reward": reward}, "logp": [logp] * 2, "logp_behaviour": [-1.0] * 2, "trained": own}
        for reward, logp, own in ((0.0, -3.0, [True, False]), (0.0, -1.0, [True, True]), (1.0, -3.0, [True, True]))
    ]
    metrics = inspect_rows(GRPO_SEQUENCE_MASK, rows)["metrics"]
    (share,) = [value for name, value in metrics.items() if name.endswith("sequence/masked")]
    parts = GRPO_SEQUENCE_MASK.update == GRPO.but({"update.minibatches": 4}).update
    return below(EXACT, parts, off=abs(share - 1 / 5))


claim.spares("grpo-sequence-mask: objective.of.horizon = 5120", "no length divides GRPO's aggregate")
