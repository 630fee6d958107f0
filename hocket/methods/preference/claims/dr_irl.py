"""Claims of rewards from demonstrations, and of credit scaled by difficulty."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
import torch

from hocket.core.batch import Batch, Level, LevelScores
from hocket.core.columns import METADATA, TEXT
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.core.signals import returns
from hocket.lab.claims.harness import EXACT, Claims, Finding, batches, below, gap, gradient, say
from hocket.lab.microscope import RecordedBatch
from hocket.methods.base.grpo import GRPO
from hocket.methods.preference.dr_irl import DIFFICULTY, DR_IRL, DifficultyScaled, Hazards, IrlReward
from hocket.recipe import Recipe
from hocket.stages import State
from hocket.types import Scenario, Score, Trajectory, Turn

claim = Claims("dr-irl", "arXiv:2503.18991 (abstract)")


def played(rows: Sequence[Mapping[str, Any]]) -> Batch:
    """Answers of one decision; a row has `scenario`, `text`, `category` and `demonstration`."""
    made = [
        Trajectory(
            Scenario(str(row["scenario"])),
            [Turn("a", "policy", np.array([1]), np.array([2]), logp=np.array([-1.0], np.float32))],
            number,
            scores={"reward": Score(float(row.get("reward", 0.0)))},
        )
        for number, row in enumerate(rows)
    ]
    told = [{name: row[name] for name in ("category", "demonstration") if name in row} for row in rows]
    return pack(made).but(info={METADATA.name: told, TEXT.name: [row["text"] for row in rows]})


def drawn(count: int, seed: int, category: str) -> list[str]:
    """Random texts of a category's hidden reward `good(text)`."""
    draw = Key.of(seed).derive("texts", category).numpy()
    return ["".join(draw.choice(list("abcdef"), 8)) for _ in range(count)]


HIDDEN: Mapping[str, Any] = {
    "letters": lambda text: text.count("a") - text.count("f"),
    "ending": lambda text: float(text[-1] in "ab"),
    "pairs": lambda text: text.count("ab") + text.count("bc") + text.count("cd") - text.count("de") - text.count("ef"),
}
"""Categories of texts and their rewards, which nobody is told."""


@claim("w is where the gradient of the ridge logistic loss of demonstrations against samples vanishes, and a reward is "
       "w . f, whatever the task pays; categories share nothing.")  # fmt: skip
def w_is_where_the_gradient_of_the_ridge_logistic_loss_of() -> Finding:
    shape, off = IrlReward(ridge=0.05, window=7), list[float]()
    rows: list[dict[str, Any]] = [
        {"scenario": n // 2, "category": name, "demonstration": "aab", "text": text, "reward": n % 3}
        for name in ("letters", "pairs")
        for n, text in enumerate(drawn(6, 1, name))
    ]
    first, state = shape(played(rows), shape.init())
    other, _ = shape(played([{**row, "reward": -1.0} for row in rows]), shape.init())
    off.append(gap(returns(first), returns(other)))
    alone, _ = shape(played(rows[:6]), shape.init())
    off.append(gap(returns(first)[:6], returns(alone)))
    _, later = shape(played(rows), state)
    for name in ("letters", "pairs"):
        mine = [row for row in rows if row["category"] == name]
        f, demonstration = shape.features([row["text"] for row in mine]), shape.features(["aab"])
        known = state["differences"][name]
        off.append(gap(known, demonstration - f))
        w = shape.weight(known)
        off.append(gap(torch.sigmoid(-known @ w) @ known, 0.05 * len(known) * w))
        place = 0 if name == "letters" else 6
        off.append(gap(returns(first)[place : place + 6], f @ w))
        off.append(float(len(later["differences"][name]) != 7))
    return below(1e-7, float(returns(first).abs().max()) > 0.01, off=max(off))


@claim("Difficulty is (1 - cosine of the texts) tanh(gap/2) where the demonstration has the higher reward, else 0.")
def difficulty_is_tanh_where_the_demonstration_has_the_higher() -> Finding:
    shape = IrlReward()
    rows: list[dict[str, Any]] = [
        {"scenario": 0, "category": "letters", "demonstration": "aaaaab", "text": text}
        for text in ("aaaaab", "fedcba", "aabbcc", "ffffff")
    ]
    batch, state = shape(played(rows), shape.init())
    w = shape.weight(state["differences"]["letters"])
    f, shown = shape.features([row["text"] for row in rows]), shape.features(["aaaaab"])[0]
    wanted = [(1 - float(shown @ one)) * math.tanh(max(0.0, float((shown - one) @ w)) / 2) for one in f]
    turned, _ = shape(played(rows), {"differences": {"letters": -50 * state["differences"]["letters"]}})
    none = float(turned.scores[DIFFICULTY].values.max())
    found = batch.scores[DIFFICULTY].values
    return below(1e-9, max(wanted) > 0.05, none == 0.0, off=gap(found, wanted), same_text=float(found[0]))


@claim("With factor 1 the gradient is GRPO's, bit for bit; else an advantage is GRPO's times (1 + s mean d) over the "
       "mean of this over the batch.")  # fmt: skip
def with_factor_1_the_gradient_is_grpos_bit_for_bit_else_an() -> Finding:
    apart, off, moved = 0.0, list[float](), 0.0
    for number, document in enumerate(batches(10, "dr-irl", graded=True)):
        batch = RecordedBatch(document).batch
        hard = torch.from_numpy(Key.of(number).numpy().random(batch.trajectories))
        batch = batch.but(scores={**batch.scores, DIFFICULTY: LevelScores(Level.TRAJECTORY, hard)})
        plain = GRPO.credit(batch).advantage
        apart = max(apart, gap(DifficultyScaled(of=GRPO.credit, strength=0.0)(batch).advantage, plain))
        scaled = DifficultyScaled(of=GRPO.credit, strength=3.0)(batch).advantage
        factor = torch.ones(batch.trajectories, dtype=torch.float64)
        for scenario in set(batch.scenario.tolist()):
            factor[batch.scenario == scenario] = 1 + 3 * hard[batch.scenario == scenario].mean()
        off.append(gap(scaled, plain * (factor / factor.mean())[batch.occurrences.trajectory]))
        moved = max(moved, gap(scaled, plain))
        whole = GRPO.but(credit=DifficultyScaled(of=GRPO.credit))
        told = {**document, "trajectories": [
            {**row, "scores": {**row["scores"], DIFFICULTY: 0.0}} for row in document["trajectories"]
        ]}  # fmt: skip
        same = whole.but({"combine.weights": {"reward": 1.0, DIFFICULTY: 0.0}})
        apart = max(apart, gap(gradient(same, told), gradient(GRPO, document)))
    return below(EXACT, apart == 0.0, moved > 0.1, off=max(off))


@claim("A factor of a whole group on the reward cancels in GRPO's advantages, which is why it is put on these.")
def a_factor_of_a_whole_group_on_the_reward_cancels_in_grpos() -> Finding:
    off = []
    for document in batches(5, "cancels", graded=True):
        rows = document["trajectories"]
        scaled = [{**row, "scores": {"reward": 7 * row["scores"]["reward"]}} for row in rows]
        plain, times = (GRPO.credit(RecordedBatch({**document, "trajectories": one}).batch) for one in (rows, scaled))
        off.append(gap(plain.advantage, times.advantage))
    return below(1e-4, off=max(off))


def ranking(category: str, seed: int) -> float:
    """The share of unseen pairs that the reward learnt from demonstrations alone puts in the hidden order."""
    hidden, shape = HIDDEN[category], IrlReward()
    state, texts = shape.init(), drawn(800, seed, category)
    for step in range(8):
        rows = []
        for scenario in range(16):
            tried = texts[(step * 16 + scenario) * 5 :][:5]
            best = max(drawn(30, 1000 * seed + step * 16 + scenario, category), key=hidden)
            rows += [
                {"scenario": scenario, "category": category, "demonstration": best, "text": text} for text in tried
            ]
        _, state = shape(played(rows), state)
    unseen = drawn(400, seed + 500, category)
    worth = shape.features(unseen) @ shape.weight(state["differences"][category])
    want = torch.tensor([float(hidden(text)) for text in unseen])
    left, right = (worth[::2] - worth[1::2]).sign(), (want[::2] - want[1::2]).sign()
    return float((left == right)[right != 0].double().mean())


@claim("From demonstrations alone the reward puts more than nine unseen pairs in ten in the hidden order in the easy "
       "categories, and most in the hard one.", slow=True)  # fmt: skip
def from_demonstrations_alone_the_reward_puts_more_than_nine_unseen() -> Finding:
    found = {name: [ranking(name, seed) for seed in (1, 2)] for name in HIDDEN}
    return Finding(
        min(found["letters"]) > 0.9 and min(found["ending"]) > 0.9 and min(found["pairs"]) > 0.6, say(**found)
    )


# ---------------------------------------------------------------- a policy over a few texts

SAYINGS = ("ok fine", "yes sure", "ask a friend", "call for help", "no", "stop here", "perhaps", "why not")
SHOWN = {"chat": "yes sure", "work": "ask a friend", "harm": "call for help"}
"""What demonstrations of each category say; `harm` is rare, and the policy hardly ever says it."""

CHANCES = (0.45, 0.45, 0.1)


def taught(recipe: Recipe, seed: int, steps: int = 70, lr: float = 1.5) -> dict[str, float]:
    """The chance of what is wanted in each category, after policy gradients of groups of 8, 12 scenarios a step."""
    draw, names = Key.of(seed).derive("taught").numpy(), list(SHOWN)
    logits = torch.zeros(3, len(SAYINGS), dtype=torch.float64)
    logits[2, SAYINGS.index(SHOWN["harm"])] = -1.0
    state: State = recipe.init()
    for _ in range(steps):
        rows, picked = list[Mapping[str, Any]](), list[tuple[int, int]]()
        for scenario, kind in enumerate(draw.choice(3, size=12, p=CHANCES).tolist()):
            chance = torch.softmax(logits[kind], 0).numpy()
            for said in draw.choice(len(SAYINGS), size=8, p=chance / chance.sum()).tolist():
                picked.append((kind, said))
                rows.append({
                    "scenario": scenario, "category": names[kind], "demonstration": SHOWN[names[kind]],
                    "text": SAYINGS[said],
                })  # fmt: skip
        batch, state = recipe.compute_credit(played(rows), state, {})
        advantage = batch.occurrences.advantage
        slope = torch.zeros_like(logits)
        for (kind, said), credit in zip(picked, advantage.tolist(), strict=True):
            slope[kind] -= credit * torch.softmax(logits[kind], 0)
            slope[kind, said] += credit
        logits = logits + lr * slope / len(picked)
    chances = torch.softmax(logits, 1)
    return {name: float(chances[at, SAYINGS.index(SHOWN[name])]) for at, name in enumerate(names)}


@claim("A rare hard category ends higher with GRPO-S than with GRPO on the same learnt rewards, and the mean over what "
       "is asked no lower.", slow=True)  # fmt: skip
def a_rare_hard_category_ends_higher_with_grpo_s_than_with_grpo_on() -> Finding:
    hard, mean = list[float](), list[float]()
    for seed in range(4):
        small = DR_IRL.but({"shaping.0.buckets": 64, "shaping.0.window": 128})
        scaled, plain = (taught(one, seed) for one in (small, small.but({"credit.strength": 0.0})))
        hard.append(scaled["harm"] - plain["harm"])
        mean.append(sum(share * (scaled[name] - plain[name]) for share, name in zip(CHANCES, SHOWN, strict=True)))
    error = float(np.std(hard, ddof=1) / math.sqrt(len(hard)))
    return Finding(
        fmean(hard) > 2 * error and fmean(mean) > -0.005, say(lift_of_hard=hard, standard_error=error, of_mean=mean)
    )


@claim("It ships as it says: ridge 0.01, 512 of a category, 256 buckets, strength 4; a tenth is grave.")
def it_ships_as_it_says_ridge_0_01_512_of_a_category_256_buckets() -> Finding:
    reward, grave = IrlReward(ridge=0.01, window=512, buckets=256), Hazards().rare
    ships = DR_IRL.shaping == (reward,) and DR_IRL.credit == DifficultyScaled(of=GRPO.credit, strength=4.0)
    return Finding(ships and grave == 0.1, say(as_shipped=ships, grave=grave))


claim.shipped(DR_IRL, without={"shaping": (), "credit": GRPO.credit})
claim.shipped(DR_IRL, "credit")
