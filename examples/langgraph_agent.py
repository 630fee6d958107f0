"""A graph of LangGraph (`pip install langgraph langchain-openai`): three solve a problem side by side, and vote.

    hocket train --workflow outside:examples/langgraph_agent.py:agent --steps 40

trains the model behind them, and nothing here knows of it.
"""

import operator
import re
from collections import Counter
from typing import Annotated, TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send
from openai import DefaultAsyncHttpxClient, DefaultHttpxClient

HTTP = {"http_async_client": DefaultAsyncHttpxClient(), "http_client": DefaultHttpxClient()}  # Making one takes long.
SOLVERS = 3


class Poll(TypedDict):
    """What the graph passes on: a question, the answers to it, and the most frequent one."""

    question: str
    answers: Annotated[list[str], operator.add]
    chosen: str


async def agent(base_url, api_key, scenario):
    """Answers a scenario's question; what the answer is worth, the task decides."""
    model = ChatOpenAI(model="any", base_url=base_url, api_key=api_key, max_tokens=96, **HTTP)

    async def solve(poll):
        said = (await model.ainvoke(poll["question"])).content
        return {"answers": re.findall(r"<answer>.*?</answer>", said, re.DOTALL)[-1:]}

    def vote(poll):
        counted = Counter(poll["answers"]).most_common(1)
        return {"chosen": counted[0][0] if counted else ""}

    graph = StateGraph(Poll)
    graph.add_node(solve)
    graph.add_node(vote)
    graph.add_conditional_edges(START, lambda poll: [Send("solve", poll) for _ in range(SOLVERS)], ["solve"])
    graph.add_edge("solve", "vote")
    graph.add_edge("vote", END)
    return (await graph.compile().ainvoke({"question": scenario.prompt, "answers": []}))["chosen"]
