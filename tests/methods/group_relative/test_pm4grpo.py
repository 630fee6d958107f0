"""Activities named by rules, and how traces conform."""

from __future__ import annotations

import pytest

from hocket.core.errors import ConfigurationError
from hocket.methods.group_relative.pm4grpo import Conformance, activities, conformance, harmonic_mean


def test_activities_by_rules():
    text = "We are asked for 3.5 plus 4. Add them; that makes 7.5! Hm. Let me verify. So the answer is 7.5"
    assert activities(text) == ("restate", "derive", "derive", "check", "conclude")
    assert activities("") == ()
    assert activities("Foo bar", (("named", "foo"),)) == ("named",)


def test_the_harmonic_mean_of_nothing_is_nothing():
    assert harmonic_mean(0.0, 0.0) == 0.0
    assert harmonic_mean(1.0, 0.5) == pytest.approx(2 / 3)


def test_conformance_of_traces():
    pytest.importorskip("pm4py")
    assert conformance(("a", "b", "c"), ("a", "b", "c")) == (1.0, 1.0)
    assert conformance((), ("a",)) == (0.0, 0.0)
    assert conformance(("a",), ()) == (0.0, 0.0)
    assert Conformance().score("add 3 and 4", "sum them") == 1.0
    assert Conformance().score("add 3 and 4", None) == 0.0


def test_conformance_without_pm4py_says_what_to_install(monkeypatch):
    import sys

    from hocket.methods.group_relative import pm4grpo as module

    monkeypatch.setitem(sys.modules, "pm4py", None)
    module._pm4py.cache_clear()
    module.conformance.cache_clear()
    try:
        with pytest.raises(ConfigurationError, match=r"hocket\[process\]"):
            Conformance().score("add 3 and 4", ["derive"])
    finally:
        module._pm4py.cache_clear()
