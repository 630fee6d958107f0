"""MAC-Flow: joint behaviour as a flow, distilled into policies of one step that follow values (Lee et al.).

Two steps in one loss. A flow imitates what the whole team did, from normal noise z at level 0 to actions a at level 1,

    |v(t, o, x_t) - (a - z)|^2,   x_t = (1 - t) z + t a,   o, a, z, v of all agents and one t for the team.

Each agent has a policy of one step, mu_i(o_i, z_i), which reads what the agent itself sees and noise of its own. It is
trained to end where the joint flow takes the same noise, and to earn more by a value that is the mean of agents' own,

    -Q(o, mu) / mean |Q(o, mu)| + alpha sum_i |mu_i(o_i, z_i) - flow_i(o, z)|^2 / n,   Q(o, a) = 1/n sum_i Q(o_i, a_i),

so that the team's best action is made of each agent's best. In play the policies alone act, in one pass. As the noises
of agents are independent there, what they do in one state is too, whatever the flow does.

Sources: arXiv:2511.05005; the authors' code for the critics, the scale of Q and the constants. In that code the flow
of an agent reads what the agent alone sees and has levels of its own, which makes no joint distribution; here it is
joint, as in the paper. Squared distances are sums over an action's numbers, where that code has means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from hocket.core.batch import Batch, Level
from hocket.core.errors import ConfigurationError
from hocket.core.stored_rows import GOES_ON, NOISE, TEAM_PAID
from hocket.methods.base.bc import BC
from hocket.methods.generative.mac_flow.records import RecordedTeams
from hocket.objectives.action_values import PathwiseLoss, TeamCriticLoss
from hocket.policies.action_values import VectorValues, critics_of, following, joined
from hocket.policies.control_networks import Perceptron
from hocket.policies.control_parts import EvaluatedRows, Links, PartHost
from hocket.policies.team_values import TeamRows
from hocket.policies.value_heads import ChosenCandidate
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms
from hocket.update.following import FollowingStep

NOISES = 4
"""Of a decision: of the flow's noisy action, of its level (the first agent's first number), of the distilled action,
and of the action that follows."""


class OneStep(nn.Module):
    """A network that makes an action of what an agent sees and of noise.

    Its own output is what it reads: a distribution is made of that.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, seen: Tensor) -> Tensor:
        return seen

    def action(self, seen: Tensor, noise: Tensor) -> Tensor:
        """Actions `[B, A]`, not yet cut off at the ends of the range."""
        reached: Tensor = self.network(torch.cat([seen, noise], 1))
        return reached


class JointFlow(nn.Module):
    """A flow of the actions of n agents, `[R, n A]`, by what all of them see, `[R, n O]`."""

    def __init__(self, network: nn.Module, steps: int) -> None:
        super().__init__()
        self.network, self.steps = network, steps

    def velocity(self, sights: Tensor, noisy: Tensor, level: Tensor) -> Tensor:
        """Where noise leads, `[R, n A]`, at levels `[R, 1]`."""
        predicted: Tensor = self.network(torch.cat([sights, noisy, level], 1))
        return predicted

    @torch.no_grad()
    def flowed(self, sights: Tensor, noise: Tensor) -> Tensor:
        """The actions from noise `[R, n A]`, by Euler's steps."""
        action = noise
        for step in range(self.steps):
            level = torch.full_like(noise[:, :1], step / self.steps)
            action = action + self.velocity(sights, action, level) / self.steps
        return action.clamp(-1.0, 1.0)


@dataclass(frozen=True)
class OneStepForm:
    """The form of actions of `size` numbers that one step makes of noise; greedy play takes noise 0."""

    size: int

    densities: ClassVar[bool] = False

    @property
    def draws(self) -> int:
        return self.size

    def actor(self, link: Links) -> OneStep:
        return OneStep(link(self.size, "actor", self.size))

    def head(self, outputs: Tensor, actor: nn.Module, allowed: Tensor | None, taken: Tensor | None) -> ChosenCandidate:
        network = cast(OneStep, actor)

        def choose(normals: Tensor) -> Tensor:
            return network.action(outputs, normals).clamp(-1.0, 1.0)

        return ChosenCandidate(torch.zeros(self.size), choose, len(outputs))

    def config(self) -> Mapping[str, Any]:
        return {"head": "one step"}


@dataclass(frozen=True)
class TeamFlow(VectorValues):
    """Critics of each agent's own, a joint flow, and an actor of one step that all agents share.

    Rows are of `RecordedTeams`. Agents that have ended count as value 0.

    Attributes:
        steps: of the flow. random: of recorded decisions none need to be uniform, so 0.
    """

    steps: int = 10
    random: int = 0

    needed: ClassVar[str] = "critics and a joint flow of a team's actions"
    groups: ClassVar[Mapping[str, str]] = {**VectorValues.groups, "flow": "flow"}
    quantities: ClassVar[frozenset[Quantity]] = frozenset(
        {Quantity.ACTION_VALUE, Quantity.BACKUP, Quantity.PATHWISE, Quantity.DENOISING, Quantity.DISTILLATION}
    )

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps must be at least 1, not {self.steps}")

    def begin(self, host: PartHost) -> None:
        world = getattr(host.spaces, "world", None)
        if world is None or len(world.agents) < 2:
            raise ConfigurationError(
                f"policy {host.name!r}: a joint flow is of a team, and this task has one agent; choose a task of "
                "several agents such as meeting:pair"
            )
        super().begin(host)
        agents = len(world.agents)
        inputs, outputs = agents * (host.observations + host.actions) + 1, agents * host.actions
        network = Perceptron(
            (inputs, *host.hidden, outputs),
            last_gain=1.0,
            key=host.key.derive("flow"),
            activation=host.network.activation,
        )
        host.module.flow = JointFlow(network, self.steps)

    def _form(self, host: PartHost) -> OneStepForm:
        return OneStepForm(host.actions)

    def evaluated(self, host: PartHost, wanted: frozenset[Quantity], rows: EvaluatedRows) -> Mapping[Quantity, Tensor]:
        team, quantities = TeamRows.of(rows, host.name), dict[Quantity, Tensor]()
        if Quantity.ACTION_VALUE in wanted:
            quantities[Quantity.ACTION_VALUE] = _mean(team, critics_of(host)(joined(rows.seen, rows.action)))[team.row]
        if Quantity.BACKUP in wanted:
            with torch.no_grad():
                quantities[Quantity.BACKUP] = self._team_backup(host, rows, team)[team.row]
        return {**quantities, **self._of_team(host, wanted, rows, team)}

    def _team_backup(self, host: PartHost, rows: EvaluatedRows, team: TeamRows) -> Tensor:
        """What the team's value should be, `[R]`: by the mean of slow critics where the policies act."""
        later, goes_on = following(host, rows), rows.column(GOES_ON)
        action = cast(OneStep, host.module.actor).action(later, _noise(rows)[:, 3])
        value = critics_of(host, "slow")(joined(later, action)).mean(1, keepdim=True) * (goes_on > 0)[:, None]
        return rows.column(TEAM_PAID)[team.first] + team.table(goes_on).amax(1) * _mean(team, value)[:, 0]

    def _of_team(
        self, host: PartHost, wanted: frozenset[Quantity], rows: EvaluatedRows, team: TeamRows
    ) -> Mapping[Quantity, Tensor]:
        quantities, noise = dict[Quantity, Tensor](), _noise(rows)
        flow, sights = cast(JointFlow, host.module.flow), _side_by_side(team, rows.seen)
        if Quantity.DENOISING in wanted:
            action = _side_by_side(team, rows.action.to(rows.seen.dtype).clamp(-1.0, 1.0))
            normal = _side_by_side(team, noise[:, 0])
            level = torch.special.ndtr(_side_by_side(team, noise[:, 1])[:, :1])
            error = flow.velocity(sights, normal + level * (action - normal), level) - (action - normal)
            quantities[Quantity.DENOISING] = _of_agents(team, error).square().sum(1)
        if wanted & {Quantity.PATHWISE, Quantity.DISTILLATION}:
            action = cast(OneStep, host.module.actor).action(rows.seen, noise[:, 2])
            if Quantity.DISTILLATION in wanted:
                target = _of_agents(team, flow.flowed(sights, _side_by_side(team, noise[:, 2])))
                quantities[Quantity.DISTILLATION] = (action - target).square().sum(1)
            if Quantity.PATHWISE in wanted:
                value = critics_of(host)(joined(rows.seen, action), frozen=True).mean(1)
                scale = _mean(team, value[:, None]).detach().abs().mean().clamp(min=1e-6)
                quantities[Quantity.PATHWISE] = -value / scale
        return quantities


def _noise(rows: EvaluatedRows) -> Tensor:
    noise = rows.column(NOISE)
    if noise.shape[1] != NOISES:
        raise ConfigurationError(
            f"this policy reads {NOISES} noises a decision, and the store draws {noise.shape[1]}; set store to "
            f"{{type: hocket.methods.generative.mac_flow.records.RecordedTeams, noises: {NOISES}}}"
        )
    return noise


def _mean(team: TeamRows, values: Tensor) -> Tensor:
    """The means over agents of each critic's values `[K, E]`: `[R, E]`."""
    return torch.stack([team.table(column).sum(1) / team.size for column in values.unbind(1)], 1)


def _side_by_side(team: TeamRows, values: Tensor) -> Tensor:
    """Vectors of agents `[K, D]` by row, `[R, n D]`; 0 for those that do not count."""
    blank = values.new_zeros(len(team.first), team.size, values.shape[1])
    return blank.index_put((team.row, team.agent), values * team.live[:, None]).flatten(1)


def _of_agents(team: TeamRows, values: Tensor) -> Tensor:
    """The vectors of each agent `[K, D]` among those of rows, `[R, n D]`."""
    return values.reshape(len(values), team.size, -1)[team.row, team.agent]


@dataclass(frozen=True)
class FlowDistillation(Objective):
    """Minimises |v(t, o, x_t) - (a - z)|^2 + alpha |mu_i(o_i, z_i) - flow_i(o, z)|^2, as means over agents and rows.

    Attributes:
        alpha: how strongly the policies of one step are kept to the joint flow.
    """

    alpha: float = 0.3

    couples: ClassVar[Level] = Level.TRAJECTORY
    idle_without_advantage: ClassVar[bool] = False
    learns_from_rows: ClassVar[bool] = True
    learns_from_teams: ClassVar[bool] = True
    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.DENOISING, Quantity.DISTILLATION})

    def __post_init__(self) -> None:
        if self.alpha < 0:
            raise ValueError(f"alpha must be at least 0, not {self.alpha}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        error, distance, occurrences = now.get(Quantity.DENOISING), now.get(Quantity.DISTILLATION), batch.occurrences
        weight = occurrences.weight.to(error.dtype)
        share = weight / weight.count_nonzero().clamp(min=1)
        metrics = {"flow/error": error.detach().mean(), "actor/from_flow": distance.detach().mean()}
        return Terms((error + self.alpha * distance)[occurrences.decision], share, metrics=metrics)


MAC_FLOW = BC.but(
    name="mac-flow",
    title="Multi-agent coordination by a joint flow and policies of one step",
    source="Multi-agent Coordination via Flow Matching, Lee et al., arXiv:2511.05005; the authors' code",
    family="multi-agent",
    catalogue_ids=("mac-flow",),
    axes=("policy", "team", "objective"),
    formula="L = |v(t, o, x_t) - (a - z)|^2 + alpha |mu_i(o_i, z_i) - flow_i(o, z)|^2 - Q(o, mu) / mean |Q(o, mu)| + "
    "1/2 sum_k (1/n sum_i Q_k(o_i, a_i) - y)^2,  y = r + gamma 1/n sum_i mean_k Q-_k(o'_i, mu_i(o'_i, z'_i))",
    conventions={
        **BC.conventions,
        "rows": "moments of the whole team, drawn independently; r is the mean over agents",
        "agents": "share one network of one step and one of critics, with a one-hot number of each",
        "flow": "joint, from noise at level 0 to actions at level 1 in 10 steps, as in the paper; in the authors' code "
        "each agent's reads what the agent alone sees",
        "values": "the team's is the mean of its agents', and the mean of 2 critics, as in the authors' code",
        "slow copies": "of the critics, tau 0.005, after every gradient",
        "play": "greedy play takes noise 0; log-probs are unknown, for what one step makes of noise has no density",
    },
    task="meeting:pair",
    store=RecordedTeams(gradients_per_step=500, begin=1, rows=128, noises=NOISES, gamma=0.9),
    objective=TeamCriticLoss(TeamFlow()),
    regularisers=(PathwiseLoss(), FlowDistillation()),
    update=FollowingStep(lr=3e-4, clip_norm=None),
)
