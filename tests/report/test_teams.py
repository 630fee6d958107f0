"""Curves and tables of runs with several rewards, agents and learners, on the page and on the terminal."""

import io
import json
from types import SimpleNamespace

import pytest
from rich.console import Console

from hocket.apps.cli.display import LiveDisplay, role_lines
from hocket.apps.report.curves import curves
from hocket.apps.report.page import _chips, write_report
from hocket.apps.report.reading import read_run
from hocket.apps.report.roles import StepTotals, table
from hocket.apps.report.rollouts import rollouts
from hocket.core.casting import Separate
from hocket.methods.base.grpo import GRPO
from hocket.train.kinds import ACCURACY
from hocket.train.kinds.words import RESPONSES
from hocket.train.settings import Config, Phase


def charts_of(folder, rows, steps=()):
    folder.mkdir(exist_ok=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {chart.title: chart for chart in curves(read_run(folder), steps)}


def rows(**keys):
    return [
        {"step": step, "groups/total": 4, **{name: value * step for name, value in keys.items()}} for step in (1, 2)
    ]


def names(chart):
    return [line.name for line in chart.lines]


def test_a_curve_per_reward(tmp_path):
    found = charts_of(tmp_path, rows(**{"reward/mean": 0.1, "reward/correct": 0.2, "reward/format": 0.3}))
    assert names(found["Rewards by name"]) == ["correct", "format"]
    assert found["Rewards by name"].lines[0].points == [(1.0, 0.2), (2.0, 0.4)]
    assert names(found["Reward"]) == ["mean"]
    assert "Rewards by name" not in charts_of(tmp_path, rows(**{"reward/mean": 0.1}))


def test_rewards_of_different_size_stand_apart(tmp_path):
    found = charts_of(tmp_path, rows(**{"reward/length": 80, "reward/correct": 0.2, "reward/format": 0.4}))
    assert names(found["Reward: correct, format"]) == ["correct", "format"]
    assert names(found["Reward: length"]) == ["length"]


def test_evaluated_rewards_are_no_traits(tmp_path):
    measured = {"eval/accuracy": 0.1, "eval/n": 9, "eval/reward/correct": 0.3, "eval/format": 0.2}
    found = charts_of(tmp_path, rows(**{"reward/correct": 0.2}, **measured))
    assert names(found["Rewards by name"]) == ["correct", "correct, evaluated"]
    assert names(found["Traits of the answers"]) == ["format"]


def test_many_lines_are_parted(tmp_path):
    found = charts_of(tmp_path, rows(**{f"reward/r{n}": 0.5 for n in range(8)}))
    assert [len(found[f"Rewards by name ({n} of 2)"].lines) for n in (1, 2)] == [4, 4]


@pytest.mark.parametrize("form", ["{}/reward", "reward/agent/{}"])
def test_rewards_per_agent_from_metrics(tmp_path, form):
    found = charts_of(tmp_path, rows(**{form.format("north"): 1.0, form.format("south"): -1.0, "reward/mean": 0.0}))
    assert names(found["Reward per agent"]) == ["north", "south"]
    assert not [title for title in found if title.startswith("Rewards by name")]


def test_counts_from_metrics(tmp_path):
    told = {"turns/mean": 2.0, "tools/calls": 1.0, "episodes/failed": 1.0}
    found = charts_of(tmp_path, rows(**told))
    assert [found[title].lines[0].points[1][1] for title in
            ("Turns per episode", "Tool calls per episode", "Failed episodes")] == [4.0, 2.0, 2.0]  # fmt: skip
    plain = charts_of(tmp_path, [{"step": 1, "turns/mean": 1.0, "tools/calls": 0.0, "episodes/failed": 0.0}])
    assert not {"Turns per episode", "Tool calls per episode", "Failed episodes"} & plain.keys()


def episode(*turns, **more):
    return {
        "turns": [
            dict(zip(("agent", "length", "logp", "rewards", "text", "forced"), turn, strict=False)) for turn in turns
        ],
        **more,
    }


def test_what_a_step_comes_to():
    found = StepTotals.of(
        [
            episode(("a", 2, [-1.0, -3.0], {"r": 1.0}, "<tool_call>{}</tool_call>"), ("b", 3, None, None)),
            episode(("a", 2, [-5.0, -1.0], {"r": 0.5, "q": 1}, "", [True, False]), failure="broke"),
            episode(("a", 9, [-1.0] * 9), source="expert"),
        ]
    ).to_json()
    assert (found["episodes"], found["failed"]) == (2, 1)
    a, b = found["agents"]["a"], found["agents"]["b"]
    assert (a["turns"], a["decisions"], a["calls"], a["reward"]) == (2, 4, 1, 2.5)
    assert (a["surprise"], a["sampled"]) == (5.0, 3)
    assert (b["turns"], b["reward"], b["sampled"]) == (1, None, 0)


def test_recorded_steps_stand_in_for_metrics(tmp_path):
    steps = [
        {
            "step": step,
            "summed": StepTotals.of([episode(("a", 2, None, {"r": step}), ("b", 1, None, {"r": -step}))] * 2).to_json(),
        }
        for step in (1, 5)
    ]
    found = charts_of(tmp_path, rows(), steps)
    assert [line.points for line in found["Reward per agent"].lines] == [
        [(1.0, 1.0), (5.0, 5.0)],
        [(1.0, -1.0), (5.0, -5.0)],
    ]
    assert found["Turns per episode"].lines[0].points == [(1.0, 2.0), (5.0, 2.0)]
    assert "Tool calls per episode" not in found


def test_the_table_of_roles(team):
    shown = rollouts(read_run(team))
    metrics = [{"step": 1, "planner/kl/reference": 0.25, "planner/groups/with_signal": 5}]
    config = {"roles": {"worker": {"frozen": True}}}
    found = table(shown["steps"], metrics, config, RESPONSES)
    assert [(row["name"], row["cast"]) for row in found["rows"]] == [
        ("planner", "planner"),
        ("worker", "worker, frozen"),
    ]
    cells = [dict(zip(found["columns"], row["cells"], strict=True)) for row in found["rows"]]
    # Eight episodes with both, and two with the worker alone.
    assert [cell["turns per episode"] for cell in cells] == ["1.6", "1"]
    assert [cell["KL to the reference"] for cell in cells] == ["0.25", ""]
    assert [cell["sampling entropy"] for cell in cells] == ["0.2", "0.2"]
    assert "tool calls per episode" not in found["columns"]
    assert table([], [], {}, RESPONSES) is None


def test_the_page_shows_roles_and_rewards(team):
    text = write_report(team).read_text()
    assert "<h2>Roles</h2>" in text
    assert 'class="role"' in text
    for title in ("Turns per episode", "planner entropy"):
        assert title in text


def test_one_agent_needs_no_table_of_roles(run):
    assert "<h2>Roles</h2>" not in write_report(run).read_text()


# ---------------------------------------------------------------- the terminal


def begun(config):
    console = Console(width=300, record=True, file=io.StringIO())
    machine = SimpleNamespace(briefly="1 thread")
    trainer = SimpleNamespace(
        config=config,
        progress=SimpleNamespace(step=0),
        total_steps=3,
        task=SimpleNamespace(kind="text"),
        measure=ACCURACY,
        machine=machine,
        folder=SimpleNamespace(path="runs/x"),
        parts=SimpleNamespace(learners={}),
    )
    LiveDisplay(console).started(trainer)
    return console.export_text()


TEAM = GRPO.but(name="team", workflow="debate?rounds=2", cast=Separate())


@pytest.mark.parametrize(
    ("config", "line", "chips"),
    [
        (Config(), "training nano on sums with grpo,", {}),
        (
            Config(workflow="planner-worker"),
            "training nano on sums played as planner-worker with grpo,",
            {"workflow": "planner-worker"},
        ),
        (
            Config(recipe=TEAM),
            "training nano on sums played as debate?rounds=2 with the cast Separate, with team,",
            {"workflow": "debate?rounds=2", "cast": "Separate"},
        ),
        (
            Config(workflow="planner-worker", recipe=GRPO, plan=(Phase(TEAM, 2), Phase(GRPO, 1))),
            "played as planner-worker with the cast Separate, with team then grpo,",
            {"workflow": "planner-worker", "cast": "Separate"},
        ),
    ],
)
def test_what_plays_is_named(config, line, chips, tmp_path):
    assert line in begun(config)
    (tmp_path / "config.yaml").write_text(config.to_yaml())
    named = dict(_chips(read_run(tmp_path)))
    assert {name: named.get(name) for name in ("workflow", "cast") if name in named} == chips


def shown(row):
    console = Console(width=110, record=True, file=io.StringIO())
    display = LiveDisplay(console)
    display.stepped(SimpleNamespace(measure=ACCURACY, task=SimpleNamespace(kind="text")), row)
    console.print(display._page())
    return console.export_text()


def team_row(count):
    row = {"step": 1, "reward/mean": 0.5, "entropy": None, "groups/total": 8}
    for number in range(count):
        row |= {
            f"role{number}/entropy": 0.4,
            f"role{number}/kl/reference": 0.01,
            f"role{number}/groups/with_signal": 5.0,
        }
    return row


def test_the_terminal_has_a_line_per_learner():
    text = shown(team_row(2) | {"role0/reward": 0.75})
    (first,) = [line for line in text.splitlines() if "role0" in line]
    assert first.split() == ["role0", "0.750", "entropy", "0.40", "kl", "0.010", "signal", "5/8"]
    assert sum("role" in line for line in text.splitlines()) == 2
    assert "role" not in shown({"step": 1, "reward/mean": 0.5, "entropy": 0.3, "kl/reference": 0.1})


def test_the_terminal_stays_short():
    lines = role_lines(team_row(11))
    assert len(lines) == 7
    assert "5 more roles" in lines[-1][2]
