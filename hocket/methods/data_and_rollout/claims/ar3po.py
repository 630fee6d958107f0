"""AR3PO's claims."""

from __future__ import annotations

import math
from statistics import fmean

import torch

from hocket.core.batch import Batch
from hocket.core.components import value_at
from hocket.core.segments import segment_sum
from hocket.core.signals import RIGHT
from hocket.curriculum.random_order import Shuffled
from hocket.lab.claims.harness import SEEDS, Claims, Finding, gap, say
from hocket.lab.talk import TalkBench, total
from hocket.lab.toys.hops import ASKED, WAYS, Hops, last
from hocket.lab.toys.recorded_answers import group_relative, line
from hocket.methods.base.dapo import DAPO
from hocket.methods.base.grpo import GRPO
from hocket.methods.data_and_rollout.ar3po import AR3PO, AR3PO_REUSED, WithoutReplayed
from hocket.recipe import Recipe
from hocket.rollout.independent import Independent
from hocket.rollout.replay import expected_samples
from hocket.types import Message, Quantity, Scenario, Trajectory

claim = Claims("ar3po", "public summaries of arXiv:2509.25808")
TWO = [Scenario(one.id, "", answer=" ".join(one.answer.split()[:2])) for one in ASKED]


def ours(recipe: Recipe) -> Recipe:
    return recipe.but({"curriculum": Shuffled(prompts=2)})


def bench(recipe: Recipe, seed: int = 0, lr: float = 0.1) -> TalkBench:
    """Two steps, of which one episode in 16 takes both rightly at first."""
    return TalkBench(Hops(), TWO, WAYS, recipe, view=last, seed=seed, lr=lr)


@claim("A question takes k sum_{s < S} (1 - p)^(k s) samples in the mean, for success probability p.")
def a_question_takes_k_sum_s_s_samples_in_the_mean_for_success() -> Finding:
    worst, seen = 0.0, list[str]()
    for right in (0.5, 2.0, 3.5):

        def prior(messages: tuple[Message, ...], said: tuple[str, ...], right: float = right) -> dict[str, float]:
            return {"north": right}

        asked = [Scenario(f"{number}", "", answer="north") for number in range(400)]
        for samples, stages in ((2, 3), (2, 2), (4, 3)):
            recipe = ours(AR3PO).but({"rollout.samples": samples, "rollout.stages": stages})
            made = TalkBench(Hops(), asked, WAYS, recipe, view=last, prior=prior, lr=0.0, capacity=500)
            mean = made.step().metrics["tokens/generated"] / len(asked)
            chance = math.exp(right) / (math.exp(right) + 3)
            due = expected_samples(chance, samples, stages)
            # A question takes at most k S samples, which bounds the deviation of one.
            error = samples * stages / 2 / math.sqrt(len(asked))
            worst, seen = max(worst, abs(mean - due) / (4 * error)), [*seen, f"{mean:.2f} for {due:.2f}"]
    return Finding(worst < 1.0, "; ".join(seen))


def watched(recipe: Recipe, seed: int, steps: int = 40) -> list[tuple[Batch, list[Trajectory], torch.Tensor]]:
    """Of steps in which something came back: the credited batch, trajectories, and the log-probs before the update."""
    made, found = bench(recipe, seed), []
    for _ in range(steps):
        policy = made.policies["policy"].frozen_copy()
        result = made.step()
        if result.batch is not None and any(one.source == "replay" for one in result.trajectories):
            with torch.no_grad():
                now = policy.evaluate(result.batch, {Quantity.LOGP}).logp
            found.append((result.batch, result.trajectories, now))
    return found


@claim(
    "Option II gives the answer that comes back no weight, and the others the advantages of a group it stands in; "
    "option I gives it the same advantage, and a first ratio of 1."
)
def option_ii_gives_the_answer_that_comes_back_no_weight_and_the() -> Finding:
    worst, weights, ratios, count = 0.0, list[float](), list[float](), 0
    for recipe in (AR3PO, AR3PO_REUSED):
        for seed in range(4):
            for batch, trajectories, now in watched(ours(recipe), seed):
                seen = batch.occurrences
                for asked in TWO:
                    group = [n for n, one in enumerate(trajectories) if one.scenario.id == asked.id]
                    if not any(trajectories[n].source == "replay" for n in group):
                        continue
                    due = group_relative([total(trajectories[n]) for n in group])
                    for n, value in zip(group, due, strict=True):
                        here = seen.trajectory == n
                        worst = max(worst, gap(seen.advantage[here], [value] * int(here.sum())))
                        if trajectories[n].source == "replay":
                            count += 1
                            if recipe is AR3PO:
                                weights.append(float(seen.weight[here].abs().max()))
                            else:
                                place = seen.decision[here]
                                assert bool((seen.weight[here] == 1).all())
                                ratios.append(gap(now[place], batch.logp["behaviour"].values[place]))
    holds = worst < 1e-5 and max(weights) == 0 and max(ratios) < 1e-6 and count > 20
    return Finding(
        holds, say(came_back=count, advantages_off=worst, largest_weight=max(weights), log_ratio=max(ratios))
    )


@claim("Where all samples of a first stage are right nothing is sampled further, and there is no gradient.")
def where_all_samples_of_a_first_stage_are_right_nothing_is_sampled() -> Finding:
    made = TalkBench(
        Hops(), [Scenario("a", "", answer="north")], WAYS, ours(AR3PO), view=last, prior=lambda *_: {"north": 60.0}
    )
    batch = made.step().batch
    assert batch is not None
    size = float(segment_sum(batch.occurrences.advantage, batch.occurrences.trajectory, batch.trajectories).abs().max())
    return Finding(size == 0 and batch.trajectories == 4, say(samples=batch.trajectories, largest_advantage=size))


@claim(
    "Stopping at the first success leaves a group's mean reward above the chance of success: what is solved early "
    "brings few failures. The advantage's mean over a group is 0 all the same."
)
def stopping_at_the_first_success_leaves_a_groups_mean_reward_above() -> Finding:
    asked = [Scenario(f"{number}", "", answer="north") for number in range(600)]
    recipe = ours(AR3PO).but({"rollout.samples": 2, "rollout.stages": 2})
    made = TalkBench(Hops(), asked, WAYS, recipe, view=last, lr=0.0, capacity=700)
    result = made.step()
    assert result.batch is not None
    groups: dict[str, list[float]] = {}
    for one in result.trajectories:
        groups.setdefault(one.scenario.id, []).append(total(one))
    mean = fmean(fmean(group) for group in groups.values())
    # Two samples, each right with chance p = 1/4; where both are wrong, which has chance (3/4)^2, two of four.
    both, one_of = 0.25**2, 2 * 0.25 * 0.75
    due = (both + one_of / 2) + 0.75**2 * (both / 2 + one_of / 4)
    seen = result.batch.occurrences
    off = float(segment_sum(seen.advantage, seen.trajectory, result.batch.trajectories).sum())
    holds = abs(mean - due) < 0.04 and mean > 0.25 + 0.03 and abs(off) < 1e-3
    return Finding(holds, say(mean_of_groups=mean, due=due, chance=0.25, sum_of_advantages=off))


@claim(
    "As shipped two stages of four samples; the latest 16 right answers of a question are kept, and 16 of 256 are "
    "asked at once, all alike.",
    "chosen here",
)
def as_shipped_two_stages_of_four_samples_the_latest_16_right() -> Finding:
    wanted = {
        "rollout.samples": 4,
        "rollout.stages": 2,
        "rollout.success": RIGHT,
        "rollout.fresh_ratio": True,
        "rollout.store.size": 16,
        "rollout.store.scenarios": 4096,
        "curriculum.prompts": 16,
        "curriculum.pool": None,
        "curriculum.even": 0.0,
    }
    found = [{name: value_at(recipe, name) for name in wanted} for recipe in (AR3PO, AR3PO_REUSED)]
    holds = found == [wanted] * 2 and AR3PO.credit == WithoutReplayed(of=GRPO.credit)
    return Finding(holds, say(settings=str(found[0])))


TARGET = 0.8


def cost(recipe: Recipe) -> tuple[list[float], list[float]]:
    """By seed the samples until the exact chance is above the target, and the share of groups with a signal."""
    found, share = list[float](), list[float]()
    for seed in SEEDS:
        made, spent, groups = bench(recipe, seed), 0.0, list[float]()
        while made.expected() < TARGET and spent < 6000:
            metrics = made.step().metrics
            spent += metrics["tokens/generated"] / 2
            groups.append(metrics["groups/with_signal"] / metrics["groups/total"])
        found.append(spent)
        share.append(fmean(groups))
    return found, share


@claim(
    "It reaches the target with fewer samples than dynamic sampling, and more of its groups have a signal than GRPO's.",
    slow=True,
)
def it_reaches_the_target_with_fewer_samples_than_dynamic_sampling() -> Finding:
    made = {
        "ar3po": ours(AR3PO),
        "ar3po-reused": ours(AR3PO_REUSED),
        "dapo": DAPO.but({"rollout.samples": 8, "curriculum.prompts": 2}),
        "grpo": GRPO.but({"rollout.samples": 8}),
    }
    found = {name: cost(recipe) for name, recipe in made.items()}
    samples, share = ({name: row[n] for name, row in found.items()} for n in (0, 1))
    holds = fmean(samples["ar3po"]) < fmean(samples["dapo"]) and fmean(share["ar3po"]) > fmean(share["grpo"])
    saw = "; ".join(f"{name} {line(samples[name])} samples, signal {fmean(share[name]):.2f}" for name in made)
    return Finding(holds, f"to {TARGET:.0%}: {saw}")


claim.shipped(
    AR3PO,
    without={"rollout": Independent(samples=4)},
    steps=4,
    settings={"curriculum.prompts": 8, "curriculum.pool": 8, "rollout.samples": 2},
    sees=lambda run: {"replayed": run.mean("replay/trajectories"), "groups": run.mean("groups/with_signal")},
)
