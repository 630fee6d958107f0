"""What depends on the picture is learnt from; without anything to weigh, credit is the group's."""

from __future__ import annotations

import math

import pytest
import torch
from credit_cases import annotated, make

from hocket.credit.group import GroupRelative
from hocket.methods.group_relative.vppo import DEPENDENCE, VPPO, PictureDependent


def batch_of(dependence: torch.Tensor) -> object:
    batch = annotated([make("s", 1.0, length=5), make("s", 0.0, length=5), make("s", 0.0, length=5)])
    return batch.but(annotations={**batch.annotations, DEPENDENCE.name: dependence})


@pytest.mark.parametrize("share", [0.2, 0.4, 0.5, 1.0])
def test_the_most_dependent_decisions_keep_their_advantage(share: float) -> None:
    dependence = torch.tensor([0.1, 0.5, 0.3, 0.2, 0.4] * 3)
    kept = PictureDependent(of=VPPO.credit.of, share=share, least=1.0)(batch_of(dependence)).advantage
    plain = VPPO.credit.of(batch_of(dependence)).advantage
    for start in (0, 5, 10):
        order = dependence[start : start + 5].argsort(descending=True)
        count = math.ceil(share * 5)
        assert torch.allclose(kept[start + order[:count]], plain[start + order[:count]].to(kept.dtype))
        assert (kept[start + order[count:]] == 0).all()


def test_a_trajectory_that_depends_most_weighs_most_and_the_mean_is_one() -> None:
    dependence = torch.tensor([0.0] * 5 + [0.5] * 5 + [1.0] * 5)
    credit = PictureDependent(of=VPPO.credit.of, share=1.0, least=0.5)
    batch = batch_of(dependence)
    factor = (credit(batch).advantage / VPPO.credit.of(batch).advantage)[::5]
    assert factor[0] == pytest.approx(0.5)
    assert factor[0] < factor[1] < factor[2]
    assert float(factor.mean()) == pytest.approx(1.0)


@pytest.mark.parametrize("settings", [{"share": 0.0}, {"share": 1.1}, {"least": -0.1}])
def test_settings_out_of_range(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"must lie in"):
        PictureDependent(of=GroupRelative(), **settings)
