"""Activities named by rules, and how traces conform."""

from __future__ import annotations

import pytest
from judged_cases import Scripted, asking
from rewards_cases import read

from hocket.core.errors import ConfigurationError
from hocket.core.signals import returns
from hocket.methods.group_relative.pm4grpo import (
    Conformance,
    activities,
    conformance,
    harmonic_mean,
    judged_activities,
)


def test_activities_by_rules():
    text = "We are asked for 3.5 plus 4. Add them; that makes 7.5! Hm. Let me verify. So the answer is 7.5"
    assert activities(text) == ("restate", "derive", "derive", "check", "conclude")
    assert activities("") == ()
    assert activities("Foo bar", (("named", "foo"),)) == ("named",)


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


def test_a_judge_labels_the_sentences():
    said = {"Foo": "derive", "Bar": "conclude", "Hm": "other", "Odd": "no idea", "Eh": None}
    judge = Scripted(lambda prompt: said[prompt.split("\n")[2].split()[0]])
    found = judged_activities(judge, ["Foo it. Hm! Odd\nBar", "", "Eh. Bar"])
    assert found == [("derive", "conclude"), (), ("conclude",)]
    assert set(judge.asked[0].choices) == {"restate", "plan", "derive", "check", "conclude", "other"}


def test_conformance_by_a_judges_labels():
    pytest.importorskip("pm4py")
    rows = [
        {"text": "Foo. Bar<answer>Foo</answer>", "info": {"teacher": "Foo. Bar"}},
        {"text": "Bar. Foo", "info": {"teacher": ["derive", "conclude"]}},
        {"text": "Foo", "info": {"teacher": None}},
    ]
    shape = asking(Conformance(), lambda prompt: "derive" if "Foo" in prompt else "conclude")
    found = returns(shape(read(*rows))).tolist()
    assert found[0] == 1.0
    assert found[1] == harmonic_mean(*conformance(("conclude", "derive"), ("derive", "conclude"))) < 1
    assert found[2] == 0.0
    assert returns(Conformance()(read(*rows))).tolist() == [0.0, 0.0, 0.0], "no rule knows these words"
