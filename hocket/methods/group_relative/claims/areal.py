"""AReaL's claims."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean

import torch

from hocket.distributed.cluster.admission import GroupAdmission, GroupTicket
from hocket.distributed.cluster.simulation import Fleet, Simulation
from hocket.lab.claims.harness import EXACT, Claims, Finding, batches, below, each, gap, gradient, runs, say
from hocket.lab.hand_formulas import CountedAnswer, off, stale_rows, standardised
from hocket.lab.toys.quick_worlds import summing
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.areal import AREAL

claim = Claims("areal", "arXiv:2505.24298")

FLEET = Fleet(nodes=20, places=4, batch=64, steps=40, learn=15.0, speed=50.0, spread=1.2)
"""Lengths are log-normal: the longest group of a batch takes some ten times the median."""


@claim("Where the proximal policy is the one that sampled, the loss is PPO's.", "section 5.2")
def where_the_proximal_policy_is_the_one_that_sampled_the_loss_is() -> Finding:
    gaps = []
    for one in batches(10, "areal", gap=0.5):
        for row in one["trajectories"]:
            row["logp_proximal"] = row["logp_behaviour"]
        gaps.append(gap(gradient(AREAL, one), gradient(GRPO, one)))
    return below(EXACT, largest_difference_of_gradients=max(gaps))


@claim("Loss and gradient are the formula's, counted by hand; a weight above 5 counts 0 and stays in the mean.")
def loss_and_gradient_are_the_formulas_counted_by_hand_a_weight() -> Finding:
    heavy = 0

    def credit(members: Sequence[CountedAnswer]) -> list[torch.Tensor]:
        return [
            value * ((one.old - one.behaviour).exp() <= 5)
            for one, value in zip(members, standardised(members), strict=True)
        ]

    def loss(answers: Sequence[CountedAnswer]) -> tuple[torch.Tensor, dict[str, float]]:
        nonlocal heavy
        parts = []
        for one in answers:
            weight, u = (one.old - one.behaviour).exp(), (one.logp - one.old).exp()
            heavy += int((weight > 5).sum())
            gain = torch.minimum(u * one.advantage, u.clamp(0.8, 1.2) * one.advantage)
            parts.append(-(torch.where(weight <= 5, weight, 0.0) * gain).mean())
        return torch.stack(parts).mean(), {}

    gaps = [off(AREAL, rows, loss, credit) for rows in stale_rows("areal", gap=3.0)]
    return below(1e-6, heavy > 0, off_by_hand=max(gaps))  # Recorded log-probs are of single precision.


@claim("With no lag the sequence of batches is the synchronous one, in either order.", "section 5.1, eta 0")
def with_no_lag_the_sequence_of_batches_is_the_synchronous_one_in() -> Finding:
    same = []
    for order in ("start", "arrival"):
        admission, found = GroupAdmission(4, 0, order), list[list[tuple[int, int]]]()
        for _ in range(5):
            begun: list[GroupTicket] = []
            while (ticket := admission.begin([admission.version])) is not None:
                begun.append(ticket)
            for one in reversed(begun):
                admission.finish(one)
            taken = admission.take() or ()
            found.append([(one.group, one.version) for one in taken])
            admission.learnt(taken)
        same.append(found == [[(4 * n + i, n) for i in range(4)] for n in range(5)])
    return Finding(all(same), say(orders=len(same), synchronous=sum(same)))


@claim("Under random delays, deaths and lost messages no sample is learnt from that is more than eta versions old.")
def under_random_delays_deaths_and_lost_messages_no_sample_is() -> Finding:
    oldest = {}
    for order in ("start", "arrival"):
        for lag in (0, 1, 3):
            fleet = Fleet(nodes=12, places=3, batch=24, steps=12, order=order, lag=lag, slow=0.1, lost=0.02, die=0.2)
            oldest[order, lag] = max(int(age) for age in Simulation(fleet).run()["lag"])
    return Finding(all(age <= lag for (_, lag), age in oldest.items()), say(oldest=list(oldest.values())))


def unbounded(lag: int) -> int:
    """How old the oldest sample is when batches are formed as samples end and nothing is dropped."""
    fleet = Fleet(nodes=20, places=4, batch=32, steps=60, lag=lag, order="arrival", learn=5.0, spread=1.5)
    simulation, oldest = Simulation(fleet), 0
    admission = simulation.admission
    admission.lag = lag

    def learnt(taken: tuple[GroupTicket, ...]) -> None:
        nonlocal oldest
        oldest = max(oldest, *(admission.version - one.version for one in taken))
        admission.lag = fleet.steps  # Nothing is too old.
        GroupAdmission.learnt(admission, taken)
        admission.lag = lag

    admission.learnt = learnt  # type: ignore[method-assign]
    simulation.run()
    return oldest


@claim("Formed as samples end, with only their beginning bounded, batches hold samples far older than eta.")
def formed_as_samples_end_with_only_their_beginning_bounded_batches() -> Finding:
    oldest = unbounded(1)
    return Finding(oldest > 5, say(eta=1, oldest=oldest))


@claim("With long-tailed lengths the learner is busier the larger eta is.", "figure 1 and section 5.1")
def with_long_tailed_lengths_the_learner_is_busier_the_larger_eta() -> Finding:
    busy = {f"eta_{lag}": Simulation(replace(FLEET, lag=lag)).run()["learner/busy"] for lag in (0, 1, 2, 4)}
    rising = all(later > earlier for earlier, later in pairwise(busy.values()))
    return Finding(rising and busy["eta_4"] > 2 * busy["eta_0"], say(**busy))


@claim("With samples 4 updates old it learns as without lag, where a ratio to the sampler is held back.", slow=True)
def with_samples_4_updates_old_it_learns_as_without_lag_where_a() -> Finding:
    world = summing(2, 6, 3, context="last")
    late = runs(world, AREAL, GRPO, steps=40, lag=4, lr=0.3)
    fresh = runs(world, GRPO.but(name="without lag"), steps=40, lr=0.3)
    success = each(late | fresh, lambda bench: bench.readings[-1].success)
    ours, naive, synchronous = (fmean(success[name]) for name in ("areal", "grpo", "without lag"))
    return Finding(ours > synchronous - 0.02 and naive < ours - 0.05, say(**success))


claim.shipped(
    AREAL,
    "correction",
    steps=4,
    settings={"cluster": "local", "samplers": 2, "lag": 2, "update.lr": 0.003, "curriculum.prompts": 8},
)
