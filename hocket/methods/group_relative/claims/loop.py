"""LOOP's claims."""

from collections.abc import Sequence
from statistics import fmean

from hocket.core.components import value_at
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, each, gap, say
from hocket.lab.dialogue import Dialogue, DialogueBench
from hocket.lab.groups import first_advantages, recorded
from hocket.lab.groups import gap as relative_gap
from hocket.lab.hand_formulas import CountedAnswer, off, stale_rows
from hocket.lab.toys.enumerable_groups import bandit
from hocket.recipes import LOOP, find
from hocket.rollout.independent import Independent

claim = Claims("loop", "arXiv:2502.01600")


@claim("A_k = K/(K-1) (R_k - mean R)")
def a_k_k() -> Finding:
    group = [1.0, 0.0, 0.3, 2.0, -1.0]
    credit = first_advantages(LOOP, recorded([group]))
    wanted = [5 / 4 * (reward - fmean(group)) for reward in group]
    others = [reward - (sum(group) - reward) / 4 for reward in group]
    return below(EXACT, largest_difference_from_both_forms=max(gap(credit, wanted), gap(credit, others)))


@claim("Advantages, loss and gradient are those counted by hand; six samples, twice two mini-batches")
def advantages_loss_and_gradient_are_those_counted_by_hand_six() -> Finding:
    def credit(members: Sequence[CountedAnswer]) -> list[float]:
        others = [[other.reward for other in members if other is not one] for one in members]
        return [one.reward - fmean(some) for one, some in zip(members, others, strict=True)]

    gaps = [off(LOOP, rows, credit=credit) for rows in stale_rows("loop")]
    updates = [value_at(LOOP, f"update.{name}") for name in ("epochs", "minibatches")]
    return below(EXACT, updates == [2, 2], LOOP.rollout == Independent(6), off_by_hand=max(gaps))


@claim("On a bandit its expected gradient is the true one", "derived here")
def on_a_bandit_its_expected_gradient_is_the_true_one() -> Finding:
    group = bandit(0.2, wrong=3)
    return below(EXACT, **{f"K_{k}": relative_gap(group.gradient(LOOP, k), group.true_gradient()) for k in (2, 3, 4)})


# An interface whose right call is written in its documentation: token 0 reads it, 1.. are calls.
LOOKUP = Dialogue(
    *(1, 5, 3, lambda question, answer: 0.0),
    reply=lambda question, tokens, hidden: int(hidden) if tokens == (0,) else None,
    hide=lambda question, key: 1 + key.word % 4,
    verdict=lambda question, answer, hidden: float(len(answer) in (1, 3) and answer[-1] == hidden),
    over=lambda question, tokens: len(tokens) == 1 and tokens[0] != 0,
)


@claim(
    "With a stateful tool it beats REINFORCE with a running mean at equal episodes and reads the "
    "documentation first, with one set of weights",
    slow=True,
)
def with_a_stateful_tool_it_beats_reinforce_with_a_running_mean_at() -> Finding:
    running = find("reinforce-baseline").but({"rollout.samples": 6})
    made: dict[str, list[Bench]] = {
        recipe.name: [DialogueBench(LOOKUP, recipe, seed=seed, lr=0.05).run(100, every=100) for seed in SEEDS]
        for recipe in (LOOP, running)
    }
    earned = each(made, lambda bench: fmean(one["reward/mean"] for one in bench.history))
    starts = each(made, lambda bench: float(bench.policy.logits.detach()[bench.policy.row(0, ())].softmax(0)[0]))
    own = sum(one.numel() for one in made["loop"][0].policy.module.parameters())
    alone = all(bench.learner.reference is None for group in made.values() for bench in group)
    holds = fmean(earned["loop"]) > fmean(earned["reinforce-baseline"]) + 0.05 and min(starts["loop"]) > 0.8 and alone
    figures = say(mean_reward_over_600_episodes=earned, chance=0.25, reads_first=starts, weights=own)
    return Finding(holds, f"{figures}, no reference, no critic")


claim.shipped(LOOP, "credit")
claim.shipped(LOOP, "update")
