"""What a teacher's tokens are worth: read on the student's own text, or written as text to imitate.

    python benchmarks/distillation_evidence.py                    SmolLM2 is taught sums, then teaches nano
    python benchmarks/distillation_evidence.py --teacher RUN      a model or a run that is taught already
    python benchmarks/distillation_evidence.py --lessons 1 --steps 1 --marks 1 --prompts 2 --problems 4     a trial

SmolLM2 (docs/tutorial.md) learns to work sums out from demonstrations, with an adapter of rank 16. Its tokens are not
nano's. On its own text nano learns by `gold` with the reverse KL, and the teacher's tokens are those that it reads. On
the teacher's text nano learns by `sft`, right answers and wrong ones, and the teacher's tokens are those that it wrote:
as many at every mark. Text that is there may be gone over again for nothing, which `--epochs` does, for each mark from
the beginning. Greedy accuracy on unseen sums, one thread.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any

import torch
from bench import BUILD, machine

import hocket
from hocket import tasks
from hocket.core.outcomes import usable
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.evaluate import evaluate
from hocket.train.loop import Playing, RunContext, train_step
from hocket.train.models import model_folder
from hocket.types import Assignment, Trajectory

TASK = "worked-sums"
WORK = BUILD / "distillation"
SAMPLES, TOKENS = 4, 96


class Comparison:
    """Two students of one teacher, and how they are measured."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.task = given, tasks.find(TASK)
        self.teacher = str(model_folder(given.teacher or self._taught(), str(WORK)))
        self.writer = self._parts("grpo", self.teacher, self.task)
        policy: Any = self.writer.lead.policy
        self.tokenizer = policy.tokenizer

    def _taught(self) -> str:
        """The run of SmolLM2 on demonstrations of worked sums."""
        run = WORK / f"teacher-{self.given.lessons}"
        if not run.is_dir():
            learning: dict[str, Any] = {
                "lora.rank": 16,
                "update.lr": 5e-4,
                "curriculum.prompts": 2 * self.given.prompts,
            }
            place: dict[str, Any] = {
                "threads": 1,
                "evaluation.every": 0,
                "evaluation.n": 1,
                "runs": str(WORK),
                "run": run.name,
            }
            hocket.train(TASK, recipe="sft", model="smollm2", steps=self.given.lessons, **learning, **place)
        return str(run)

    def _parts(self, recipe: str, model: str, task: Any, **settings: Any) -> RunContext:
        common = {"recipe": recipe, "model": model, "seed": self.given.seed, "threads": 1, "runs": str(WORK)}
        sizes = {"curriculum.prompts": self.given.prompts, "decoding.max_tokens": TOKENS}
        return build_parts(configure([*{**common, **sizes, **settings}.items()], task), task)

    def accuracy(self, parts: RunContext) -> dict[str, float]:
        """Greedy, with its 95 % interval."""
        key, n = self.writer.key.derive("evaluation"), self.given.problems
        work = evaluate(self.task, parts.player, self.writer.rewards, n=n, decoding=self.writer.decoding, key=key)
        found = asyncio.run(work)
        return {"accuracy": found.success, "low": found.low, "high": found.high}

    def tokens(self, answers: list[Trajectory]) -> int:
        """The teacher's tokens of answers, the ends of turns among them."""
        texts = [turn.text for answer in answers for turn in answer.turns]
        return sum(len(self.tokenizer.encode(text, add_special_tokens=False)) + 1 for text in texts)

    def own_text(self) -> list[dict[str, Any]]:
        """The student on what it writes: a line at every mark."""
        settings = {"rollout.samples": SAMPLES, "rollout.student": 1.0, "objective.divergence.beta": 1.0}
        parts = self._parts("gold", "nano", self.task, teacher=self.teacher, **settings)
        lines, seen = [{"step": 0, "tokens": 0, **self.accuracy(parts)}], 0
        for step in range(1, self.given.steps + 1):
            seen += self.tokens(asyncio.run(train_step(parts, step)).trajectories)
            if step % max(1, self.given.steps // self.given.marks) == 0:
                lines.append({"step": step, "tokens": seen, **self.accuracy(parts)})
        return lines

    def teachers_text(self, most: int) -> list[dict[str, Any]]:
        """What the teacher writes, until that is `most` tokens: rows, each with the tokens up to it."""
        rows, seen = list[dict[str, Any]](), 0
        while seen < most:
            first = len(rows) // SAMPLES
            asked = [self.task.scenario("train", first + number) for number in range(self.given.prompts)]
            decoding = self.writer.decoding
            assignments = [Assignment(scenario, samples=SAMPLES, decoding=decoding) for scenario in asked]
            played = asyncio.run(Playing(self.writer.player, self.writer.key.derive("text", first))(assignments))
            for answer in played:
                seen += self.tokens([answer])
                # Unfinished answers teach not to end; they are paid for, and left out.
                row = {"prompt": answer.scenario.prompt, "completion": answer.turns[0].text, "split": "train"}
                rows.append({**row, "tokens": seen, "finished": usable(answer) and answer.terminated})
        return rows

    def imitation(self, rows: list[dict[str, Any]], most: int) -> dict[str, Any]:
        """A student after text of `most` tokens, a line for the epoch after which it is best."""
        read = ("prompt", "completion", "split")
        data = [{name: row[name] for name in read} for row in rows if row["tokens"] <= most and row["finished"]]
        unseen = {"prompt": "-", "completion": "-", "split": "eval"}  # A data set needs one; nothing is measured on it.
        task = tasks.of([*data, unseen])
        batch = min(self.given.prompts * SAMPLES, len(data))
        parts = self._parts("sft", "nano", task, **{"curriculum.prompts": batch})
        found = list[dict[str, Any]]()
        for epoch in range(self.given.epochs):
            steps = max(1, len(data) // batch)
            for step in range(1, steps + 1):
                asyncio.run(train_step(parts, epoch * steps + step))
            found.append({"epoch": epoch + 1, "tokens": most, "answers": len(data), **self.accuracy(parts)})
        return max(found, key=lambda line: float(line["accuracy"]))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--teacher", help="a model or a run; without it SmolLM2 is taught")
    parser.add_argument("--lessons", type=int, default=60, help="steps of SmolLM2 on demonstrations, two a prompt")
    parser.add_argument("--steps", type=int, default=25, help=f"of the student, {SAMPLES} answers a prompt")
    parser.add_argument("--prompts", type=int, default=16, help="of a step")
    parser.add_argument("--marks", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=4, help="over the teacher's text")
    parser.add_argument("--problems", type=int, default=500, help="unseen ones")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    sides = Comparison(given)
    own = sides.own_text()
    rows = sides.teachers_text(own[-1]["tokens"])
    teacher = {"teacher": sides.teacher, **sides.accuracy(sides.writer)}
    others = [sides.imitation(rows, line["tokens"]) for line in own[1:]]
    if given.json:
        print(json.dumps({"machine": machine(), "teacher": teacher, "own text": own, "its text": others}))
        return
    for name, lines in (("the teacher", [teacher]), ("own text", own), ("its text", others)):
        for line in lines:
            spread = f"{line['accuracy']:.1%} ({line['low']:.1%} to {line['high']:.1%})"
            print(f"{name:12} {line.get('tokens', 0):8,} tokens of the teacher: {spread}")


if __name__ == "__main__":
    main()
