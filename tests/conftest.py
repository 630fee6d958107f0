"""What every test shares: one thread, and no draw from a global random generator."""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Iterator

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import pytest
import rich.console  # noqa: F401  (draws a random number when imported)
import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("hocket", deadline=None)  # Nothing is asserted of time: another program may have the cores.
settings.load_profile("hocket")
pytest.register_assert_rewrite("tiny_runs")  # So that its asserts tell what differs.


@pytest.fixture(autouse=True, scope="module")
def settled() -> Iterator[None]:
    """What outlives a module is not looked through again by collections of garbage, which came to take seconds each."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_global_draws(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test that moved a global generator: every draw in the library takes a derived key."""
    before = (random.getstate(), np.random.get_state()[1].tobytes(), torch.get_rng_state())  # noqa: NPY002
    yield
    if request.node.get_closest_marker("global_rng"):
        return
    assert random.getstate() == before[0], "Python's global random generator was used"
    assert np.random.get_state()[1].tobytes() == before[1], "NumPy's global random generator was used"  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before[2]), "torch's global random generator was used"
