"""What fc-entropy-grpo claims."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterator
from statistics import fmean

import torch

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import look
from hocket.lab.policy import Tabular
from hocket.lab.toys.token_weights import GRPO, chances, document, drawn, logits, same, sample, shown, trained
from hocket.lab.world import Answer, World
from hocket.methods.group_relative.fc_entropy_grpo import CallMatch, calls_of, entropy_lift
from hocket.recipes import find

claim = Claims("fc-entropy-grpo", "derived for the form chosen")


CALLS = find("fc-entropy-grpo")


@claim("The bonus keeps signs and zeros, and c = 0 is GRPO to the bit.")
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


@claim(
    "Keyword order and whitespace do not change the reward of calls, an argument's type does.",
    "arXiv 2508.05118, reward",
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


@claim(
    "On calls of a small grammar accuracy is no worse; entropy of reasoning decays no slower, against the paper.",
    "arXiv 2508.05118, whose claim of slower decay fails here",
    slow=True,
)
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


@claim(
    "What the bonus does to the entropy of a token without bearing on the outcome depends on the success rate.",
    "derived here",
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
