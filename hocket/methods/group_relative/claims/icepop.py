"""IcePop's claims."""

import math

from hocket.credit.corrections import MaskedImportance
from hocket.lab.claims.harness import EXACT, Claims, Finding, batches, below, gap, gradient, say
from hocket.methods.base.grpo import GRPO, GRPO_TIS
from hocket.methods.group_relative.icepop import ICEPOP

claim = Claims("icepop", "arXiv:2510.18855")


def document(ratios: list[float]) -> dict[str, object]:
    """Two answers, the learner's log-probs before the update being `ratios` times the sampler's in each."""
    rows = [
        {
            "group": "g",
            "scores": {"reward": reward},
            "logp": [-1.0] * len(ratios),
            "logp_proximal": [-1.0] * len(ratios),
            "logp_behaviour": [-1.0 - math.log(ratio) for ratio in ratios],
        }
        for reward in (1.0, 0.0)
    ]
    return {"version": 1, "trajectories": rows}


@claim("Where sampler and learner agree it is GRPO.", "derived")
def where_sampler_and_learner_agree_it_is_grpo() -> Finding:
    seen = document([1.0] * 4)
    return below(EXACT, off_GRPO=gap(gradient(ICEPOP, seen), gradient(GRPO, seen)))


@claim("A token counts k times, k its ratio, from 0.5 to 5, and 0 outside.")
def a_token_counts_k_times_k_its_ratio_from_0_5_to_5_and_0_outside() -> Finding:
    ratios = [0.1, 0.49, 0.51, 1.0, 2.0, 4.9, 5.1, 50.0]
    ours, plain = gradient(ICEPOP, document(ratios))[: len(ratios)], gradient(ICEPOP, document([1.0] * 8))[0]
    wanted = [ratio * float(plain) if 0.5 <= ratio <= 5 else 0.0 for ratio in ratios]
    return below(1e-9, off_by_hand=gap(ours, wanted))


@claim("Masked tokens stay in the denominator; taken out of it, what is kept weighs more.", "the report divides by all")
def masked_tokens_stay_in_the_denominator_taken_out_of_it_what_is() -> Finding:
    ratios = [0.1, 1.0, 1.0, 50.0]
    alone = ICEPOP.but({"correction": MaskedImportance(low=0.5, high=5.0, reweight=True)})
    ours, theirs = (gradient(one, document(ratios))[1] for one in (ICEPOP, alone))
    return below(EXACT, half_off=abs(float(ours / theirs) - 0.5))


@claim("Truncated importance sampling keeps what it masks.", "derived")
def truncated_importance_sampling_keeps_what_it_masks() -> Finding:
    ratios = [0.1, 1.0, 50.0]
    ours, theirs = (gradient(one, document(ratios))[:3] for one in (ICEPOP, GRPO_TIS))
    silent = [int((one == 0).sum()) for one in (ours, theirs)]
    return Finding(silent == [2, 0], say(tokens_without_gradient=silent[0], of_truncation=silent[1]))


@claim("Groups keep their advantages: only weights change.", "derived")
def groups_keep_their_advantages_only_weights_change() -> Finding:
    signs = [
        bool(((gradient(ICEPOP, one) * gradient(GRPO_TIS, one)) >= 0).all()) for one in batches(10, "icepop", gap=0.0)
    ]
    return Finding(all(signs), say(batches=len(signs), no_sign_turned=sum(signs)))
