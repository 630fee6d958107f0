"""S-GRPO's claims."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import Claims, Finding, gap, inspect_rows
from hocket.lab.policy import Tabular
from hocket.lab.toys.instances import NEVER, EndedInstances, by_instance, nothing
from hocket.lab.toys.recorded_answers import advantages, lines, said, shaped
from hocket.lab.toys.training import trained
from hocket.lab.world import Answer
from hocket.methods.base.dr_grpo import DR_GRPO
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.s_grpo import CHAIN, EXIT, S_GRPO
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Scenario, Trajectory, Turn

claim = Claims("s-grpo", "arXiv:2505.07686")


@claim("pattern 0,1,1,0,1 earns 0, 1, 1/2, 0, 1/4, and an all-wrong group has no gradient")
def pattern_0_1_1_0_1_earns_0_1_1_2_0_1_4_and_an_all_wrong_group() -> Finding:
    # In any order of the batch.
    order, pattern = (2, 0, 4, 1, 3), (0, 1, 1, 0, 1)
    more = [{"info": {"exit": place, "chain": 0}, "logp": [-1.0] * (place + 1)} for place in order]
    rows = [said("g", "", float(pattern[place])) | one for place, one in zip(order, more, strict=True)]
    earned = shaped(S_GRPO, rows)
    back, middle = [earned[order.index(place)] for place in range(5)], sum(earned) / 5
    off = gap(advantages(S_GRPO, rows), [value - middle for value in earned])
    slopes = [[(middle - earned[n]) / (place + 1) / 5] * (place + 1) for n, place in enumerate(order)]
    off = max(off, gap(inspect_rows(S_GRPO, rows)["gradient"], slopes))
    idle = inspect_rows(S_GRPO, [{**row, "scores": {"reward": 0.0}} for row in rows])["gradient"]
    still = all(value == 0.0 for row in idle for value in row)
    holds = back == [0, 1, 0.5, 0, 0.25] and off < 1e-12 and still
    return Finding(holds, f"pattern 0,1,1,0,1: {lines(earns=back, all_wrong_gradient_0=still)}")


@claim(
    "members are one chain cut at eight places of its thought, in order, then the chain; what was kept is learnt from"
)
def members_are_one_chain_cut_at_eight_places_of_its_thought_in() -> Finding:
    class Player:
        """Says a text per sample at first; letters are tokens, and what continues a prefix is one letter."""

        encode = staticmethod(lambda text, after=(): tuple(map(ord, text)))
        decode = staticmethod(lambda tokens: "".join(map(chr, tokens)))

        def __init__(self, *texts: str) -> None:
            self.texts, self.asked, self.tokenizer = list(texts), list[Assignment](), self

        async def __call__(self, asked: Sequence[Assignment]) -> list[Trajectory]:
            self.asked += asked
            played = []
            for one, sample in ((wish, sample) for wish in asked for sample in range(wish.samples)):
                text = self.decode(one.prefix) + "!" if one.prefix else self.texts.pop(0)
                logp = -np.arange(1, len(text) + 1, dtype=np.float32) * (9 if one.prefix else 1)
                forced = np.arange(len(text)) < len(one.prefix or "<")
                turn = Turn("p", "p", np.zeros(0), np.array(self.encode(text)), logp, forced=forced, text=text)
                played.append(Trajectory(one.scenario, [turn] if text != "lost" else [], one.first + sample))
            return played

    async def score(trajectories: Sequence[Trajectory]) -> None:
        return None

    def collected(rollout: Any, *texts: str) -> tuple[list[Trajectory], Player]:
        player, asked = Player(*texts), [Assignment(Scenario(str(n), "?")) for n in range(len(texts) // rollout.chains)]
        found = rollout.collect(asked, play=player, score=score, ledger=Ledger(), key=Key.of(0))
        return list(asyncio.run(found).trajectories), player

    long, wrong, cuts = "<think>abcdefgh</think><answer>7</answer>", list[Any](), list[int]()
    two = S_GRPO.but({"rollout.chains": 2, "rollout.samples": 4}).rollout
    for rollout, texts in ((S_GRPO.rollout, (long,)), (two, (long, "<think></think>7", "<think>ab</think>7", "lost"))):
        found, player = collected(rollout, *texts)
        size, numbers = (9, {0}) if rollout is not two else (4, {0, 1})
        wanted = sum(1 if text == "lost" else size for text in texts)
        wrong += [] if len(found) == wanted and {CHAIN.get(one) for one in found} == numbers else ["number"]
        wrong += [] if len({(one.scenario.id, one.sample) for one in found}) == wanted else ["alike"]
        wrong += [one for one in player.asked if one.prefix and one.budget != len(one.prefix) + 32]
        rest = iter(found)
        for text in texts:
            *members, chain = [next(rest) for _ in range(1 if text == "lost" else size)]
            wrong += [] if [EXIT.get(one) for one in (*members, chain)] == [*range(len(members) + 1)] else ["order"]
            own = [len(one.turns[0].text) - len("</think><answer>!") for one in members]
            least, most = text.find(">") + 1, max(text.find("</"), text.find(">") + 2)
            wrong += [] if own == sorted(own) and all(least <= cut < most for cut in own) else [own]
            wrong += [own] if len(set(own)) < min(len(own), most - least) == len(own) else []
            for cut, turn in zip(own, (one.turns[0] for one in members), strict=True):
                logp, forced = [-n for n in range(1, cut + 1)], [True] + [False] * (cut - 1)
                logp += [-9 * n for n in range(cut + 1, len(turn) + 1)]
                forced += [True] * (len(turn) - 1 - cut) + [False]
                same = turn.text.startswith(text[:cut] + "</think>") and gap(turn.logp, logp) == 0 == gap(
                    turn.forced, forced
                )
                wrong += [] if same else [turn]
            cuts += own
    return Finding(not wrong, f"cuts at {cuts}, not as they should be {len(wrong)}")


claim.spares(
    "turn.logp is not None and source.logp is not None -> turn.logp is not None or source.logp is not None",
    "a player knows the log-probs of all it says, or of nothing",
)
claim.spares(
    "asking.first + NUMBERED + chain.sample * self.samples + number"
    " -> asking.first + NUMBERED + chain.sample * self.samples - number",
    "numbers must differ, no more",
)
claim.spares(
    "asking.first + NUMBERED + chain.sample * self.samples -> asking.first + NUMBERED - chain.sample * self.samples",
    "numbers must differ, no more",
)
claim.spares("asking.first + NUMBERED -> asking.first - NUMBERED", "numbers must differ, no more")


STEP, TAG, SEVEN, THREE, ENOUGH = 0, 1, 2, 3, 2


class Thought(EndedInstances):
    """Steps, the tag that ends thinking, and an answer, 7 or 3. The answer is 7, once `ENOUGH` steps were made."""

    def answers(self) -> Iterator[Answer]:
        for steps in range(self.horizon - 1):
            yield from ((*[STEP] * steps, TAG, end) for end in self.last)
        yield (*[STEP] * (self.horizon - 1), TAG)
        yield (STEP,) * self.horizon


def right(question: Any, answer: Answer) -> float:
    return float(answer[-1] == SEVEN and answer.count(STEP) >= ENOUGH)


THOUGHT = Thought(
    # One question, asked twice a step.
    *(1, 4, 16, nothing),
    correct=right,
    last=(SEVEN, THREE),
    context="last",
    words=("s ", "</think>", "<answer>7</answer>", "<answer>3</answer>"),
    count=2,
    about=lambda number: {"question": 0, "answer": "7"},
)


def thoughtful(policy: Tabular, more: float = 0.7, sure: float = 0.98) -> None:
    """A start that thinks enough, goes on with probability `more`, and then answers 7 with probability `sure`."""
    policy.logits.fill_(NEVER)
    for place in range(policy.world.horizon):
        thinking, on = [STEP] * place, 0.99 if place < 2 else more
        policy.logits[policy.row(0, thinking), :2] = torch.tensor([on, 1 - on], dtype=torch.float64).log()
        if place:
            shares = torch.tensor([sure, 1 - sure], dtype=torch.float64)
            policy.logits[policy.row(0, [*thinking[:-1], TAG]), 2:] = shares.log()


@claim(
    "thinking shrinks towards the steps needed at no loss of accuracy; under outcome reward alone it stays", slow=True
)
def thinking_shrinks_towards_the_steps_needed_at_no_loss_of() -> Finding:
    # GRPO's 1/n_i favours short right answers.
    def steps_and_success(bench: Bench) -> tuple[float, float]:
        return bench.expected(lambda _, answer: answer.count(STEP)), bench.success()

    steps, rates = {}, {}
    for recipe in (GRPO, DR_GRPO, S_GRPO.but({"rollout.phrase": "</think>"})):
        made = trained(THOUGHT, recipe.but(rewards=(by_instance(right),)), 40, start=thoughtful)
        steps[recipe.name], rates[recipe.name] = zip(*map(steps_and_success, made), strict=True)
    before, accuracy = steps_and_success(Bench(THOUGHT, GRPO, start=thoughtful))
    holds = max(steps["s-grpo"]) < ENOUGH + 1 and min(rates["s-grpo"]) >= accuracy
    holds &= min(steps["dr-grpo"]) > before - 0.75 and min(steps["grpo"]) > max(steps["s-grpo"])
    figures = lines(enough=ENOUGH, steps_before=before, accuracy_before=accuracy)
    return Finding(holds, f"{figures}; after 40 updates {lines(steps=steps)}; {lines(accuracy=rates)}")


LESSONS = {"recipe": "sft", "task": f"lessons:{S_GRPO.task}", "steps": 60}
"""Those that a run of the recipe begins with."""

claim.shipped(S_GRPO, "rollout", first=LESSONS)
claim.shipped(S_GRPO, "shaping", first=LESSONS)
