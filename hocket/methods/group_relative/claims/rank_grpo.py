"""What rank-grpo claims."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import torch

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import look
from hocket.lab.toys.token_weights import GRPO, SEEDS, chances, document, drawn, same, sample, shown, trained
from hocket.lab.world import Answer, World
from hocket.methods.group_relative.rank_grpo import discounted_gains, remaining_gain
from hocket.recipes import find

claim = Claims("rank-grpo", "arXiv 2510.20150")


RANK = find("rank-grpo")


@claim("R_1 is the DCG; items before a rank leave its gain as it is.")
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


@claim("With one item per list it is GRPO with a geometric sequence ratio.")
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


@claim("Surplus items cost, and the end earns at the right length.")
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


@claim(
    "Listing 5 of 50 items, NDCG and hits at the last ranks beat sequence-level GRPO after equal updates.", slow=True
)
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
