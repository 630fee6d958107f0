"""Claims about wireless networks and language models."""

from __future__ import annotations

import math
from statistics import fmean

import torch

from hocket.apps.report import map as maps
from hocket.core.compression import Blocks
from hocket.core.keys import Key
from hocket.core.surveys import Gap
from hocket.distributed.swarm.averaging import Averaging, flat
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.claims.lesson_data import Pupil, after_lessons, begin
from hocket.methods.surveys.wireless_rl_llm_survey import WIRELESS_RL_LLM_SURVEY as SURVEY
from hocket.methods.surveys.wireless_rl_llm_survey import SharedUplink
from hocket.train.aio import run_async
from hocket.types import Assignment

claim = Claims("wireless-rl-llm-survey", "abstract")

NODES, EVERY, ROUNDS = ("phone", "car"), 5, 6


def _nodes(**settings: float) -> dict[str, Pupil]:
    """The shipped model on every node, each with sums of its own."""
    return {name: begin("grpo", "sums", {"seed": place, **settings}) for place, name in enumerate(NODES)}


def _averaging(nodes: dict[str, Pupil], uplink: SharedUplink, bits: int = 8) -> Averaging:
    policies = {name: {"policy": pupil.parts.lead.policy} for name, pupil in nodes.items()}
    return Averaging(policies, blocks=Blocks(bits=bits), deliver=uplink)  # type: ignore[arg-type]


def _exchange(averaging: Averaging, uplink: SharedUplink, number: int) -> float:
    """A round over the uplink; the bytes of an update."""
    return averaging.exchange(dict.fromkeys(uplink.round(number), 1))["average/bytes"]


@claim(
    "An update takes a byte or half of one for a weight and four for each 1,024, counted by hand, and 1 % at most.",
    slow=True,
)
def an_update_takes_a_byte_a_weight() -> Finding:
    nodes, counted = _nodes(), dict[int, float]()
    weights = len(flat(nodes["car"].parts.lead.policy))
    for bits in (8, 4):
        uplink = SharedUplink(10**9, NODES)
        counted[bits] = _exchange(_averaging(nodes, uplink, bits), uplink, 0)
    blocks = math.ceil(weights / 1024)
    over = {bits: size / (blocks * (1024 * bits / 8 + 4)) - 1 for bits, size in counted.items()}
    holds = all(-0.002 < value < 0.01 for value in over.values())
    figures = say(weights=weights, bytes_of_8_bits=counted[8], bytes_of_4_bits=counted[4])
    return Finding(holds, f"{figures}, {8 * counted[8] / 1e6:.1f} s at 1 Mbit/s")


@claim(
    "What the uplink does not carry is not lost: the nodes are first in turn, and a change waits for the next round."
)
def what_the_uplink_does_not_carry_waits() -> Finding:
    nodes = _nodes()
    size = len(flat(nodes["car"].parts.lead.policy)) * 1.1
    uplink, closed = SharedUplink(int(size), NODES), SharedUplink(0, NODES)
    averaging = _averaging(nodes, uplink)
    start = averaging.shared.values["policy"].clone()
    for place, name in enumerate(NODES):  # Each node's change is another number.
        for weight in nodes[name].parts.lead.policy.module.parameters():
            weight.data += 0.5 ** (place + 1)
    off = []
    for number, due in enumerate((0.5, 0.25)):  # The phone's change arrives first, then what the car has kept.
        before = averaging.shared.values["policy"].clone()
        _exchange(averaging, uplink, number)
        off.append(float((averaging.shared.values["policy"] - before - due).abs().max()))
    counts = uplink.sent == {"phone": 1, "car": 1} and uplink.lost == {"car": 1, "phone": 1}
    shut = _averaging(_nodes(), closed)
    _exchange(shut, closed, 0)
    still = torch.equal(shut.shared.values["policy"], start) and not closed.sent
    return Finding(max(off) < 1e-5 and counts and still, say(off=max(off), sent=sum(uplink.sent.values())))


@claim(
    "The network serves the model: two nodes that train the shipped model by GRPO on sums of their own, over an uplink "
    "that carries one of their two updates in a round, raise its success by 15 points, for a tenth of the bytes that "
    "gradients would take at every step or less.",
    slow=True,
    learns=True,
)
def the_network_serves_the_model() -> Finding:
    nodes = _nodes(**{"update.lr": 3e-4, "curriculum.prompts": 8})
    weights = len(flat(nodes["car"].parts.lead.policy))
    uplink = SharedUplink(int(weights * 1.1), NODES)
    averaging, before = _averaging(nodes, uplink), _success(nodes["car"])
    for number in range(ROUNDS):
        for pupil in nodes.values():
            pupil.run(EVERY)
        update = _exchange(averaging, uplink, number)
    after, gradients = _success(nodes["car"]), 4 * weights * EVERY
    same = all(
        torch.equal(flat(pupil.parts.lead.policy), averaging.shared.values["policy"]) for pupil in nodes.values()
    )
    share = update / gradients
    holds = after > before + 0.15 and share < 0.1 and same and sum(uplink.lost.values()) == ROUNDS
    return Finding(holds, say(before=before, after=after, bytes_of_an_update=update, of_gradients=share))


def _success(pupil: Pupil, count: int = 100) -> float:
    """Of samples of unseen sums."""
    parts = pupil.parts
    attempts = [Assignment(parts.task.scenario("eval", number), 2, parts.decoding) for number in range(count)]
    return fmean(map(parts.task.success, run_async(parts.player.play(attempts, key=Key.of(0).derive("uplink")))))


@claim(
    "The model serves the network: after lessons a step of `llm4mac` on `uplink` tells the answers of nodes apart.",
    slow=True,
)
def the_model_serves_the_network() -> Finding:
    settings = {"curriculum.prompts": 4, "rollout.samples": 4}
    pupil = after_lessons("llm4mac", "uplink", "lessons:uplink", settings, steps=30).run(1)
    batch, delivered = pupil.results[0].batch, pupil.mean("reward/mean", 1)
    spread = 0.0 if batch is None else float(batch.occurrences.advantage.std())
    return Finding(spread > 0 and delivered > 0, say(spread_of_advantages=spread, delivered=delivered))


@claim("Both directions, what is decided, what the network does and what stands in the way: a recipe or a stated gap.")
def both_directions_have_recipes() -> Finding:
    problems = maps.problems(SURVEY)
    gaps = [cell.name for axis in SURVEY.axes for cell in axis.cells if isinstance(cell.holds, Gap)]
    directions = [len(maps.members(cell.holds)) for cell in SURVEY.axes[0].cells]
    return Finding(not problems and min(directions) > 0 and len(gaps) == 3, say(problems=len(problems)) + f", {gaps}")
