"""A step of flow-grpo on a Stable Diffusion 3 of random weights beside a plain loop over the same parts of diffusers.

    pip install 'hocket[diffusion]'
    python benchmarks/vs_diffusion.py                 time in turn, then the peak memory of each in a process of its own
    python benchmarks/vs_diffusion.py --rounds 9 --json

The plain loop has the shape of flow_grpo's script: it draws all pictures without gradient, keeps states and log-probs,
then goes over every batch and step again with gradient, clips ratios and makes one step of AdamW. It knows no groups,
so pictures whose group was paid alike are evaluated as well. Ours leaves them out. Both draw as many pictures by as
many steps in batches of one size, decode them for the reward, and train all weights in fp32 on one thread.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from bench import ROOT, machine, spread

sys.path.insert(0, str(ROOT / "tests"))

import tiny_pipelines

import hocket
from hocket import tasks
from hocket.core.noise_laws import FlowSDE
from hocket.policies.denoising.pipelines import PipelineSampler
from hocket.rewards.functions import FunctionReward

PROMPTS = ("a red cat", "a blue dog", "a night sign", "a red sign")
UNSEEN = {"prompt": "a dog", "place": 0, "split": "eval"}
SAMPLES, STEPS, BLOCK, SIZE = 8, 6, 8, 32
LEVEL, CLIP, RATE = 0.7, 1e-4, 3e-5
LIVE: Mapping[str, int] = {"all groups live": len(PROMPTS), "half of them": len(PROMPTS) // 2}
"""How many prompts have pictures that are paid differently, by case."""


def brightness(pictures: Sequence[Any]) -> list[float]:
    """The reward of a picture `[H, W, 3]`."""
    return [float(picture.mean()) / 255 for picture in pictures]


class Ours:
    """`hocket train --recipe flow-grpo` on the folder of a pipeline."""

    def __init__(self, folder: Path, live: int) -> None:
        def reward(trajectories: Sequence[Any], place: Sequence[int], **columns: Any) -> list[float]:
            paid = brightness([trajectory.final_state for trajectory in trajectories])
            return [value if number < live else 0.0 for value, number in zip(paid, place, strict=True)]

        rows = [{"prompt": prompt, "place": place, "split": "train"} for place, prompt in enumerate(PROMPTS)]
        task = tasks.of([*rows, UNSEEN])
        settings: dict[str, Any] = {
            "model": f"{folder}?size={SIZE}",
            "recipe": "flow-grpo",
            "threads": 1,
            "precision": "fp32",
            "runs": str(folder / "runs"),
            "curriculum.prompts": len(PROMPTS),
            "rollout.samples": SAMPLES,
            "rollout.steps": STEPS,
            "rollout.window.count": STEPS,
            "evaluation.every": 0,
            "evaluation.n": 1,
        }
        self.trainer = hocket.Trainer(hocket.configure(task, **settings), task=task, rewards=[FunctionReward(reward)])
        policy: Any = self.trainer.parts.lead.policy
        assert isinstance(policy, PipelineSampler)
        policy.block = policy.chunk = BLOCK
        self.trainer.step()  # The evaluation before training.

    def step(self) -> None:
        """One step of training."""
        self.trainer.step()


class Plain:
    """The same step, written out."""

    def __init__(self, folder: Path, live: int) -> None:
        from diffusers import StableDiffusion3Pipeline

        self.live = live
        self.pipeline = StableDiffusion3Pipeline.from_pretrained(str(folder))
        self.pipeline.set_progress_bar_config(disable=True)
        self.network = self.pipeline.transformer.train()
        self.optimizer = torch.optim.AdamW(self.network.parameters(), RATE)
        with torch.no_grad():
            encoded = [self.pipeline.encode_prompt(prompt, None, None) for prompt in PROMPTS]
        self.prompts = torch.cat([parts[0] for parts in encoded]).repeat_interleave(SAMPLES, 0)
        self.pooled = torch.cat([parts[2] for parts in encoded]).repeat_interleave(SAMPLES, 0)
        self.pipeline.scheduler.set_timesteps(STEPS)
        self.levels = self.pipeline.scheduler.sigmas.double().numpy()

    def step(self) -> None:
        """One step of training."""
        states, logps = self._drawn()
        with torch.no_grad():
            vae = self.pipeline.vae
            decoded = [
                vae.decode(part / vae.config.scaling_factor + vae.config.shift_factor, return_dict=False)[0]
                for part in states[-1].split(BLOCK)
            ]
        pictures = ((torch.cat(decoded) / 2 + 0.5).clamp(0, 1) * 255).round().byte().permute(0, 2, 3, 1).numpy()
        paid = torch.tensor(brightness(pictures)).reshape(len(PROMPTS), SAMPLES)
        paid[self.live :] = 0.0
        advantages = ((paid - paid.mean(1, keepdim=True)) / (paid.std(1, keepdim=True) + 1e-4)).flatten()
        self._learn(states, logps, advantages)

    def _drawn(self) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """States `[B, ...]` from noise to the end, and the log-probs `[B]` of the steps between."""
        count, side = len(self.prompts), SIZE // self.pipeline.vae_scale_factor
        states, logps = [torch.randn(count, self.network.config.in_channels, side, side)], []
        with torch.no_grad():
            for number in range(STEPS):
                pairs = [self._law(number, states[-1][rows], rows) for rows in self._rows()]
                mean = torch.cat([pair[0] for pair in pairs])
                deviation = pairs[0][1]
                states.append(mean + deviation * torch.randn_like(mean))
                logps.append(self._density(states[-1], mean, deviation))
        return states, logps

    def _learn(self, states: list[torch.Tensor], logps: list[torch.Tensor], advantages: torch.Tensor) -> None:
        for rows in self._rows():
            for number in range(STEPS):
                mean, deviation = self._law(number, states[number][rows], rows)
                ratio = (self._density(states[number + 1][rows], mean, deviation) - logps[number][rows]).exp()
                advantage = advantages[rows]
                loss = torch.maximum(-advantage * ratio, -advantage * ratio.clamp(1 - CLIP, 1 + CLIP))
                torch.autograd.backward(loss.sum() / (len(advantages) * STEPS))
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _rows(self) -> list[slice]:
        return [slice(start, start + BLOCK) for start in range(0, len(self.prompts), BLOCK)]

    def _law(self, number: int, state: torch.Tensor, rows: slice) -> tuple[torch.Tensor, float]:
        """Mean and deviation of the next state."""
        velocity = self.network(
            hidden_states=state,
            timestep=torch.full((len(state),), 1000.0 * float(self.levels[number])),
            encoder_hidden_states=self.prompts[rows],
            pooled_projections=self.pooled[rows],
            return_dict=False,
        )[0]
        law = FlowSDE(LEVEL).step(self.levels, number)
        return law.state * state + law.prediction * velocity, law.deviation

    @staticmethod
    def _density(following: torch.Tensor, mean: torch.Tensor, deviation: float) -> torch.Tensor:
        """As flow_grpo has it: the mean over numbers, without the constant."""
        return -((following - mean).square() / (2 * deviation**2)).flatten(1).mean(1)


SIDES: Mapping[str, Callable[[Path, int], Ours | Plain]] = {"ours": Ours, "plain": Plain}


def pipeline(folder: Path) -> Path:
    """A Stable Diffusion 3 of a million weights that draws pictures of `SIZE`."""
    from diffusers import SD3Transformer2DModel

    tiny_pipelines.stable_diffusion_3(folder)
    torch.manual_seed(0)
    sizes = {"num_layers": 4, "attention_head_dim": 32, "num_attention_heads": 4, "caption_projection_dim": 128}
    read = {"joint_attention_dim": 32, "pooled_projection_dim": 32, "in_channels": 4, "out_channels": 4}
    network = SD3Transformer2DModel(sample_size=32, patch_size=2, pos_embed_max_size=32, **sizes, **read)
    with torch.no_grad():
        for weight in network.parameters():
            weight.normal_(0.0, 0.02)
    network.save_pretrained(folder / "transformer")
    return folder


def timed(folder: Path, live: int, rounds: int) -> dict[str, Any]:
    """Processor seconds of a step of each side, in turn; the first round warms up."""
    sides = {name: make(folder, live) for name, make in SIDES.items()}
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name, side in sides.items():
            before = time.process_time()
            side.step()
            if number:
                seconds[name].append(time.process_time() - before)
    ratios = [plain / ours for plain, ours in zip(seconds["plain"], seconds["ours"], strict=True)]
    return {"seconds": {name: sorted(of)[len(of) // 2] for name, of in seconds.items()}, "ratio": spread(ratios)}


def memory(folder: Path, side: str) -> float:
    """The peak of a process of its own that makes two steps, in MiB."""
    command = [sys.executable, __file__, "--side", side, "--folder", str(folder)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--side", choices=[*SIDES], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.side:
        side = SIDES[options.side](options.folder, len(PROMPTS))
        side.step()
        side.step()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        return
    with tempfile.TemporaryDirectory() as place:
        folder = pipeline(Path(place))
        found = {name: timed(folder, live, options.rounds) for name, live in LIVE.items()}
        peaks = {name: memory(folder, name) for name in SIDES}
    if options.json:
        json.dump({"machine": machine(), "cases": found, "memory_mib": peaks}, sys.stdout, indent=1)
        print()
        return
    for name, case in found.items():
        ratio, seconds = case["ratio"], case["seconds"]
        print(
            f"{name:16s} plain / ours {ratio['median']:.2f} ({ratio['least']:.2f} to {ratio['most']:.2f}), "
            f"ours {seconds['ours']:.2f} s, plain {seconds['plain']:.2f} s"
        )
    print(", ".join(f"{name} {peak:.0f} MiB" for name, peak in peaks.items()))


if __name__ == "__main__":
    main()
