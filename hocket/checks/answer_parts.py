"""Checks of methods that reward parts of answers, choose how to sample, and schedule."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from statistics import fmean
from typing import Any, cast

import numpy as np
import torch

from hocket.checks.check import Check, Finding
from hocket.checks.token_weights import (
    GRPO,
    SEEDS,
    chances,
    document,
    drawn,
    logits,
    same,
    sample,
    shown,
    trained,
)
from hocket.credit.divergence import DIVERGENCE, divergence_by_place
from hocket.credit.segments import remaining_gain
from hocket.keys import Key
from hocket.lab import Answer, Bench, Tabular, World
from hocket.lab.world import Graded
from hocket.microscope import Reading, look
from hocket.objectives import Among
from hocket.objectives.divergence import kl_estimate
from hocket.recipes import find
from hocket.rewards.choices import inverted, subset_score
from hocket.rewards.lists import discounted_gains
from hocket.rewards.spans import placed, span_rewards
from hocket.rewards.steps import right_share, step_score
from hocket.schedules import Constant, Linear
from hocket.signals import returns
from hocket.types import Scenario

# ---------------------------------------------------------------- rank-grpo

RANK = find("rank-grpo")


def gains_look_ahead() -> Finding:
    """R_1 is the DCG, and what comes before a rank does not enter its gain."""
    held = []
    for hits in itertools.product((0.0, 1.0), repeat=5):
        by_hand = [sum(h / math.log2(j + 2) for j, h in enumerate(hits) if j >= k) for k in range(5)]
        held.append(same(discounted_gains(hits), by_hand))
        held.append(same(remaining_gain(torch.tensor(hits, dtype=torch.float64)).tolist(), by_hand))
        turned = (1 - hits[0], 1 - hits[1], *hits[2:])
        held.append(same(discounted_gains(hits)[2:], discounted_gains(turned)[2:]))
    rows = [
        sample("a", 0.0, [-1.0] * 3, segment=[0, 1, 2], info={"hits": hits})
        for hits in ([1, 0, 1], [0, 0, 1], [0, 1, 0])
    ]
    advantage = look(RANK, document(*rows))["advantages"]
    held.append(advantage[0][2] == advantage[1][2] and advantage[0][1] == advantage[1][1])
    return Finding(
        all(held), f"{len(held)} lists and their changes; A of lists with equal rest are equal at ranks 2 and 3"
    )


def one_item_is_gspo() -> Finding:
    """With one item per list it is GRPO with the sequence's geometric ratio."""
    held = []
    for seed in range(10):
        batch = drawn(seed)
        noise = Key.of(seed).numpy()
        for row in batch["trajectories"]:
            row["logp_behaviour"] = [one + 0.3 * float(noise.normal()) for one in row["logp"]]
        ours = look(RANK.but({"credit.epsilon": 1e-6}), batch)
        held.append(same(ours["gradient"], look(GRPO.but({"objective.ratio": "sequence"}), batch)["gradient"]))
    return Finding(all(held), f"gradients equal to 1e-12 on {sum(held)} of 10 off-policy batches")


def list_ends_are_shaped() -> Finding:
    """Surplus items are charged, and the end is rewarded at the right length only."""
    told = RANK.but({"credit.length": 2})
    rows = [
        sample("a", 0.0, [-1.0] * 3, segment=[0, 1, 1], info={"hits": [1, 0]}),
        sample("a", 0.0, [-1.0] * 2, segment=[0, 0], info={"hits": [0]}),
        sample("a", 0.0, [-1.0] * 4, segment=[0, 1, 2, 2], info={"hits": [0, 0]}),
    ]
    seen = look(told, document(*rows))["advantages"]
    holds = seen[0][-1] == 0.1 and seen[1][-1] == -0.1 and seen[2][2] == -0.1 and seen[2][-1] == 0.0
    return Finding(holds, f"last tokens {shown([row[-1] for row in seen])}, surplus item {seen[2][2]}")


ITEMS, LISTED = 50, 5


class Catalogue(World):
    """Lists of five from fifty items; ten are relevant to each of two users, each only once."""

    def answers(self) -> Iterator[Answer]:
        """Enough of them to visit every context."""
        yield from ((item,) * LISTED for item in range(ITEMS))


def hits_of(user: int, answer: Answer) -> list[float]:
    """1 for each relevant item that was not listed before."""
    relevant, found = set(range(10 * user, 10 * user + 10)), []
    for item in answer:
        found.append(float(item in relevant))
        relevant.discard(item)
    return found


def quality(bench: Bench) -> tuple[float, float]:
    """NDCG, and the hit rate at the last two ranks, over 4,000 drawn lists per user."""
    gain = last = 0.0
    ideal = discounted_gains([1.0] * LISTED)[0]
    for user in range(2):
        table = torch.stack([chances(bench, user, (0,) * place) for place in range(LISTED)])
        uniform = torch.from_numpy(Key.of(7).derive(user).numpy().random((4000, LISTED)))
        drawn_items = (table.cumsum(-1)[None] < uniform[:, :, None]).sum(-1).clamp(max=ITEMS - 1)
        hits = np.array([hits_of(user, tuple(row)) for row in drawn_items.tolist()])
        gain += float((hits / np.log2(np.arange(LISTED) + 2)).sum(1).mean()) / ideal / 2
        last += float(hits[:, -2:].mean()) / 2
    return gain, last


def ranks_beat_sequences() -> Finding:
    """After equal updates NDCG and the hit rate at the last ranks are above sequence-level GRPO's."""
    world = Catalogue(
        questions=2,
        tokens=ITEMS,
        horizon=LISTED,
        reward=lambda user, answer: discounted_gains(hits_of(user, answer))[0],
        context="position",
        info=lambda user, answer: {"hits": hits_of(user, answer), "pieces": [f"{item}\n" for item in answer]},
    )
    found: dict[str, list[tuple[float, float]]] = {}
    for name, recipe in (("grpo", GRPO), ("gspo", GRPO.but({"objective.ratio": "sequence"})), ("rank", RANK)):
        found[name] = [
            quality(trained(Bench(world, recipe.but({"rollout.samples": 16}), seed=seed, lr=0.1), 40)) for seed in SEEDS
        ]
    gains = {name: [a for a, _ in runs] for name, runs in found.items()}
    lasts = {name: [b for _, b in runs] for name, runs in found.items()}
    holds = all(min(one["rank"]) > max(one[other]) for one in (gains, lasts) for other in ("grpo", "gspo"))
    return Finding(
        holds,
        f"NDCG {shown(gains['rank'])} against {shown(gains['grpo'])} (sequence ratio {shown(gains['gspo'])}); hits at "
        f"ranks 4 and 5 {shown(lasts['rank'])} against {shown(lasts['grpo'])} ({shown(lasts['gspo'])})",
    )


# ---------------------------------------------------------------- spectral-po

SPECTRAL = find("spectral-po")


def mixed_groups_are_left() -> Finding:
    """Mixed groups keep GRPO's advantages to the bit; all-wrong ones get some iff scores differ."""
    mixed = [look(SPECTRAL, told(drawn(s)))["advantages"] == look(GRPO, drawn(s))["advantages"] for s in range(20)]
    apart = look(SPECTRAL, document(*(judged(0.0, share) for share in (0.1, 0.5, 0.5))))["advantages"]
    alike = look(SPECTRAL, document(*(judged(0.0, 0.5) for _ in range(3))))["advantages"]
    holds = all(mixed) and alike == [[0.0]] * 3 and apart[0][0] < 0 < apart[1][0]
    return Finding(holds, f"{sum(mixed)} of 20 mixed batches equal to the bit; all wrong: {apart} and {alike}")


def judged(reward: float, share: float) -> dict[str, Any]:
    """A sample with a judge's RTS."""
    row = sample("a", reward, [-1.0])
    return {**row, "scores": {"reward": reward, "rts": share}}


def told(batch: dict[str, Any]) -> dict[str, Any]:
    """The same batch with some RTS for every sample."""
    for number, row in enumerate(batch["trajectories"]):
        row["scores"]["rts"] = number / 20
    return batch


def scores_rise_with_the_right_part() -> Finding:
    """s rises strictly with RTS and stays in (0, 1); the scripted judge finds the first wrong step."""
    share = torch.linspace(0, 1, 101, dtype=torch.float64)
    score = step_score(share, 5.0, 0.5)
    rises = bool((score.diff() > 0).all()) and float(score.min()) > 0 and float(score.max()) < 1
    texts = ("2 + 3 = 5, 5 + 4 = 9.", "2 + 3 = 5, 5 + 4 = 8.", "2 + 3 = 6", "no step")
    shares = [right_share(text) for text in texts]
    judge = shares == [1.0, 11 / 21, 0.0, 0.0]
    return Finding(
        rises and judge,
        f"scores from {float(score[0]):.3f} to {float(score[-1]):.3f}; judge on 4 texts {shown(shares)}",
    )


def chains_start_sooner() -> Finding:
    """Time to 90 % with k steps in a row rewarded at their end only, and with the judge."""

    def share(question: int, answer: Answer) -> float:
        return next((n for n, token in enumerate(answer) if token != 0), len(answer)) / len(answer)

    def done(question: int, answer: Answer) -> float:
        return float(share(question, answer) == 1.0)

    most = 200
    first: dict[tuple[str, int], list[int]] = {}
    ninety: dict[tuple[str, int], list[int]] = {}
    for length, name, seed in itertools.product((2, 3, 4), ("grpo", "spectral-po"), SEEDS):
        world = World(questions=1, tokens=6, horizon=length, reward=done, context="position")
        scores = (Graded("reward", done), Graded("rts", share, weight=0.0))
        bench = Bench(world, find(name).but({"rewards": scores}), seed=seed, lr=0.1)
        seen, reached = most, most
        for step in range(1, most + 1):
            batch = bench.step().batch
            assert batch is not None
            # Shaping replaces rewards where nobody is right, so success is read off the judge.
            seen = min(seen, step) if bool((batch.scores["rts"].values == 1).any()) else seen
            if float(torch.stack([chances(bench, 0, (0,) * place)[0] for place in range(length)]).prod()) >= 0.9:
                reached = step
                break
        first.setdefault((name, length), []).append(seen)
        ninety.setdefault((name, length), []).append(reached)
    gain = [fmean(ninety["grpo", length]) / fmean(ninety["spectral-po", length]) for length in (2, 3, 4)]
    sooner = [fmean(first["grpo", length]) / fmean(first["spectral-po", length]) for length in (2, 3, 4)]
    holds = gain[0] < gain[1] < gain[2] and gain[1] > 1.2 and gain[2] > 1.5 and sooner[2] > 1.2
    return Finding(
        holds,
        f"chains of 2, 3, 4 steps: GRPO's time to 90 % over ours {shown(gain)} (at most {most}), to the first success "
        f"{shown(sooner)}; in chains of 2 there is nothing to gain",
    )


# ---------------------------------------------------------------- aepo

AEPO = find("aepo")
TEMPERED_TERM = cast(Among, AEPO.regularisers[0])


def flat_reward_pulls_to_heat() -> Finding:
    """For R = 1 the extra term's expected gradient is minus the cross-entropy's, whose effect on H turns at T = 1."""
    found, slopes, scale = [], [], TEMPERED_TERM.coefficient
    for factor in (0.5, 0.8, 1.0, 1.25, 2.0):
        values = torch.tensor([1.2, 0.3, -0.5, -1.0], dtype=torch.float64, requires_grad=True)
        policy = torch.log_softmax(values, 0)
        heated = torch.softmax(values.detach() / factor, 0)
        rows = [sample("a", 1.0, [float(policy[token].detach())], info={"tempered": True}) for token in range(4)]
        # The recipe's gradient in log-probs, each arm once; weighted by pi^T it is the expectation.
        slope = torch.tensor([row[0] for row in look(AEPO, document(*rows))["gradient"]], dtype=torch.float64)
        term = (slope * 4 * heated.detach() * policy).sum()
        (ours,) = torch.autograd.grad(term, values, retain_graph=True)
        crossed = -(heated * policy).sum()
        (cross,) = torch.autograd.grad(crossed, values, retain_graph=True)
        entropy = -(policy.exp() * policy).sum()
        (upward,) = torch.autograd.grad(entropy, values)
        found.append(same(ours.tolist(), (scale * cross).tolist()))
        slopes.append(float(-ours @ upward))
    holds = (
        all(found) and slopes[0] < 0 and slopes[1] < 0 and abs(slopes[2]) < 1e-12 and slopes[3] > 0 and slopes[4] > 0
    )
    return Finding(
        holds, f"equal to the cross-entropy's gradient; change of entropy at T = 0.5, 0.8, 1, 1.25, 2: {shown(slopes)}"
    )


def parts_do_not_mix() -> Finding:
    """Tempered samples change neither the group's statistics nor the surrogate, and wrong ones pull at nothing."""
    rows = [sample("a", r, [-1.0, -0.5]) for r in (0.0, 1.0, 1.0)]
    extra = [sample("a", r, [-2.0], info={"tempered": True}) for r in (0.0, 1.0)]
    ours, plain = look(AEPO, document(*rows, *extra)), look(GRPO, document(*rows))
    holds = ours["gradient"][:3] == plain["gradient"] and ours["gradient"][3] == [0.0]
    holds &= same(ours["gradient"][4], [-TEMPERED_TERM.coefficient / 2])
    return Finding(holds, f"own samples as in GRPO; tempered ones {ours['gradient'][3:]}")


ARMS = 8


def entropy_settles() -> Finding:
    """Entropy settles around each target, where GRPO's falls to 0."""
    world = World(
        questions=4,
        tokens=ARMS,
        horizon=1,
        # Arm 4 is always right, 0 to 3 in three of four questions that look the same.
        reward=lambda question, answer: float(answer[0] < 5 and answer[0] != question),
        context=lambda question, prefix: "arm",
    )
    levels: dict[float, list[float]] = {}
    rewards: dict[float, float] = {}
    for target in (0.4, 0.8, 1.2):
        runs = []
        for seed in SEEDS:
            recipe = AEPO.but({"rollout.target": target, "rollout.extra": 8})
            bench = trained(Bench(world, recipe, seed=seed, lr=0.03), 100)
            seen = [trained(bench, 4).entropy() for _ in range(10)]
            levels.setdefault(target, []).append(fmean(seen))
            runs.append(bench.success())
        rewards[target] = fmean(runs)
    fallen = [trained(Bench(world, GRPO.but({"rollout.samples": 16}), seed=seed, lr=0.03), 300) for seed in SEEDS]
    low = [bench.entropy() for bench in fallen]
    holds = all(abs(one - target) < 0.25 for target, found in levels.items() for one in found) and max(low) < 0.15
    plain = [bench.success() for bench in fallen]
    curve = ", ".join(f"{fmean(levels[t]):.2f} nats: {rewards[t]:.3f}" for t in levels)
    return Finding(
        holds,
        "mean entropy by seed at targets "
        + "; ".join(f"{t}: {shown(found)}" for t, found in levels.items())
        + f"; GRPO's falls to {shown(low)}; reward against entropy: {curve}, GRPO {fmean(plain):.3f}",
    )


# ---------------------------------------------------------------- adacot

ADACOT = find("adacot")
TAGGED = ("<think>", "why</think>yes", "</think>yes")
QUESTIONS = 8


def decision_has_no_gradient() -> Finding:
    """The gradient at the decision is exactly 0 under the mask, and nowhere else."""
    rows = [
        sample("a", reward, [-0.5, -1.0, -0.7], value=[0.1, 0.2, 0.3], text=text, info={"pieces": pieces})
        for reward, text, pieces in (
            (1.0, "<think>why</think>", ["<think>", "why", "</think>"]),
            (0.0, "<think></think>yes", ["<thi", "nk></think>", "yes"]),
            (0.0, "so<think>why", ["so<think>", "why", "!"]),
        )
    ]
    ours, open_ = look(ADACOT, document(*rows)), look(ADACOT.but({"correction": None}), document(*rows))
    silent = [[slope == 0 for slope in row] for row in ours["gradient"]]
    moved = [[slope != 0 for slope in row] for row in open_["gradient"]]
    holds = silent == [[False, True, False], [False, False, True], [False, True, False]] and all(map(all, moved))
    return Finding(holds, f"gradient 0 at {silent}; without the mask nowhere")


def penalties_are_charged() -> Finding:
    """Each penalty is charged where it is due."""
    rows = [
        sample("a", 0.0, [-1.0], value=[0.0], text=text, info={"needed": needed, "pieces": [text]})
        for text, needed in (
            ("yes", 1.0),
            ("<think>why</think>yes", 0.0),
            ("<think>why", 0.5),
            ("<think>why</think>", 1.0),
        )
    ]
    batch = Reading(document(*rows)).batch
    shaped = ADACOT.shaping[0](ADACOT.combine(batch, {}))
    found = returns(shaped).tolist()
    return Finding(same(found, [-0.2, -0.2, -0.1 - 0.5, 0.0]), f"missed, overdone, broken, fine: {shown(found)}")


def thinking_world(*, hard: bool = False) -> World:
    """Questions 0 to 7 of rising difficulty q/7: thinking is always right, answering straight with chance 1 - q/7.

    With `hard` the two hardest alone are asked, and all questions look the same where it is decided.
    """

    def level(question: int) -> float:
        return (QUESTIONS - 1 - question if hard else question) / (QUESTIONS - 1)

    def reward(question: int, answer: Answer) -> float:
        return {1: 1.0, 2: 1 - level(question)}.get(answer[1], 0.0) if answer[0] == 0 else 0.0

    return World(
        questions=2 if hard else QUESTIONS,
        tokens=3,
        horizon=2,
        reward=reward,
        words=TAGGED,
        context=lambda question, prefix: ("decide", 0 if hard else question) if prefix else "open",
        info=lambda question, answer: {"needed": level(question)},
    )


def undecided(policy: Tabular) -> None:
    """Opens the tag, and thinks half of the time."""
    for question in range(policy.world.questions):
        logits(policy, question, (), {0: 1.0}, 1e-9)
        logits(policy, question, (0,), {1: 0.5, 2: 0.5}, 1e-9)


def rates(bench: Bench) -> list[float]:
    """How often each question is thought about."""
    return [float(chances(bench, question, (0,))[1]) for question in range(bench.world.questions)]


def ranks_well(rate: list[float]) -> float:
    """The area under the curve of triggering as a classifier of the harder half; rates within 0.02 are ties."""
    half = QUESTIONS // 2
    pairs = [(easy, hard) for easy in rate[:half] for hard in rate[half:]]
    return fmean([0.5 if abs(hard - easy) < 0.02 else float(hard > easy) for easy, hard in pairs])


def prices_set_the_rate() -> Finding:
    """The trigger rate falls with a2/a1, and thinking concentrates on hard items."""
    plain = ADACOT.but({"correction": None, "update.epochs": 1, "update.minibatches": 1, "rollout.samples": 8})
    found: dict[float, list[float]] = {}
    areas: dict[float, list[float]] = {}
    for over, seed in itertools.product((0.1, 0.5, 1.0, 2.0), SEEDS):
        recipe = plain.but({"shaping.0.over": over, "shaping.0.miss": 0.2})
        bench = trained(Bench(thinking_world(), recipe, seed=seed, lr=0.1, start=undecided), 50)
        found.setdefault(over / 0.2, []).append(fmean(rates(bench)))
        areas.setdefault(over / 0.2, []).append(ranks_well(rates(bench)))
    triggered, curve = [fmean(runs) for runs in found.values()], [fmean(runs) for runs in areas.values()]
    falls = all(min(a) > max(b) for a, b in itertools.pairwise(found.values()))
    return Finding(
        falls and fmean(curve) > 0.8,
        f"trigger rate at a2/a1 = {shown(list(found))}: {shown(triggered)}; AUC {shown(curve)}, "
        f"mean {fmean(curve):.2f}",
    )


def boundary_survives_one_sided_data() -> Finding:
    """A second stage on hard questions alone drives the rate to 1 unmasked, and leaves it masked."""
    found = {}
    for name, mask in (("unmasked", None), ("masked", ADACOT.correction)):
        recipe = ADACOT.but({"correction": mask, "update.epochs": 1, "update.minibatches": 1, "rollout.samples": 8})
        found[name] = [
            rates(trained(Bench(thinking_world(hard=True), recipe, seed=seed, lr=0.1, start=undecided), 60))[0]
            for seed in SEEDS
        ]
    holds = min(found["unmasked"]) > 0.95 and all(abs(rate - 0.5) < 0.05 for rate in found["masked"])
    return Finding(holds, f"rate from 0.5 to {shown(found['unmasked'])} unmasked and {shown(found['masked'])} masked")


# ---------------------------------------------------------------- othink-mr1

OTHINK = find("othink-mr1")


def level_schedule_is_grpo() -> Finding:
    """With beta_min = beta_max it is GRPO with that KL, at every point of the run."""
    held = []
    for seed, progress in itertools.product(range(5), (0.0, 0.3, 1.0)):
        batch = {**drawn(seed), "state": {"progress": progress}}
        for row in batch["trajectories"]:
            row["logp_ref"] = [one - 0.2 for one in row["logp"]]
        level = {"regularisers.0.coefficient": Linear(0.04, 0.04)}
        held.append(look(OTHINK.but(level), batch)["gradient"] == look(find("grpo-kl"), batch)["gradient"])
        share = {"regularisers.0.coefficient": Constant(0.04 * progress)}
        held.append(same(look(OTHINK, batch)["loss"], look(find("grpo-kl").but(share), batch)["loss"]))
    return Finding(all(held), f"{sum(held)} of {len(held)} comparisons at progress 0, 0.3 and 1")


def k3_is_unbiased() -> Finding:
    """k3 is never negative, and its mean under pi is KL(pi || ref), by enumeration."""
    noise, gaps, least = Key.of(1).numpy(), [], math.inf
    for _ in range(200):
        own, other = (torch.log_softmax(torch.from_numpy(noise.normal(size=7) * 2), 0) for _ in range(2))
        k3 = kl_estimate(own - other, "k3")
        least = min(least, float(k3.min()))
        gaps.append(abs(float((own.exp() * (k3 - (own - other))).sum())))
    return Finding(
        max(gaps) < 1e-12 and least >= 0, f"largest gap to KL {max(gaps):.1e}, least value {least:.1e}, 200 pairs"
    )


RULE_A = (1.0, 0.8, 0.8, 0.6, 0.0, 0.0, 0.0, 0.0)
RULE_B = (0.2, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0)
PRIOR = (0.05, 0.2, 0.2, 0.15, 0.1, 0.1, 0.1, 0.1)


def rising_weight_sweep() -> Finding:
    """Trained on A and tested on a related B: a rising weight against constant ones, and against imitation."""
    world = World(
        questions=1,
        tokens=8,
        horizon=1,
        reward=lambda question, answer: RULE_A[answer[0]],
        metadata=lambda question: {"demonstration": "0"},
    )
    prior = torch.tensor(PRIOR, dtype=torch.float64)

    def start(policy: Tabular) -> None:
        policy.logits[:] = prior.log()

    def figures(recipe_: Any, seed: int) -> tuple[float, float, float]:
        bench = trained(Bench(world, recipe_, seed=seed, lr=0.05, steps=120, start=start), 120)
        own = chances(bench)
        a, b = (float((own * torch.tensor(rule, dtype=torch.float64)).sum()) for rule in (RULE_A, RULE_B))
        return a, b, float((own * (own / prior).log()).sum())

    settings: dict[str, Any] = {"rising to 0.2": Linear(0.0, 0.2)} | {f"{c}": c for c in (0.0, 0.05, 0.1, 0.2, 0.4)}
    table = {}
    for name, weight in settings.items():
        runs = [figures(OTHINK.but({"regularisers.0.coefficient": weight}), seed) for seed in SEEDS]
        table[name] = tuple(fmean([run[n] for run in runs]) for n in range(3))
    copied = fmean([figures(find("sft"), seed)[1] for seed in SEEDS])
    rising = table.pop("rising to 0.2")
    # Against the constant weights that stray no further than it does.
    comparable = [row for row in table.values() if row[2] <= rising[2] + 0.05]
    best = max(row[0] for row in table.values())
    holds = rising[2] < table["0.0"][2] and rising[1] >= copied - 0.02
    holds &= all(rising[0] >= row[0] - 0.02 for row in comparable)
    listed = "; ".join(f"{name}: {shown(row)}" for name, row in table.items())
    return Finding(
        holds,
        f"reward on A, on B, and KL at the end: rising {shown(rising)}; constant {listed}; SFT on B {copied:.3f}. "
        f"No constant of at most its KL earns more, but the best {best:.3f} on A: the claim that a "
        "rising weight reaches the best constant's reward is not confirmed",
    )


# ---------------------------------------------------------------- text2grad

TEXT2GRAD = find("text2grad")


def spans_find_their_tokens() -> Finding:
    """Each token of a quoted span and no other gets its score, repeated words in order."""
    pieces = ["The ", "cat ", "sat ", "on ", "the ", "c", "at", "."]
    spans = [("cat", 1.0), ("cat", -1.0), ("dog", 5.0), ("sat on", 0.5)]
    found = span_rewards(pieces, spans)
    shared = span_rewards(pieces, spans, "shared")
    holds = found == [0, 1, 0.5, 0.5, 0, -1, -1, 0] and shared == [0, 1, 0.25, 0.25, 0, -0.5, -0.5, 0]
    quoted = sum(score for place in placed("".join(pieces), spans) if place is not None for score in place[2:])
    holds &= math.isclose(sum(shared), quoted)
    return Finding(
        holds, f"rewards {shown(found)}; shared among a span's tokens they add up to {sum(shared)} = {quoted}"
    )


def silence_outside_spans() -> Finding:
    """With gamma = 0, no KL and a value of 0, tokens outside of spans have no gradient; other values give them some."""
    bare = TEXT2GRAD.but({"credit.gamma": 0.0, "credit.whiten": False, "shaping.1.coefficient": 0.0})

    def seen(value: float) -> list[float]:
        row = sample(
            "a",
            0.0,
            [-1.0] * 4,
            value=[value] * 4,
            logp_ref=[-1.1] * 4,
            info={"pieces": ["a ", "bad ", "word ", "here"], "critique": [["bad word", -1.0]]},
        )
        found: list[float] = look(bare, document(row))["gradient"][0]
        return found

    quiet, valued = seen(0.0), seen(0.3)
    holds = quiet[0] == quiet[3] == 0 and quiet[1] > 0 and quiet[2] > 0 and valued[0] != 0
    return Finding(holds, f"gradient {shown(quiet)}; where V = 0.3 {shown(valued)}, so the claim needs V = 0 there")


SPAN = 8


class Spelling(World):
    """Words of eight letters from four; one letter is right at each place."""

    def answers(self) -> Iterator[Answer]:
        """Enough of them to visit every context."""
        yield from ((letter,) * SPAN for letter in range(4))


def spans_learn_sooner() -> Finding:
    """An oracle critic's spans reach a quality in fewer samples than their sum as one reward."""

    def right(question: int, place: int, letter: int) -> bool:
        return letter == (place + question) % 4

    def critique(question: int, answer: Answer) -> Mapping[str, Any]:
        marks = [
            ["abcd"[letter], 1.0 if right(question, place, letter) else -1.0] for place, letter in enumerate(answer)
        ]
        return {"critique": marks}

    def total(question: int, answer: Answer) -> float:
        return float(sum(1 if right(question, place, letter) else -1 for place, letter in enumerate(answer)))

    def accuracy(bench: Bench) -> float:
        return fmean([float(chances(bench, q, (0,) * p)[(p + q) % 4]) for q in range(2) for p in range(SPAN)])

    world = Spelling(
        questions=2,
        tokens=4,
        horizon=SPAN,
        reward=lambda q, a: 0.0,
        context="position",
        words=tuple("abcd"),
        info=critique,
    )
    once = {"update.epochs": 1, "update.minibatches": 1, "rollout.samples": 8}
    needed: dict[str, list[int]] = {}
    for name, asked in (("text2grad", world), ("ppo-rlhf", replace(world, reward=total))):
        for seed in SEEDS:
            bench, step = Bench(asked, find(name).but(once), seed=seed, lr=0.05), 0
            while accuracy(bench) < 0.8 and step < 120:
                bench.step()
                step += 1
            needed.setdefault(name, []).append(16 * step)
    holds = max(needed["text2grad"]) < min(needed["ppo-rlhf"])
    return Finding(
        holds,
        f"samples to 80 % of letters right: {needed['text2grad']} against {needed['ppo-rlhf']} of the summed reward",
    )


# ---------------------------------------------------------------- tw-grpo

TW = find("tw-grpo")


def places_weigh_what_differs() -> Finding:
    """Weights lie in [1, w_max]; equal for identical completions; least on a shared opening."""
    world = World(questions=1, tokens=3, horizon=3, reward=lambda q, a: float(a[2] == 0))
    policy = Tabular(world)
    with torch.no_grad():
        policy.logits[:] = torch.from_numpy(Key.of(5).numpy().normal(size=tuple(policy.logits.shape)))

    def weighed(answers: list[Answer]) -> list[list[float]]:
        rows = [
            sample("a", float(n % 2), [float(x) for x in token_logps(policy, answer)], tokens=list(answer))
            for n, answer in enumerate(answers)
        ]
        read = Reading(document(*rows))
        places = [np.array(policy.path(0, answer), np.int64) for answer in answers]
        batch = read.batch.but(observation=places)
        batch = batch.but(
            annotations={DIVERGENCE.name: divergence_by_place(batch, policy, torch.arange(batch.decisions), budget=9)}
        )
        credited, _ = TW.assess(batch, TW.init(), {})
        return read.by_trajectory(credited.occurrences.weight)

    alike = weighed([(0, 1, 2)] * 3)
    apart = weighed([(0, 1, 2), (0, 2, 1), (0, 0, 0)])
    by_hand = weights_by_hand(policy, [(0, 1, 2), (0, 2, 1), (0, 0, 0)])
    holds = alike == [[1.0] * 3] * 3 and all(1 <= x <= 1.4 for row in apart for x in row)
    holds &= same(apart[0], by_hand) and apart[0][0] == apart[0][1] == 1.0
    return Finding(holds, f"identical {alike[0]}; shared first token {shown(apart[0])}, by hand {shown(by_hand)}")


def token_logps(policy: Tabular, answer: Answer) -> list[float]:
    """The log-prob of each token of an answer."""
    table = torch.log_softmax(policy.logits.detach(), -1)
    return [float(table[row, token]) for row, token in zip(policy.path(0, answer), answer, strict=True)]


def weights_by_hand(policy: Tabular, answers: list[Answer]) -> list[float]:
    """TW-GRPO's weight at each place, in plain loops."""
    table = torch.log_softmax(policy.logits.detach(), -1)
    found = []
    for place in range(3):
        rows = [table[policy.row(0, answer[:place])].tolist() for answer in answers]
        centre = [fmean([row[v] for row in rows]) for v in range(3)]
        found.append(
            fmean([sum(math.exp(m - x) - (m - x) - 1 for m, x in zip(centre, row, strict=True)) for row in rows])
        )
    low, high = min(found), max(found)
    return [1 + 0.4 * (x - low) / (high - low + 1e-8) for x in found]


def part_of_the_options_counts() -> Finding:
    """A subset of the right options scores in (0, 1), any wrong one 0; inversion asks for the others."""
    right = {"A", "C", "D"}
    values = {
        tuple(sorted(given)): subset_score(given, right) for given in ({"A"}, {"A", "C"}, right, {"A", "B"}, set())
    }
    turned = inverted(Scenario("q", "Which one?", "B", {"options": ["A", "B", "C"]}))
    holds = (
        list(values.values()) == [1 / 3, 2 / 3, 1.0, 0.0, 0.0] and turned.answer == ["A", "C"] and turned.origin == "q"
    )
    return Finding(holds, f"scores {values}; inverted answer {turned.answer}")


def weighed_places_learn_faster() -> Finding:
    """Three certain tokens, one that is free, and one that must fit it: the only place where samples differ."""
    world = World(
        questions=2,
        tokens=4,
        horizon=5,
        reward=lambda question, answer: float(answer[4] == (answer[3] + question) % 4),
        context="last",
    )
    noise = torch.from_numpy(Key.of(11).numpy().normal(size=(2, 4, 4)))

    def start(policy: Tabular) -> None:
        for question in range(2):
            for place, last in itertools.product((0, 1, 2), range(4)):
                logits(policy, question, (*(0,) * (place - 1), last) if place else (), {0: 0.97}, 0.01)
            for last in range(4):
                policy.logits[policy.row(question, (0, 0, 0, last))] = noise[question, last]

    def right(bench: Bench) -> float:
        each = [
            chances(bench, q, (0, 0, 0))[free] * chances(bench, q, (0, 0, 0, free))[(free + q) % 4]
            for q in range(2)
            for free in range(4)
        ]
        return 4 * fmean([float(one) for one in each])

    found: dict[tuple[str, bool], list[float]] = {}
    for name, recipe in (("weights", TW), ("uniform", TW.but({"credit.largest": 1.0}))):
        for plain, seed in itertools.product((True, False), SEEDS):
            bench = Bench(world, recipe.but({"update.clip_norm": None}), seed=seed, lr=0.05, start=start)
            if plain:
                bench.learner.optimiser = torch.optim.SGD(bench.policy.module.parameters(), lr=5.0)
            found.setdefault((name, plain), []).append(right(trained(bench, 30)))
    gains = [a - b for a, b in zip(found["weights", True], found["uniform", True], strict=True)]
    adam = [a - b for a, b in zip(found["weights", False], found["uniform", False], strict=True)]
    return Finding(
        min(gains) > 0,
        f"accuracy after 30 plain gradient steps {shown(found['weights', True])} against "
        f"{shown(found['uniform', True])} with uniform weights; with Adam, which hardly sees a constant scale, the "
        f"differences are {shown(adam)}",
    )


def check(row: str, claim: str, run: Callable[[], Finding], source: str, slow: bool = False) -> Check:
    """A check, its arguments in the order of the table below."""
    return Check(row, claim, run, source, slow)


RANK_PAPER, SPECTRAL_PAPER, AEPO_PAPER = "arXiv 2510.20150", "arXiv 2505.11595", "arXiv 2510.08141"
ADACOT_PAPER, OTHINK_PAPER, T2G_PAPER, TW_PAPER = (
    *("arXiv 2505.11896", "arXiv 2503.16081"),
    *("arXiv 2505.22338", "arXiv 2505.24718"),
)

CHECKS = (
    check("rank-grpo", "R_1 is the DCG; items before a rank leave its gain as it is.", gains_look_ahead, RANK_PAPER),
    check(
        "rank-grpo", "With one item per list it is GRPO with a geometric sequence ratio.", one_item_is_gspo, RANK_PAPER
    ),
    check("rank-grpo", "Surplus items cost, and the end earns at the right length.", list_ends_are_shaped, RANK_PAPER),
    check(
        "rank-grpo",
        "Listing 5 of 50 items, NDCG and hits at the last ranks beat sequence-level GRPO after equal updates.",
        ranks_beat_sequences,
        RANK_PAPER,
        slow=True,
    ),
    check(
        "spectral-po",
        "Mixed groups are GRPO's to the bit; all-wrong ones get advantages iff scores differ.",
        mixed_groups_are_left,
        SPECTRAL_PAPER,
    ),
    check(
        "spectral-po",
        "The score rises strictly with the right share and stays inside (0, 1).",
        scores_rise_with_the_right_part,
        SPECTRAL_PAPER,
    ),
    check(
        "spectral-po",
        "In chains of k steps the first success and 90 % come sooner than under GRPO, the more so the longer.",
        chains_start_sooner,
        SPECTRAL_PAPER,
        slow=True,
    ),
    check(
        "aepo",
        "For R = 1 the extra term's expected gradient is the cross-entropy's; its effect on entropy turns at T = 1.",
        flat_reward_pulls_to_heat,
        AEPO_PAPER,
    ),
    check("aepo", "Only right tempered samples pull, apart from the group's statistics.", parts_do_not_mix, AEPO_PAPER),
    check(
        "aepo",
        "On a bandit with several right arms entropy settles around each target, while GRPO's falls to 0.",
        entropy_settles,
        AEPO_PAPER,
        slow=True,
    ),
    check("adacot", "Masked, the decision's gradient is exactly 0.", decision_has_no_gradient, ADACOT_PAPER),
    check("adacot", "Penalties are charged where they are due.", penalties_are_charged, "our form of the penalties"),
    check(
        "adacot",
        "The trigger rate falls with a2/a1 and thinking concentrates on hard items.",
        prices_set_the_rate,
        ADACOT_PAPER,
        slow=True,
    ),
    check(
        "adacot",
        "A stage on hard data alone drives the rate to 1 unmasked and leaves it within 5 points masked.",
        boundary_survives_one_sided_data,
        ADACOT_PAPER,
        slow=True,
    ),
    check("othink-mr1", "With equal ends the schedule is GRPO with KL.", level_schedule_is_grpo, OTHINK_PAPER),
    check("othink-mr1", "k3 is non-negative and unbiased for KL(pi || ref).", k3_is_unbiased, "Schulman 2020"),
    check(
        "othink-mr1",
        "A rising weight earns on A what constants of its KL earn, bounds the KL, and transfers no worse than SFT.",
        rising_weight_sweep,
        OTHINK_PAPER,
        slow=True,
    ),
    check("text2grad", "Spans find exactly their tokens, repeated words in order.", spans_find_their_tokens, T2G_PAPER),
    check(
        "text2grad",
        "With gamma = 0, no KL and V = 0 tokens outside of spans have no gradient.",
        silence_outside_spans,
        T2G_PAPER,
    ),
    check(
        "text2grad",
        "With an oracle critic a fixed quality takes fewer samples than PPO on the summed reward.",
        spans_learn_sooner,
        T2G_PAPER,
        slow=True,
    ),
    check(
        "tw-grpo",
        "Weights lie in [1, w_max], are equal for identical completions and least on a shared opening.",
        places_weigh_what_differs,
        TW_PAPER,
    ),
    check("tw-grpo", "Part of the right options earns part of the reward.", part_of_the_options_counts, TW_PAPER),
    check(
        "tw-grpo",
        "After a certain opening, weighed places learn faster per plain gradient step than uniform ones.",
        weighed_places_learn_faster,
        TW_PAPER,
        slow=True,
    ),
)
