"""The chat loop with which tasksets of `verifiers` are played: in this process, over the model's own endpoint.

`verifiers` finds harnesses by the name of a module. This module imports `verifiers`; only `verifiers_task` imports it.
"""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from typing import Any

import httpx
import verifiers.v1 as vf
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.harnesses.utils.mcp import call_mcp, connect_mcp

__all__ = ["ChatHarness"]


class ChatHarness(vf.Harness[vf.HarnessConfig]):  # type: ignore[misc]
    """Messages and the task's tools until a reply without calls; nothing but the tools' servers is executed."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_MCP = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: Any,
        trace: Any,
        runtime: Any,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: Any,
    ) -> vf.ProgramResult:
        """Plays one segment of an exchange."""
        system, prompt = self.resolve_prompt(data)
        messages = [{"role": "system", "content": system}] if system else []
        if isinstance(prompt, str):
            messages.append({"role": "user", "content": prompt})
        else:
            messages += [message_to_wire(message) for message in prompt or []]
        servers = {name: {"url": url, "timeout": self.config.tool_timeout} for name, url in mcp_urls.items()}
        async with AsyncExitStack() as stack:
            tools, dispatch, connections = await connect_mcp({"mcpServers": servers}, stack)
            client = await stack.enter_async_context(httpx.AsyncClient(timeout=None))
            while True:
                body = {"model": ctx.model, "messages": messages, **({"tools": tools} if tools else {})}
                reply = await client.post(
                    f"{endpoint.rstrip('/')}/chat/completions", json=body, headers={"Authorization": f"Bearer {secret}"}
                )
                if reply.status_code >= 400:  # A limit of the episode, or a rule of the task that ends it.
                    return vf.ProgramResult(0 if trace.stop_condition else 1, "", reply.text)
                message = reply.json()["choices"][0]["message"]
                messages.append({key: value for key, value in message.items() if value is not None})
                if not message.get("tool_calls"):
                    return vf.ProgramResult(0, "", "")
                for call in message["tool_calls"]:
                    content = await _result(call["function"], connections, dispatch)
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})


async def _result(function: dict[str, str], connections: Any, dispatch: Any) -> Any:
    """What a tool answers to a call, or why the call is none."""
    try:
        arguments = json.loads(function["arguments"] or "{}")
    except ValueError as error:
        return f"error: the arguments are not valid JSON ({error})"
    if function["name"] not in dispatch or not isinstance(arguments, dict):
        return f"error: there is no tool {function['name']!r} with these arguments"
    return await call_mcp(connections, dispatch, function["name"], arguments)
