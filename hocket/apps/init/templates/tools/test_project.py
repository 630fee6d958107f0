"""Run `pytest` in this folder."""

import asyncio

from reward import reward
from task import rows
from tools import PRICES

from hocket import tasks
from hocket.agents import tools as agent_tools


def test_the_tool_answers_and_explains_itself() -> None:
    tool = agent_tools.find("tools.py:price")
    assert asyncio.run(tool({"item": "red lamp"})) == str(PRICES["red lamp"])
    assert asyncio.run(tool({"item": "moon"})).startswith("error")
    assert tool.schema["function"]["name"] == "price"


def test_the_reward_wants_the_price() -> None:
    assert reward(["<answer>12</answer>", "<answer>13</answer>", "12"], ["12"] * 3) == [1.0, 0.0, 0.0]


def test_unseen_items_are_a_quarter() -> None:
    task = tasks.of(rows())
    assert (task.size("train"), task.size("eval")) == (60, 20)
