"""The Verilog simulator: what is refused, what is reported, and what happens without it."""

from __future__ import annotations

import time

import pytest

from hocket import tasks
from hocket.agents.tools.verilog import DesignSimulation, installed, refused, simulate
from hocket.core.errors import ConfigurationError
from hocket.zoo.tasks.circuits import Circuits, VectorAgreement, verilog_of

simulated = pytest.mark.skipif(not installed(), reason="Icarus Verilog is not installed")

BUFFER = "module top(input a,output y);assign y=a;endmodule"
BENCH = 'module bench;reg a;wire y;top d(.a(a),.y(y));initial begin a=0;#1 $display("%b",y);$finish;end endmodule'


def test_a_machine_without_it_is_told_how_to_get_it_before_anything_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda program: None)
    for attempt in (lambda: tasks.find("circuits"), lambda: simulate(BUFFER + " ", BENCH)):
        with pytest.raises(ConfigurationError, match="apt install iverilog"):
            attempt()


def test_a_design_asks_for_the_language_alone() -> None:
    assert not refused(BUFFER)
    assert refused(BUFFER + "//" + "x" * 20_000)
    assert refused("`timescale 1ns/1ps\n" + BUFFER)
    assert refused("module top;initial $stop;endmodule")


@simulated
def test_what_it_prints_is_told_and_what_does_not_fit_prints_nothing() -> None:
    assert simulate(BUFFER, BENCH) == DesignSimulation(True, ("0",))
    assert simulate(BUFFER.replace("assign", "asign"), BENCH) == DesignSimulation(False)
    assert simulate(BUFFER.replace("input a", "input b").replace("=a", "=b"), BENCH) == DesignSimulation(True)
    assert simulate("", BENCH) == DesignSimulation(False)


@simulated
def test_an_endless_design_is_stopped() -> None:
    started = time.monotonic()
    assert simulate(BUFFER.replace("endm", "reg z;initial forever z=~z;endm"), BENCH) == DesignSimulation(True)
    assert time.monotonic() - started < 9


def test_a_design_is_found_in_answer_tags_and_fences() -> None:
    assert verilog_of(f"<think>no</think><answer>{BUFFER}</answer>") == BUFFER
    assert verilog_of(f"<answer>```verilog\nold\n```\n```v\n{BUFFER}\n```</answer>") == BUFFER + "\n"
    assert verilog_of(f"```verilog\n{BUFFER}\n```") == BUFFER + "\n"
    assert verilog_of(f"<think><answer>{BUFFER}</answer></think>") is None


def test_settings_that_make_no_sense_are_refused_in_a_sentence() -> None:
    with pytest.raises(ConfigurationError, match="family must be one of gate"):
        Circuits("gates")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="grading must be share or all"):
        VectorAgreement("half")  # type: ignore[arg-type]


@simulated
def test_the_task_by_its_name() -> None:
    task = tasks.find("circuits?family=register&grading=share")
    assert task.name == "circuits?family=register&grading=share"
    scenario = task.scenario("eval", 3)
    told = scenario.metadata
    assert VectorAgreement("share").verify(told["demonstration"], scenario) == 1.0
    early = told["demonstration"].replace("posedge", "negedge")
    assert 0 < (VectorAgreement("share").verify(early, scenario) or 0) < 1
    assert VectorAgreement("all").verify(early, scenario) == 0.0
