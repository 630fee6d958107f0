"""Weights that go beside a message: the same bytes at every process, written once, whatever the system allows."""

from __future__ import annotations

import gc
import os
import pickle
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hocket.distributed.cluster.connection import ChildProcess, serve
from hocket.distributed.cluster.messages import pack_question, unpack_question
from hocket.distributed.cluster.sampler_worker import Load
from hocket.distributed.cluster.weights import PackedWeights, digest, packed

SMALL = packed({"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor([1, 2], dtype=torch.int64)})
LARGE = packed({"w": torch.arange(2.0**20)})
NOTHING = packed({})


def echoed(message: bytes, *beside: PackedWeights) -> bytes:
    """What came, and that it may be written to without anybody else's noticing."""
    shown = [digest({"": one}) for one in beside]
    for one in beside:
        one.data[:] = 0
    return pickle.dumps((message, shown, os.getpid()))


def main(handle: int) -> None:
    serve(handle, echoed)


@pytest.fixture(scope="module")
def children() -> Iterator[list[ChildProcess]]:
    found = [ChildProcess(f"sampler {number}", __name__) for number in (1, 2)]
    yield found
    for child in found:
        child.close()


def exchanged(children: Sequence[ChildProcess], message: bytes, beside: Sequence[PackedWeights]) -> None:
    """Sends all children the same and sees that they tell it back."""
    for child in children:
        child.send(message, beside)
    for child in children:
        assert pickle.loads(child.receive()) == (message, [digest({"": one}) for one in beside], child.process.pid)


@pytest.mark.parametrize("memory", ["given", "short", "forbidden"])
def test_every_process_has_what_was_sent(
    memory: str, children: list[ChildProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, genuine = [], os.memfd_create

    def memfd(name: str) -> int:
        made.append(name)
        if memory == "forbidden":
            raise PermissionError("not here")
        return genuine(name) if memory == "given" else os.open("/dev/full", os.O_WRONLY)

    monkeypatch.setattr(os, "memfd_create", memfd)
    small, large = (PackedWeights(one.layout, one.data.copy()) for one in (SMALL, LARGE))
    exchanged(children, b"alone", ())
    exchanged(children, b"both", (large, small))
    exchanged(children, b"nothing in it", (NOTHING,))
    exchanged(children, b"again, after what they wrote over it", (small, large, small))
    exchanged(children, b"alone", ())
    assert len(made) == 2  # One each, for whatever is sent and to how many.


def test_descriptors_stay_where_they_are() -> None:
    one = PackedWeights(SMALL.layout, SMALL.data.copy())
    assert one.memory is not None
    again = pickle.loads(pickle.dumps(one))
    assert "memory" in vars(one)
    assert "memory" not in vars(again)
    assert digest({"": again}) == digest({"": one})


def test_memory_is_given_back_with_the_weights() -> None:
    one = PackedWeights(SMALL.layout, SMALL.data.copy())
    handle = one.memory
    assert handle is not None
    assert os.fstat(handle).st_size == one.data.nbytes
    del one
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(handle)


@given(st.lists(st.sampled_from([SMALL, LARGE, NOTHING]), max_size=4))
def test_a_question_names_its_weights_by_place(sent: list[PackedWeights]) -> None:
    trained = {f"policy {place}": one for place, one in enumerate(sent)}
    load = Load(trained, {}, {}, {"base": SMALL})
    data, beside, _ = pack_question(load, ())
    assert len(data) < 5000
    there, _ = unpack_question(data, [PackedWeights(one.layout, one.data.copy()) for one in beside])
    assert digest(there.weights) == digest(trained)
    assert digest(there.references) == digest({"base": SMALL})


def test_what_may_only_be_read_is_copied_for_torch() -> None:
    shown = SMALL.data.copy()
    shown.flags.writeable = False
    one = PackedWeights(SMALL.layout, shown).writable()
    assert one.data.flags.writeable
    assert np.array_equal(one.data, SMALL.data)
    assert one.writable() is one


def test_weights_of_several_types_come_back_wherever_they_begin() -> None:
    given = {"half": torch.tensor([1.5, -2.0, 3.0], dtype=torch.bfloat16), "full": torch.tensor([0.25, 7.0])}
    found = packed(given).tensors()
    assert all(torch.equal(found[name], given[name]) and found[name].dtype == given[name].dtype for name in given)
