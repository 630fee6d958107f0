"""Episodes as conversations: what is stored once, what hangs where, and what a browser makes of it."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from browser_cases import browse, browser, logged
from hypothesis import given
from hypothesis import strategies as st

from hocket.agents.tools.calculator import CALCULATOR, calculator
from hocket.agents.workflows.episode import Limits
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.apps.report.conversations import Conversations, calls_in, earned, least_size, size
from hocket.apps.report.groups import group_episodes
from hocket.apps.report.page import write_report
from hocket.apps.report.reading import read_run
from hocket.apps.report.rollouts import rollouts
from hocket.core.batch import Level
from hocket.core.packing import pack
from hocket.lab.microscope import RecordedBatch, inspect, record
from hocket.methods.group_relative.pta_grpo import split
from hocket.recipes import find
from hocket.testing import rehearse
from hocket.train.answers import content
from hocket.train.episodes import BRIEF, episodes, write_episodes
from hocket.types import Decoding, Scenario, Score, Trajectory, Turn

ASK = ({"role": "user", "content": "What is 6 * 7 + 1?"},)


def turn(text, prompt=ASK, parent=None, agent="solver", conversation=0, **more):
    ids = np.array([ord(letter) for letter in text], np.int64)
    logp = more.pop("logp", np.full(len(ids), -0.5, np.float32))
    return Turn(agent, more.pop("policy", "policy"), np.arange(3), ids, logp, text=text, prompt=prompt, parent=parent,
                decoding=Decoding(), extras={"conversation": conversation}, **more)  # fmt: skip


def after(old, new):
    """The history of a turn that goes on from another with a user's words."""
    return (*old.prompt, {"role": "assistant", "content": old.text}, {"role": "user", "content": new})


def trajectory(turns, sample=0, reward=1.0, **more):
    return Trajectory(Scenario("s", ASK[0]["content"], answer=43), turns, sample, {"reward": Score(reward)}, **more)


def spell(ids):
    return "".join(chr(token) for token in ids)


def told(*trajectories):
    """Trajectories written as episodes and read as the conversations of one group."""
    found = Conversations()
    samples = [found.add(n, row) for n, row in enumerate(episodes(trajectories, None, spell))]
    return found.turns, samples


# ---------------------------------------------------------------- episodes as written


def test_turns_say_how_they_hang_together():
    stem = turn("a plan")
    leaves = [turn(text, stem.prompt, stem) for text in (" and so 43", " and so 44")]
    on = turn("yes", after(leaves[0], "sure?"), leaves[0], state="doubt")
    rows = episodes([trajectory([stem, leaves[0], on]), trajectory([stem, leaves[1]])], None, spell)
    links = [[(one["id"], one["parent"], one["new"], one["state"]) for one in row["turns"]] for row in rows]
    assert links == [[(0, None, 1, None), (1, 0, 0, None), (2, 1, 1, "doubt")], [(0, None, 1, None), (3, 0, 0, None)]]
    assert {one["conversation"] for row in rows for one in row["turns"]} == {0}


def test_a_history_that_was_rewritten_is_new_as_a_whole():
    first = turn("one")
    wrong = turn("two", ({"role": "user", "content": "another"}, *after(first, "on")[1:]), first)
    (row,) = episodes([trajectory([first, wrong])], None)
    assert [one["new"] for one in row["turns"]] == [1, 3]


def test_turn_rewards_and_what_is_known_of_the_episode():
    moves = [turn("left", agent="a"), turn("right", agent="b")]
    scores = {"win": Score([None, 1.0], Level.TURN), "format": Score([0.5, -0.5], Level.TURN), "team": Score(2.0)}
    info = {
        "seats": ("a", "b"), "returns": {"a": np.float32(0.5), "b": 0.5}, "limit": "x" * 2000, "answer": "y" * 2000,
        "embedding": np.zeros(9), "many": list(range(999)), "object": moves[0], "illegal": {"a": 1},
        "nan": float("nan"),
    }  # fmt: skip
    one = Trajectory(Scenario("s"), moves, 0, scores, info=info)
    (row,) = episodes([one], pack([one]))
    assert [found.get("rewards") for found in row["turns"]] == [{"format": 0.5}, {"win": 1.0, "format": -0.5}]
    assert set(row["info"]) == {"seats", "returns", "limit", "answer", "illegal", "nan"}
    assert len(row["info"]["answer"]) == BRIEF
    assert len(row["info"]["limit"]) == 2000
    json.dumps(row, allow_nan=False)
    assert earned(row) == {"a": {"format": 0.5}, "b": {"format": -0.5, "win": 1.0}}
    (document,) = record([row])["trajectories"]
    assert document["turn_scores"] == [{"format": 0.5}, {"win": 1.0, "format": -0.5}]
    assert document["token_scores"] == {}
    assert document["scores"] == {"team": 2.0}


def test_a_recorded_batch_has_what_stages_were_told():
    question = Scenario("s", metadata={"budget": 8}, origin="of s")
    said = [turn("a short one"), turn("a long one, and longer")]
    scores = [Score(1.0, feedback="good"), Score(0.0)]
    samples = [
        Trajectory(question, [one], number, {"right": score}, info={"tempered": bool(number)})
        for number, (one, score) in enumerate(zip(said, scores, strict=True))
    ]
    document = json.loads(json.dumps(record(episodes(samples, None))))
    info = RecordedBatch(document).batch.info
    assert [info[name] for name in ("metadata", "origin", "tempered")] == [
        [{"budget": 8}] * 2,
        ["of s"] * 2,
        [False, True],
    ]
    assert info["feedback"] == [{"right": "good"}, {}]
    assert inspect(find("train-long-think-short"), document)["kept"] == [True, True]


def test_models_that_are_not_trained_here_are_marked():
    outside = turn("from afar", agent="judge", logp=None, forced=np.ones(9, np.bool_))
    hinted = turn("hint and", forced=np.arange(8) < 5)
    before = turn("old", policy="policy before training")
    (row,) = episodes([trajectory([hinted, outside, before])], None, spell)
    assert [one.get("outside", False) for one in row["turns"]] == [False, True, False]
    turns, _ = told(trajectory([hinted, outside, before]))
    assert [one.get("tags", []) for one in turns] == [
        ["5 imposed"],
        ["outside model, not learnt from"],
        ["as before training, not learnt from"],
    ]
    assert turns[0]["forced"] == [1] * 5 + [0] * 3


# ---------------------------------------------------------------- the tree


def test_what_samples_share_is_stored_once_and_candidates_are_siblings():
    stem = turn("a plan")
    leaves = [turn(f" and {n}", stem.prompt, stem) for n in range(3)]
    turns, samples = told(*(trajectory([stem, leaf], n, float(n)) for n, leaf in enumerate(leaves)))
    assert [one["up"] for one in turns] == [-1, 0, 0, 0]
    assert [sample["path"] for sample in samples] == [[0, 1], [0, 2], [0, 3]]


def test_responses_that_were_split_share_their_stem():
    stem = turn("plan;", finish="length")
    whole = [turn(f"plan;{n}") for n in range(2)]
    found = [trajectory([one], n) for n, one in enumerate(whole)]
    for one in found:
        split(one, stem)
    turns, samples = told(*found)
    assert (turns[0]["brief"], turns[0]["up"], len(turns[0]["messages"])) == ("plan;", -1, 1)
    assert [sample["path"] for sample in samples] == [[0, 1], [0, 2]]
    assert turns[1]["messages"] == []


def test_a_team_is_one_line_of_turns_in_time():
    plan = turn("do it", agent="planner")
    work = [
        turn(f"done {n}", ({"role": "user", "content": f"step {n}"},), agent="worker", conversation=n) for n in (0, 1)
    ]
    last = turn("43", after(plan, "done 0\ndone 1"), plan, agent="planner")
    turns, _ = told(trajectory([plan, *work, last]))
    assert [one["up"] for one in turns] == [-1, 0, 1, 2]
    assert not any(one.get("anew") for one in turns)


def test_a_history_that_begins_anew_hangs_under_what_it_keeps():
    first = turn("one")
    second = turn("two", after(first, "go on"), first)
    kept = turn("three", (*second.prompt[:2], {"role": "user", "content": "forget the rest"}))
    dropped = turn("four", ({"role": "system", "content": "a summary"}, *ASK))
    turns, samples = told(trajectory([first, second, kept, dropped]))
    assert [(one["up"], one.get("anew", False)) for one in turns] == [(-1, False), (0, False), (0, True), (2, True)]
    # What the new history repeats is referred to, not repeated.
    assert turns[2]["messages"] == [
        {"role": "user", "seen": [0, 0]},
        {"role": "assistant", "said": 0},
        {"role": "user", "content": "forget the rest"},
    ]
    assert samples[0]["path"] == [0, 1, 2, 3]


def test_going_on_from_an_older_turn_opens_a_branch():
    first = turn("one")
    second = turn("two", after(first, "go on"), first)
    other = turn("three", after(first, "or else"), first)
    turns, _ = told(trajectory([first, second, other]))
    assert [one["up"] for one in turns] == [-1, 0, 0]


def test_candidates_hang_beside_the_one_that_was_taken():
    opening = turn("over to you", agent="boss")
    taken = [turn("first", agent="hand")]
    taken.append(turn("second", after(taken[0], "and then?"), taken[0], agent="hand"))
    others = [turn(f"second {n}", taken[1].prompt, taken[0], agent="hand") for n in range(2)]
    found = [trajectory([opening, *taken]), *(trajectory([one], source="branch") for one in others)]
    turns, samples = told(*found)
    assert [one["up"] for one in turns] == [-1, 0, 1, 1, 1]
    # What led to a candidate is on its path, without credit.
    assert [(sample["path"], sample.get("lead")) for sample in samples] == [
        ([0, 1, 2], None),
        ([0, 1, 3], 2),
        ([0, 1, 4], 2),
    ]
    assert [len(sample["credit"]) for sample in samples] == [3, 3, 3]
    (group,) = group_episodes([row | {"reward": 9.0 * number} for number, row in enumerate(episodes(found, None))])
    assert (group.rewards, group.mean) == ([0.0, 9.0, 18.0], 0.0)


def test_calls_made_side_by_side_are_siblings():
    asked = [turn(f"a{n}", ({"role": "user", "content": "q"},), agent="worker") for n in range(3)]
    turns, _ = told(trajectory([turn("plan", agent="planner", conversation=0), *asked]))
    assert [one["up"] for one in turns] == [-1, 0, 0, 0]


def same(turns):
    return [one.get("same") for one in turns]


def test_what_samples_say_alike_is_one_node():
    played = []
    for sample, (plan, work) in enumerate([("a", "x"), ("a", "y"), ("b", "x"), ("a", "x")]):
        first = turn(plan, agent="planner")
        hand = turn(work, ({"role": "user", "content": plan},), agent="worker")
        last = turn("end", after(first, work), first, agent="planner")
        played.append(trajectory([first, hand, last], sample))
    turns, samples = told(*played)
    # The second plans alike, the third differs from the first turn on, the fourth goes all the way with the first.
    assert same(turns) == [None, None, None, 0, None, None, None, None, None, 0, 1, 2]
    assert [sample["path"] for sample in samples] == [[3 * n, 3 * n + 1, 3 * n + 2] for n in range(4)]


@pytest.mark.parametrize(
    "other",
    [
        {"agent": "critic"},
        {"role": "judge"},
        {"prompt": ({"role": "user", "content": "another question"},)},
        {"text": "said otherwise"},
    ],
)
def test_what_differs_is_another_node(other):
    text = other.pop("text", "said")
    turns, _ = told(trajectory([turn("said")]), trajectory([turn(text, **other)], 1), trajectory([turn("said")], 2))
    assert same(turns) == [None, None, 0]


def test_one_sample_that_says_the_same_twice_has_two_nodes():
    votes = [[turn("42", conversation=n) for n in range(2)] for _ in range(2)]
    beside = [[turn("42", agent="voter") for _ in range(3)] for _ in range(2)]
    turns, _ = told(*(trajectory([*votes[n], *beside[n]], n) for n in range(2)))
    assert [one["up"] for one in turns] == [-1, 0, 1, 1, 1, -1, 5, 6, 6, 6]
    assert same(turns) == [*[None] * 5, 0, 1, 2, 3, 4]


def test_rewritten_histories_hang_under_what_was_said_before():
    played = []
    for sample, text in enumerate(["one", "one", "two"]):
        summary = ({"role": "system", "content": f"You found: {text}"}, *ASK)
        played.append(trajectory([turn(text), turn("so 43", summary)], sample))
    turns, _ = told(*played)
    assert [one["up"] for one in turns] == [-1, 0, -1, 2, -1, 4]
    assert same(turns) == [None, None, 0, 1, None, None]
    assert [one.get("anew", False) for one in turns] == [False, True] * 3


@given(st.lists(st.lists(st.sampled_from("ab"), max_size=5), min_size=1, max_size=6))
def test_nodes_are_the_prefixes_of_what_was_said(scripts):
    played = []
    for sample, script in enumerate(scripts):
        made = []
        for place, text in enumerate(script):
            before = made[-1] if made else None
            made.append(turn(text, after(before, f"q{place}") if before else ASK, before))
        played.append(trajectory(made, sample))
    turns, samples = told(*played)
    nodes = {number for number, one in enumerate(turns) if "same" not in one}
    assert {one["same"] for one in turns if "same" in one} <= nodes
    assert len(nodes) == len({tuple(script[: n + 1]) for script in scripts for n in range(len(script))})
    joined = {
        tuple(script): [turns[n].get("same", n) for n in sample["path"]]
        for script, sample in zip(scripts, samples, strict=True)
    }
    for script, sample in zip(scripts, samples, strict=True):
        assert joined[tuple(script)] == [turns[n].get("same", n) for n in sample["path"]]


def test_a_merged_node_that_did_not_fit_is_forgotten():
    rows = episodes([trajectory([turn(text)], n) for n, text in enumerate(["x" * 50, "y", "y"])], None, spell)
    found = Conversations()
    assert found.add(0, rows[0])
    assert found.add(1, rows[1], room=found.size) is None
    assert found.add(2, rows[2])["path"] == [1]
    assert same(found.turns) == [None, None]


@given(st.lists(st.integers(-1, 5), min_size=1, max_size=8), st.integers(1, 3))
def test_every_tree_is_a_tree_that_holds_every_turn(parents, agents):
    made = []
    for number, above in enumerate(parents):
        parent = made[above] if 0 <= above < number else None
        prompt = after(parent, f"q{number}") if parent else ({"role": "user", "content": f"q{number}"},)
        agent = parent.agent if parent else f"agent {number % agents}"
        made.append(turn(f"a{number}", prompt, parent, agent))
    cuts = [trajectory(made[: n + 1], n) for n in range(len(made))]
    turns, samples = told(*cuts)
    assert len(turns) == len(made)
    assert all(-1 <= one["up"] < number for number, one in enumerate(turns))
    assert [sample["path"] for sample in samples] == [list(range(n + 1)) for n in range(len(made))]
    for one in turns:
        for message in one["messages"]:
            assert sum(name in message for name in ("content", "said", "seen")) == 1


def test_files_of_an_earlier_form_are_read():
    row = {"turns": [{"agent": "a", "text": "hi", "prompt": [{"role": "user", "content": "q"}], "tokens": [1, 2]}]}
    later = {"agent": "a", "text": "ho", "prompt": [*row["turns"][0]["prompt"], {"role": "assistant", "content": "hi"},
             {"role": "user", "content": "more"}]}  # fmt: skip
    found = Conversations()
    paths = [found.add(n, {"turns": [*row["turns"], later]})["path"] for n in range(2)]
    assert paths == [[0, 1], [2, 3]]
    assert found.turns[1]["messages"][-1] == {"role": "user", "content": "more"}
    assert [message.get("content") for message in found.turns[0]["messages"]] == ["q"]


def test_what_does_not_fit_leaves_nothing_behind():
    rows = episodes([trajectory([turn("x" * 50)], n) for n in range(3)], None, spell)
    found = Conversations()
    first = found.add(0, rows[0])
    assert found.add(1, rows[1], room=found.size + 10) is None
    assert (len(found.turns), found.size) == (1, size([first, found.turns]))
    assert found.add(2, rows[2])["path"] == [1]
    assert least_size(rows[0]) <= size(first) + size(found.turns[0])


# ---------------------------------------------------------------- tools


@dataclass(frozen=True)
class Calling(Workflow):
    roles = ("solver",)

    @property
    def tools(self):
        return {"solver": (CALCULATOR,)}

    async def play(self, scenario, team):
        reply = await team.solver(scenario.prompt)
        while calls := calls_in(reply.text):
            expression = calls[0]["arguments"].split('"')[1] if "name" in calls[0] else ""
            reply = await team.solver({"role": "tool", "content": calculator(expression)})
        return Outcome(answer=reply.text)


def call(expression):
    return f'<tool_call>{{"name": "calculator", "arguments": {{"expression": "{expression}"}}}}</tool_call>'


def test_a_tool_conversation_is_told_with_its_calls_and_results():
    script = [call("6*7"), "<tool_call>{broken</tool_call>", "<answer>43</answer>"]
    (played,) = rehearse(Calling(), Scenario("s", ASK[0]["content"], answer=43), script)
    turns, samples = told(played)
    assert [one.get("calls") for one in turns] == [
        [{"name": "calculator", "arguments": 'expression: "6*7"'}],
        [{"arguments": "{broken"}],
        None,
    ]
    assert [one["messages"] for one in turns[1:]] == [
        [{"role": "tool", "content": "42"}],
        [{"role": "tool", "content": "error"}],
    ]
    assert [one["up"] for one in turns] == [-1, 0, 1]
    assert turns[0]["brief"].startswith("→ calculator(")
    assert samples[0]["info"] == {"answer": "<answer>43</answer>"}


def test_limits_are_told():
    (played,) = rehearse(Calling(), Scenario("s", "q"), [call("1+1")] * 9, limits=Limits(turns=2))
    (row,) = episodes([played], None)
    assert row["info"]["limit"].startswith("the episode has used its 2 turns")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("no call", []),
        ('<tool_call>{"name": "f"}</tool_call>', [{"name": "f", "arguments": ""}]),
        ('<tool_call>{"name": "f", "arguments": "raw"}', [{"name": "f", "arguments": "raw"}]),
        ('<tool_call>{"function": {"name": "f", "arguments": {"a": [1, "é"]}}}</tool_call>',
         [{"name": "f", "arguments": 'a: [1, "é"]'}]),
        ("<tool_call>[1]</tool_call> <tool_call></tool_call>", [{"arguments": "[1]"}, {"arguments": ""}]),
        ('<tool_call>{"name": 3}</tool_call>', [{"arguments": '{"name": 3}'}]),
    ],
)  # fmt: skip
def test_calls(text, found):
    assert calls_in(text) == found


@given(st.text())
def test_any_text_has_calls_as_text(text):
    for one in calls_in(f"<tool_call>{text}"):
        assert isinstance(one["arguments"], str)


def test_contents_of_parts():
    assert content([{"type": "text", "text": "a"}, {"type": "image"}]) == "a\n(image)"
    assert (content(None), content({"x": 1})) == ("", '{"x": 1}')


# ---------------------------------------------------------------- pages

HOSTILE = '</script><img src=x onerror="document.title=1">&amp;<b>\u202e\x07\ud800'


def _total(score):
    return sum(value or 0.0 for value in score.value) if score.level is Level.TURN else score.value


def page_of(folder: Path, played, discarded=()):
    """A run folder with one recorded step, and its page."""
    (folder / "rollouts").mkdir(parents=True)
    (folder / "config.yaml").write_text("task: x\n")
    (folder / "metrics.jsonl").write_text('{"step": 3, "reward/mean": 0.5, "groups/total": 1}\n')
    batch = pack(played)
    seen = batch.occurrences
    batch = batch.credited(advantage=(seen.trajectory.float() - 0.5) * seen.weight)
    rewards = [sum(map(_total, one.scores.values())) for one in played]
    file = folder / "rollouts" / "step-000003.jsonl"
    write_episodes(file, 3, played, batch, spell, rewards=rewards, discarded=discarded)
    return write_report(folder)


def hostile_run(folder):
    bad = (
        {"role": HOSTILE, "content": HOSTILE, "name": HOSTILE, "tool_calls": [{"name": HOSTILE, "arguments": HOSTILE}]},
    )
    first = turn(HOSTILE, bad, agent=HOSTILE, role="x" + HOSTILE, state=HOSTILE, finish=HOSTILE)
    calls = turn(f"<tool_call>{HOSTILE}</tool_call>", ASK, agent="other", conversation=1)
    scores = {HOSTILE: Score([1.0, 2.0], Level.TURN), "reward": Score(1.0, feedback=HOSTILE)}
    one = Trajectory(
        Scenario(HOSTILE, HOSTILE, answer=HOSTILE), [first, calls], 0, scores, info={HOSTILE: HOSTILE, "limit": HOSTILE}
    )
    other = Trajectory(one.scenario, [first], 1, {"reward": Score(0.0)}, source="own")
    failed = Trajectory(one.scenario, [], 2, failure=HOSTILE)
    return page_of(folder, [one, other], [failed])


def test_nothing_hostile_leaves_its_place(tmp_path):
    text = hostile_run(tmp_path / "run").read_bytes().decode()
    assert text.count("</script>") == 2
    assert "<img" not in text
    data = json.loads(re.search(r'id="rollouts">(.*?)</script>', text, re.DOTALL)[1])
    assert data["steps"][0]["groups"][0]["turns"][0]["agent"] == HOSTILE.replace("\ud800", "?")


@browser
def test_a_browser_shows_hostile_texts_as_texts(tmp_path):
    page = hostile_run(tmp_path / "run")
    script = """
      log.push(document.querySelectorAll("img").length, document.querySelectorAll(".turn").length);
      log.push(document.querySelector(".ended").textContent, document.title);
    """
    images, turns, stopped, title = logged(browse(page, tmp_path, script))
    assert (images, turns, title) == (0, 2, "run")
    assert stopped.startswith("Stopped: </script><img src=x")


def three_agents(samples=4):
    scenario = Scenario("team/1", "Divide the work.", answer="43")
    plan = turn("a plan for all", agent="planner")
    played = []
    for sample in range(samples):
        work = turn(f"work {sample}", ({"role": "user", "content": plan.text},), agent="worker", conversation=0)
        last = turn("43" if sample else "44", after(plan, work.text), plan, agent="planner")
        judge = turn("fine", ASK, agent="judge", forced=np.ones(4, np.bool_), logp=None)
        values = [0.25, 0.0, float(sample > 0), None]
        score = {"reward": Score(values, Level.TURN)}
        played.append(Trajectory(scenario, [plan, work, last, judge], sample, score, info={"answer": last.text}))
    failed = Trajectory(scenario, [plan], samples, failure="ValueError: no steps in play() line 3")
    return played, [failed]


@browser
def test_lanes_tree_and_keys(tmp_path):
    page = page_of(tmp_path / "run", *three_agents())
    script = """
      const texts = (selector) => [...document.querySelectorAll(selector)].map((node) => node.textContent);
      log.push(texts(".lane-head"));
      log.push([...document.querySelectorAll(".turn")].map((node) => node.style.getPropertyValue("--column")));
      log.push(texts(".beside"));
      log.push(texts(".tree .node").length, texts(".tree .end"));
      log.push(document.querySelectorAll(".bubble.outside").length);
      const nodes = [...document.querySelectorAll(".tree .node")];
      nodes[nodes.length - 1].click();
      log.push(document.querySelector(".episode header b").nextSibling.textContent);
      log.push(document.querySelector(".turn.here").dataset.place);
      const pressed = (key) => new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
      const key = (node, name) => node.dispatchEvent(pressed(name));
      nodes[0].focus();
      key(nodes[0], "ArrowDown");
      log.push(document.activeElement === nodes[1]);
      key(document.activeElement, "End");
      key(document.activeElement, "ArrowLeft");
      log.push(document.activeElement.dataset.turn);
      key(document.activeElement, "Home");
      key(document.activeElement, "ArrowRight");
      key(document.activeElement, "Enter");
      log.push(document.querySelector(".turn.here").dataset.place);
      document.querySelector('.tree .end.failed').click();
      log.push(document.querySelector(".ended").textContent);
      document.querySelector('.episode [data-by="1"]').click();
      log.push(location.hash);
    """
    heads, columns, beside, nodes, ends, outside, *rest = logged(browse(page, tmp_path, script))
    assert heads == ["planner2 turns · +0.25", "worker1 turn · 0", "judge1 turn"]
    assert columns == ["1", "2", "1", "3"]
    assert beside == ["turn 1+0.25 so far +0.25", "turn 20 so far 0", "turn 30 so far +0.25", "turn 4"]
    # The shared plan once, three turns of each of four samples, and the scenario itself.
    assert nodes == 1 + 1 + 3 * 4
    assert ends == ["✗", "0.25", "1.25", "1.25", "1.25"]
    assert outside == 1
    assert rest == ["sample 4", "3", True, "11", "0", "Failed: ValueError: no steps in play() line 3",
                    "#step=3&group=1&sample=1"]  # fmt: skip


@browser
def test_the_tree_is_that_of_prefixes(tmp_path):
    scenario = Scenario("team/1", "Divide the work.", answer="43")
    played = []
    for sample, (plan, work, end) in enumerate(["abc", "abd", "abd", "axc", "zbc"]):
        first = turn(plan, agent="planner")
        hand = turn(work, ({"role": "user", "content": plan},), agent="worker")
        again = turn(end, ({"role": "system", "content": f"{plan}{work}"},), agent="planner")
        played.append(Trajectory(scenario, [first, hand, again], sample, {"reward": Score(float(sample))}))
    page = page_of(tmp_path / "run", played)
    script = """
      const texts = (selector) => [...document.querySelectorAll(selector)].map((node) => node.textContent);
      const nodes = () => [...document.querySelectorAll(".tree .node")];
      log.push(nodes().map((node) => node.getAttribute("aria-level") + " " + node.textContent));
      log.push(nodes().map((node) => node.querySelector(".square.split") ? 1 : 0));
      const path = () => texts(".tree .node.path .words").slice(0, 3);
      const open = () => document.querySelector(".episode header b").nextSibling.textContent;
      log.push(path(), open());
      document.querySelector('.tree .end[data-sample="2"]').click();
      log.push(path(), open(), document.querySelector(".bubble.agent .who").textContent);
      nodes()[1].click();
      log.push(open(), document.querySelector(".turn.here").dataset.place);
      nodes()[5].click();
      log.push(path(), open(), nodes().findIndex((node) => node.classList.contains("at")));
      log.push(nodes()[1].title);
    """
    found = logged(browse(page, tmp_path, script))
    assert found[0] == [
        "1 Divide the work.×5 · 2 ways",
        "2 planner: a×4 · 2 ways",
        "3 worker: b×3 · 2 ways",
        "4 ↺ planner: c0",
        "4 ↺ planner: d×212",
        "3 worker: x",
        "3 ↺ planner: c3",
        "2 planner: z",
        "2 worker: b",
        "2 ↺ planner: c4",
    ]
    assert found[1] == [0, 1, 1, 0, 1, 0, 0, 0, 0, 0]
    assert found[2:4] == [["planner: a", "worker: b", "↺ planner: c"], "sample 1"]
    assert found[4:7] == [
        ["planner: a", "worker: b", "↺ planner: d"],
        "sample 3",
        "planner · 1 token · same in 4 samples",
    ]
    assert found[7:9] == ["sample 3", "0"]
    assert found[9:12] == [["planner: a", "worker: x", "↺ planner: c"], "sample 4", 5]
    assert found[12] == "planner, 4 samples, mean advantage +1 (−0.5 … +2.5)"


@browser
def test_filters_and_addresses(tmp_path):
    played, failed = three_agents()
    other = [trajectory([turn(f"answer {n}")], n) for n in range(3)]
    for number, one in enumerate(other):
        one.scores = {"right": Score(float(number))}
    page = page_of(tmp_path / "run", [*played, *other], failed)
    script = """
      const put = (name, value) => { const node = document.getElementById(name); node.value = value; };
      const count = (selector) => document.querySelectorAll(selector).length;
      const seen = () => [count(".groups tbody tr.open"), count(".rewards span")];
      const use = () => { readFilters(); refilter(); log.push(seen()); };
      log.push(document.querySelector(".turn.here").dataset.place, seen());
      put("outcome", "failed"); use(); put("outcome", "");
      put("scenario", "divide WORK"); use(); put("scenario", "");
      put("agent", "solver"); use(); put("agent", "");
      put("low", "1"); use(); put("high", "1.1"); use();
      log.push(document.getElementById("step-facts").textContent);
      put("scenario", "nothing like it"); use();
      log.push(document.getElementById("group-title").textContent, document.querySelectorAll(".episode").length);
    """
    place, *found = logged(browse(page, tmp_path, script, "#step=3&group=1&sample=2&turn=3"))
    assert place == "2"
    assert found[:6] == [[2, 8], [1, 1], [1, 5], [1, 3], [2, 5], [1, 1]]
    assert found[6] == "2 groups, 2 with signal, 8 episodes, 1 failed · 1 match the filters"
    assert found[7:] == [[0, 0], "No episode of this step matches the filters.", 0]


@browser
def test_hundreds_of_episodes_are_drawn_as_they_come_into_view(tmp_path):
    played = [
        Trajectory(
            Scenario(f"q/{n // 2}", f"question {n // 2}"),
            [turn("word " * 8), turn("more " * 8)],
            n % 2,
            {"reward": Score(n % 2)},
        )
        for n in range(500)
    ]
    played += [
        Trajectory(Scenario("wide", "one of many"), [turn("word " * 8)], n, {"reward": Score(n % 2)})
        for n in range(300)
    ]
    page = page_of(tmp_path / "run", played)
    # With virtual time a browser shows everything that comes into view at once; the window is what it is.
    script = """
      log.push(now().groups.length, document.querySelectorAll(".groups tbody tr").length < 120);
      listed.table.upTo(251);
      log.push(document.querySelectorAll(".groups tbody tr.open").length);
      chooseGroup(250);
      log.push(document.querySelectorAll(".episode").length);
      document.querySelector('.chosen [data-sample="290"]').click();
      log.push(document.querySelector(".episode.here").dataset.sample, document.querySelectorAll(".episode").length);
    """
    found = logged(browse(page, tmp_path, script))
    assert found == [251, True, 251, 12, "290", 12]


def test_groups_beyond_the_room_are_rows_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("hocket.apps.report.rollouts.ROOM", 3000)
    page_of(tmp_path / "run", [trajectory([turn("x" * 30)], n, float(n)) for n in range(20)])
    (step,) = rollouts(read_run(tmp_path / "run"))["steps"]
    (group,) = step["groups"]
    held = ["path" in sample for sample in group["samples"]]
    assert 0 < sum(held) < 20
    assert held == sorted(held, reverse=True)
    assert [sample["reward"] for sample in group["samples"]] == [float(n) for n in range(20)]


@browser
def test_long_results_are_folded_until_asked_for(tmp_path):
    first = turn("call")
    result = "\n".join(f"line {n}" for n in range(300))
    history = (*ASK, {"role": "assistant", "content": "call"}, {"role": "tool", "content": result})
    page = page_of(tmp_path / "run", [trajectory([first, turn("43", history, first)])])
    script = """
      const said = document.querySelector(".bubble.tool .said");
      log.push(said.textContent.split("\\n").length);
      document.querySelector(".bubble.tool .more").click();
      log.push(said.textContent.length, document.querySelectorAll(".bubble.tool .more").length);
    """
    assert logged(browse(page, tmp_path, script)) == [12, len(result), 0]
