"""Runs that look like real ones, made without training."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from hocket.core.intervals import wilson
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.core.segments import segment_mean, segment_std
from hocket.train.episodes import write_episodes
from hocket.train.runfolder import RunFolder
from hocket.train.tracking import MetricsLog
from hocket.types import Scenario, Score, Trajectory, Turn

CONFIG = """\
task: sums
model: nano
seed: 7
recipe:
  type: hocket.recipe.Recipe
  name: {recipe}
  credit: {{type: hocket.credit.GroupRelative, scale: std}}
  objective: {{type: hocket.objectives.ClippedSurrogate, low: 0.2, high: 0.2}}
  regularisers:
  - {{type: hocket.objectives.KLToReference, kind: k3, coefficient: 0.04}}
  rollout: {{type: hocket.rollout.Independent, samples: 8}}
decoding: {{temperature: 1.0, max_tokens: 64}}
"""


def characters(text):
    return np.array([ord(letter) for letter in text], dtype=np.int64)


def spell(ids):
    return "".join(chr(token) for token in ids)


def _answer(draw, skill, a, b, c):
    right = draw.random() < skill
    value = a + b + c if right else a + b + c + int(draw.choice([-10, -1, 1, 10]))
    worked = draw.random() < skill + 0.1
    if draw.random() < 0.06:
        return f"{a}+{b}={a + b}, {a + b}+{c}={value}, let me see again, {a}+{b}"[:64], 0.0, "length"
    text = f"<think>{a}+{b}={a + b} {a + b}+{c}={value}</think>" if worked else ""
    return f"{text}<answer>{value}</answer>", float(right), "stop"


def _groups(draw, skill, groups=6, samples=8):
    played = []
    for number in range(groups):
        a, b, c = (int(x) for x in draw.integers(10, 99, 3))
        scenario = Scenario(f"sums/{number}", f"What is {a} + {b} + {c}?", answer=a + b + c)
        level = float(np.clip(skill + draw.normal() * 0.35, 0, 1))
        for sample in range(samples):
            text, reward, finish = _answer(draw, level, a, b, c)
            turn = Turn(
                agent="solver",
                policy="policy",
                observation=characters(scenario.prompt),
                action=characters(text),
                logp=np.log(draw.beta(6, 1, len(text)).clip(1e-4, 1)).astype(np.float32),
                text=text,
                finish=finish,
                prompt=({"role": "user", "content": scenario.prompt},),
            )
            cut = finish == "length"
            played.append(
                Trajectory(scenario, [turn], sample, {"reward": Score(reward)}, truncated=cut, terminated=not cut)
            )
    return played


def credited(played):
    batch = pack(played)
    rewards, size = batch.scores["reward"].values, int(batch.scenario.max()) + 1
    mean, std = segment_mean(rewards, batch.scenario, size), segment_std(rewards, batch.scenario, size)
    advantage = ((rewards - mean[batch.scenario]) / (std[batch.scenario] + 1e-4)).float()
    return batch.credited(advantage=advantage[batch.occurrences.trajectory])


def evaluation(share, n, skill):
    low, high = wilson(round(share * n), n)
    return {"accuracy": share, "n": n, "low": low, "high": high, "length": 18 + 22 * skill, "format": 0.9 + 0.1 * skill,
            "working": 0.1 + 0.85 * skill}  # fmt: skip


def write_run(runs: Path, *, name="sums-grpo-001", recipe="grpo", steps=150, seed=0, gain=0.55, finished=True) -> Path:
    """A run whose accuracy rises from .27 by `gain`."""
    folder = RunFolder.create(runs, name)
    folder.write_text(folder.config, CONFIG.format(recipe=recipe))
    folder.write_json(folder.machine, {"threads": 1, "precision": "float32", "cores": 2})
    log, draw = MetricsLog(folder.metrics), Key.of(seed).numpy()
    evaluations = {}
    for step in range(steps + 1):
        skill = 1 - math.exp(-2.2 * step / steps)
        share = 0.27 + gain * skill / (1 - math.exp(-2.2))
        row = {"step": step}
        if step % 25 == 0:
            n = 1000 if step in (0, steps) else 200
            share_found = round((share + draw.normal() * (share * (1 - share) / n) ** 0.5) * n) / n
            evaluations[step] = evaluation(share_found, n, skill)
            ends = ("low", "high")
            row |= {f"eval/{key}": value for key, value in evaluations[step].items() if key not in ends}
        if step:
            row |= {
                "reward/mean": share - 0.05 + draw.normal() * 0.06,
                "loss": draw.normal() * 0.02,
                "entropy": 0.42 - 0.25 * skill + draw.normal() * 0.015,
                "kl/reference": 0.09 * skill + abs(draw.normal()) * 0.004,
                "kl/behaviour": abs(draw.normal()) * 1e-4,
                "groups/total": 16,
                "groups/with_signal": int(np.clip(13 - 5 * skill + draw.normal() * 1.5, 0, 16)),
                "tokens/generated": 16 * 8 * (18 + 22 * skill),
                "length/mean": 18 + 22 * skill + draw.normal(),
                "truncated/share": abs(draw.normal()) * 0.02,
                "ratio/saturated": 0.0,
                "gradient/norm": 0.4 + draw.normal() * 0.05,
                "time/rollout": 0.3,
                "time/update": 0.25 + draw.random() * 0.05,
                "throughput/tokens": 9000 + draw.normal() * 500,
            }
        log.append({**row, "time/total": 0.6 * step})
        if step == 1 or (step and step % 50 == 0):
            played = _groups(draw, share)
            write_episodes(folder.episodes(step), step, played, credited(played), spell)
    if finished:
        before, after = evaluations[0], evaluations[max(evaluations)]
        folder.write_json(
            folder.summary,
            {
                "name": name,
                "task": "sums",
                "recipe": recipe,
                "model": "nano",
                "seed": seed,
                "steps": steps,
                "seconds": 0.6 * steps,
                "measure": "accuracy",
                "before": before,
                "after": after,
                "gain": after["accuracy"] - before["accuracy"],
                "best": {"success": after["accuracy"], "step": steps},
                "samples": [
                    {
                        "prompt": "What is 31 + 45 + 12?",
                        "before": "<answer>78</answer>",
                        "after": "<think>31+45=76 76+12=88</think><answer>88</answer>",
                    },
                    {
                        "prompt": "What is 64 + 27 + 80?",
                        "before": "171 & <b>not tagged</b>",
                        "after": "<answer>171</answer>",
                    },
                ],
                "reason": "finished",
            },
        )
    folder.append_message("step 3: 1 of 128 episodes failed: the tool broke")
    return folder.path


def said(agent, heard, text, prompt, **more):
    logp = np.full(len(text), -0.2, np.float32)
    return Turn(agent, agent, characters(heard), characters(text), logp, text=text, prompt=prompt, **more)


def write_team(runs: Path) -> Path:
    """Two roles with several turns, a tool message, shared turns and a discarded group."""
    folder = RunFolder.create(runs, "team-001")
    folder.write_text(folder.config, CONFIG.format(recipe="team"))
    log, draw = MetricsLog(folder.metrics), Key.of(3).numpy()
    for step in range(1, 31):
        row = {"step": step, "reward/mean": step / 40, "groups/total": 8, "loss": 0.1, "tokens/generated": 900}
        for role in ("planner", "worker"):
            row |= {f"{role}/entropy": 0.5 - step / 100 + draw.normal() * 0.01, f"{role}/groups/with_signal": 5}
        log.append(row)
    played = []
    for number in range(2):
        scenario = Scenario(f"plan/{number}", "Add 3 to the product of 4 and 5, then halve it.", answer="11.5")
        ask = {"role": "user", "content": scenario.prompt}
        plan = "1. multiply 4 and 5\n2. add 3\n3. halve"
        you = {"role": "system", "content": "You plan."}
        first = said("planner", scenario.prompt, plan, (you, ask))
        for sample in range(4):
            says = f"4*5=20, 20+3={23 + (sample == 2)}"
            work = said("worker", plan, says, ({"role": "user", "content": plan},))
            final = f"<answer>{'11.5' if sample != 2 else '12'}</answer>"
            heard = (you, ask, {"role": "assistant", "content": plan}, {"role": "tool", "content": says})
            last = said("planner", says, final, heard, parent=first, role="judge")
            score = {"reward": Score(float(sample != 2) if number == 0 else 1.0)}
            played.append(Trajectory(scenario, [first, work, last], sample, score))
    batch = credited(played)
    noise = torch.from_numpy(draw.normal(size=len(batch.occurrences))).float() * 0.4
    live = batch.occurrences.advantage != 0
    batch = batch.credited(advantage=batch.occurrences.advantage + noise * live)
    gone = [
        Trajectory(Scenario("plan/9", "An easy one."), [played[0].turns[1]], n, {"reward": Score(1.0)}) for n in (0, 1)
    ]
    write_episodes(folder.episodes(30), 30, played, batch, spell, discarded=gone)
    return folder.path


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def team(tmp_path_factory):
    return write_team(tmp_path_factory.mktemp("team"))


@pytest.fixture(scope="session")
def make_run():
    return write_run
