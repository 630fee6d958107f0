import io
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest
from rich.console import Console

from hocket.apps.report.chart import Chart, ChartLine, running_mean, ticks
from hocket.apps.report.compare import compare_page, compare_rows, compare_table, differences
from hocket.apps.report.curves import curves
from hocket.apps.report.groups import group_episodes
from hocket.apps.report.page import drawn as drawn_charts
from hocket.apps.report.page import hero, template, write_report
from hocket.apps.report.reading import read_run
from hocket.apps.report.rollouts import chosen, rollouts
from hocket.core.errors import ConfigurationError
from hocket.train.kinds.words import interval_of

VOID = {"meta", "br", "link", "img", "input", "wbr"}


class Outline(HTMLParser):
    """Collects texts and attributes, and insists that elements are nested properly."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.attributes, self.texts = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def outline(text):
    parser = Outline()
    parser.feed(text)
    assert parser.open == []
    return parser


def embedded(text):
    return json.loads(re.search(r'id="rollouts">(.*?)</script>', text, re.DOTALL)[1])


def test_the_page_says_what_was_gained(run):
    text = write_report(run).read_text()
    parser = outline(text)
    shown = " ".join(" ".join(parser.texts).split())
    summary = json.loads((run / "summary.json").read_text())
    for when in ("before", "after"):
        assert f"{100 * summary[when]['accuracy']:.1f} %" in shown
    assert f"+{100 * summary['gain']:.1f} points" in shown
    assert "Accuracy on 1,000 unseen problems" in shown
    assert "What keeps it from learning" not in shown
    assert "the tool broke" in shown
    assert "coefficient: 0.04" in shown
    for title in ("Reward", "Entropy", "KL divergence", "Groups with signal", "Throughput", "working"):
        assert title in shown


@pytest.mark.parametrize("which", ["run", "team"])
def test_the_page_is_self_contained(which, request):
    path = request.getfixturevalue(which)
    parser = outline(write_report(path).read_text())
    assert not {"link", "img", "iframe", "object"} & set(parser.tags)
    assert not [name for name, _ in parser.attributes if name in ("src", "href", "action")]
    text = write_report(path).read_text()
    assert re.findall(r"https?://[^\"' ]*", text) == ["http://www.w3.org/2000/svg"]
    assert "url(" not in text
    assert "@import" not in text


def test_the_embedded_rollouts_are_those_of_the_files(run):
    data = embedded(write_report(run).read_text())
    assert [step["step"] for step in data["steps"]] == [1, 50, 100, 150]
    lines = [json.loads(line) for line in (run / "rollouts" / "step-000050.jsonl").read_text().splitlines()]
    step = data["steps"][1]
    samples = [sample for group in step["groups"] for sample in group["samples"]]
    assert [sample["reward"] for sample in samples] == [line["reward"] for line in lines]
    told = [(group["turns"][sample["path"][0]], sample) for group in step["groups"] for sample in group["samples"]]
    for (turn, sample), line in zip(told, lines, strict=True):
        assert "".join(turn["tokens"]) == line["turns"][0]["text"]
        assert sample["advantage"] == pytest.approx(line["turns"][0]["advantage"][0], abs=1e-3)
    for group in step["groups"]:
        equal = len({sample["reward"] for sample in group["samples"]}) == 1
        assert group["signal"] != equal
        assert group["why"].startswith("no signal" if equal else "learnt from")


def test_a_history_is_not_repeated(team):
    (step,) = rollouts(read_run(team))["steps"]
    group = step["groups"][0]
    turns = [group["turns"][turn] for turn in group["samples"][0]["path"]]
    assert [[message["role"] for message in turn["messages"]] for turn in turns] == [
        ["system", "user"],
        ["user"],
        ["tool"],
    ]
    assert [message.get("said") for turn in turns for message in turn["messages"]] == [None, None, 0, 1]
    assert step["agents"] == ["planner", "worker"]
    assert [group["why"] for group in step["groups"]][1:] == [
        "no signal: all rewards are 1",
        "discarded by the rollout (all rewards equal)",
    ]
    text = write_report(team).read_text()
    assert "planner entropy" in text
    assert "worker entropy" in text


HOSTILE = '</script><script>document.title="owned"</script><img src=x onerror=alert(1)>&amp;'


@pytest.fixture
def hostile(tmp_path, make_run):
    path = make_run(tmp_path, steps=25)
    file = path / "rollouts" / "step-000001.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for row in rows:
        row["scenario"]["prompt"] = HOSTILE
        row["turns"][0] |= {"token_texts": None, "text": HOSTILE, "prompt": [{"role": "user", "content": HOSTILE}]}
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    summary = json.loads((path / "summary.json").read_text())
    summary["samples"][0]["before"] = HOSTILE
    summary["task"] = HOSTILE
    (path / "summary.json").write_text(json.dumps(summary))
    return path


def test_texts_of_models_are_only_texts(hostile):
    text = write_report(hostile).read_text()
    parser = outline(text)
    assert "img" not in parser.tags
    assert parser.tags.count("script") == 2
    assert HOSTILE in "".join(parser.texts)
    assert embedded(text)["steps"][0]["groups"][0]["prompt"] == HOSTILE


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs the chromium browser")
def test_a_browser_shows_the_rollouts(hostile, tmp_path):
    page = write_report(hostile)
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    command += ["--disable-background-networking", f"--user-data-dir={tmp_path / 'browser'}", "--dump-dom"]
    shown = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, check=True, timeout=60).stdout
    assert "<title>sums-grpo-001</title>" in shown
    assert shown.count('class="card episode"') == 8
    assert "6 groups, " in shown
    assert "<img" not in shown.replace("&lt;img", "")


def test_a_run_that_goes_on_and_one_that_was_torn(tmp_path, make_run):
    path = make_run(tmp_path, steps=60, finished=False)
    with (path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 61, "loss"')
    (path / "machine.json").write_text("{")
    (path / "rollouts" / "step-000050.jsonl").write_text("torn")
    run = read_run(path)
    assert run.summary["before"]["accuracy"] == run.rows[0]["eval/accuracy"]
    assert run.summary["steps"] == 60
    text = write_report(path).read_text()
    assert "unfinished" in text
    assert [step["step"] for step in embedded(text)["steps"]] == [1]


def test_bare_runs(tmp_path):
    (tmp_path / "config.yaml").write_text("task: sums\nrecipe: grpo\n")
    assert "not evaluated yet" in write_report(tmp_path).read_text()
    (tmp_path / "metrics.jsonl").write_text('{"step": 0, "eval/accuracy": 0.0, "eval/n": 10}\n')
    assert "No training step was recorded" in write_report(tmp_path).read_text()
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ConfigurationError, match="is not a run"):
        write_report(empty)


def test_returns_instead_of_shares(tmp_path):
    rows = [
        {"step": s, "eval/return": 20.0 + s, "eval/n": 20, "eval/low": 10.0 + s, "eval/high": 30.0 + s} for s in (0, 10)
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = write_report(tmp_path).read_text()
    shown = " ".join(" ".join(outline(text).texts).split())
    assert "Mean return on 20 unseen episodes" in shown
    assert "20 → 30" in shown
    assert "+10 " in shown
    assert "points" not in shown.split("Before and after")[0].split("Mean return")[1].split("Curves")[0]


# ---------------------------------------------------------------- comparing


@pytest.fixture
def pair(run, tmp_path, make_run):
    return [run, make_run(tmp_path, name="sums-dr-001", recipe="dr-grpo", steps=50, seed=4, gain=0.3)]


def test_comparison_as_data(pair):
    rows = compare_rows(pair)
    json.dumps(rows, allow_nan=False)
    summaries = [json.loads((path / "summary.json").read_text()) for path in pair]
    for row, summary in zip(rows, summaries, strict=True):
        assert (row["before"], row["after"]) == (summary["before"]["accuracy"], summary["after"]["accuracy"])
        assert row["gain"] == pytest.approx(summary["gain"])
        assert row["low"] < row["after"] < row["high"]
        assert row["tokens"] > 0
    assert [row["settings"] for row in rows] == [{"recipe.name": "grpo"}, {"recipe.name": "dr-grpo"}]


def test_comparison_for_the_terminal(pair):
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(compare_table(pair))
    text = console.export_text()
    for word in ("sums-grpo-001", "sums-dr-001", "dr-grpo", "gain", "points", "95 % interval"):
        assert word in text


def test_comparison_as_a_page(pair):
    text = compare_page(pair)
    parser = outline(text)
    assert "Comparison of sums-grpo-001 and sums-dr-001" in parser.texts
    charts = [json.loads(value) for name, value in parser.attributes if name == "data-chart"]
    assert [[line["name"] for line in chart["lines"]] for chart in charts] == [["sums-grpo-001", "sums-dr-001"]] * 6
    assert compare_page(pair[:1])


def test_settings_that_differ():
    one = {"a": 1, "b": {"c": [1, 2]}, "run": "x", "d": [{"e": 1}]}
    other = {"a": 1, "b": {"c": [1, 3]}, "run": "y", "d": []}
    assert differences([one, other]) == {"b.c": [[1, 2], [1, 3]], "d.0.e": [1, None], "d": [None, []]}


# ---------------------------------------------------------------- charts


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.2, 0.83), (-3, 17), (1e-5, 3e-5), (0, 12345), (5, 5)])
def test_ticks_are_round_and_inside(low, high):
    found = ticks(low, high, 4)
    assert 1 <= len(found) <= 6
    assert all(low - 1e-12 <= tick <= high + 1e-12 for tick in found)


def test_running_means_keep_straight_lines():
    line = [(float(x), 3.0 * x) for x in range(200)]
    assert running_mean(line) == [(x, pytest.approx(y)) for x, y in line]


def test_charts_of_one_point_and_of_many():
    assert Chart("none", [ChartLine("a", [])]).svg() == ""
    single = Chart("one", [ChartLine("a", [(3.0, 0.5)])], share=True).svg()
    assert "<circle" in single
    assert "nan" not in single
    long = Chart("long", [ChartLine("a", [(float(x), x % 7) for x in range(20_000)])]).svg()
    assert len(long) < 60_000


def test_a_line_keeps_its_colour_where_another_has_no_points():
    """The legend counts all lines, so the curves must too."""
    empty, one, two = ChartLine("a", []), ChartLine("b", [(1, 1.0), (2, 2.0)]), ChartLine("c", [(1, 3.0), (2, 1.0)])
    drawn = Chart("x", [empty, one, two]).svg()
    assert re.findall(r'class="line c(\d)', drawn) == ["1", "2"]
    assert re.findall(r'class="line c(\d)', Chart("x", [one, empty, two]).svg()) == ["0", "2"]
    legend = template("figure.html").environment.from_string(
        "{% from 'figure.html' import figure %}{{ figure(chart) }}"
    )
    (chart,) = drawn_charts([Chart("x", [empty, one, two])])
    shown = re.findall(r"var\(--c(\d)\)\"></i>(\w)", legend.render(chart=chart))
    assert shown == [("1", "b"), ("2", "c")]


def test_compared_runs_of_other_measures_keep_their_colours(run, tmp_path, make_run):
    returns = make_run(tmp_path, name="returns")
    rows = [json.loads(line) for line in (returns / "metrics.jsonl").read_text().splitlines()]
    for row in rows:
        row["eval/return"] = row.pop("eval/accuracy", None)
    (returns / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (returns / "summary.json").write_text(json.dumps({"measure": "return", "before": {}, "after": {}}))
    page = compare_page([run, returns])
    (figure,) = re.findall(r"<figure.*?Evaluated return.*?</figure>", page.split("Evaluated accuracy")[-1], re.DOTALL)
    assert set(re.findall(r'class="line c(\d)', figure)) == {"1"}


@pytest.mark.parametrize(
    ("measure", "after", "down"), [("loss", 0.2, False), ("loss", 0.4, True), ("return", 0.2, True)]
)
def test_less_loss_is_no_loss(measure, after, down, tmp_path):
    (tmp_path / "config.yaml").write_text("task: sums\n")
    ends = {"before": {measure: 0.3, "n": 8}, "after": {measure: after, "n": 8}}
    (tmp_path / "summary.json").write_text(json.dumps({"measure": measure, **ends}))
    assert hero(read_run(tmp_path)).down is down


def test_intervals_belong_to_accuracies_alone():
    found = {
        "pairs/accuracy": 0.5,
        "pairs/low": 0.2,
        "pairs/high": 0.8,
        "pairs/length_chosen": 5.0,
        "labels/accuracy": 1,
    }
    assert interval_of(found, "pairs/accuracy") == (0.2, 0.8)
    for name in ("pairs/length_chosen", "pairs/margin", "labels/accuracy", "loss"):
        assert interval_of(found, name) is None


def test_recorded_responses_are_not_shown_as_samples(tmp_path):
    """Pairs are learnt from whatever their advantages, and a reward that nobody earned has no curve."""
    rows = [{"step": n, "reward/mean": 0.5, "tokens/generated": 0, "loss": 0.7 - n / 10} for n in range(4)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    titles = [chart.title for chart in curves(read_run(tmp_path))]
    assert "Loss" in titles
    assert not [title for title in titles if "Reward" in title or "reward" in title]
    rows[2]["tokens/generated"] = 7
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "Reward" in [chart.title for chart in curves(read_run(tmp_path))]
    turn = {"advantage": [0.0, 0.0]}
    pair = {"turns": [turn], "kept": True, "paired": True, "group": 0, "scores": {}}
    (group,) = group_episodes([pair, {**pair, "sample": 1}])
    assert (group.signal, group.why) == (True, "learnt from")
    (group,) = group_episodes([{**pair, "paired": False}])
    assert (group.signal, group.why) == (False, "no reward")
    (group,) = group_episodes([{**pair, "turns": [{"advantage": [1.0, 1.0]}]}])
    assert (group.signal, group.why) == (True, "learnt from")


def test_steps_are_chosen_evenly():
    assert chosen([1, 5, 9], 24) == [1, 5, 9]
    found = chosen(list(range(1000)), 24)
    assert (len(found), found[0], found[-1]) == (24, 0, 999)


def test_what_is_evaluated_is_no_role_of_what_is_learnt(tmp_path):
    rows = [{"step": n, "pairs/accuracy": 0.5, "eval/pairs/accuracy": 0.6, "a/pairs/accuracy": 0.7} for n in (0, 1)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (chart,) = [one for one in curves(read_run(tmp_path), []) if one.title == "Accuracy on recorded responses"]
    assert [line.name for line in chart.lines] == ["a training pairs", "training pairs", "unseen pairs"]
