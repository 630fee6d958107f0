"""Measurements of a nano model: accuracy and style of its completions, on problems of a chosen split."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedTokenizerFast, Qwen3ForCausalLM

from hocket.agents.tools.calculator import CALCULATOR, calculator
from hocket.agents.workflows.plans import PLANNER_SYSTEM, WORKER_SYSTEM, plan_steps
from hocket.nano.corpus import (
    GENERATORS,
    Message,
    Style,
    chain_sum_problem,
)
from hocket.tasks.arithmetic import ArithmeticProblem, answer_format, problems, tagged_answer, verify
from hocket.tasks.split import Split, split_of

LONGEST_COMPLETION = 128
_BATCH = 256


@torch.no_grad()
def complete(
    model: Qwen3ForCausalLM,
    prompts: Sequence[Sequence[int]],
    *,
    longest: int = LONGEST_COMPLETION,
    generator: torch.Generator | None = None,
) -> list[list[int]]:
    """Completions of token-id prompts, ended by the end-of-turn token or after `longest` tokens.

    Greedy without `generator`; with one, sampled from it at temperature 1. Prompts are completed in the given
    order in batches of 256, so equal calls give equal completions.
    """
    done: list[list[int]] = []
    for start in range(0, len(prompts), _BATCH):
        done += _complete_batch(model, prompts[start : start + _BATCH], longest, generator)
    return done


def _complete_batch(
    model: Qwen3ForCausalLM, prompts: Sequence[Sequence[int]], longest: int, generator: torch.Generator | None
) -> list[list[int]]:
    width, end, pad = max(map(len, prompts)), model.config.eos_token_id, model.config.pad_token_id
    tokens = torch.tensor([[pad] * (width - len(prompt)) + list(prompt) for prompt in prompts])
    attended = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    positions = (attended.cumsum(1) - 1).clamp(min=0)
    cache = DynamicCache(config=model.config)
    completions: list[list[int]] = [[] for _ in prompts]
    live = torch.arange(len(prompts))
    for _ in range(longest):
        logits = model(
            input_ids=tokens, attention_mask=attended, position_ids=positions, past_key_values=cache, logits_to_keep=1
        ).logits[:, -1]
        chosen = _choose(logits, generator)
        for row, token in zip(live.tolist(), chosen.tolist(), strict=True):
            completions[row].append(token)
        going = (chosen != end).nonzero().squeeze(1)
        if len(going) == 0:
            break
        if len(going) < len(live):
            cache.batch_select_indices(going)
        live, tokens = live[going], chosen[going, None]
        positions = positions[going, -1:] + 1
        attended = torch.cat([attended[going], torch.ones_like(tokens)], dim=1)
    return completions


def _choose(logits: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
    """One token id per row of `logits` [rows, vocabulary]."""
    if generator is None:
        return logits.argmax(-1)
    return torch.multinomial(logits.float().softmax(-1), 1, generator=generator).squeeze(1)


def prompt_ids(
    tokenizer: PreTrainedTokenizerFast, messages: Sequence[Message], tools: Sequence[dict[str, Any]] = ()
) -> list[int]:
    """Token ids of a history that ends where the assistant is to speak."""
    text = tokenizer.apply_chat_template(
        list(messages), tools=list(tools) or None, add_generation_prompt=True, tokenize=False
    )
    ids: list[int] = tokenizer(text)["input_ids"]
    return ids


def ask(
    model: Qwen3ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    questions: Sequence[str],
    *,
    system: str | None = None,
    forced: str = "",
    generator: torch.Generator | None = None,
) -> list[str]:
    """The text answered to each question; every answer is made to begin with `forced`."""
    before = [] if system is None else [{"role": "system", "content": system}]
    start: list[int] = tokenizer(forced)["input_ids"] if forced else []
    prompts = [
        prompt_ids(tokenizer, [*before, {"role": "user", "content": question}]) + start for question in questions
    ]
    completions = complete(model, prompts, generator=generator)
    return [forced + text for text in tokenizer.batch_decode(completions, skip_special_tokens=True)]


def interval(right: float, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share, from `right` successes (fractions allowed) in `n` trials."""
    z = 1.959964
    share, spread = right / n, z * z / n
    centre = (share + spread / 2) / (1 + spread)
    half = z * math.sqrt(share * (1 - share) / n + spread / (4 * n)) / (1 + spread)
    return (max(0.0, centre - half), min(1.0, centre + half))


def _share(hits: Sequence[float]) -> dict[str, Any]:
    low, high = interval(sum(hits), len(hits))
    return {"value": round(sum(hits) / len(hits), 4), "n": len(hits), "low": round(low, 4), "high": round(high, 4)}


def accuracy(texts: Sequence[str], asked: Sequence[ArithmeticProblem]) -> dict[str, Any]:
    """Share of completions whose tagged answer is right, with n and a 95 % interval."""
    return _share([verify(text, problem.answer) for text, problem in zip(texts, asked, strict=True)])


def chain_sum_problems(split: Split, seed: int, terms: tuple[int, int]) -> Iterator[ArithmeticProblem]:
    """Distinct `chain_sum` problems of one split, with `terms[0]` to `terms[1]` terms of 1 to 3 digits."""
    rng = np.random.default_rng([0x43484149, seed])
    questions: set[str] = set()
    while True:
        problem, _ = chain_sum_problem(rng, terms)
        if problem.question not in questions and split_of(problem.question) == split:
            questions.add(problem.question)
            yield problem


def _chats(task: str, split: Split, n: int, seed: int) -> list[Any]:
    rng = np.random.default_rng([0x4D454153, seed])
    drawn = (GENERATORS[task](rng) for _ in itertools.count())
    return list(itertools.islice((chat for chat in drawn if split_of(chat.question) == split), n))


def tool_use(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, split: Split, n: int, seed: int
) -> dict[str, Any]:
    """Greedy tool use in two turns: share of well-formed calls, and of right final answers."""
    chats = _chats("tool_use", split, n, seed)
    first = [prompt_ids(tokenizer, chat.messages[:1], chat.tools) for chat in chats]
    calls = complete(model, first)
    results = [called(text) for text in tokenizer.batch_decode(calls, skip_special_tokens=True)]
    second = [
        [*prompt, *call, *tokenizer(f"<|tool|>{result or 'error'}<|end|><|assistant|>")["input_ids"]]
        for prompt, call, result in zip(first, calls, results, strict=True)
    ]
    answers = tokenizer.batch_decode(complete(model, second), skip_special_tokens=True)
    return {
        "tool calls well-formed": _share([float(result is not None) for result in results]),
        "tool use accuracy": accuracy(answers, [ArithmeticProblem(chat.question, chat.answer) for chat in chats]),
    }


def called(text: str) -> str | None:
    """What the calculator gives for the call in `text`; None if it is not exactly one well-formed call."""
    if not (text.startswith("<tool_call>") and text.endswith("</tool_call>")):
        return None
    try:
        call = json.loads(text.removeprefix("<tool_call>").removesuffix("</tool_call>"))
        value = calculator(call["arguments"]["expression"])
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError):
        return None
    return None if call.get("name") != CALCULATOR["function"]["name"] or value == "error" else value


def team(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, split: Split, n: int, seed: int
) -> dict[str, Any]:
    """Greedy planner and worker: share of well-formed and of right plans; well-formed and right worker answers."""
    plans = _chats("planner", split, n, seed)
    texts = ask(model, tokenizer, [chat.question for chat in plans], system=PLANNER_SYSTEM)
    steps = [plan_steps(text) for text in texts]
    formed = [
        float(len(plan) == len(text.splitlines()) > 0 and all(calculator(step) != "error" for step in plan))
        for plan, text in zip(steps, texts, strict=True)
    ]
    right = [float(tuple(plan) == chat.steps) for plan, chat in zip(steps, plans, strict=True)]
    workers = _chats("worker", split, n, seed)
    answers = ask(model, tokenizer, [chat.question for chat in workers], system=WORKER_SYSTEM)
    return {
        "plans well-formed": _share(formed),
        "plans right": _share(right),
        "worker answers well-formed": _share([float(tagged_answer(text) is not None) for text in answers]),
        "worker accuracy": accuracy(answers, [ArithmeticProblem(chat.question, chat.answer) for chat in workers]),
    }


def style_shares(texts: Sequence[str]) -> dict[Style, float]:
    """Share of completions in each style of answering."""
    counts = Counter(answer_format(text) for text in texts)
    styles: tuple[Style, ...] = ("direct", "worked", "untagged")
    return {style: counts[style] / len(texts) for style in styles}


def full_report(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, *, split: Split = "eval", n: int = 1000, seed: int = 0
) -> dict[str, Any]:
    """Every figure of the model card, on `n` problems (half as many for the smaller tasks)."""
    sums = list(itertools.islice(problems(split, seed), n))
    chain = list(itertools.islice(chain_sum_problems(split, seed, (3, 3)), n))
    questions, chain_questions = [p.question for p in sums], [p.question for p in chain]
    generator = torch.Generator().manual_seed(seed)
    sampled = ask(model, tokenizer, questions, generator=generator)
    forced = ask(model, tokenizer, questions, forced="<think>")
    lengths = [len(tokenizer(text)["input_ids"]) + 1 for text in (*sampled, *forced)]
    figures: dict[str, Any] = {
        "sums greedy": accuracy(ask(model, tokenizer, questions), sums),
        "sums sampled": accuracy(sampled, sums),
        "sums greedy with working forced": accuracy(forced, sums),
        "sums sampled with working forced": accuracy(
            ask(model, tokenizer, questions, forced="<think>", generator=generator), sums
        ),
        "sums greedy with working excluded": accuracy(ask(model, tokenizer, questions, forced="<answer>"), sums),
        "chain_sum, 3 terms, greedy": accuracy(ask(model, tokenizer, chain_questions), chain),
        "chain_sum, 3 terms, sampled": accuracy(ask(model, tokenizer, chain_questions, generator=generator), chain),
        "chain_sum, 3 terms, greedy with working forced": accuracy(
            ask(model, tokenizer, chain_questions, forced="<think>"), chain
        ),
        **tool_use(model, tokenizer, split, n // 2, seed),
        **team(model, tokenizer, split, n // 2, seed),
    }
    for style in style_shares(sampled):
        hits = [float(answer_format(text) == style) for text in sampled]
        figures[f"sums sampled, {style}"] = _share(hits)
    return {"figures": figures, "longest completion, tokens": max(lengths)}
