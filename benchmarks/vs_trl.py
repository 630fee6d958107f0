"""A training step of hocket beside one of TRL's `GRPOTrainer`, on this machine's processor.

    python benchmarks/vs_trl.py --setup             an environment of TRL's own, build/trl
    python benchmarks/vs_trl.py --tune nano-short   tries TRL's settings, keeps the fastest in trl_best.json
    python benchmarks/vs_trl.py --quick --json      all cases, few rounds, one JSON object
    python benchmarks/vs_trl.py nano-short medium   chosen cases, more rounds, and TRL with pure bf16 weights

Both sides load the same random Qwen3 weights and read the same 16 prompts 8 times. Half of each group is rewarded, so
that every decision has an advantage. Responses are equally long because the weights make ends of text improbable; in
`uneven-lengths` they end at random instead. Ours is the library's own loop: rollout, grading, credit, objective, AdamW.

Each side is a process of its own. They take turns step by step, frozen (SIGSTOP) while another runs, so that spinning
threads disturb nobody. Sampling is `LocalEngine.sample` against `model.generate`; a step of ours is everything from
asking to changed weights, one of TRL's what the trainer does between `on_step_begin` and `on_step_end`. Ratios are
taken within rounds: the median, and the least and the most as the spread. Memory is the peak resident size less that
after the imports.

Measured so far: `nano-short`, `nano-long-prompt`, `medium` (docs/performance.md). The other cases have not been run to
the end at full size, and neither have `--setup`, `--tune` and all of `--quick`.

The floor counts 2 operations per weight and token forward and 4 backward, for tokens computed once, at the rate of a
large fp32 product measured between the steps; attention is not in it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parent.parent
TRL_PYTHON = ROOT / "build" / "trl" / "bin" / "python"
WORK = ROOT / "build" / "vs_trl"
BEST = Path(__file__).with_name("trl_best.json")

PROMPTS, SAMPLES = 16, 8
END, PAD = "<|end|>", "<|pad|>"
CHARACTERS = [chr(code) for code in range(33, 127)] + [" ", "\n"]
TEMPLATE = "{% for m in messages %}{{ m.content }}{% if m.role == 'assistant' %}<|end|>{% endif %}{% endfor %}"
QUIET = 0.1
"""Processors that other programs may use during a step; two spinning threads lose far more than their share."""
BETWEEN = 32
"""Tokens of what is said between two turns, besides the end of the turn before."""


@dataclass(frozen=True)
class Case:
    """What is measured.

    `micro` is TRL's micro-batch, all samples where memory allows it; `attention` what TRL uses unless tuned: fused
    attention wins on long sequences only. With `stops`, responses end at random.
    """

    name: str
    width: int
    layers: int
    heads: int
    prompt: int = 32
    new: int = 64
    words: int = 0
    turns: int = 1
    stops: bool = False
    micro: int = PROMPTS * SAMPLES
    attention: str = "eager"

    @property
    def folder(self) -> Path:
        return WORK / self.name


CASES = (
    Case("nano-short", 128, 5, 4),
    Case("nano-long-prompt", 128, 5, 4, prompt=512, attention="sdpa"),
    Case("small", 256, 6, 4),
    Case("medium", 512, 8, 8),
    Case("vocab-150k", 256, 4, 4, new=32, words=150_000, micro=16),
    Case("uneven-lengths", 128, 5, 4, new=256, stops=True),
    Case("multi-turn", 128, 5, 4, prompt=64, turns=4),
)


@dataclass(frozen=True)
class Settings:
    """How a side is run.

    Attributes:
        threads: of torch; 0 leaves the choice to the library. wait: OpenMP's policy; empty leaves it alone.
        compute: precision of products. attention, weights: TRL's; pure bf16 weights have not been seen to learn.
    """

    threads: int = 2
    wait: str = "ACTIVE"
    compute: str = "bf16"
    attention: str = "eager"
    weights: str = "float32"

    @property
    def label(self) -> str:
        return f"{self.threads} threads {self.wait}, {self.weights} weights, {self.compute}, {self.attention} attention"


GRID = (
    Settings(),
    Settings(threads=1),
    Settings(attention="sdpa"),
    Settings(compute="fp32"),
    Settings(wait="PASSIVE"),
)

Clock = Callable[[], float]


# ---------------------------------------------------------------- what both sides are given


def prompt_text(number: int, length: int) -> str:
    """`length` characters, one token each; the same on every side."""
    import numpy as np

    letters = np.random.Generator(np.random.Philox(key=number)).integers(0, 94, length)
    return "".join(CHARACTERS[letter] for letter in letters)


def build_model(case: Case) -> None:
    """Writes the case's random model and its tokenizer of characters to `case.folder`."""
    import torch
    from tokenizers import AddedToken, Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    tokens = [PAD, END, *CHARACTERS, *(f"word{number}" for number in range(case.words))]
    core = Tokenizer(models.BPE(vocab={token: place for place, token in enumerate(tokens)}, merges=[]))
    core.decoder = decoders.Fuse()
    core.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in (PAD, END)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, pad_token=PAD, eos_token=END, padding_side="left")
    tokenizer.chat_template = TEMPLATE
    config = Qwen3Config(
        vocab_size=len(tokens),
        hidden_size=case.width,
        intermediate_size=3 * case.width,
        num_hidden_layers=case.layers,
        num_attention_heads=case.heads,
        num_key_value_heads=case.heads // 2,
        head_dim=case.width // case.heads,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    with torch.random.fork_rng():
        model = Qwen3ForCausalLM(config)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                outward = name.endswith(("o_proj.weight", "down_proj.weight"))
                parameter.normal_(0.0, 0.001 if outward else 0.02, generator=generator)
        # All states point along one direction, as layers add little, and tokens not to be sampled point against it.
        embedding = model.get_input_embeddings().weight
        embedding[:, 0] = 1.0
        embedding[[0] if case.stops else [0, 1], 0] = -1.0
    model.save_pretrained(case.folder)
    tokenizer.save_pretrained(case.folder)


# ---------------------------------------------------------------- one side, in a process of its own


class Line:
    """A worker's line to the parent: a command comes in, one JSON object goes out. Prints go to the log."""

    def __init__(self) -> None:
        self._out: IO[str] = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def wait(self) -> bool:
        """Whether another step is asked for."""
        return sys.stdin.readline().strip() == "step"

    def tell(self, **found: Any) -> None:
        print(json.dumps(found), file=self._out, flush=True)


class Stopwatch:
    """Wall-clock and processor seconds spent inside `with`, summed by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.processor: dict[str, float] = {}
        self._name = ""
        self._start = (0.0, 0.0)

    def timed(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """`call`, with what it takes counted under `name`."""

        def run(*given: Any, **named: Any) -> Any:
            wall, processor = time.perf_counter(), time.process_time()
            found = call(*given, **named)
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - wall
            self.processor[name] = self.processor.get(name, 0.0) + time.process_time() - processor
            return found

        return run

    def take(self) -> dict[str, dict[str, float]]:
        """What was counted since the last call."""
        found = {"seconds": self.seconds, "processor": self.processor}
        self.seconds, self.processor = {}, {}
        return found


def resident(name: str) -> int:
    """`VmRSS` or `VmHWM` of this process, KiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    raise RuntimeError(f"/proc/self/status has no {name}")


def imports_done() -> int:
    """Forgets the peak of resident memory so far; returns what is resident now, KiB."""
    Path("/proc/self/clear_refs").write_text("5")
    return resident("VmRSS")


def matrix_rate(clock: Clock) -> float:
    """Operations per second of a large fp32 product; the best of five."""
    import torch

    a, b = torch.ones(2048, 1024), torch.ones(1024, 1024)
    taken = []
    for _ in range(5):
        start = clock()
        a @ b
        taken.append(clock() - start)
    return 2 * 2048 * 1024 * 1024 / min(taken)


def run_ours(case: Case, settings: Settings) -> None:
    """Steps of the library's own loop."""
    import torch
    import transformers.models.qwen3.modeling_qwen3  # noqa: F401 - else its import would count as memory

    from hocket.engine.local import LocalEngine
    from hocket.keys import Key
    from hocket.packing import pack
    from hocket.policies.causal_lm import CausalLM
    from hocket.policies.prefix_tree import tree_of
    from hocket.policies.sequences import rows_of
    from hocket.recipes import find
    from hocket.train.learner import Learner
    from hocket.train.ledger import Ledger
    from hocket.train.loop import Parts, collect, learn
    from hocket.train.machine import Machine
    from hocket.types import Decoding, Scenario
    from hocket.workflows import Chat, Seat, TextPlayer, Workflow

    line, watch = Line(), Stopwatch()

    class Fixed:
        """Sixteen prompts."""

        name, kind, rewards = "fixed", "text", ()

        def size(self, split: str) -> int:
            return PROMPTS

        def scenario(self, split: str, number: int) -> Scenario:
            return Scenario(str(number), prompt_text(number, case.prompt))

    class Conversation(Workflow):
        """`case.turns` turns, with a fixed text between two of them."""

        roles = ("policy",)

        async def play(self, scenario: Scenario, team: Any) -> None:
            await team.policy(scenario.prompt)
            for turn in range(1, case.turns):
                await team.policy(prompt_text(1000 + turn, BETWEEN))

    class Half:
        """1 for every other sample."""

        name, weight, outside = "half", 1.0, False

        async def __call__(self, trajectories: Sequence[Any], *, key: Key) -> list[float]:
            return [float(trajectory.sample % 2) for trajectory in trajectories]

    before = imports_done()
    policy = CausalLM.from_pretrained(case.folder, key=Key.of(0), precision=settings.compute)  # type: ignore[arg-type]
    parameters = sum(parameter.numel() for parameter in policy.model.parameters())
    Machine.measured(settings.threads or None, parameters).apply()
    threads = torch.get_num_threads()
    chat = Chat(policy.tokenizer)
    policy.end_of_turn = chat.stops
    engine = LocalEngine(policy)
    engine.sample = watch.timed("sampling", engine.sample)  # type: ignore[method-assign]
    learner = Learner(policy, find("grpo"), total_steps=10**6)
    parts = Parts(
        task=Fixed(),
        player=TextPlayer(Conversation(), {"policy": Seat("policy", engine, chat)}),
        rewards=(Half(),),
        learners={"policy": learner},
        decoding=Decoding(max_tokens=case.new),
        key=Key.of(1),
        ledger=Ledger(),
    )
    head = policy.model.lm_head.weight.numel()
    layers = parameters - head
    clock = time.process_time if threads == 1 else time.perf_counter
    peak = resident("VmHWM")

    def step(number: int) -> list[Any]:
        key = parts.key.derive("step", number)
        experience, problems = asyncio.run(collect(parts, key))
        if problems or any(one.failure for one in experience.trajectories):
            raise RuntimeError(f"{problems} {[one.failure for one in experience.trajectories if one.failure][:1]}")
        watch.timed("learner", learn)(parts, experience.trajectories, key, number)
        return experience.trajectories

    whole = watch.timed("step", step)
    line.tell(threads=threads, parameters=parameters)
    number = 0
    while line.wait():
        number += 1
        trajectories = whole(number)
        taken = watch.take()
        # The peak is read before what this benchmark does besides.
        peak = max(peak, resident("VmHWM"))
        batch = pack(trajectories)
        decisions = torch.arange(batch.decisions)
        once = len(tree_of(rows_of(batch, decisions)).token)
        # All but the responses' last tokens are read once to sample, and all decisions pass the head.
        line.tell(
            **taken,
            tokens=batch.decisions,
            once=once,
            rate=matrix_rate(clock),
            floor_sampling=2 * (once * layers + batch.decisions * head),
            floor_learner=6 * (once * layers + batch.decisions * head),
        )
        Path("/proc/self/clear_refs").write_text("5")
    line.tell(memory=(peak - before) / 1024)


def run_trl(case: Case, settings: Settings) -> None:
    """Steps of TRL's trainer, driven through its callbacks."""
    import torch
    import transformers.models.qwen3.modeling_qwen3  # noqa: F401 - else its import would count as memory
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    line, watch = Line(), Stopwatch()
    torch.set_num_threads(settings.threads)
    before = imports_done()
    tokenizer = AutoTokenizer.from_pretrained(case.folder)
    model = AutoModelForCausalLM.from_pretrained(
        case.folder, dtype=getattr(torch, settings.weights), attn_implementation=settings.attention
    )
    samples = PROMPTS * SAMPLES
    arguments = GRPOConfig(
        output_dir=str(WORK / "trl-output"),
        use_cpu=True,
        bf16=settings.compute == "bf16",
        gradient_checkpointing=False,
        per_device_train_batch_size=case.micro,
        gradient_accumulation_steps=samples // case.micro,
        num_generations=SAMPLES,
        max_completion_length=case.new,
        temperature=1.0,
        beta=0.0,
        learning_rate=1e-4,
        max_steps=10**6,
        logging_steps=10**6,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    counted = [0]

    def half(prompts: list[str], completion_ids: list[list[int]], **_: Any) -> list[float]:
        told = (case.turns - 1) * (BETWEEN + 1)
        counted[0] = sum(len(ids) - told for ids in completion_ids)
        return [float(number % 2) for number in range(len(prompts))]

    def converse(prompts: list[str], trainer: Any) -> dict[str, Any]:
        """Several turns as TRL plays them: the whole history is read again at each."""
        opening = [tokenizer(prompt)["input_ids"] for prompt in prompts]
        histories = [list(ids) for ids in opening]
        masks: list[list[int]] = [[] for _ in prompts]
        for turn in range(case.turns):
            if turn:
                said = [tokenizer.eos_token_id, *tokenizer(prompt_text(1000 + turn, BETWEEN))["input_ids"]]
                for history, mask in zip(histories, masks, strict=True):
                    history += said
                    mask += [0] * len(said)
            answers, _ = trainer._generate_single_turn(histories, None, {}, SAMPLES)
            for history, mask, answer in zip(histories, masks, answers, strict=True):
                history += answer
                mask += [1] * len(answer)
        completions = [history[len(ids) :] for history, ids in zip(histories, opening, strict=True)]
        return {"prompt_ids": opening, "completion_ids": completions, "logprobs": None, "env_mask": masks}

    class Turns(TrainerCallback):  # type: ignore[misc]
        """Waits for the parent before each step and reports after it."""

        def on_step_begin(self, *given: Any, **named: Any) -> None:
            if not line.wait():
                line.tell(memory=(resident("VmHWM") - before) / 1024)
                raise SystemExit(0)
            self.start = time.perf_counter(), time.process_time()

        def on_step_end(self, *given: Any, **named: Any) -> None:
            taken = watch.take()
            taken["seconds"]["step"] = time.perf_counter() - self.start[0]
            taken["processor"]["step"] = time.process_time() - self.start[1]
            line.tell(**taken, tokens=counted[0])

    rows = [prompt_text(number, case.prompt) for number in range(PROMPTS)] * 64
    trainer = GRPOTrainer(
        model=model,
        args=arguments,
        reward_funcs=half,
        processing_class=tokenizer,
        train_dataset=Dataset.from_dict({"prompt": rows}),
        callbacks=[Turns()],
        **({"rollout_func": converse} if case.turns > 1 else {}),
    )
    trainer.model.generate = watch.timed("sampling", trainer.model.generate)
    line.tell(threads=torch.get_num_threads(), parameters=sum(p.numel() for p in model.parameters()))
    trainer.train()


# ---------------------------------------------------------------- the parent


@dataclass
class Side:
    """A running worker, frozen except while it makes a step."""

    name: str
    process: subprocess.Popen[str]
    log: Path
    tokens: int | None
    about: dict[str, Any] = field(default_factory=dict)
    steps: list[dict[str, Any]] = field(default_factory=list)

    @staticmethod
    def start(name: str, case: Case, settings: Settings) -> Side:
        trl = not name.startswith("ours")
        log = case.folder / f"{name.replace(' ', '-')}.log"
        order = json.dumps({"case": asdict(case), "settings": asdict(settings), "trl": trl})
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "MKL_"))}
        environment |= {"PYTHONPATH": str(ROOT), "TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1"}
        environment |= {"OMP_WAIT_POLICY": settings.wait} if settings.wait else {}
        environment |= {"OMP_NUM_THREADS": str(settings.threads)} if settings.threads else {}
        environment |= {"TRL_EXPERIMENTAL_SILENCE": "1"} if trl else {}
        with log.open("w") as sink:
            process = subprocess.Popen(
                [str(TRL_PYTHON) if trl else sys.executable, __file__, "--worker", order],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                text=True,
                env=environment,
            )
        tokens = None if case.stops else PROMPTS * SAMPLES * case.turns * case.new
        side = Side(name, process, log, tokens)
        side.about = side._answer()
        side.freeze()
        return side

    def step(self) -> dict[str, Any]:
        """One step; `others` is how many processors other programs kept busy meanwhile."""
        busy, own, start = busy_seconds(), self._used(), time.perf_counter()
        found = self._ask("step")
        if self.tokens and found["tokens"] != self.tokens:
            raise SystemExit(f"{self.name} sampled {found['tokens']} tokens instead of {self.tokens}")
        wall = time.perf_counter() - start
        return found | {"others": max(0.0, busy_seconds() - busy - (self._used() - own)) / wall}

    def quiet_step(self, patience: float) -> dict[str, Any]:
        """A step that other programs left alone, or the least disturbed one begun within `patience` seconds."""
        started = time.perf_counter()
        found = self.step()
        while found["others"] > QUIET and time.perf_counter() - started < patience:
            time.sleep(0.5)
            found = min(found, self.step(), key=lambda step: step["others"])
        return found

    def end(self) -> dict[str, Any]:
        found = self._ask("end")
        self.process.wait(60)
        return found

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def _used(self) -> float:
        # After the name, which may hold spaces: fields 14 and 15 of the whole line are user and system time.
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _ask(self, command: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        found = self._answer()
        if command == "step":
            self.freeze()
        return found

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        if not text:
            raise SystemExit(f"{self.name} failed; the end of {self.log}:\n{self.log.read_text()[-2000:]}")
        found: dict[str, Any] = json.loads(text)
        return found


def busy_seconds() -> float:
    """Seconds that the processors were busy since the machine started, all programs together."""
    fields = [int(number) for number in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    user, nice, system, _, _, interrupts, more = fields[:7]
    return (user + nice + system + interrupts + more) / os.sysconf("SC_CLK_TCK")


def busy_share() -> float:
    """Processors in use now, while this program rests for a second."""
    before = busy_seconds()
    time.sleep(1.0)
    return busy_seconds() - before


def take_turns(sides: Sequence[Side], rounds: int, seconds: float, patience: float) -> None:
    """A warm-up step each, then `rounds` rounds, up to four times as many within `seconds`, or one where it is slow."""
    for side in sides:
        side.step()
    started = time.perf_counter()
    for turn in range(4 * rounds):
        passed = time.perf_counter() - started
        if passed > seconds and (turn >= rounds or passed > 5 * seconds):
            break
        for side in sides if turn % 2 else reversed(sides):
            side.steps.append(side.quiet_step(patience))


def spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def clock_of(*sides: Side) -> str:
    """Processor seconds where all run on one thread, so that other programs do not count; else wall-clock seconds."""
    return "processor" if all(side.about["threads"] == 1 for side in sides) else "seconds"


def ratio(above: Side, below: Side, part: str, clock: str | None = None) -> dict[str, float]:
    """`above` over `below` within rounds."""
    clock = clock or clock_of(above, below)
    return spread([a[clock][part] / b[clock][part] for a, b in zip(above.steps, below.steps, strict=True)])


def floor_fraction(side: Side, part: str) -> float:
    """The floor's time over that measured."""
    clock = clock_of(side)
    return statistics.median(step[f"floor_{part}"] / step["rate"] / step[clock][part] for step in side.steps)


def compare(case: Case, quick: bool, threads: int | None) -> dict[str, Any]:
    """All figures of a case. Ours has as many threads as TRL's best settings, both one where the processors are busy.

    Unless `quick`, ours also runs with the threads it would choose by itself, and TRL with pure bf16 weights.
    """
    build_model(case)
    settings = best_settings(case)
    settings = replace(settings, threads=threads or (1 if busy_share() > QUIET else settings.threads))
    same = replace(settings, compute="fp32")
    wanted = {"ours": same, "ours bf16": replace(same, compute="bf16"), "trl": settings}
    if not quick:
        wanted["ours by default"] = Settings(threads=0, wait="", compute="fp32")
        wanted["trl bf16 weights"] = replace(settings, weights="bfloat16", compute="bf16")
    rounds, seconds = (2, 8.0) if quick else (5, 30.0)
    sides: list[Side] = []
    try:
        for name, setting in wanted.items():
            sides.append(Side.start(name, case, setting))
        patience = 0.0 if settings.threads == 1 else 12.0 if quick else 60.0
        take_turns(sides, rounds, seconds, patience)
        memory = {side.name: side.end()["memory"] for side in sides}
    finally:
        for side in sides:
            side.kill()
    return figures(case, {side.name: side for side in sides}, memory) | {"trl_settings": asdict(settings)}


def figures(case: Case, sides: Mapping[str, Side], memory: Mapping[str, float]) -> dict[str, Any]:
    """The case's figures from what its sides measured."""
    ours, trl = sides["ours"], sides["trl"]
    first = ours.steps[0]
    found: dict[str, Any] = {
        "name": case.name,
        "sampling_ratio": ratio(trl, ours, "sampling")["median"],
        "step_ratio": ratio(trl, ours, "step")["median"],
        "memory_ratio": memory["ours"] / memory["trl"],
        "floor_fraction_sampling": floor_fraction(ours, "sampling"),
        "floor_fraction_learner": floor_fraction(ours, "learner"),
        "rounds": len(ours.steps),
        "parameters": ours.about["parameters"],
    }
    for part in ("sampling", "step"):
        found[f"{part}_spread"] = ratio(trl, ours, part)
        found[f"{part}_ratio_processor"] = ratio(trl, ours, part, "processor")["median"]
        found[f"{part}_ratio_wall"] = ratio(trl, ours, part, "seconds")["median"]
        # The other variants of one side against the plain one of the other.
        found[f"{part}_ratio_of"] = {
            name: (ratio(side, ours, part) if name.startswith("trl") else ratio(trl, side, part))["median"]
            for name, side in sides.items()
            if side not in (ours, trl)
        }
    return found | {
        "gflops_fp32": statistics.median(step["rate"] for step in ours.steps) / 1e9,
        "floor_seconds": {part: first[f"floor_{part}"] / first["rate"] for part in ("sampling", "learner")},
        "clock": clock_of(ours, trl),
        "seconds": {name: _medians(side) for name, side in sides.items()},
        "memory_mib": dict(memory),
        "tokens": {name: statistics.median(step["tokens"] for step in side.steps) for name, side in sides.items()},
        "threads": {name: side.about["threads"] for name, side in sides.items()},
        "others": {name: max(step["others"] for step in side.steps) for name, side in sides.items()},
    }


def _medians(side: Side) -> dict[str, float]:
    clock = clock_of(side)
    return {part: statistics.median(step[clock][part] for step in side.steps) for part in side.steps[0][clock]}


def best_settings(case: Case) -> Settings:
    """What `--tune` found for this case, else what is fastest for most."""
    stored: Mapping[str, Any] = json.loads(BEST.read_text()) if BEST.exists() else {}
    return Settings(**stored[case.name]["settings"]) if case.name in stored else Settings(attention=case.attention)


def tune(case: Case, rounds: int) -> dict[str, Any]:
    """Runs TRL with every setting of the grid in turn and stores the fastest that learns."""
    build_model(case)
    sides: list[Side] = []
    try:
        sides += [Side.start(f"tune {number}", case, settings) for number, settings in enumerate(GRID)]
        take_turns(sides, rounds, 0.0, patience=20.0)
    finally:
        for side in sides:
            side.kill()
    seconds = {
        settings.label: statistics.median(step["seconds"]["step"] for step in side.steps)
        for settings, side in zip(GRID, sides, strict=True)
    }
    best = min(GRID, key=lambda settings: seconds[settings.label])
    stored = json.loads(BEST.read_text()) if BEST.exists() else {}
    disturbance = max(step["others"] for side in sides for step in side.steps)
    stored[case.name] = {"settings": asdict(best), "seconds_per_step": seconds, "others": disturbance}
    BEST.write_text(json.dumps(stored, indent=1) + "\n")
    return stored[case.name]  # type: ignore[no-any-return]


def set_up() -> None:
    """Makes TRL's environment: torch first and by exact pin, so that no other package brings another build of it."""
    constraints = ROOT / "constraints.txt"
    torch = next(line for line in constraints.read_text().splitlines() if line.startswith("torch=="))
    pip = [str(TRL_PYTHON), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    subprocess.run([sys.executable, "-m", "venv", str(TRL_PYTHON.parent.parent)], check=True)
    subprocess.run([*pip, torch], check=True)
    subprocess.run([*pip, "-c", str(constraints), torch, "trl", "datasets", "transformers", "accelerate"], check=True)


def machine() -> dict[str, Any]:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    shown = subprocess.run([str(TRL_PYTHON), "-m", "pip", "list", "--format=json"], capture_output=True, check=True)
    versions = {one["name"]: one["version"] for one in json.loads(shown.stdout)}
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        **{name: versions.get(name) for name in ("torch", "trl", "transformers")},
    }


def show(found: Mapping[str, Any]) -> None:
    threads = found["threads"]["ours"]
    print(
        f"\n{found['name']}: {found['parameters'] / 1e6:.1f} M parameters, {found['rounds']} rounds, {threads} threads"
    )
    for part in ("sampling", "step"):
        seen = found[f"{part}_spread"]
        others = "".join(f"; {name} {value:.1f}" for name, value in found[f"{part}_ratio_of"].items())
        print(
            f"  {part:9s} TRL {found['seconds']['trl'][part]:.2f} s, ours {found['seconds']['ours'][part]:.2f} s: "
            f"{seen['median']:.1f} times ({seen['least']:.1f} to {seen['most']:.1f}), processor time "
            f"{found[f'{part}_ratio_processor']:.1f}, wall {found[f'{part}_ratio_wall']:.1f}{others}"
        )
    memory = ", ".join(f"{name} {size:.0f}" for name, size in found["memory_mib"].items())
    print(f"  memory    {found['memory_ratio']:.2f} of TRL's (MiB: {memory})")
    print(
        f"  floor     sampling {100 * found['floor_fraction_sampling']:.0f} %, learner "
        f"{100 * found['floor_fraction_learner']:.0f} % of {found['gflops_fp32']:.0f} GFLOP/s fp32"
    )
    disturbed = {name: round(value, 2) for name, value in found["others"].items() if value > QUIET}
    if disturbed:
        print(f"  disturbed by other programs, processors: {disturbed}")


def work(order: str) -> None:
    """A worker's whole life."""
    given = json.loads(order)
    case = Case(**given["case"])
    (run_trl if given["trl"] else run_ours)(case, Settings(**given["settings"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = {case.name: case for case in CASES}
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(known)}; all when none is named")
    parser.add_argument("--setup", action="store_true", help="make TRL's environment and stop")
    parser.add_argument("--tune", action="store_true", help="look for TRL's fastest settings for the cases and stop")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and TRL with fp32 master weights only")
    parser.add_argument("--threads", type=int, help="of both sides; TRL's best, or 1 on busy processors")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # So that workers, frozen or not, are ended.
    if options.worker:
        work(options.worker)
        return
    unknown = [name for name in options.cases if name not in known]
    if unknown:
        parser.error(f"there is no case {unknown[0]!r}; choose from {', '.join(known)}")
    if options.setup:
        set_up()
        return
    if not TRL_PYTHON.exists():
        parser.error("TRL is not installed; run python benchmarks/vs_trl.py --setup first")
    chosen = [known[name] for name in options.cases] or list(CASES)
    if options.tune:
        print(json.dumps({case.name: tune(case, 2) for case in chosen}, indent=1))
        return
    found = []
    for case in chosen:
        found.append(compare(case, options.quick, options.threads))
        if not options.json:
            show(found[-1])
    if options.json:
        json.dump({"machine": machine(), "cases": found}, sys.stdout, indent=1)
        print()


if __name__ == "__main__":
    main()
