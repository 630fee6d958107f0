"""Action masks as settings: checked, written, and read from configurations of before."""

import pytest
import yaml

from hocket import tasks
from hocket.core.aliases import present
from hocket.core.components import from_plain, to_plain
from hocket.core.errors import ConfigurationError
from hocket.rollout.nucleus import NucleusMask
from hocket.train.config import configure, dump, read_pairs
from hocket.types import ActionMask, Decoding


def test_a_mask_is_a_setting_like_any_other():
    decoding = Decoding(mask=NucleusMask(0.8))
    assert isinstance(decoding.mask, ActionMask)
    assert from_plain(to_plain(decoding)) == decoding


@pytest.mark.parametrize("mask", [0.9, "nucleus", {"mass": 0.9}])
def test_what_is_no_mask_is_refused(mask):
    with pytest.raises(ConfigurationError, match="action mask"):
        configure([("decoding.mask", mask)], tasks.find("sums"))


@pytest.mark.parametrize(("mass", "mask"), [(1.0, None), (0.9, NucleusMask(0.9))])
def test_configurations_of_before_are_read(tmp_path, mass, mask):
    task = tasks.find("sums")
    written = yaml.safe_load(dump(configure([], task)))
    del written["decoding"]["mask"]
    written["decoding"] |= {"nucleus": mass, "temperature": 0.5}
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(written))
    now = configure(read_pairs(file), task)
    assert now.decoding == Decoding(temperature=0.5, max_tokens=now.decoding.max_tokens, mask=mask)
    file.write_text(yaml.safe_dump({"decoding": {"nucleus": mass}}))
    assert configure(read_pairs(file), task).decoding.mask == mask
    assert present(present(written)) == present(written)
