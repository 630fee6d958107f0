"""MAC-SPGG: PPO for a chain of agents paid as in a public-goods game (Liang et al., arXiv:2508.02076).

Agents answer one after another, having read the earlier answers (`PublicGoods`); the payoff (`PublicGood`) shares the
good, charges for effort and adds a bonus that makes contributing worth more than it costs. Advantages are each agent's
own (`EachAgent` of `hocket.credit.each_agent`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from hocket.agents.workflows.reply import Reply
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow, asked, with_line
from hocket.core.casting import Separate
from hocket.core.columns import InfoColumn
from hocket.credit.each_agent import EachAgent
from hocket.methods.base.ppo import PPO
from hocket.types import Scenario

CONTRIBUTIONS = InfoColumn("contributions", "What each agent gave.")
EFFORTS = InfoColumn("efforts", "What each agent's giving cost it.")


Effort = Literal["length", "quality"]


@dataclass(frozen=True)
class PublicGood:
    """The payoffs of a public-goods game with contributions c:

        u_i = (multiplier / n) sum_j c_j - cost e_i + bonus c_i [sum_j c_j >= threshold]

    with effort e_i = c_i where none is given. With bonus 0 it is the classical game, in which nothing is the best
    contribution for multiplier / n < cost. The bonus is a redesign chosen here, in the manner of MAC-SPGG (arXiv
    2508.02076), whose code's description names a cost, a bonus for cooperation, the shared good and a threshold of
    joint success, but gives no formula. Without threshold, all is the best contribution, whatever the others do,
    exactly for bonus > cost - multiplier / n; see `hocket.methods.teams.mac_spgg.sequential` for what a threshold
    changes.

    Attributes:
        threshold: of the sum, from which on the bonus is paid; None pays it always.
    """

    multiplier: float = 1.5
    cost: float = 1.0
    bonus: float = 1.0
    threshold: float | None = None

    def __call__(self, contributions: Sequence[float], efforts: Sequence[float] | None = None) -> list[float]:
        """What each agent gets."""
        total = sum(contributions)
        paid = self.bonus if self.threshold is None or total >= self.threshold else 0.0
        share = self.multiplier / len(contributions)
        spent = contributions if efforts is None else efforts
        return [share * total - self.cost * e + paid * c for c, e in zip(contributions, spent, strict=True)]


@dataclass(frozen=True)
class PublicGoods(Workflow):
    """`agents` answer in turn, each having read the earlier answers; the last answer is the team's: MAC-SPGG.

    A contribution is the task's verdict on the agent's answer; its effort is the share of the allowed tokens that the
    answer took (cost per token), or with effort `quality` the contribution itself, as in the game of the paper
    (arXiv 2508.02076). What each earns is `PublicGood`'s, a reward of its own turn.

    Attributes:
        agents: how many. multiplier, cost, bonus: see `PublicGood`. threshold: likewise; 0 pays the bonus always.
        effort: what the cost is of. shown: an agent reads `all` earlier answers or the `last` alone.
    """

    name = "public-goods"
    description = "agents answer in turn, paid for effort together (MAC-SPGG)"

    agents: int = 3
    multiplier: float = 1.5
    cost: float = 1.0
    bonus: float = 1.0
    threshold: float = 0.0
    effort: str = "length"
    shown: str = "all"

    scores = True

    def __post_init__(self) -> None:
        if self.agents < 2:
            raise ValueError(f"agents must be at least 2, not {self.agents}")
        if self.effort not in get_args(Effort) or self.shown not in ("all", "last"):
            raise ValueError(f"effort is length or quality and shown all or last, not {self.effort!r}, {self.shown!r}")

    @property
    def roles(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(f"agent_{number}" for number in range(1, self.agents + 1))

    @property
    def game(self) -> PublicGood:
        return PublicGood(self.multiplier, self.cost, self.bonus, self.threshold)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        question = asked(team.assignment)
        said: list[Reply] = []
        for role in self.roles:
            told = self._told(said)
            said.append(await team[role](with_line(question, told) if told else question))
        given = [team.verify(one) for one in said]
        most = team.assignment.decoding.max_tokens
        spent = [len(one.tokens) / most for one in said] if self.effort == "length" else given
        payoffs = dict(zip(said, self.game(given, spent), strict=True))
        info = {CONTRIBUTIONS.name: given, EFFORTS.name: spent}
        return Outcome(answer=str(said[-1]), turn_rewards={"payoff": payoffs}, info=info)

    def _told(self, said: Sequence[Reply]) -> str:
        """The earlier answers, one a line."""
        lines = [f"Agent {number}: {one}" for number, one in enumerate(said, start=1)]
        return "\n".join(lines if self.shown == "all" else lines[-1:])


MAC_SPGG = PPO.but(
    name="mac-spgg",
    title="Multi-Agent Cooperation by a Sequential Public Goods Game",
    source="Liang et al., Everyone Contributes!, arXiv:2508.02076",
    family="teams",
    catalogue_ids=("mac-spgg",),
    axes=("team", "reward"),
    formula="u_i = rho/n sum_j q_j - k e_i + g q_i [sum_j q_j >= B];  each agent: PPO on its own u_i",
    conventions={
        **PPO.conventions,
        "payoff": "chosen here: the paper's abstract gives none; without B all is dominant iff g > k - rho/n",
        "contribution": "q_i, the task's verdict on the answer of agent i, which reads all earlier answers",
        "effort": "e_i, the share of the allowed tokens; workflow setting effort = quality makes it q_i, the game's",
        "weights": "rho = 1.5, k = 1, g = 1, B = 0, n = 3; workflow settings",
        "belief": "no model of its own: the agent's policy and value function read the earlier answers",
        "value, GAE and whitening": "each agent's own; the others are part of its environment",
        "role weights": "one policy each",
    },
    workflow="public-goods",
    cast=Separate(),
    credit=EachAgent(PPO.credit, by="policy"),
)
