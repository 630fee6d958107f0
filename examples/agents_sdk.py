"""An agent on OpenAI's Agents SDK (`pip install openai-agents`) with a tool of its own, trained as it is.

hocket train --task "calculator?digits=5" --workflow outside:examples/agents_sdk.py:agent --steps 20
"""

from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from hocket.agents.tools.calculator import calculator as value_of

HTTP = DefaultAsyncHttpxClient()  # One for all clients: making one takes long.
set_tracing_disabled(True)


@function_tool
def calculator(expression: str) -> str:
    """Value of an expression of integers with +, - and *."""
    return value_of(expression)


async def agent(base_url, api_key, scenario):
    """Answers a scenario's question; what the answer is worth, the task decides."""
    client = AsyncOpenAI(base_url=base_url, api_key=api_key, http_client=HTTP)
    model = OpenAIChatCompletionsModel(model="any", openai_client=client)
    helper = Agent("helper", model=model, tools=[calculator], model_settings=ModelSettings(max_tokens=96))
    result = await Runner.run(helper, scenario.prompt, max_turns=4)
    return result.final_output
