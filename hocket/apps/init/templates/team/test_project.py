"""Run `pytest` in this folder."""

from reward import reward
from task import rows
from team import ScoutAndSolver, result

from hocket import tasks
from hocket.testing import Part, rehearse


def test_the_solver_reads_the_result_of_the_scout() -> None:
    scenario, solver = tasks.of(rows(20)).scenario("train", 0), Part("<answer>5</answer>")
    (episode,) = rehearse(ScoutAndSolver(), scenario, {"scout": ["<answer>12</answer>"], "solver": solver})
    solver.assert_asked("What is 12 +")
    assert episode.text == "<answer>5</answer>"


def test_a_message_without_tags_is_passed_on_whole() -> None:
    assert result("twelve") == "twelve"


def test_the_reward_prefers_the_right_answer() -> None:
    texts = ["<answer>7</answer>", "<answer>8</answer>", "seven"]
    assert reward(texts, ["7", "7", "7"]) == [1.0, 0.1, 0.0]
