"""Scorers as rewards and as what a run trains: through the command line, after an interruption, and when refused."""

import asyncio
import dataclasses
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_runs import assert_same, call, resume, rows, train

sys.path.insert(0, str(Path(__file__).parent.parent / "engine"))
import tiny_models

from hocket import tasks
from hocket.agents.workflows.chat import Chat
from hocket.apps.cli.parser import split_settings
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.nano import BASE
from hocket.policies.scorer import Scorer, over_trunk
from hocket.train.config import configure
from hocket.train.model_reward import ScorerReward
from hocket.train.scorer_rewards import scorer_reward
from hocket.train.settings import Config
from hocket.train.trainer import Trainer
from hocket.types import Scenario, Trajectory, Turn

TINY = ["--evaluation.n", "6", "--evaluation.between", "4", "--curriculum.prompts", "3", "--threads", "1"]
SAMPLED = [*TINY, "--rollout.samples", "3", "--decoding.max_tokens", "10"]
OFTEN = ["--checkpoint.steps", "2"]
RECIPES = {
    "reward-model": "pairs/accuracy",
    "reward-model-centred": "pairs/accuracy",
    "reward-binary": "labels/accuracy",
    "reward-regression": "scores/explained",
    "process-reward": "labels/accuracy",
    "rlsqm-reward": "labels/accuracy",
}


@pytest.fixture(scope="module")
def scorers(tmp_path_factory) -> list[str]:
    """Folders of two scorers of two outputs with heads of their own."""
    folders = []
    for number in range(2):
        folder = tmp_path_factory.mktemp("scorers") / f"scorer{number}"
        Scorer.from_pretrained(BASE, outputs=2, key=Key.of(number)).save(folder)
        folders.append(str(folder))
    return folders


def said(words, texts, prompt="What is 1 + 1?"):
    chat = Chat(words)
    messages = ({"role": "user", "content": prompt},)
    opening = np.asarray(chat.opening(messages), np.int64)
    return [
        Trajectory(
            Scenario("s", prompt),
            [Turn("p", "policy", opening, np.asarray(chat.demonstration(text)), text=text, prompt=messages)],
            number,
        )
        for number, text in enumerate(texts)
    ]


def paid(reward, trajectories):
    return asyncio.run(reward(trajectories, key=Key.of(0)))


# ---------------------------------------------------------------- what is paid


def test_a_reward_is_a_scorers_score_and_members_are_joined(scorers):
    one, other = (Scorer.from_pretrained(folder, key=Key.of(0)) for folder in scorers)
    played = said(one.tokenizer, ["<answer>2</answer>", "two", "<think>1+1=2</think><answer>2</answer>"])
    each = torch.stack([member.scores(played) for member in (one, other)]).double()
    expected = {
        scorers[0]: each[0, :, 0],
        f"{scorers[0]}?output=1": each[0, :, 1],
        "+".join(scorers): each[:, :, 0].mean(0),
        f"{'+'.join(scorers)}?by=min": each[:, :, 0].min(0).values,
        f"{'+'.join(scorers)}?deviations=2": each[:, :, 0].mean(0) - 2 * each[:, :, 0].std(0, unbiased=False),
    }
    for place, values in expected.items():
        reward = scorer_reward(f"model:{place}", Config())
        assert paid(reward, played) == pytest.approx(values.tolist(), abs=1e-6), place
        assert reward.weight == 1.0
    weighted = scorer_reward(f"model:{'+'.join(scorers)}?by=min&output=1=-0.5", Config())
    assert (weighted.weight, weighted.by, weighted.name) == (-0.5, "min", "scorer0+scorer1.1")
    assert scorer_reward(f"model:{scorers[0]}=0.25", Config()).weight == 0.25


def test_silence_has_no_opinion_and_scores_that_are_not_finite_are_told(scorers):
    reward = scorer_reward(f"model:{scorers[0]}", Config())
    silent = Trajectory(Scenario("s"), [])
    (played,) = said(reward.members[0].tokenizer, ["two"])
    assert paid(reward, [silent, played])[0] is None
    reward.members[0].model.score.weight.data.mul_(torch.inf)
    opinions = paid(reward, [played])
    assert list(opinions) == [None]
    assert "counts as no opinion" in opinions.problems[0]
    with pytest.raises(ConfigurationError, match="not finite"):
        dataclasses.replace(reward, weight=2.0)


def test_a_scorer_with_another_tokenizer_reads_the_messages():
    words = tiny_models.tokenizer()
    member = Scorer(over_trunk(tiny_models.model("llama", len(words)), 1, Key.of(0)), words)
    nano = Scorer.from_pretrained(BASE, key=Key.of(0))
    played = said(nano.tokenizer, ["two", "three"], prompt="what is one?")
    words.chat_template = (
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    reward = ScorerReward((member, nano))
    apart = reward.beside([nano])
    assert (apart.retold, reward.beside([]).retold) == ((0,), ())
    own = said(words, ["two", "three"], prompt="what is one?")
    expected = torch.stack([member.scores(own), nano.scores(played)]).mean(0)[:, 0]
    assert paid(apart, played) == pytest.approx(expected.tolist(), abs=1e-5)
    wordless = dataclasses.replace(played[0].turns[0], prompt=())
    with pytest.raises(HocketError, match="kept no messages"):
        paid(apart, [dataclasses.replace(played[0], turns=[wordless])])


# ---------------------------------------------------------------- runs


@pytest.mark.parametrize("recipe", RECIPES)
def test_recipes_of_scorers_train_and_measure_what_they_learn(recipe, tmp_path):
    train(tmp_path, "run", "--recipe", recipe, steps=2, tiny=TINY)
    first, *_, last = rows(tmp_path / "run")
    measure = RECIPES[recipe]
    assert all(one[f"eval/{measure}"] is not None and one["eval/accuracy"] is None for one in (first, last))
    assert last["loss"] is not None
    assert last["gradient/norm"] > 0
    assert last["groups/with_signal"] == 3
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["measure"] == measure
    assert call("eval", tmp_path / "run", "--n", "4").code == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Accuracy on unseen" not in page


def test_a_scorer_stopped_and_resumed_ends_equal(tmp_path):
    more = ["--recipe", "reward-model", *OFTEN]
    train(tmp_path, "whole", *more, steps=5, tiny=TINY)
    stopped_after(3, tmp_path, "parts", [*TINY, *more, "--steps", "5"])
    resume(tmp_path, "parts")
    assert_same(tmp_path / "whole", tmp_path / "parts")


def test_a_run_paid_by_a_scorer_stopped_and_resumed_ends_equal_and_the_scorer_stays(scorers, tmp_path):
    files = {file: file.read_bytes() for file in Path(scorers[0]).iterdir()}
    spec = f"model:{'+'.join(scorers)}?by=min=0.5"
    more = ["--reward", spec, *OFTEN]
    train(tmp_path, "whole", *more, steps=4, tiny=SAMPLED)
    stopped_after(3, tmp_path, "parts", [*SAMPLED, *more, "--steps", "4"])
    resume(tmp_path, "parts")
    assert_same(tmp_path / "whole", tmp_path / "parts")
    assert any(row["loss"] for row in rows(tmp_path / "whole")[1:]), "a run without gradients would prove nothing"
    assert {file: file.read_bytes() for file in Path(scorers[0]).iterdir()} == files


def test_a_resume_refuses_a_scorer_that_has_changed(tmp_path):
    place = tmp_path / "scorer"
    Scorer.from_pretrained(BASE, key=Key.of(0)).save(place)
    stopped_after(1, tmp_path, "run", [*SAMPLED, *OFTEN, "--reward", f"model:{place}", "--steps", "2"])
    Scorer.from_pretrained(BASE, key=Key.of(1)).save(place)
    said = call("train", "--resume", "run", "--runs", tmp_path)
    assert (said.code, "weights have changed since the run began" in said.err) == (2, True)


def stopped_after(step, runs, name, words):
    pairs = split_settings([*words, "--runs", str(runs), "--run", name], set())[1]
    pairs = [(key, (value,) if key == "reward" else value) for key, value in pairs]
    from hocket.train.config import task_of

    task = tasks.find(task_of(pairs))
    trainer = Trainer(configure(pairs, task), task=task)
    while trainer.progress.step < step or not trainer.progress.before:
        trainer.step()
    trainer.folder.release()


# ---------------------------------------------------------------- refused


BAD = {
    "no scorer": ("model:{nano}", "is no scorer, it writes text; train one"),
    "nothing there": ("model:./none", "there is no model folder"),
    "nameless": ("model:", "a scorer has no name"),
    "no number": ("model:{scorer}=much", "the weight 'much' is no number"),
    "one has no deviation": ("model:{scorer}?deviations=1", "deviations, at least 0, are those of several members"),
    "unknown way": ("model:{scorer}?by=max", "by = 'max'; choose from mean, min"),
    "no such output": ("model:{scorer}?output=2", "outputs are numbered from 0 to 1"),
    "no such setting": ("model:{scorer}?of=2", "has no setting 'of'"),
}


@pytest.mark.parametrize("name", BAD)
def test_rewards_that_cannot_be_are_refused_in_a_sentence(name, scorers, tmp_path):
    spec, sentence = BAD[name]
    flag = spec.format(nano=BASE, scorer=scorers[0])
    told = call("train", *SAMPLED, "--reward", flag, "--steps", "1", "--runs", tmp_path, "--run", "bad")
    assert told.code == 2
    assert sentence in told.err
    assert "Traceback" not in told.err
    assert not (tmp_path / "bad").exists()


def test_a_scorer_is_no_model_to_write_with_and_asks_for_recorded_answers(scorers, tmp_path):
    written = call("train", *SAMPLED, "--model", scorers[0], "--steps", "1", "--runs", tmp_path)
    assert (written.code, "is a scorer and writes no answers" in written.err) == (2, True)
    common = ["--recipe", "reward-model", "--steps", "1", "--runs", str(tmp_path)]
    unpaired = call("train", *TINY, *common, "--task", "sums")
    assert (unpaired.code, "learns from pairs, and task sums holds" in unpaired.err) == (2, True)
    sampling = call("train", *TINY, *common, "--rollout", "{type: hocket.rollout.Independent, samples: 2}")
    assert (sampling.code, "is a scorer and writes no answers" in sampling.err) == (2, True)
    beside = call("train", *TINY, *common, "--regularisers", "[{type: hocket.objectives.EntropyBonus}]")
    assert (beside.code, "it trains a scorer, which has neither" in beside.err) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_a_saved_scorer_is_trained_on(scorers, tmp_path):
    train(tmp_path, "more", "--recipe", "reward-model", "--model", scorers[0], steps=1, tiny=TINY)
    found = Scorer.from_pretrained(next((tmp_path / "more" / "checkpoints").glob("*/policy")), key=Key.of(0))
    before = Scorer.from_pretrained(scorers[0], key=Key.of(0))
    assert found.outputs == 2
    assert not torch.equal(found.model.score.weight[0], before.model.score.weight[0])
    assert torch.equal(found.model.score.weight[1], before.model.score.weight[1])
