"""What many episodes of many turns cost: how full the engine is, Python per call, memory.

    python benchmarks/workflows.py                     all four, a few minutes, one thread
    python benchmarks/workflows.py overhead --json     one of them, one JSON object
    python benchmarks/workflows.py --setup             verifiers in an environment of its own, build/verifiers

`occupancy`: 256 episodes of a workflow of four turns, played by the nano model and the local engine, over all passes
but those of the last tenth of tokens. `waves` runs whole batches instead, one after the other, as engines do whose
answers depend on their batch; `tools` has each episode wait 20 ms between turns, as for a tool outside.
`slow`: 512 episodes of eight turns, each of which waits for a tool in between: log-normal, 2 s in the mean, and one
call in a hundred hangs until its limit of 30 s. The clock is simulated: the shipped model decides, a pass of the engine
takes as long as is said, nobody else takes time, and waiting for tools is skipped. So the figures are the same on every
machine. `10 s` is what an answer takes where a model of 7 B parameters writes 300 tokens at 35 ms a pass; `0.25 s` is
the shipped model on a core, which no such tools can keep busy: 512 calls take 2 s, and their answers 0.5 s in two
batches. `of_capacity` is rows over the most that are decoded together (256), until the last tenth of tokens; `working`,
the share of that time in which the engine works; `to_the_end`, of the whole time.
`overhead`: 256 episodes on a model that answers at once, 12 tokens each time: everything between two answers. Histories
are rendered, encoded and recorded; verifiers leaves that to its server. Its rounds alternate with ours.
`memory`: bytes per turn of what is recorded, by the length of a conversation, and pages of keys and values by how many
episodes there are in all, 32 at a time (with the cache of ended conversations switched off).
Seconds are processor seconds, so that other programs count little; caches they share still do.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import math
import sys
import time
import tracemalloc
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import side_verifiers
import torch
from bench import busy_share, machine, spread

from hocket.agents.tools import Call, carried_out
from hocket.agents.workflows.chat import Chat
from hocket.agents.workflows.episode import Limits
from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.team import Actor, Team
from hocket.agents.workflows.workflow import Workflow
from hocket.core.keys import Key
from hocket.engine import scheduler
from hocket.engine.local import LocalEngine
from hocket.engine.paged_model import bucket
from hocket.engine.requests import Request, Sample
from hocket.engine.scheduler import Scheduler
from hocket.nano import BASE
from hocket.nano.tokenizer import build_tokenizer
from hocket.policies.causal_lm import CausalLM
from hocket.types import Assignment, Decoding, Scenario, Trajectory

EPISODES = 256
ANSWER = "The sum is 12 + 25 = 37, so <answer>37</answer>"


class Turns(Workflow):
    """Some turns, each a new question; `pause` seconds before each but the first."""

    roles = ("policy",)

    def __init__(self, turns: int, pause: float = 0.0) -> None:
        self.turns, self.pause = turns, pause

    async def play(self, scenario: Scenario, team: Team) -> None:
        await team.policy(scenario.prompt or "")
        for turn in range(1, self.turns):
            if self.pause:
                await asyncio.sleep(self.pause)
            await team.policy(f"What is {turn + 3} + {scenario.seed}, in round {scenario.metadata['round']}?")


def asked(episodes: int, number: int, longest: int = 96) -> list[Assignment]:
    """Questions that differ, from each other and from those of other rounds."""
    decoding = Decoding(max_tokens=longest)
    return [
        Assignment(
            Scenario(str(n), f"What is {n} + 25 + {n % 7 + number}?", metadata={"round": number}, seed=n),
            decoding=decoding,
        )
        for n in range(episodes)
    ]


def played(workflow: Workflow, engine: Any, chat: Chat, episodes: int, number: int) -> list[Trajectory]:
    """One round; every episode must come to its end."""
    player = TextPlayer(workflow, {"policy": Actor("main", engine, chat)}, Limits(turns=None))
    found = asyncio.run(player.play(asked(episodes, number), key=Key.of(number)))
    assert all(one.failure is None and "limit" not in one.info for one in found)
    return found


# ---------------------------------------------------------------- how full the engine is


class Watched(LocalEngine):
    """Notes the rows of every pass that decodes, and the episodes that are not over then."""

    def __init__(self, policy: CausalLM) -> None:
        super().__init__(policy)
        self.passes: list[tuple[int, int]] = []

    def noted(self, step: Any) -> Any:
        def stepped(batch: Scheduler) -> list[int]:
            before = self.counts.rows
            answered: list[int] = step(batch)
            if self.counts.rows > before:
                self.passes.append((self.counts.rows - before, self.live))
            return answered

        return stepped


class Waves(Watched):
    """Runs what waits as one batch, to its end, when every episode waits."""

    def _go_on(self) -> bool:
        return False


def occupancy(rounds: int) -> dict[str, Any]:
    """Shares of rows that are live, and what a round took."""
    policy = CausalLM.from_pretrained(str(BASE), name="main", key=Key.of(0))
    chat = Chat(policy.tokenizer)
    variants = {"joining": (Watched, 0.0), "waves": (Waves, 0.0), "tools": (Watched, 0.02)}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in variants}
    step = Scheduler.step
    for number in range(rounds + 1):
        for name, (kind, pause) in variants.items():
            engine = kind(policy)
            Scheduler.step = engine.noted(step)  # type: ignore[method-assign]
            wall, processor = time.perf_counter(), time.process_time()
            played(Turns(4, pause), engine, chat, EPISODES, number)
            taken = {"seconds": time.process_time() - processor, "wall": time.perf_counter() - wall}
            found[name].append({**shares(engine.passes), **taken, "tokens": float(engine.counts.decoded)})
    Scheduler.step = step  # type: ignore[method-assign]
    return {
        name: {measure: spread([one[measure] for one in several[1:]]) for measure in several[0]}
        for name, several in found.items()
    }


@dataclass(frozen=True)
class SlowTool:
    """Answers after some seconds; those that are more than `LIMIT` end in an error then."""

    seconds: float
    name = "lookup"
    schema: ClassVar[dict[str, Any]] = {}

    async def __call__(self, arguments: Mapping[str, Any]) -> str:
        await asyncio.sleep(min(self.seconds, LIMIT))
        return str(arguments["n"]) if self.seconds < LIMIT else "error: no answer"


class SlowTools(Workflow):
    """Turns with a tool's answer between any two."""

    roles = ("policy",)

    def __init__(self, turns: int) -> None:
        self.turns = turns

    async def play(self, scenario: Scenario, team: Team) -> None:
        said, n = scenario.prompt or "", scenario.metadata["round"]
        for turn in range(self.turns):
            await team.policy(said)
            rng = team.key.derive("tool", turn).numpy()
            seconds = math.inf if rng.random() < HANGING else float(rng.lognormal(math.log(MEAN) - 0.5, 1.0))
            told = await carried_out(Call("lookup", {"n": n}), [SlowTool(seconds)])
            said = f"It says {told}. What is {turn + 3} + {scenario.seed}, in round {n}?"


MEAN, LIMIT, HANGING = 2.0, 30.0, 0.01
"""Seconds of a tool's call in the mean and at most, and the share of calls that hang."""


class Simulated(asyncio.SelectorEventLoop):
    """An event loop that skips what is only waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        wait: Any = self._selector.select  # type: ignore[attr-defined]

        def skipped(timeout: float | None = None) -> Any:
            self.now += max(0.0, timeout or 0.0)
            return wait(None if timeout is None else 0.0)

        self._selector.select = skipped  # type: ignore[attr-defined]

    def time(self) -> float:
        return self.now


def slow(rounds: int) -> dict[str, Any]:
    """How full the engine is beside slow tools, by the seconds that an answer takes; the same in every round."""
    policy = CausalLM.from_pretrained(str(BASE), name="main", key=Key.of(0))
    chat = Chat(policy.tokenizer)
    return {f"{seconds:g} s": beside_tools(policy, chat, seconds) for seconds in (10.0, 2.5, 0.25)}


def beside_tools(policy: CausalLM, chat: Chat, seconds: float, tokens: float = 8.5) -> dict[str, float]:
    """Shares of the engine's time and rows where an answer, `tokens` long in the mean, takes `seconds`."""
    engine, loop = LocalEngine(policy), Simulated()
    step, each = Scheduler.step, seconds / tokens
    rows, ends = list[int](), list[float]()

    def stepped(batch: Scheduler) -> list[int]:
        before = engine.counts.rows
        answered = step(batch)
        if engine.counts.rows > before:
            loop.now += each
            rows.append(engine.counts.rows - before)
            ends.append(loop.now)
        return answered

    Scheduler.step = stepped  # type: ignore[method-assign]
    try:
        player = TextPlayer(SlowTools(8), {"policy": Actor("main", engine, chat)}, Limits(turns=None))
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            found = runner.run(player.play(asked(512, 0), key=Key.of(0)))
    finally:
        Scheduler.step = step  # type: ignore[method-assign]
    assert all(one.failure is None and "limit" not in one.info for one in found)
    early = int((np.cumsum(rows) <= 0.9 * sum(rows)).sum())
    return {
        "of_capacity": sum(rows[:early]) / early / engine.max_rows,
        "working": early * each / ends[early - 1],
        "to_the_end": len(rows) * each / ends[-1],
        "tokens": sum(rows) / (8 * 512),
    }


def shares(passes: list[tuple[int, int]]) -> dict[str, float]:
    """Live rows over rows of the bucket, over episodes that are not over, and over all, until the last tenth."""
    rows = np.array([row for row, _ in passes])
    early = np.cumsum(rows) <= 0.9 * rows.sum()
    live = np.array([alive for _, alive in passes])[early]
    buckets = np.array([bucket(int(row)) for row in rows])[early]
    rows = rows[early]
    return {
        "of_bucket": float((rows / buckets).mean()),
        "of_live": float((rows / live).mean()),
        "of_all": float(rows.mean() / EPISODES),
        "passes": float(len(passes)),
    }


# ---------------------------------------------------------------- Python between answers


class Instant:
    """Answers at once."""

    def __init__(self, chat: Chat) -> None:
        self._tokens = np.array([*chat.encode(ANSWER), chat.end_of_turn])
        self._logp = np.zeros(len(self._tokens), np.float32)

    def episode(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def submit(self, request: Request) -> Sample:
        return Sample(self._tokens, self._logp, "stop", 0)

    def sample(self, requests: list[Request]) -> list[Sample]:
        raise NotImplementedError


def overhead(rounds: int) -> dict[str, Any]:
    """Microseconds of processor time per call, beside verifiers where it is installed."""
    chat = Chat(build_tokenizer())
    engine = Instant(chat)
    found: dict[str, Any] = {}
    for turns, episodes in ((4, EPISODES), (32, 64)):
        calls = turns * episodes
        order = {"episodes": episodes, "turns": turns, "tokens": 12, "answer": ANSWER, "rounds": 3}
        ours, theirs = [], []
        played(Turns(turns), engine, chat, episodes, 10_000)
        for number in range(rounds):
            several = []
            for part in range(3):
                gc.collect()
                before = time.process_time()
                played(Turns(turns), engine, chat, episodes, 3 * number + part)
                several.append(time.process_time() - before)
            ours.append(1e6 * min(several) / calls)
            if side_verifiers.PYTHON.exists():
                theirs.append(1e6 * min(side_verifiers.ask(order)["seconds"]) / calls)
        found[f"{turns} turns"] = {
            "ours": spread(ours),
            "verifiers": spread(theirs) if theirs else None,
            "ratio": spread([one / other for one, other in zip(theirs, ours, strict=True)]) if theirs else None,
        }
    return found


# ---------------------------------------------------------------- memory


def memory(rounds: int) -> dict[str, Any]:
    """Bytes recorded per turn by length of the conversation, and pages by number of episodes."""
    chat = Chat(build_tokenizer())
    engine = Instant(chat)
    per_turn = {}
    for turns in (4, 16, 64, 256):
        gc.collect()
        tracemalloc.start()
        found = played(Turns(turns), engine, chat, 16, turns)
        gc.collect()
        per_turn[str(turns)] = tracemalloc.get_traced_memory()[0] / (16 * turns)
        tracemalloc.stop()
        del found
    policy = CausalLM.from_pretrained(str(BASE), name="main", key=Key.of(0))
    kept, scheduler.KEPT = scheduler.KEPT, 2**30
    pages = {}
    for episodes in (32, 64, 128, 256):
        local = LocalEngine(policy)
        asyncio.run(few_at_a_time(local, Chat(policy.tokenizer), episodes))
        assert local._cache is not None
        pages[str(episodes)] = local._cache.pool.size
    scheduler.KEPT = kept
    return {"bytes_per_turn": per_turn, "pages": pages}


async def few_at_a_time(engine: LocalEngine, chat: Chat, episodes: int) -> None:
    """Plays episodes of four turns, 32 of them at a time."""
    gate = asyncio.Semaphore(32)
    player = TextPlayer(Turns(4), {"policy": Actor("main", engine, chat)})

    async def one(assignment: Assignment) -> None:
        async with gate:
            await player.play([assignment], key=Key.of(0))

    await asyncio.gather(*(one(assignment) for assignment in asked(episodes, 0)))


# ---------------------------------------------------------------- the command line

PARTS = {"occupancy": occupancy, "slow": slow, "overhead": overhead, "memory": memory}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all when none is named")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--setup", action="store_true", help="make verifiers' environment and stop")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    options = parser.parse_args()
    if options.setup:
        side_verifiers.set_up()
        return
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}; choose from {', '.join(PARTS)}")
    torch.set_num_threads(1)
    about = machine(others=busy_share())
    found = {part: PARTS[part](options.rounds) for part in options.parts or PARTS}
    if options.json:
        json.dump({"machine": about, **found}, sys.stdout, indent=1)
        print()
        return
    print(", ".join(f"{name} {value}" for name, value in about.items()))
    for part, values in found.items():
        print(part)
        for name, value in values.items():
            print(f"  {name}: {told(value)}")


def told(value: Any) -> str:
    """A figure or several, for people."""
    if isinstance(value, dict) and value.keys() == {"median", "least", "most"}:
        return f"{value['median']:.3g} ({value['least']:.3g} to {value['most']:.3g})"
    if isinstance(value, dict):
        return ", ".join(f"{name} {told(one)}" for name, one in value.items())
    return f"{value:.4g}" if isinstance(value, (int, float)) else str(value)


if __name__ == "__main__":
    main()
