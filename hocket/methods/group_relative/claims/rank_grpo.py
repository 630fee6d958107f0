"""Rank-GRPO's claims."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.harness import SEEDS, gap, gradient, inspect_rows, say
from hocket.lab.toys.token_weights import GRPO, chances, drawn, sample, shown, trained
from hocket.lab.world import Answer, World
from hocket.methods.group_relative.rank_grpo import discounted_gains, remaining_gain
from hocket.recipes import find

claim = Claims("rank-grpo", "arXiv 2510.20150")
RANK, GSPO = find("rank-grpo"), GRPO.but({"objective.ratio": "sequence"})


def listed(segment: Sequence[int], hits: Sequence[float]) -> dict[str, object]:
    return sample("a", 0.0, [-1.0] * len(segment), segment=segment, info={"hits": hits})


@claim("R_1 is the DCG; items before a rank leave its gain as it is.")
def _() -> Finding:
    gaps = []
    for hits in itertools.product((0.0, 1.0), repeat=5):
        by_hand = [sum(h / math.log2(j + 2) for j, h in enumerate(hits) if j >= k) for k in range(5)]
        gaps += [gap(discounted_gains(hits), by_hand), gap(remaining_gain(torch.tensor(hits).double()), by_hand)]
        turned = (1 - hits[0], 1 - hits[1], *hits[2:])
        gaps.append(gap(discounted_gains(hits)[2:], discounted_gains(turned)[2:]))
    one, other, _ = inspect_rows(RANK, [listed([0, 1, 2], hits) for hits in ([1, 0, 1], [0, 0, 1], [0, 1, 0])])[
        "advantages"
    ]
    figures = say(lists_and_their_changes=len(gaps), off_by=max(gaps), equal_at_ranks_2_and_3=one[1:] == other[1:])
    return Finding(max(gaps) < 1e-12 and one[1:] == other[1:], figures)


@claim("With one item per list it is GRPO with a geometric sequence ratio.")
def _() -> Finding:
    gaps, rank = [], RANK.but({"credit.epsilon": 1e-6})
    for seed in range(10):
        batch, noise = drawn(seed), Key.of(seed).numpy()
        for row in batch["trajectories"]:
            row["logp_behaviour"] = [one + 0.3 * float(noise.normal()) for one in row["logp"]]
        gaps.append(gap(gradient(rank, batch), gradient(GSPO, batch)))
    held = sum(one <= 1e-12 for one in gaps)
    return Finding(held == 10, say(off_policy_batches=10, equal_to_1e_12=held, largest_difference=max(gaps)))


@claim("Surplus items cost, and the end earns at the right length.")
def _() -> Finding:
    rows = [listed([0, 1, 1], [1, 0]), listed([0, 0], [0]), listed([0, 1, 2, 2], [0, 0])]
    advantages = inspect_rows(RANK.but({"credit.length": 2}), rows)["advantages"]
    last, surplus = [row[-1] for row in advantages], advantages[2][2]
    return Finding(last == [0.1, -0.1, 0.0] and surplus == -0.1, say(last_tokens=shown(last), surplus_item=surplus))


ITEMS, LISTED = 50, 5


class Catalogue(World):
    """Lists of five from fifty items; ten are relevant to each of two users, each only once."""

    def answers(self) -> Iterator[Answer]:
        """Enough of them to visit every context."""
        yield from ((item,) * LISTED for item in range(ITEMS))


def hits_of(user: int, answer: Answer) -> list[float]:
    """1 for each relevant item that was not listed before."""
    return [float(item // 10 == user and item not in answer[:place]) for place, item in enumerate(answer)]


CATALOGUE = Catalogue(
    *(2, ITEMS, LISTED, lambda user, answer: discounted_gains(hits_of(user, answer))[0]),
    context="position",
    info=lambda user, answer: {"hits": hits_of(user, answer), "pieces": [f"{item}\n" for item in answer]},
)


def quality(bench: Bench) -> tuple[float, float]:
    """NDCG, and the hit rate at the last two ranks, over 4,000 drawn lists per user."""
    gain, ideal = 1 / np.log2(np.arange(LISTED) + 2), discounted_gains([1.0] * LISTED)[0]
    sides = []
    for user in range(2):
        table = torch.stack([chances(bench, user, (0,) * place) for place in range(LISTED)])
        uniform = torch.from_numpy(Key.of(7).derive(user).numpy().random((4000, LISTED)))
        items = (table.cumsum(-1)[None] < uniform[:, :, None]).sum(-1).clamp(max=ITEMS - 1)
        hits = np.array([hits_of(user, tuple(row)) for row in items.tolist()])
        sides.append((float((hits * gain).sum(1).mean()) / ideal, float(hits[:, -2:].mean())))
    return (sides[0][0] + sides[1][0]) / 2, (sides[0][1] + sides[1][1]) / 2


@claim(
    "Listing 5 of 50 items, NDCG and hits at the last ranks beat sequence-level GRPO after equal updates.", slow=True
)
def _() -> Finding:
    gains, lasts = dict[str, tuple[float, ...]](), dict[str, tuple[float, ...]]()
    for name, recipe in (("GRPO", GRPO), ("sequence ratio", GSPO), ("rank", RANK)):
        often = recipe.but({"rollout.samples": 16})
        benches = [trained(Bench(CATALOGUE, often, seed=seed, lr=0.1), 40) for seed in SEEDS]
        gains[name], lasts[name] = zip(*map(quality, benches), strict=True)
    holds = all(min(one["rank"]) > max(*one["GRPO"], *one["sequence ratio"]) for one in (gains, lasts))
    sides = ({name: shown(values) for name, values in one.items()} for one in (gains, lasts))
    return Finding(holds, say(**{"NDCG": next(sides), "hits at ranks 4 and 5": next(sides)}))
