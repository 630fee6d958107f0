"""An agent of somebody else's, on OpenAI's official client alone: it plans, has the steps worked out, and answers.

    hocket train --workflow outside:examples/outside_agent.py:agent --steps 40

trains the model behind it, and the agent need not know. The same function runs against any other server, such as
`hocket serve nano` (KEY is any word where the server asks for none):

    python examples/outside_agent.py http://127.0.0.1:8000/v1 KEY "What is 12 + 34 - 5?"
"""

import asyncio
import re
import sys
from types import SimpleNamespace

import openai

PLANNER = "You are the planner. Split the sum into numbered steps for the workers, then add their results."
WORKER = "You are a worker. Answer the one step you are given."
HTTP = openai.DefaultAsyncHttpxClient()  # One for all clients: making one takes long.


async def agent(base_url, api_key, scenario, model="any"):
    """Answers a scenario's question; what the answer is worth, the task decides. In training any model name will do."""
    client = openai.AsyncOpenAI(base_url=base_url, api_key=api_key, http_client=HTTP)

    async def ask(*messages):
        reply = await client.chat.completions.create(model=model, messages=messages, max_tokens=96)
        return reply.choices[0].message.content

    async def work(step):
        said = await ask(system(WORKER), user(step))
        numbers = re.findall(r"-?\d+", said.rpartition("<answer>")[2])
        return numbers[-1] if numbers else "unknown"

    begun = (system(PLANNER), user(scenario.prompt))
    plan = await ask(*begun)
    steps = re.findall(r"^\s*\d+\.\s*(\S.*?)\s*$", plan, re.MULTILINE)[:4]
    results = await asyncio.gather(*map(work, steps))
    notes = "Results:\n" + "\n".join(f"{step} = {result}" for step, result in zip(steps, results, strict=True))
    return await ask(*begun, {"role": "assistant", "content": plan}, user(notes))


def system(text):
    """A system message."""
    return {"role": "system", "content": text}


def user(text):
    """A user's message."""
    return {"role": "user", "content": text}


if __name__ == "__main__":
    address, key, question = sys.argv[1:]
    first = openai.OpenAI(base_url=address, api_key=key).models.list().data[0].id
    print(asyncio.run(agent(address, key, SimpleNamespace(prompt=question), first)))
