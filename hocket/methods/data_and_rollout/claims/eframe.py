"""EFRame's claims."""

from __future__ import annotations

import math
from statistics import fmean

import torch

from hocket.core.signals import returns
from hocket.lab.claims.harness import SEEDS, Claims, Finding, gap, say
from hocket.lab.talk import TalkBench, total
from hocket.lab.toys.hops import ASKED, WAYS, Hops, last
from hocket.lab.toys.rewarded import group_relative, line
from hocket.methods.base.grpo import GRPO
from hocket.methods.data_and_rollout.eframe import EARNED, EFRAME, HOT
from hocket.recipe import Recipe
from hocket.types import Scenario

claim = Claims("eframe", "arXiv:2506.22200, and the released code")
THREE = [Scenario(one.id, "", answer=" ".join(one.answer.split()[:3])) for one in ASKED]
OFF = {"rollout.extra": 0, "rollout.replayed": 0, "credit.least": 0.0, "credit.hot": 0.0, "credit.overlong": True}


def bench(recipe: Recipe, seed: int = 0, lr: float = 0.1, asked: list[Scenario] = THREE) -> TalkBench:
    """Three steps, of which one episode in 64 takes all rightly at first."""
    return TalkBench(Hops(), asked, WAYS, recipe, view=last, seed=seed, lr=lr, capacity=1000)


@claim("With no extra samples, no filter and no replay it is GRPO to the bit.")
def _() -> Finding:
    asked = [Scenario(one.id, "", answer=one.answer.split()[0]) for one in ASKED]
    ours, plain = (bench(one, asked=asked).run(8) for one in (EFRAME.but(OFF), GRPO.but({"rollout.samples": 8})))
    logits = [made.policies["policy"].module.logits for made in (ours, plain)]
    moved = float(logits[0].abs().max())
    return Finding(torch.equal(*logits) and moved > 0, say(largest_weight_gap=gap(*logits), moved=moved))


@claim("Extra samples raise the share of hard questions with a success to 1 - (1 - p)^(G1 + G2).")
def _() -> Finding:
    asked = [Scenario(f"{number}", "", answer="north east") for number in range(400)]
    found = []
    for extra in (0, 8, 24):
        made = bench(EFRAME.but({"rollout.extra": extra, "rollout.hard": 0.0, "rollout.hot": 1.0}), lr=0.0, asked=asked)
        result = made.step()
        assert result.experience is not None
        solved = {one.scenario.id for one in result.experience.trajectories if total(one) > 0}
        due = 1 - (1 - 1 / 16) ** (8 + extra)
        error = math.sqrt(due * (1 - due) / len(asked))
        found.append((len(solved) / len(asked), due, abs(len(solved) / len(asked) - due) / error))
    return Finding(max(row[2] for row in found) < 4, "; ".join(f"{got:.3f} for {due:.3f}" for got, due, _ in found))


@claim(
    "A sample counts if its advantage in its group, hot ones included, is at least 0.05 in size, a hot one's at least "
    "1; advantages are GRPO's."
)
def _() -> Finding:
    wrong, kept, worst = 0, {"plain": 0, "hot": 0, "dropped": 0}, 0.0
    for seed in range(6):
        made = bench(EFRAME.but({"rollout.replayed": 0, "rollout.samples": 4, "rollout.extra": 6}), seed)
        for _ in range(30):
            result = made.step()
            if result.batch is None:
                continue
            seen, rows = result.batch.occurrences, result.trajectories
            for asked in THREE:
                places = [place for place, one in enumerate(rows) if one.scenario.id == asked.id]
                due = group_relative([float(returns(result.batch)[place]) for place in places])
                for place, advantage in zip(places, due, strict=True):
                    here, hot = seen.trajectory == place, bool(HOT.get(rows[place]))
                    worst = max(worst, gap(seen.advantage[here], [advantage] * int(here.sum())))
                    counts = abs(advantage) >= (1.0 if hot else 0.05)
                    wrong += bool((seen.weight[here] != 0).all()) != counts
                    kept["dropped" if not counts else "hot" if hot else "plain"] += 1
    return Finding(wrong == 0 and worst < 1e-5 and min(kept.values()) > 10, say(wrong=wrong, **kept))


@claim("Every so many steps, and in no other, kept samples come back with the log-probs and the advantage they had.")
def _() -> Finding:
    made = bench(EFRAME.but({"rollout.every": 4}), 2)
    earned: dict[str, set[float]] = {}
    wrong, back, off_step = 0, 0, 0
    for step in range(1, 41):
        result = made.step()
        if result.batch is None:
            continue
        seen = result.batch.occurrences
        for place, one in enumerate(result.trajectories):
            name = f"{one.scenario.id}: {[turn.action.tolist() for turn in one.turns]} {one.turns[0].logp}"
            advantage = float(seen.advantage[seen.trajectory == place][0])
            if one.source == "replay":
                back, off_step = back + 1, off_step + (step % 4 != 0)
                wrong += not any(abs(advantage - known) < 1e-5 for known in earned.get(name, ()))
                wrong += abs(float(EARNED.get(one)) - advantage) > 1e-9 or advantage < 1.0
            else:
                earned.setdefault(name, set()).add(advantage)
    return Finding(wrong == 0 and back > 20 and off_step == 0, say(replayed=back, wrong=wrong, in_other_steps=off_step))


def learnt(recipe: Recipe, tokens: int, asked: list[Scenario]) -> list[float]:
    """The exact chance to find it after so many sampled tokens, by seed."""
    found = []
    for seed in SEEDS:
        made, spent = bench(recipe, seed, asked=asked), 0.0
        while spent < tokens:
            spent += made.step().metrics["tokens/generated"]
        found.append(made.expected())
    return found


@claim(
    "At equal sampled tokens more is found than with GRPO of what succeeds once in 256 times, replay being part of it; "
    "of what succeeds once in 64 times GRPO finds more, since extra samples cost what they bring.",
    slow=True,
)
def _() -> Finding:
    plain = GRPO.but({"rollout.samples": 8})
    rare = [learnt(one, 6000, ASKED) for one in (EFRAME, EFRAME.but({"rollout.replayed": 0}), plain)]
    less = [learnt(one, 2000, THREE) for one in (EFRAME, plain)]
    holds = fmean(rare[0]) > max(fmean(rare[1]), fmean(rare[2])) + 0.1 and fmean(less[1]) > fmean(less[0])
    saw = f"once in 256, 6000 tokens: {line(rare[0])}, without replay {line(rare[1])}, by GRPO {line(rare[2])}"
    return Finding(holds, f"{saw}; once in 64, 2000 tokens: {line(less[0])}, by GRPO {line(less[1])}")


claim.shipped(
    EFRAME,
    steps=2,
    without=OFF,
    settings={"curriculum.prompts": 6, "rollout.every": 2, "rollout.keep": 0.5},
    sees=lambda run: {
        "explored": run.mean("rollout/hard"),
        "replayed": run.mean("replay/trajectories"),
        "groups": run.mean("groups/with_signal"),
    },
)
