"""Calls join the batch under way: whatever arrives when, every answer has the bits of a lone one."""

import asyncio

import numpy as np
import pytest
import tiny_models
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.engine import running
from hocket.engine.barrier import Barrier
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.policies import kernels
from hocket.policies.form_reading import known_form
from hocket.types import Decoding

torch.set_num_threads(1)
POLICY = tiny_models.policy("qwen3")
pytestmark = pytest.mark.skipif(
    not kernels.available(known_form(POLICY.model).shapes[0][2]),
    reason="only over pages does an engine take calls at any time",
)


class Watched(LocalEngine):
    """Remembers how many calls enter together."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.entered = []

    def _advance(self, new=()):
        if new:
            self.entered.append(len(new))
        return super()._advance(new)


def question(*path, tokens=(5, 6, 7), most=12, **way):
    return Request(tuple(tokens), Decoding(max_tokens=most, banned=(1,), **way), Key.of(0).derive(*path))


async def conversation(engine, number, pause, turns=3):
    """Some turns, each on what was said before; the lengths differ."""
    tokens, said = (5, 6, 7, number + 8), []
    async with engine.episode():
        for turn in range(turns):
            await pause(number, turn)
            asked = question(number, turn, tokens=tokens, most=3 + (number * 7 + turn * 5) % 17)
            sample = await engine.submit(asked)
            said.append((sample.tokens.tolist(), sample.logp.tobytes(), sample.finish))
            tokens = (*tokens, *sample.tokens.tolist(), 9, 10)
    return said


async def at_once(number, turn):
    pass


def play(engine, pause=at_once, count=10):
    async def main():
        return await asyncio.gather(*(conversation(engine, number, pause) for number in range(count)))

    return asyncio.run(main())


ALONE = {}


def alone(count=10):
    """What each conversation says when nobody else is there."""
    for number in range(count):
        if number not in ALONE:
            engine = LocalEngine(POLICY)
            ALONE[number] = asyncio.run(conversation(engine, number, at_once))
    return [ALONE[number] for number in range(count)]


def nothing_held(engine):
    assert engine._cache.pool.used == engine._cache.tree.size


# ---------------------------------------------------------------- exactness


@given(seed=st.integers(0, 99), rows=st.integers(1, 12), longest=st.sampled_from([0.0, 0.001, 0.03]))
@settings(max_examples=12, deadline=None)
def test_no_pause_shows(seed, rows, longest):
    """Conversations that dawdle at random say what they say alone, however many rows there are."""

    async def dawdle(number, turn):
        await asyncio.sleep(float(Key.of(seed).derive(number, turn).numpy().random()) * longest)

    engine = LocalEngine(POLICY, max_rows=rows)
    assert play(engine, dawdle) == alone()
    nothing_held(engine)


def test_no_schedule_shows_where_vocabularies_are_cut():
    ways = [{}, {"top_k": 5}, {"temperature": 0.6}, {"top_p": 0.8}, {"temperature": 0.0}, {"min_p": 0.1}]
    asked = [question(n, tokens=(5, 6, 7 + n % 5), most=2 + n % 9, **ways[n % len(ways)]) for n in range(24)]
    due = [LocalEngine(POLICY).sample([one])[0] for one in asked]
    engine = LocalEngine(POLICY, max_rows=6)

    async def late(one, number):
        async with engine.episode():
            await asyncio.sleep(0.002 * (number % 7))
            return await engine.submit(one)

    async def main():
        return await asyncio.gather(*(late(one, number) for number, one in enumerate(asked)))

    for found, expected in zip(asyncio.run(main()), due, strict=True):
        assert found.tokens.tolist() == expected.tokens.tolist()
        assert found.logp.tobytes() == expected.logp.tobytes()


def test_when_nobody_dawdles_the_schedule_is_the_same_each_time():
    runs = []
    for _ in range(2):
        engine = Watched(POLICY, max_rows=4)
        play(engine)
        runs.append((engine.entered, engine.counts))
    assert runs[0] == runs[1]


# ---------------------------------------------------------------- flow


def test_who_is_answered_early_goes_on_at_once():
    """One long response beside conversations of many short ones: no batch is waited for."""
    engine = Watched(POLICY)

    async def short(number):
        async with engine.episode():
            for turn in range(8):
                await engine.submit(question(number, turn, most=4))

    async def long():
        async with engine.episode():
            await engine.submit(question("long", most=40))

    async def main():
        await asyncio.gather(long(), *(short(number) for number in range(5)))

    asyncio.run(main())
    assert engine.entered == [6, *[5] * 7]
    # 40 steps of the long one, and what reading contexts adds; batch after batch would take 40 + 7 x 4.
    assert engine.counts.passes < 40 + 12
    assert engine.counts.places >= 16 * 30


def test_a_slow_tool_holds_up_nobody():
    engine = Watched(POLICY)
    order = []

    async def slow():
        async with engine.episode():
            await engine.submit(question("slow", 0))
            await asyncio.sleep(0.5)
            order.append("slow")
            await engine.submit(question("slow", 1))

    async def quick():
        async with engine.episode():
            for turn in range(5):
                await engine.submit(question("quick", turn))
            order.append("quick")

    async def main():
        await asyncio.gather(slow(), quick())

    asyncio.run(main())
    assert order == ["quick", "slow"]


def test_timeouts_run_out_while_a_batch_is_under_way(monkeypatch):
    monkeypatch.setattr(running, "BREATH", 0.0)  # However fast the machine, others get their turn after each pass.
    engine = LocalEngine(POLICY)

    async def main():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(engine.submit(question("long", tokens=(5,) * 40, most=200)), 0.002)
        return await engine.submit(question(1))

    sample = asyncio.run(main())
    assert sample.tokens.tolist() == LocalEngine(POLICY).sample([question(1)])[0].tokens.tolist()
    nothing_held(engine)


@pytest.mark.parametrize("after", [0, 1, 7])
def test_a_cancelled_call_leaves_the_batch_and_its_pages(after, monkeypatch):
    monkeypatch.setattr(running, "BREATH", 0.0)
    engine = LocalEngine(POLICY)

    async def main():
        doomed = asyncio.create_task(engine.submit(question("doomed", tokens=range(5, 40), most=150)))
        kept = asyncio.create_task(engine.submit(question("kept", most=40)))
        while engine.counts.passes < after:
            await asyncio.sleep(0)
        doomed.cancel()
        return (await asyncio.gather(doomed, kept, return_exceptions=True))[1]

    sample = asyncio.run(main())
    assert sample.tokens.tolist() == LocalEngine(POLICY).sample([question("kept", most=40)])[0].tokens.tolist()
    assert engine.counts.passes < 60
    nothing_held(engine)


def test_sampling_at_once_is_possible_while_a_batch_is_under_way():
    engine = LocalEngine(POLICY, max_rows=3)

    async def nosy(number, turn):
        if turn == 1:
            (sample,) = engine.sample([question("aside", number)])
            assert sample.tokens.tolist() == LocalEngine(POLICY).sample([question("aside", number)])[0].tokens.tolist()

    assert play(engine, nosy, count=6) == alone(6)


# ---------------------------------------------------------------- faults


def test_weights_that_change_under_way_make_everything_begin_again():
    policy = tiny_models.policy("qwen3")
    engine = LocalEngine(policy)

    async def main():
        long = asyncio.create_task(engine.submit(question("long", most=60)))
        await engine.submit(question("short", most=4))
        assert not long.done()
        with torch.no_grad():
            policy.model.model.layers[0].mlp.up_proj.weight.mul_(1.5)
        policy.version += 1
        return await long

    sample = asyncio.run(main())
    due = LocalEngine(policy).sample([question("long", most=60)])[0]
    assert sample.tokens.tolist() == due.tokens.tolist()
    assert sample.version == 1


def test_an_error_in_a_pass_reaches_every_caller_and_the_engine_goes_on(monkeypatch):
    engine = LocalEngine(POLICY)
    from hocket.engine.scheduler import Scheduler

    def broken(self):
        raise HocketError("the model is on fire")

    async def main():
        return await asyncio.gather(*(engine.submit(question(n)) for n in range(3)), return_exceptions=True)

    with monkeypatch.context() as patch:
        patch.setattr(Scheduler, "_step", broken)
        assert [str(error) for error in asyncio.run(main())] == ["the model is on fire"] * 3
    assert [len(sample.tokens) for sample in asyncio.run(main())] == [12] * 3
    nothing_held(engine)


def test_a_call_that_can_never_fit_fails_alone():
    engine = LocalEngine(POLICY, max_bytes=2**15)

    async def main():
        asked = [question(1, most=4), question(2, tokens=(5,) * 100, most=100)]
        return await asyncio.gather(*map(engine.submit, asked), return_exceptions=True)

    fine, refused = asyncio.run(main())
    assert len(fine.tokens) == 4
    assert isinstance(refused, ConfigurationError)


def test_an_engine_that_needs_company_waits_until_the_steady_one_has_nothing_left():
    """Whoever is slow, its batches are the same."""

    class Whole(LocalEngine):
        def __init__(self, *args, **more):
            super().__init__(*args, **more)
            self.batches = []

        def _split(self, numbered):
            return [], list(numbered)

        def sample(self, requests):
            self.batches.append(len(requests))
            return super().sample(requests)

    def run(seed):
        barrier = Barrier()
        steady, judge = LocalEngine(POLICY, barrier=barrier), Whole(POLICY, barrier=barrier)

        async def episode(number):
            async with barrier.episode():
                await asyncio.sleep(float(Key.of(seed).derive(number).numpy().random()) * 0.03)
                first = await steady.submit(question(number, most=2 + 3 * number))
                second = await judge.submit(question("judge", number))
                return first.tokens.tolist(), second.tokens.tolist()

        async def main():
            return await asyncio.gather(*(episode(number) for number in range(8)))

        return asyncio.run(main()), judge.batches

    assert run(0) == run(1)
    assert run(2)[1] == [8]


def test_memory_is_for_what_is_live():
    """A thousand calls, a few at a time, keep no more than a few responses."""
    engine = LocalEngine(POLICY, max_rows=8)

    async def episode(number):
        async with engine.episode():
            for turn in range(25):
                await engine.submit(question(number, turn, most=3))

    async def main():
        await asyncio.gather(*(episode(number) for number in range(16)))

    asyncio.run(main())
    written = engine._company.running._written
    assert written.tokens.shape[0] <= 64
    assert written.tokens.dtype == np.int64
    nothing_held(engine)


def test_pages_of_ended_conversations_are_used_again_before_memory_grows(monkeypatch):
    """However many episodes there are, the pool is as large as those that live at one time need."""
    from hocket.engine import scheduler

    def largest(episodes, kept):
        monkeypatch.setattr(scheduler, "PRUNED_FROM", kept)
        engine = LocalEngine(POLICY)
        gate = asyncio.Semaphore(4)

        async def episode(number):
            async with gate, engine.episode():
                tokens = (5, 6 + number // 20, 7 + number % 20, 8, 9)
                for turn in range(4):
                    sample = await engine.submit(question(number, turn, tokens=tokens, most=20))
                    tokens = (*tokens, *sample.tokens.tolist(), 9, 10)

        async def main():
            await asyncio.gather(*(episode(number) for number in range(episodes)))

        asyncio.run(main())
        nothing_held(engine)
        return engine._cache.pool.size

    always = 2**30
    assert largest(60, always) <= largest(12, always)
    assert largest(60, 1) > 2 * largest(12, always), "as a cache it would keep them all"


def test_what_live_conversations_need_is_not_given_up(monkeypatch):
    from hocket.engine import scheduler

    monkeypatch.setattr(scheduler, "PRUNED_FROM", 2**30)
    engine = LocalEngine(POLICY)

    async def short(number):
        for turn in range(9):
            async with engine.episode():
                await engine.submit(question("short", number, turn, tokens=(5, number + 8, turn + 8) * 12, most=20))

    async def long():
        tokens, computed = tuple(range(5, 40)), 0
        async with engine.episode():
            for turn in range(9):
                sample = await engine.submit(question("long", turn, tokens=tokens, most=20))
                tokens = (*tokens, *sample.tokens.tolist(), 9, 10)
                computed += 3 if turn else 35
        return tokens, computed

    async def main():
        return (await asyncio.gather(long(), *(asyncio.create_task(short(n)) for n in range(3))))[0]

    _, computed = asyncio.run(main())
    assert engine.counts.computed <= computed + 36 * 36, "nothing of the long conversation was read twice"
    nothing_held(engine)


def test_what_a_workflow_asks_next_does_not_depend_on_who_else_is_there():
    """Branches of one workflow go on together, though their answers are done at different times."""

    def order(others, rows):
        engine, asked = LocalEngine(POLICY, max_rows=rows), []

        async def branch(name, lengths):
            for turn, most in enumerate(lengths):
                asked.append((name, turn))
                await engine.submit(question(name, turn, most=most))

        async def branching():
            async with engine.episode():
                await asyncio.gather(branch("a", (3, 20, 4)), branch("b", (15, 2, 9)), branch("c", (6, 6)))

        async def other(number):
            async with engine.episode():
                for turn in range(3):
                    await asyncio.sleep(0.001 * (number % 3))
                    await engine.submit(question("other", number, turn, most=2 + 5 * number % 13))

        async def main():
            await asyncio.gather(branching(), *(other(number) for number in range(others)))

        asyncio.run(main())
        return asked

    due = [(name, turn) for turn in range(3) for name in "abc" if (name, turn) != ("c", 2)]
    assert order(0, 256) == due
    assert order(9, 2) == due
    assert order(5, 7) == due


def test_a_branch_that_is_given_up_holds_up_no_other(monkeypatch):
    monkeypatch.setattr(running, "BREATH", 0.0)  # However fast the machine, others get their turn after each pass.
    engine = LocalEngine(POLICY)

    async def main():
        async with engine.episode():
            slow = asyncio.create_task(engine.submit(question("slow", tokens=(5,) * 30, most=200)))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(engine.submit(question("held", most=3)), 0.002)
            kept = asyncio.create_task(engine.submit(question("kept", most=3)))
            await asyncio.sleep(0.01)
            slow.cancel()
            return await kept

    assert len(asyncio.run(main()).tokens) == 3
    nothing_held(engine)
