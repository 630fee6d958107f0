"""When batches run: only when every live workflow waits, whatever completes first; steady engines go on meanwhile."""

import asyncio

import pytest
import tiny_models
import torch

from hocket.core.errors import HocketError
from hocket.core.keys import Key
from hocket.engine.barrier import Barrier
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.types import Decoding

torch.set_num_threads(1)
POLICY = tiny_models.policy("qwen3")


class Recorder(LocalEngine):
    """Runs whole batches, as where there are no kernels, and remembers the keys of each."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.batches = []

    def _split(self, numbered):
        return [], list(numbered)

    def sample(self, requests):
        self.batches.append(sorted(request.key for request in requests))
        return super().sample(requests)


def ask(*path, most=4):
    return Request((5, 6, 7), Decoding(max_tokens=most), Key.of(0).derive(*path))


async def workflow(engine, number, calls, pause):
    found = []
    async with engine.episode():
        for call in range(calls):
            await asyncio.sleep(pause.uniform(0, 0.004))
            found.append((await engine.submit(ask(number, call))).tokens.tolist())
    return found


def play(seed):
    engine = Recorder(POLICY)
    pause = Key.of(seed).numpy()

    async def main():
        return await asyncio.gather(*(workflow(engine, n, 1 + n % 3, pause) for n in range(9)))

    return asyncio.run(main()), engine.batches


def test_batches_and_results_do_not_depend_on_who_is_fast():
    first, batches = play(1)
    assert [len(batch) for batch in batches] == [9, 6, 3]
    for seed in (2, 3):
        assert play(seed) == (first, batches)


def test_gathered_calls_run_together():
    engine = Recorder(POLICY)

    async def deep(number):
        await asyncio.sleep(0)
        return await asyncio.gather(*(engine.submit(ask(number, call)) for call in range(3)))

    async def main():
        async with engine.episode():
            await asyncio.gather(deep(0), deep(1))

    asyncio.run(main())
    assert [len(batch) for batch in engine.batches] == [6]
    assert engine.live == 0


def test_engines_that_share_a_barrier_do_not_wait_for_each_other():
    barrier = Barrier()
    engines = [Recorder(POLICY, barrier=barrier) for _ in range(2)]

    async def player(number):
        async with barrier.episode():
            for call in range(3):
                await engines[(number + call) % 2].submit(ask(number, call))

    async def main():
        await asyncio.wait_for(asyncio.gather(*(player(n) for n in range(4))), 20)

    asyncio.run(main())
    assert [len(batch) for batch in engines[0].batches] == [2, 2, 2]


def test_a_slow_tool_delays_the_batch_but_not_for_ever():
    def run(patience, nap):
        engine = Recorder(POLICY, barrier=Barrier(patience=patience))

        async def tool():
            async with engine.episode():
                await asyncio.sleep(nap)
                await engine.submit(ask(1))

        async def quick():
            async with engine.episode():
                await engine.submit(ask(0))

        async def main():
            await asyncio.gather(tool(), quick())

        asyncio.run(main())
        return [len(batch) for batch in engine.batches]

    assert run(patience=20.0, nap=0.05) == [2]
    assert run(patience=0.02, nap=0.3) == [1, 1]


def test_calls_outside_any_workflow_run():
    engine = Recorder(POLICY)

    async def main():
        return await asyncio.gather(*(engine.submit(ask(n)) for n in range(3)))

    assert len(asyncio.run(main())) == 3
    assert [len(batch) for batch in engine.batches] == [3]


def test_a_hopeless_request_fails_alone_and_a_cancelled_one_leaves():
    engine = Recorder(POLICY)

    async def hopeless():
        async with engine.episode():
            with pytest.raises(HocketError, match="leaves no room"):
                await engine.submit(Request((5,) * 300, Decoding(), Key.of(9)))

    async def cancelled():
        async with engine.episode():
            await asyncio.wait_for(engine.submit(ask(2)), 0.01)

    async def busy():
        async with engine.episode():
            await asyncio.sleep(0.05)
            return await engine.submit(ask(1))

    async def main():
        return await asyncio.gather(hopeless(), cancelled(), busy(), return_exceptions=True)

    failed, late, sample = asyncio.run(main())
    assert failed is None
    assert isinstance(late, TimeoutError)
    assert len(sample.tokens) > 0
    assert [len(batch) for batch in engine.batches] == [1]


def test_an_error_in_the_batch_reaches_every_caller():
    engine = Recorder(POLICY)

    def broken(requests):
        raise HocketError("the model is on fire")

    engine.sample = broken

    async def main():
        return await asyncio.gather(*(engine.submit(ask(n)) for n in range(2)), return_exceptions=True)

    assert [str(error) for error in asyncio.run(main())] == ["the model is on fire"] * 2


def test_a_workflow_that_hangs_is_waited_for_once():
    engine = Recorder(POLICY, barrier=Barrier(patience=0.2))

    async def hung(release):
        async with engine.episode():
            await release.wait()
            await engine.submit(ask("hung"))

    async def quick(number):
        async with engine.episode():
            for call in range(5):
                await engine.submit(ask(number, call))

    async def main():
        release = asyncio.Event()
        waiting = asyncio.create_task(hung(release))
        begun = asyncio.get_running_loop().time()
        await asyncio.gather(*(quick(number) for number in range(3)))
        taken = asyncio.get_running_loop().time() - begun
        release.set()
        await waiting
        return taken

    assert asyncio.run(main()) < 5 * 0.2 + 0.5
    assert [len(batch) for batch in engine.batches] == [3] * 5 + [1]
