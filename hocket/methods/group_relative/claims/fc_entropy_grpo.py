"""FC-entropy-GRPO's claims."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from statistics import fmean

import torch

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import Claims, Finding, gap, inspect_rows, say
from hocket.lab.hand_formulas import CountedAnswer, off, stale_rows, standardised
from hocket.lab.microscope import inspect
from hocket.lab.toys.recorded_answers import drawn, lines, sample
from hocket.lab.toys.training import chances, starting, trained
from hocket.lab.world import Answer, World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.fc_entropy_grpo import FC_ENTROPY_GRPO, CallMatch, calls_of, entropy_lift

claim = Claims("fc-entropy-grpo", "derived for the form chosen")


@claim("The bonus keeps signs and zeros, and c = 0 is GRPO to the bit.")
def the_bonus_keeps_signs_and_zeros_and_c_0_is_grpo_to_the_bit() -> Finding:
    noise = Key.of(0).numpy()
    advantage = torch.from_numpy(noise.normal(size=10_000)) * torch.from_numpy(noise.integers(0, 2, 10_000))
    entropy = torch.from_numpy(noise.exponential(size=10_000) * 100)
    signs = int((torch.sign(entropy_lift(advantage, entropy, 0.4, 0.5)) == torch.sign(advantage)).sum())
    plain, batches = FC_ENTROPY_GRPO.but({"credit.gain": 0.0}), [drawn(seed, 2) for seed in range(10)]
    equal = sum(inspect(plain, one)["gradient"] == inspect(GRPO, one)["gradient"] for one in batches)
    dead = inspect_rows(FC_ENTROPY_GRPO, [sample("a", 0.0, [-1.0], entropy=[2.0]), sample("a", 0.0, [-2.0])])[
        "advantages"
    ]
    figures = say(signs_kept=signs, batches_of_10_equal_to_GRPO=equal, all_wrong_group=str(dead))
    return Finding(signs == 10_000 and equal == 10 and dead == [[0.0], [0.0]], figures)


@claim("Before </think> advantages are A + min(0.4 H, |A| / 2), counted by hand, and A after it.")
def before_think_advantages_are_a_min_counted_by_hand_and_a_after() -> Finding:
    def credit(members: Sequence[CountedAnswer]) -> list[torch.Tensor]:
        found = []
        for a, one in zip(standardised(members), members, strict=True):
            places = torch.arange(len(one.where))[one.where]
            thought = places <= 1 + len(one.where) // 2
            found.append(a + (0.4 * one.entropy).clamp(max=0.5 * abs(a)) * thought)
        return found

    gaps = []
    for rows in stale_rows("calls", longest=9):
        for row in rows:
            last = 1 + len(row["logp"]) // 2
            pieces = ["</think>" if place == last else "so " for place in range(len(row["logp"]))]
            row["info"] = {"pieces": pieces}
        gaps.append(off(FC_ENTROPY_GRPO, rows, credit=credit))
    return Finding(max(gaps) < 1e-12, say(off_by_hand=max(gaps)))


RIGHT = ["book( nights = 2, city='Rome')\nping( )", "[book(city='Rome', nights=2), ping()]"]
RIGHT += ['<think>hm</think><tool_call>book(nights=2, city="Rome")</tool_call><tool_call>ping()</tool_call>']
WRONG = ['book(city="Rome", nights="2")\nping()', 'book(city="Rome", nights=2.0)\nping()', 'book(city="Rome")\nping()']
WRONG += ['ping()\nbook(city="Rome", nights=2)', 'book(city="Rome", nights=2', "book", "", "True\nping()"]


@claim(
    "Keyword order and whitespace do not change the reward of calls, an argument's type does.",
    "arXiv 2508.05118, reward",
)
def keyword_order_and_whitespace_do_not_change_the_reward_of_calls() -> Finding:
    match, answer = CallMatch(), 'book(city="Rome", nights=2)\nping()'
    right, wrong = ([match.verify(text, answer) for text in texts] for texts in (RIGHT, WRONG))
    holds = set(right) == {1.0} and set(wrong) == {0.0} and match.verify("f()", None) is None
    holds &= calls_of("f(x=g())") is None and calls_of("f(1)") != calls_of("f(True)")
    holds &= calls_of("") is None and calls_of("x = 1\nf()") is None
    holds &= CallMatch(ordered=False).verify("ping()\nbook(city='Rome', nights=2)", answer) == 1.0
    return Finding(holds, f"{len(right)} spellings of the same calls earn 1, {len(wrong)} others 0")


CALL_WORDS = ("look ", "plan ", "</think>", "f(x=1)\n", "f(x='1')\n", "g(y=2)\n", ".")
WANTED = ("f(x=1)", "f(x=1)\ng(y=2)", "g(y=2)\nf(x=1)\ng(y=2)")


class Calling(World):
    """Two words of reasoning, then one to three calls."""

    def answers(self) -> Iterator[Answer]:
        for thought in itertools.product((0, 1), repeat=2):
            for number in (1, 2, 3):
                yield from ((*thought, 2, *calls, 6) for calls in itertools.product((3, 4, 5), repeat=number))


def text(question: int, answer: Answer) -> str:
    return "".join(CALL_WORDS[token] for token in answer if token != 6)


def reward(question: int, answer: Answer) -> float:
    whole = 2 in answer and answer[-1] == 6
    return CallMatch().verify(text(question, answer), WANTED[question]) or 0.0 if whole else 0.0


# No preference among thoughts, nor among one to three calls.
FITTING = ((0, 1), (0, 1), (2,), *[(3, 4, 5, 6)] * 4)
ODDS = {(q, (0,) * n): dict.fromkeys(some, 1 / len(some)) for q in range(3) for n, some in enumerate(FITTING)}


def reasoning_entropy(bench: Bench) -> float:
    rows = torch.stack([chances(bench, question, (0,) * place) for question in range(3) for place in (0, 1)])
    return float(-(rows * rows.log()).sum(-1).mean())


@claim(
    "On calls of a small grammar accuracy is no worse; entropy of reasoning decays no slower, against the paper.",
    "arXiv 2508.05118, whose claim of slower decay fails here",
    slow=True,
)
def on_calls_of_a_small_grammar_accuracy_is_no_worse_entropy_of() -> Finding:
    world = Calling(3, 7, 7, reward, 6, context=lambda q, prefix: (q, len(prefix)), words=CALL_WORDS, text=text)
    entropy, success, start = dict[str, float](), dict[str, float](), starting(ODDS, 1e-3)
    for recipe in (GRPO, FC_ENTROPY_GRPO):
        benches = trained(world, recipe.but({"rollout.samples": 16}), 60, seeds=range(8), lr=0.1, start=start)
        entropy[recipe.name] = fmean(map(reasoning_entropy, benches))
        success[recipe.name] = fmean(bench.success() for bench in benches)
    holds = success[FC_ENTROPY_GRPO.name] >= success["grpo"] - 0.01 and entropy[FC_ENTROPY_GRPO.name] <= entropy["grpo"]
    figures = say(seeds=8, accuracy=success, entropy_of_reasoning_in_nats=entropy, at_the_start=math.log(2))
    return Finding(holds, f"{figures}: the published claim fails")


@claim(
    "What the bonus does to the entropy of a token without bearing on the outcome depends on the success rate.",
    "derived here",
)
def what_the_bonus_does_to_the_entropy_of_a_token_without_bearing() -> Finding:
    """Its expected gradient stays 0, exactly; the second moment of its credit wears its entropy down.

    That is multiplied by 1 + k^2 + 2k(1 - 2p).
    """
    share, factors, wanted, drift = 0.5, [], [], 0.0
    odds = torch.softmax(torch.tensor([0.3, -1.0, 2.0], dtype=torch.float64), 0)
    for right in (0.1, 0.5, 0.9):
        plain = (math.sqrt((1 - right) / right), -math.sqrt(right / (1 - right)))
        up, down = (float(entropy_lift(torch.tensor(a), torch.tensor(1e9), 0.4, share)) for a in plain)
        # Over tokens and outcomes, which are independent: E[A' (1[token] - pi)].
        expected = (odds[:, None] * (right * up + (1 - right) * down) * (torch.eye(3) - odds)).sum(0)
        drift = max(drift, float(expected.abs().max()))
        factors.append(right * up**2 + (1 - right) * down**2)
        wanted.append(1 + share**2 + 2 * share * (1 - 2 * right))
    holds = gap(factors, wanted) <= 1e-6 and factors[0] > 1 > factors[2] and drift < 1e-12
    return Finding(holds, lines(expected_gradient=drift, success="0.1, 0.5, 0.9", second_moment_multiplied_by=factors))


claim.shipped(FC_ENTROPY_GRPO, "credit")
claim.learns(FC_ENTROPY_GRPO, seeds=1)
