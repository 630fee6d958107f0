"""Checks of methods that weigh samples and tokens."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from hocket.checks.check import Check, Finding
from hocket.credit.entropy import entropy_lift
from hocket.credit.refined import Refined, only
from hocket.credit.selection import largest_in_groups, largest_variance
from hocket.keys import Key
from hocket.lab import Answer, Bench, Tabular, World
from hocket.microscope import look
from hocket.recipe import Recipe
from hocket.recipes import find
from hocket.rewards import CallMatch
from hocket.rewards.calls import calls_of
from hocket.rollout import Independent
from hocket.types import Batch, GroupBy, Occurrences

SEEDS = range(5)

# ---------------------------------------------------------------- small recorded batches


def sample(group: str, reward: float, logp: Sequence[float], **more: Any) -> dict[str, Any]:
    """A trajectory of a recorded batch, entropies 1 unless given."""
    return {
        "group": group,
        "scores": {"reward": reward},
        "logp": list(logp),
        "entropy": [1.0] * len(logp),
        "tokens": list(range(len(logp))),
        **more,
    }


def document(*rows: dict[str, Any], progress: float = 0.0) -> dict[str, Any]:
    """A batch for the microscope."""
    return {"version": 1, "trajectories": list(rows), "state": {"progress": progress}}


def drawn(seed: int, groups: int = 3, size: int = 4, rewards: Sequence[float] = (0.0, 1.0)) -> dict[str, Any]:
    """A batch of random trajectories, each group with unequal rewards."""
    noise = Key.of(seed).numpy()
    rows = []
    for group in range(groups):
        for number in range(size):
            reward = rewards[number] if number < len(rewards) else float(noise.choice(rewards))
            length = int(noise.integers(1, 6))
            logp = (-noise.exponential(size=length)).tolist()
            rows.append(sample(str(group), reward, logp, entropy=noise.exponential(size=length).tolist()))
    return document(*rows)


def same(left: Any, right: Any, tolerance: float = 1e-12) -> bool:
    """Whether two nested lists of numbers are equal up to `tolerance`, relative to the larger."""
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(same(a, b, tolerance) for a, b in zip(left, right, strict=True))
    return bool(abs(left - right) <= tolerance * max(1.0, abs(left), abs(right)))


def spread(rows: Sequence[Sequence[float]]) -> list[float]:
    """The first number of each row."""
    return [row[0] for row in rows]


def shown(values: Sequence[float], digits: int = 3) -> str:
    """Numbers as text."""
    return "[" + ", ".join(f"{value:.{digits}g}" for value in values) + "]"


def logits(policy: Tabular, question: int, prefix: Answer, odds: dict[int, float], rest: float = 1e-6) -> None:
    """Sets the next token's distribution in a context; tokens not named get `rest` before normalisation."""
    row = torch.full((policy.world.tokens,), rest, dtype=torch.float64)
    for token, chance in odds.items():
        row[token] = chance
    policy.logits[policy.row(question, prefix)] = (row / row.sum()).log()


def chances(bench: Bench, question: int = 0, prefix: Answer = ()) -> Tensor:
    """The next token's distribution in a context, `[V]`."""
    return torch.softmax(bench.policy.logits.detach()[bench.policy.row(question, prefix)], -1)


def trained(bench: Bench, steps: int) -> Bench:
    """`bench` after so many steps, without readings between."""
    for _ in range(steps):
        bench.step()
    return bench


# ---------------------------------------------------------------- unlikeliness-reward

UNLIKELY = find("unlikeliness-reward")


def rare_gains_more() -> Finding:
    """Two right samples of different likelihood, by hand."""
    rows = document(
        sample("a", 1.0, [-0.5, -0.5]),
        sample("a", 1.0, [-3.0]),
        sample("a", 0.0, [-0.1]),
        sample("a", 0.0, [-5.0, -5.0]),
    )
    likely, rare, *wrong = spread(look(UNLIKELY, rows)["advantages"])
    # Ranks 2, 1, 3, 0 of G = 4: rewards 1 - 0.25 * 2/4 and 1 - 0.25 * 1/4.
    reward = torch.tensor([0.875, 0.9375, 0.0, 0.0], dtype=torch.float64)
    expected = ((reward - reward.mean()) / (reward.std() + 1e-6)).tolist()
    holds = rare > likely > 0 and wrong[0] == wrong[1] and same([likely, rare, *wrong], expected)
    return Finding(
        holds, f"advantages likely {likely:.4f}, rare {rare:.4f}, wrong {shown(wrong)}, by hand {shown(expected)}"
    )


def no_unlikeliness_is_grpo() -> Finding:
    """Gradients with beta = 0."""
    plain = UNLIKELY.but({"shaping.0.beta": 0.0})
    equal = [look(plain, drawn(seed))["gradient"] == look(find("grpo"), drawn(seed))["gradient"] for seed in range(20)]
    return Finding(all(equal), f"gradients equal to the bit on {sum(equal)} of {len(equal)} batches")


MODES = (0.55, 0.2, 0.04, 0.01, 0.1, 0.1)
"""Four right modes of very different probability, two wrong ones."""


def pass_at(chance: Tensor, tries: int) -> float:
    """The mean over problems, each solved by one mode, of the chance that one of `tries` samples solves it."""
    return float((1 - (1 - chance) ** tries).mean())


def rare_modes_survive() -> Finding:
    """pass@N after training on one reward with four right modes."""
    world = World(questions=1, tokens=6, horizon=1, reward=lambda question, answer: float(answer[0] < 4))

    def start(policy: Tabular) -> None:
        policy.logits[:] = torch.tensor(MODES, dtype=torch.float64).log()

    base = torch.tensor(MODES[:4], dtype=torch.float64)
    before = pass_at(base, 64)
    after: dict[str, list[tuple[float, float]]] = {}
    for name in ("grpo", "unlikeliness-reward"):
        recipe = find(name).but({"rollout.samples": 16})
        runs = [chances(trained(Bench(world, recipe, seed=seed, start=start), 200))[:4] for seed in SEEDS]
        after[name] = [(pass_at(run, 1), pass_at(run, 64)) for run in runs]
    ours, grpo = after["unlikeliness-reward"], after["grpo"]
    holds = all(many >= before for _, many in ours) and all(one > 0.2 and many < before for one, many in grpo)
    return Finding(
        holds,
        f"problems each solved by one of four modes: pass@64 {before:.3f} before, GRPO {shown([m for _, m in grpo])}, "
        f"the unlikeliness reward {shown([m for _, m in ours])}; pass@1 from 0.2, GRPO {shown([o for o, _ in grpo])}",
    )


# ---------------------------------------------------------------- edge-grpo

EDGE = find("edge-grpo")
GRPO = find("grpo")


def equal_entropies_change_nothing() -> Finding:
    """Advantages where all entropies are equal."""
    flat = drawn(1)
    for row in flat["trajectories"]:
        row["entropy"] = [0.7] * len(row["logp"])
    equal = same(look(EDGE, flat)["advantages"], look(GRPO, flat)["advantages"])
    return Finding(equal, "A' = A where every H_i is 0.7")


def entropy_scales_without_turning() -> Finding:
    """Advantages against GRPO's times fmean(H)/H_i."""
    held = []
    for seed in range(30):
        batch = drawn(seed)
        ours, plain = look(EDGE, batch), look(GRPO, batch)
        signs = [[math.copysign(1, x) if x else 0 for x in row] for row in ours["advantages"]]
        before = [[math.copysign(1, x) if x else 0 for x in row] for row in plain["advantages"]]
        entropies = [fmean(row["entropy"]) for row in batch["trajectories"]]
        factor = [min(10.0, max(0.1, fmean(entropies) / one)) for one in entropies]
        expected = [[a * f for a in row] for row, f in zip(plain["advantages"], factor, strict=True)]
        held.append(signs == before and same(ours["advantages"], expected) and "gradient_entropy" not in ours)
    return Finding(
        all(held), f"signs kept, A fmean(H)/H_i by hand, no gradient in the entropies on {sum(held)} of 30 batches"
    )


def entropy_alone_revives_nothing() -> Finding:
    """An all-wrong group, and the same with one corrected sample."""
    rows = [sample("a", 0.0, [-1.0] * n, entropy=[0.3 * n] * n) for n in (1, 2, 3)]
    dead = look(EDGE, document(*rows))["advantages"]
    alive = look(EDGE, document(*rows, sample("a", 1.0, [-1.0, -2.0], trained=[False, True])))["advantages"]
    holds = not any(x for row in dead for x in row) and all(row[0] < 0 for row in alive[:3]) and alive[3][1] > 0
    return Finding(holds, f"all wrong: {shown(spread(dead))}; with a corrected sample: {shown([r[-1] for r in alive])}")


WAIT, FULL_STOP = 4, 5


def second_thoughts() -> tuple[World, Callable[[Tabular], None]]:
    """Answers that may be taken back once: hard at the first attempt, easier at the second, which is rarely made."""

    def right(question: int, answer: Answer) -> float:
        if answer[-1] != FULL_STOP or len(answer) not in (2, 4) or (len(answer) == 4 and answer[1] != WAIT):
            return 0.0
        return float(answer[-2] == question)

    def start(policy: Tabular) -> None:
        for question in range(4):
            first = dict.fromkeys(range(4), 1 / 3) | {question: 1e-5}
            logits(policy, question, (), first, 1e-4)
            again = dict.fromkeys(range(4), 0.28) | {question: 0.16}
            logits(policy, question, (0, WAIT), again, 1e-4)
            for token in range(4):
                logits(policy, question, (token,), {FULL_STOP: 0.99, WAIT: 0.01}, 1e-4)
                logits(policy, question, (0, WAIT, token), {FULL_STOP: 1.0}, 1e-4)

    words = ("0", "1", "2", "3", "w", ".")
    return World(questions=4, tokens=6, horizon=4, reward=right, end=FULL_STOP, words=words, context="last"), start


def correction_finds_what_sampling_misses() -> Finding:
    """Training where a first attempt is hopeless and a second one rare."""
    world, start = second_thoughts()
    edge = EDGE.but({"rollout.cues": ("w",)})
    rollouts = GRPO.but({"rollout.samples": 12})  # As many as 8 and the 4 continuations of half of 8 wrong ones.
    success: dict[str, list[float]] = {}
    variance: dict[str, list[float]] = {}
    for name, recipe in (("edge", edge), ("grpo", rollouts)):
        for seed in SEEDS:
            bench = Bench(world, recipe, seed=seed, lr=0.1, start=start)
            seen = []
            for _ in range(80):
                batch = bench.step().batch
                assert batch is not None
                seen.append(float(batch.occurrences.advantage[batch.last()].var()))
            success.setdefault(name, []).append(bench.success())
            variance.setdefault(name, []).append(fmean(seen[:40]))
    holds = min(success["edge"]) > fmean(success["grpo"]) and min(variance["edge"]) > max(variance["grpo"])
    return Finding(
        holds,
        f"hard questions, 80 steps of 12 rollouts: accuracy {shown(success['edge'])} against GRPO's "
        f"{shown(success['grpo'])}; variance of advantages {shown(variance['edge'])} against {shown(variance['grpo'])}",
    )


# ---------------------------------------------------------------- gtpo-trajectory

GTPO = find("gtpo-trajectory")


def conflict_by_hand() -> Finding:
    """A group whose contested tokens are known."""
    free = GTPO.but({"credit.cost": 0.0})
    rows = document(
        sample("a", 1.0, [-1.0] * 4, tokens=[7, 8, 1, 9], entropy=[0.1] * 4),
        sample("a", 0.0, [-1.0] * 4, tokens=[7, 8, 2, 9], entropy=[0.1] * 4),
        sample("a", 0.0, [-1.0] * 3, tokens=[7, 3, 3], entropy=[0.1] * 3),
        sample("a", 1.0, [-1.0] * 2, tokens=[5, 6], entropy=[0.9] * 2),
    )
    seen, plain = look(free, rows), spread(look(GRPO, rows)["advantages"])
    high, low = plain[0], plain[1]
    # Right: 7 8 shared from the start, 9 from the end, n = 3; wrong: likewise, and 7 alone. The fourth is undecided.
    right = [2 * high / 3, 2 * high / 3, high / 3, 2 * high / 3]
    expected: list[list[float]] = [right, [0, 0, low / 3, 0], [0, low, low], [0, 0]]
    length = [4, 4, 3, 2]
    slopes = [[-a / n / 4 for a in row] for row, n in zip(expected, length, strict=True)]
    holds = same(seen["advantages"], expected) and same(seen["gradient"], slopes)
    paid = look(GTPO, rows)["advantages"]
    holds &= same(paid[0][2], (high - 0.1 * 0.1) / 3) and paid[3] == [0, 0]
    return Finding(holds, f"advantages {[[round(x, 3) for x in row] for row in seen['advantages']]}, as by hand")


TAG, THINK, GOOD, BAD, RAMBLE, STOP = range(6)
LONGEST = 12


class Scaffold(World):
    """Right and wrong answers open with the same tag; wrong ones are short, and untagged ones ramble."""

    def answers(self) -> Iterator[Answer]:
        yield (TAG, BAD, STOP)
        yield (TAG, THINK, THINK, GOOD, STOP)
        yield (TAG, THINK, THINK, BAD, STOP)
        yield from ((RAMBLE,) * length + (STOP,) for length in range(1, LONGEST))
        yield (RAMBLE,) * LONGEST


def scaffold(question: int, prefix: Answer) -> Hashable:
    """What the next token may depend on."""
    if not prefix or prefix[0] != TAG:
        return "ramble" if prefix else "first"
    return ("thought", len(prefix)) if len(prefix) > 1 and prefix[1] == THINK else ("tagged", len(prefix) > 1)


def scaffolded(policy: Tabular) -> None:
    """Mostly tagged, mostly wrong."""
    logits(policy, 0, (), {TAG: 0.8, RAMBLE: 0.2}, 1e-7)
    logits(policy, 0, (RAMBLE,), {RAMBLE: 0.97, STOP: 0.03}, 1e-7)
    logits(policy, 0, (TAG,), {THINK: 0.1, BAD: 0.9}, 1e-7)
    logits(policy, 0, (TAG, BAD), {STOP: 1.0}, 1e-7)
    logits(policy, 0, (TAG, THINK), {THINK: 1.0}, 1e-7)
    logits(policy, 0, (TAG, THINK, THINK), {GOOD: 0.9, BAD: 0.1}, 1e-7)
    logits(policy, 0, (TAG, THINK, THINK, GOOD), {STOP: 1.0}, 1e-7)


def tags_do_not_dip() -> Finding:
    """The tag's probability during training."""

    def reward(question: int, answer: Answer) -> float:
        return float(answer == (TAG, THINK, THINK, GOOD, STOP))

    world = Scaffold(questions=1, tokens=6, horizon=LONGEST, reward=reward, end=STOP, context=scaffold)
    runs = {"grpo": GRPO, "gtpo": GTPO, "gtpo without entropy cost": GTPO.but({"credit.cost": 0.0})}
    lowest: dict[str, list[float]] = {}
    most: dict[str, list[float]] = {}
    for (name, recipe), seed in itertools.product(runs.items(), SEEDS):
        bench = Bench(world, recipe.but({"rollout.samples": 16}), seed=seed, lr=0.05, start=scaffolded)
        before, tags, entropies = bench.entropy(), [], []
        opening = float(chances(bench)[TAG])
        for step in range(60):
            bench.step()
            tags.append(float(chances(bench)[TAG]))
            entropies += [bench.entropy()] if step % 10 == 9 else []
        lowest.setdefault(name, []).append(min(tags) - opening)
        most.setdefault(name, []).append(max(entropies) - before)
    holds = fmean(lowest["grpo"]) < -0.01 and min(lowest["gtpo without entropy cost"]) >= 0
    holds &= fmean(lowest["gtpo"]) > fmean(lowest["grpo"]) and max(most["gtpo"]) < 0.1
    return Finding(
        holds,
        f"lowest probability of the tag, minus the start's 0.8: GRPO {shown(lowest['grpo'])}, conflict mask alone "
        f"{shown(lowest['gtpo without entropy cost'])}, whole method {shown(lowest['gtpo'])} (its cost 0.1 H_i pushes "
        f"down groups without a right answer); highest entropy minus the start's {shown(most['gtpo'])}",
    )


# ---------------------------------------------------------------- fc-entropy-grpo

CALLS = find("fc-entropy-grpo")


def bonus_keeps_signs() -> Finding:
    """Signs, zeros and c = 0."""
    noise = Key.of(0).numpy()
    advantage = torch.from_numpy(noise.normal(size=10_000)) * torch.from_numpy(noise.integers(0, 2, 10_000))
    entropy = torch.from_numpy(noise.exponential(size=10_000) * 100)
    lifted = entropy_lift(advantage, entropy, 0.4, 0.5)
    signs = bool((torch.sign(lifted) == torch.sign(advantage)).all())
    plain = [look(CALLS.but({"credit.gain": 0.0}), drawn(s, 2)) for s in range(10)]
    equal = [one["gradient"] == look(GRPO, drawn(s, 2))["gradient"] for s, one in enumerate(plain)]
    dead = look(CALLS, document(sample("a", 0.0, [-1.0], entropy=[2.0]), sample("a", 0.0, [-2.0])))["advantages"]
    holds = signs and all(equal) and dead == [[0.0], [0.0]]
    return Finding(
        holds, f"10,000 signs kept, c = 0 equals GRPO to the bit on {sum(equal)} of 10 batches, all-wrong group {dead}"
    )


def calls_compare_as_trees() -> Finding:
    """Spellings of calls and what they earn."""
    match = CallMatch()
    answer = 'book(city="Rome", nights=2)\nping()'
    right = ["book( nights = 2, city='Rome')\nping( )", "[book(city='Rome', nights=2), ping()]"]
    right.append('<think>hm</think><tool_call>book(nights=2, city="Rome")</tool_call><tool_call>ping()</tool_call>')
    wrong = [
        'book(city="Rome", nights="2")\nping()',
        'book(city="Rome", nights=2.0)\nping()',
        'book(city="Rome")\nping()',
    ]
    wrong += ['ping()\nbook(city="Rome", nights=2)', 'book(city="Rome", nights=2', "book", "", "True\nping()"]
    holds = all(match.verify(text, answer) == 1.0 for text in right)
    holds &= all(match.verify(text, answer) == 0.0 for text in wrong) and match.verify("f()", None) is None
    holds &= calls_of("f(x=g())") is None and calls_of("f(1)") != calls_of("f(True)")
    return Finding(holds, f"{len(right)} spellings of the same calls earn 1, {len(wrong)} others 0")


CALL_WORDS = ("look ", "plan ", "</think>", "f(x=1)\n", "f(x='1')\n", "g(y=2)\n", ".")
WANTED = ("f(x=1)", "f(x=1)\ng(y=2)", "g(y=2)\nf(x=1)\ng(y=2)")


class Calling(World):
    """Two words of reasoning, then one to three calls."""

    def answers(self) -> Iterator[Answer]:
        for thought in itertools.product((0, 1), repeat=2):
            for number in (1, 2, 3):
                for calls in itertools.product((3, 4, 5), repeat=number):
                    yield (*thought, 2, *calls, 6)


def calling() -> tuple[World, Callable[[Tabular], None]]:
    """A world of one to three calls, and a policy that has no preference."""
    match = CallMatch()

    def text(question: int, answer: Answer) -> str:
        return "".join(CALL_WORDS[token] for token in answer if token != 6)

    def reward(question: int, answer: Answer) -> float:
        said = text(question, answer)
        return match.verify(said, WANTED[question]) or 0.0 if "</think>" in said and answer[-1] == 6 else 0.0

    def start(policy: Tabular) -> None:
        for question in range(3):
            for place in (0, 1):
                logits(policy, question, (0,) * place, {0: 0.5, 1: 0.5}, 1e-3)
            logits(policy, question, (0, 0), {2: 1.0}, 1e-3)
            for place in (3, 4, 5, 6):
                logits(policy, question, (0,) * place, {3: 0.25, 4: 0.25, 5: 0.25, 6: 0.25}, 1e-3)

    def place(question: int, prefix: Answer) -> Hashable:
        return question, len(prefix)

    world = Calling(questions=3, tokens=7, horizon=7, reward=reward, end=6, context=place, text=text, words=CALL_WORDS)
    return world, start


def reasoning_entropy(bench: Bench) -> float:
    """Mean entropy of the two words of reasoning, nats."""
    rows = torch.stack([chances(bench, question, (0,) * place) for question in range(3) for place in (0, 1)])
    return float(-(rows * rows.log()).sum(-1).mean())


def bonus_on_calls() -> Finding:
    """Entropy of reasoning and accuracy after training."""
    world, start = calling()
    entropy: dict[str, list[float]] = {}
    success: dict[str, list[float]] = {}
    for name, recipe in (("grpo", GRPO), ("bonus", CALLS)):
        for seed in range(8):
            bench = trained(Bench(world, recipe.but({"rollout.samples": 16}), seed=seed, lr=0.1, start=start), 60)
            entropy.setdefault(name, []).append(reasoning_entropy(bench))
            success.setdefault(name, []).append(bench.success())
    slower = fmean(entropy["bonus"]) > fmean(entropy["grpo"])
    holds = fmean(success["bonus"]) >= fmean(success["grpo"]) - 0.01 and not slower
    return Finding(
        holds,
        f"accuracy {fmean(success['bonus']):.3f} against GRPO's {fmean(success['grpo']):.3f}; the published claim "
        "fails: "
        f"entropy of reasoning {fmean(entropy['bonus']):.3f} against {fmean(entropy['grpo']):.3f} nats, 8 seeds, "
        f"start {math.log(2):.3f}",
    )


def bonus_has_no_drift() -> Finding:
    """What the bonus does to a reasoning token that the outcome does not depend on, exactly."""
    share, found, drift = 0.5, [], 0.0
    odds = torch.softmax(torch.tensor([0.3, -1.0, 2.0], dtype=torch.float64), 0)
    for right in (0.1, 0.5, 0.9):
        up, down = math.sqrt((1 - right) / right), -math.sqrt(right / (1 - right))
        raised = [float(entropy_lift(torch.tensor(a), torch.tensor(1e9), 0.4, share)) for a in (up, down)]
        # Over tokens and outcomes, which are independent: E[A' (1[token] - pi)].
        expected = sum(
            chance * (right * raised[0] + (1 - right) * raised[1]) * (one - odds)
            for chance, one in zip(odds, torch.eye(3), strict=True)
        )
        drift = max(drift, float(torch.as_tensor(expected).abs().max()))
        second = right * raised[0] ** 2 + (1 - right) * raised[1] ** 2
        found.append((second, 1 + share**2 + 2 * share * (1 - 2 * right)))
    holds = all(same(a, b, 1e-6) for a, b in found) and found[0][0] > 1 > found[2][0] and drift < 1e-12
    ratios = [one for one, _ in found]
    return Finding(
        holds,
        "an irrelevant token's expected gradient stays 0; the second moment of its credit, which sets how fast noise "
        f"wears its entropy down, is multiplied by 1 + k^2 + 2k(1 - 2p): {shown(ratios)} at success 0.1, 0.5, 0.9",
    )


# ---------------------------------------------------------------- cppo

CPPO = find("cppo")


def nothing_pruned_is_grpo() -> Finding:
    """Gradients with P = 0."""
    whole = CPPO.but({"credit.rate": 0.0, "rollout.rate": 0.0})
    equal = [look(whole, drawn(s))["gradient"] == look(GRPO, drawn(s))["gradient"] for s in range(20)]
    return Finding(all(equal), f"gradients equal to the bit on {sum(equal)} of 20 batches")


def idle_samples_change_nothing() -> Finding:
    """Gradients when only samples without advantage are pruned."""
    rows = document(*(sample("a", r, [-1.0] * (2 + n)) for n, r in enumerate((0.0, 0.5, 0.5, 1.0))))
    pruned = CPPO.but({"credit.rate": 0.5, "credit.normaliser": "all"})
    ours, plain = look(pruned, rows), look(GRPO, rows)
    kept = look(CPPO.but({"credit.rate": 0.5}), rows)
    doubled = [[2 * x for x in row] for row in plain["gradient"]]
    holds = ours["gradient"] == plain["gradient"] and same(kept["gradient"], doubled)
    holds &= kept["kept"] == [True, False, False, True]
    return Finding(
        holds, "pruning the two samples of advantage 0: gradient equal with the normaliser kept, twice it without"
    )


def pruned_over_the_batch() -> Finding:
    """What is kept per group and over the batch."""
    rows = [sample("a", r, [-1.0]) for r in (0.0, 0.0, 0.0, 1.0)] + [
        sample("b", r, [-1.0]) for r in (0.0, 0.0, 1.0, 1.0)
    ]
    group = look(CPPO.but({"credit.rate": 0.5}), document(*rows))["kept"]
    batch = look(CPPO.but({"credit.rate": 0.5, "credit.over": "batch"}), document(*rows))["kept"]
    holds = sum(group[:4]) == sum(group[4:]) == 2 and group[3] and sum(batch) == 4 and batch[3] and not any(batch[:3])
    return Finding(holds, f"kept per group {group}, over the batch {batch}")


@dataclass(frozen=True)
class AtRandom(Refined):
    """Prunes as many samples as CPPO, whatever their advantage."""

    rate: float = 0.75

    def refine(self, batch: Batch) -> Occurrences:
        noise = torch.from_numpy(Key.of(batch.step).numpy().random(batch.trajectories))
        groups = GroupBy("scenario")(batch)
        kept = largest_in_groups(noise, groups.index, groups.size, 1 - self.rate, batch.order)
        return only(batch.occurrences, kept[batch.occurrences.trajectory])


@dataclass(frozen=True)
class Spent:
    """What a run took to reach a success rate: steps, decisions passed through the learner, and those per scenario."""

    steps: int
    decisions: int
    per_scenario: float


def spent(bench: Bench, success: float, most: int, every: int = 5) -> Spent:
    """Trains until the success rate is reached, looking `every` steps; `most` steps at most."""
    decisions = scenarios = 0
    for step in range(1, most + 1):
        batch = bench.step().batch
        assert batch is not None
        seen = batch.occurrences
        decisions += int(((seen.weight != 0) & (seen.advantage != 0)).sum())
        scenarios += len(set(batch.scenario.tolist()))
        if step % every == 0 and bench.success() >= success:
            break
    return Spent(step, decisions, decisions / scenarios)


def pruning_saves_tokens() -> Finding:
    """Cost to a success rate, pruned well, at random and not at all."""
    world = World(
        questions=16,
        tokens=7,
        horizon=2,
        reward=lambda question, answer: float(answer[1] == question // 4 + question % 4),
        context="position",
    )
    level = CPPO.but({"rollout": Independent(16)})
    recipes: dict[str, Recipe] = {
        "grpo": GRPO.but({"rollout.samples": 16}),
        "cppo": CPPO,
        "unfilled": level,
        "random": level.but({"credit": AtRandom()}),
    }
    runs = {
        name: [spent(Bench(world, recipe, seed=seed, lr=0.1, prompts=4), 0.9, 120) for seed in SEEDS]
        for name, recipe in recipes.items()
    }
    per = {name: fmean([run.per_scenario for run in found]) for name, found in runs.items()}
    steps = {name: [run.steps for run in found] for name, found in runs.items()}
    total = {name: fmean([run.decisions for run in found]) for name, found in runs.items()}
    holds = 3.5 <= per["grpo"] / per["cppo"] <= 4.5 and total["cppo"] < total["grpo"]
    holds &= max(steps["cppo"]) < min(steps["grpo"]) and min(steps["random"]) > max(steps["unfilled"])
    return Finding(
        holds,
        f"decisions through the learner per scenario: {per['grpo']:.1f} and pruned {per['cppo']:.1f}; to 90 % of sums "
        f"right GRPO takes {steps['grpo']} steps and {total['grpo']:.0f} decisions, CPPO {steps['cppo']} and "
        f"{total['cppo']:.0f}, without refilling {steps['unfilled']}, pruned at random {steps['random']}",
    )


# ---------------------------------------------------------------- d3s

D3S = find("d3s")


def scan_finds_the_best_subset() -> Finding:
    """The scan against all subsets."""
    noise, worst, tried = Key.of(3).numpy(), 0.0, 0
    for size in range(2, 15):
        values = torch.from_numpy(
            noise.choice([-1.0, -0.5, 0.0, 0.3, 2.0], size) if size % 2 else noise.normal(size=size)
        )
        for number in {1, 2, size // 2, size - 1, size}:
            got = values[largest_variance(values, number)].var(correction=0)
            subsets = torch.tensor(list(itertools.combinations(range(size), number)))
            best = values[subsets].var(dim=1, correction=0).max()
            worst, tried = max(worst, float((best - got).abs())), tried + 1
    return Finding(worst < 1e-12, f"{tried} pairs of n up to 14 and k: largest gap to brute force {worst:.1e}")


def everything_kept_is_grpo() -> Finding:
    """Gradients with both shares at 1."""
    full = D3S.but({"credit.samples": 1.0, "credit.decisions": 1.0})
    equal = [look(full, drawn(s))["gradient"] == look(GRPO, drawn(s))["gradient"] for s in range(20)]
    late = look(D3S, {**drawn(0), "state": {"progress": 1.0}})["gradient"] == look(GRPO, drawn(0))["gradient"]
    return Finding(
        all(equal) and late, f"gradients equal to the bit on {sum(equal)} of 20 batches, and at the schedule's end"
    )


def kept_tokens_are_the_largest() -> Finding:
    """The kept tokens against a sort."""
    held = []
    for seed in range(20):
        batch = drawn(seed)
        seen, plain = look(D3S.but({"credit.samples": 1.0, "credit.decisions": 0.3}), batch), look(GRPO, batch)
        rows = batch["trajectories"]
        product = [
            abs(a) * h
            for row, one in zip(plain["advantages"], rows, strict=True)
            for a, h in zip(row, one["entropy"], strict=True)
        ]
        kept = [weight != 0 for row in seen["weight"] for weight in row]
        number = math.ceil(0.3 * len(product))
        threshold = sorted(product, reverse=True)[number - 1]
        held.append(sum(kept) == number and all(p >= threshold for p, k in zip(product, kept, strict=True) if k))
    return Finding(all(held), f"the top 30 % by |A| H in {sum(held)} of 20 batches")


def fewer_tokens_to_the_same() -> Finding:
    """Decisions back-propagated to a success rate."""
    world = World(
        questions=4,
        tokens=4,
        horizon=6,
        reward=lambda question, answer: float(answer[2] == question and answer[4] == (question + 1) % 4),
        context="position",
    )

    def start(policy: Tabular) -> None:
        for question, place in itertools.product(range(4), (0, 1, 3, 5)):
            logits(policy, question, (0,) * place, {0: 0.97}, 0.01)

    def right(bench: Bench) -> float:
        each = [float(chances(bench, q, (0, 0))[q] * chances(bench, q, (0,) * 4)[(q + 1) % 4]) for q in range(4)]
        return fmean(each)

    found: dict[str, list[tuple[float, float]]] = {}
    for name, recipe in (("grpo", GRPO), ("d3s", D3S)):
        for seed in SEEDS:
            bench, used, needed = Bench(world, recipe, seed=seed, lr=0.1, steps=160, start=start), 0, math.inf
            for _ in range(160):
                batch = bench.step().batch
                assert batch is not None
                seen = batch.occurrences
                used += int(((seen.weight != 0) & (seen.advantage != 0)).sum())
                needed = min(needed, used) if right(bench) >= 0.8 else needed
            found.setdefault(name, []).append((needed, right(bench)))
    cost = {name: [a for a, _ in runs] for name, runs in found.items()}
    final = {name: [b for _, b in runs] for name, runs in found.items()}
    holds = max(cost["d3s"]) < min(cost["grpo"]) and min(final["d3s"]) >= min(final["grpo"]) - 0.01
    return Finding(
        holds,
        f"decisions learnt to 80 %: {shown(cost['d3s'], 4)} against GRPO's {shown(cost['grpo'], 4)}; after 160 "
        f"steps {shown(final['d3s'])} against {shown(final['grpo'])}",
    )


CHECKS = (
    Check(
        "unlikeliness-reward",
        "Of two right samples the less likely one gains more, wrong ones stay alike.",
        rare_gains_more,
        "arXiv 2506.02355, section 4",
    ),
    Check("unlikeliness-reward", "With beta = 0 it is GRPO.", no_unlikeliness_is_grpo, "derived"),
    Check(
        "unlikeliness-reward",
        "pass@N for large N does not fall below the base's, while GRPO's does although its pass@1 is higher.",
        rare_modes_survive,
        "arXiv 2506.02355, figure 1",
        slow=True,
    ),
    Check("edge-grpo", "With equal entropies nothing changes.", equal_entropies_change_nothing, "derived"),
    Check(
        "edge-grpo",
        "A' = A fmean(H)/H_i never changes a sign, and entropies are constants.",
        entropy_scales_without_turning,
        "arXiv 2507.21848, entropy-driven advantage",
    ),
    Check(
        "edge-grpo",
        "Entropy alone cannot revive a group of equal rewards, a corrected sample can.",
        entropy_alone_revives_nothing,
        "arXiv 2507.21848",
    ),
    Check(
        "edge-grpo",
        "Variance of advantages and accuracy on hard questions are above GRPO's at equal rollouts.",
        correction_finds_what_sampling_misses,
        "arXiv 2507.21848, results",
        slow=True,
    ),
    Check(
        "gtpo-trajectory",
        "Shared openings and closings get gradient 0 in wrong and double in right completions, undecided ones none.",
        conflict_by_hand,
        "arXiv 2508.03772 and its code",
    ),
    Check(
        "gtpo-trajectory",
        "Tags shared by right and wrong answers do not dip by the conflict mask, but do under GRPO; entropy is held.",
        tags_do_not_dip,
        "arXiv 2508.03772",
        slow=True,
    ),
    Check(
        "fc-entropy-grpo",
        "The bonus keeps signs and zeros, and c = 0 is GRPO to the bit.",
        bonus_keeps_signs,
        "derived for the form chosen",
    ),
    Check(
        "fc-entropy-grpo",
        "Keyword order and whitespace do not change the reward of calls, an argument's type does.",
        calls_compare_as_trees,
        "arXiv 2508.05118, reward",
    ),
    Check(
        "fc-entropy-grpo",
        "What the bonus does to the entropy of a token without bearing on the outcome depends on the success rate.",
        bonus_has_no_drift,
        "derived here",
    ),
    Check(
        "fc-entropy-grpo",
        "On calls of a small grammar accuracy is no worse; entropy of reasoning decays no slower, against the paper.",
        bonus_on_calls,
        "arXiv 2508.05118, whose claim of slower decay fails here",
        slow=True,
    ),
    Check("cppo", "With P = 0 it is GRPO to the bit.", nothing_pruned_is_grpo, "arXiv 2503.22342"),
    Check(
        "cppo",
        "Pruning samples without advantage leaves the gradient as it is, the normaliser kept.",
        idle_samples_change_nothing,
        "arXiv 2503.22342",
    ),
    Check(
        "cppo",
        "Over the batch the largest advantages of all groups stay.",
        pruned_over_the_batch,
        "the public recipe for verl",
    ),
    Check(
        "cppo",
        "P = 0.75 passes a quarter of the tokens, reaches GRPO's accuracy sooner; random pruning is worse per step.",
        pruning_saves_tokens,
        "arXiv 2503.22342; cost counted in decisions, not seconds",
        slow=True,
    ),
    Check(
        "d3s",
        "The scan of the split point finds the subset of largest variance.",
        scan_finds_the_best_subset,
        "brute force; the proof is by convexity",
    ),
    Check("d3s", "With everything kept it is GRPO to the bit.", everything_kept_is_grpo, "derived"),
    Check("d3s", "The tokens kept are those of largest |A| H.", kept_tokens_are_the_largest, "arXiv 2509.22115"),
    Check(
        "d3s",
        "Accuracy per token back-propagated is above GRPO's, the final one within a point.",
        fewer_tokens_to_the_same,
        "arXiv 2509.22115",
        slow=True,
    ),
)
