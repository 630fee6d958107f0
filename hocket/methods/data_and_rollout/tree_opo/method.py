"""Tree-OPO: solutions completed from prefixes of a tree of traces, each credited against its prefix's value.

What a teacher's tree search found right, offline (`hocket traces`), is cut into prefixes (arXiv:2509.09284); prefixes
that traces share are one node of a tree. `PrefixTree` has every node completed, so a group holds samples that start at
different depths and are right with different probabilities. `PrefixValue` compares a sample with the samples at and
below its own prefix, not with the flat group, whose mean mixes how hard prefixes are into the credit; `TreeOrdered` is
the nearest credit that keeps the tree's order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from hocket.core.batch import Batch, GroupBy, Occurrences
from hocket.core.columns import InfoColumn
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.credit.units import trajectory_units
from hocket.methods.base.conventions import CENTRED
from hocket.methods.base.grpo import GRPO
from hocket.rollout.groups import groups
from hocket.rollout.rescue import HintAsPrefix
from hocket.stages import Credit, Grade, LedgerView, More, Play, Rollout, Tokenizer, tokenizer_of
from hocket.types import Assignment, Experience

PREFIX = InfoColumn(
    "prefix", "The way to the node that a sample begins from, numbers with a slash between; 0 is the bare prompt."
)
Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class PrefixTree(Rollout):
    """`samples` per node of the tree of a scenario's traces, the bare prompt its root, in the order of their depth.

    Traces are `metadata["traces"]`, each a text, a list of texts (its steps, which make up the text) or of actions;
    else the one `metadata["demonstration"]` (else the answer). One in steps is begun by every number of them but all;
    of any other the first `floor(share n)` tokens are imposed, for each of `shares`. Equal prefixes are one node, below
    the longest node that it goes on from. Imposed tokens carry no gradient and count in no denominator.

    Attributes:
        most: nodes beside the root; where there are more, so many are drawn, anew each time.
        metrics: `rollout/prefixes`, nodes of a tree; `rollout/branches`, how many of them have none below.
    """

    samples: int = 4
    shares: tuple[float, ...] = (0.25, 0.5, 0.75)
    most: int = 7
    reads_metadata: ClassVar[frozenset[str]] = frozenset({"demonstration"})

    def __post_init__(self) -> None:
        if self.samples < 1 or self.most < 1:
            raise ValueError(f"samples and most must be at least 1, not {self.samples} and {self.most}")
        if not self.shares or not all(0 < share < 1 for share in self.shares):
            raise ValueError(f"shares must be between 0 and 1, and one at least, not {self.shares}")

    async def collect(
        self,
        asked: Sequence[Assignment],
        *,
        play: Play,
        score: Grade,
        ledger: LedgerView,
        key: Key,
        more: More | None = None,
    ) -> Experience:
        """Per scenario the samples of its root, then of each node."""
        words = tokenizer_of(play)
        trees = [self.nodes(asking, words, key.derive("nodes", asking.scenario.id)) for asking in asked]
        named = [(path, one) for tree in trees for path, one in tree.items()]
        found = await groups(play, [one for _, one in named])
        for (path, _), group in zip(named, found, strict=True):
            for one in group:
                PREFIX.write(one, path)
        everything = [one for group in found for one in group]
        await score(everything)
        sizes = {
            "rollout/prefixes": [len(tree) for tree in trees],
            "rollout/branches": [branches(one) for one in trees],
        }
        return Experience(everything, metrics={name: sum(one) / max(len(one), 1) for name, one in sizes.items()})

    def nodes(self, asking: Assignment, words: Tokenizer | None, key: Key) -> dict[str, Assignment]:
        """What is asked at each node, by its way from the root; parents come first."""
        begun = self._begun(asking, words)
        if len(begun) > self.most:
            drawn = key.numpy().choice(len(begun), self.most, replace=False)
            begun = {prefix: begun[prefix] for prefix in (list(begun)[place] for place in sorted(drawn))}
        ways = {asking.prefix: "0"}
        for number, prefix in enumerate(sorted(begun, key=len), start=1):
            above = max((other for other in ways if prefix[: len(other)] == other), key=len)
            ways[prefix] = f"{ways[above]}/{number}"
        asked = {ways[prefix]: begun.get(prefix, asking) for prefix in ways}
        return {
            way: replace(one, samples=self.samples, first=one.first + place * self.samples)
            for place, (way, one) in enumerate(asked.items())
        }

    def _begun(self, asking: Assignment, words: Tokenizer | None) -> dict[tuple[int, ...], Assignment]:
        """What is asked at every prefix of the traces, in their order."""
        known = asking.scenario.metadata
        told = known.get("traces") or [known.get("demonstration")]
        found = dict[tuple[int, ...], Assignment]()
        for trace in [told] if isinstance(told, str) else told:
            for begin, share in self._cuts(trace, words):
                shown = replace(asking, scenario=replace(asking.scenario, metadata={**known, "demonstration": begin}))
                one = HintAsPrefix(share=share).asked(shown, words)
                if one is not None:
                    found.setdefault(one.prefix, replace(one, scenario=asking.scenario))
        return found

    def _cuts(self, trace: Any, words: Tokenizer | None) -> list[tuple[Any, float]]:
        """The beginnings of a trace: what is begun, and which share of it is told."""
        steps = trace if isinstance(trace, (list, tuple)) and all(isinstance(one, str) for one in trace) else ()
        if not steps or words is None:
            return [(trace, share) for share in self.shares]
        ends = itertools.accumulate(steps[:-1], lambda begun, step: (*begun, *words.encode(step, begun)), initial=())
        return [(end, 1.0) for end in ends if end]


def branches(ways: Collection[str]) -> int:
    """How many of a tree's nodes, the root apart, have nothing below them: 1 of a single trace."""
    return sum(way != "0" and not any(other.startswith(f"{way}/") for other in ways) for way in ways)


def below(way: str, other: str) -> bool:
    """Whether `other` is the node `way` or stands below it."""
    return other == way or other.startswith(way + "/")


@dataclass(frozen=True)
class PrefixValue(Credit):
    """`A_i = R_i - alpha V(prefix_i)`, V from the returns of a scenario's samples at and below the prefix.

    After Tree-OPO (arXiv 2509.09284); the forms of V are recalled. By the mean a sample is in its own baseline, so with
    alpha 1 and m samples at and below a prefix its expected gradient is (m - 1)/m of the true one, as a group's is.
    Samples whose weights are all 0 enter no value and get 0.

    Attributes:
        value: `expectation` is the mean, `optimistic` the largest (1 if any succeeded), `pessimistic` the least.
        alpha: how much of it is subtracted.
    """

    value: Literal["expectation", "optimistic", "pessimistic"] = "expectation"
    alpha: float = 1.0

    least_samples: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if self.value not in ("expectation", "optimistic", "pessimistic"):
            raise ValueError(f"value must be expectation, optimistic or pessimistic, not {self.value!r}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        return by_scenario(self, batch)

    def of(self, rewards: Floats, ways: Sequence[str]) -> Floats:
        """The advantages of one scenario's samples, `[n]`, by their returns `[n]` and nodes."""
        measures: dict[str, Callable[[Floats], Any]] = {"expectation": np.mean, "optimistic": np.max}
        measure = measures.get(self.value, np.min)
        values = [float(measure(rewards[[below(way, other) for other in ways]])) for way in ways]
        return rewards - self.alpha * np.array(values, dtype=np.float64)


@dataclass(frozen=True)
class TreeOrdered(Credit):
    """`argmin |a - R|^2` with `sum a = 0`, `|a|^2 <= n`, and, along every way of the tree, the better above the worse.

    After Tree-OPO (arXiv 2509.09284); which pairs are ordered is chosen here: of two samples one of which begins at or
    below the other's prefix, that with the greater return, or of equal returns that with the shorter prefix, is at
    least `margin` above the other. Equal returns from one prefix are not ordered: where all samples begin from one
    prefix with equal returns they get 0.

    Raises:
        ConfigurationError: on a call, where a tree is too deep for the margin to fit into the norm.
    """

    margin: float = 0.05
    sweeps: int = 300

    least_samples: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if self.margin < 0 or self.sweeps < 1:
            raise ValueError(f"margin must be at least 0 and sweeps at least 1, not {self.margin} and {self.sweeps}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        return by_scenario(self, batch)

    def of(self, rewards: Floats, ways: Sequence[str]) -> Floats:
        """The advantages of one scenario's samples, `[n]`, by their returns `[n]` and nodes."""
        pairs = ordered(rewards, ways)
        ranks = len({(float(reward), way.count("/")) for reward, way in zip(rewards, ways, strict=True)})
        if (ranks - 1) * self.margin > 1:
            raise ConfigurationError(
                f"{ranks} ranks of a tree, {self.margin} apart, do not fit into advantages of norm 1; set margin to at "
                f"most {1 / (ranks - 1):.3g}"
            )
        return projected(rewards, pairs, self.margin, self.sweeps)


def ordered(rewards: Floats, ways: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs (worse, better) of samples on one way of the tree."""
    pairs = []
    for worse, better in np.ndindex(len(ways), len(ways)):
        if below(ways[better], ways[worse]) or below(ways[worse], ways[better]):
            left, right = ((rewards[one], -ways[one].count("/")) for one in (worse, better))
            pairs += [(worse, better)] if left < right else []
    return pairs


def projected(rewards: Floats, pairs: Sequence[tuple[int, int]], margin: float, sweeps: int) -> Floats:
    """The nearest point to `rewards`, `[n]`, of mean 0 and norm at most sqrt(n) with `a[j] >= a[i] + margin`.

    With mu >= 0 the multiplier of the norm it is the nearest ordered point to `rewards/(1 + mu)`, whose norm falls with
    mu: where the norm binds, halving finds it.
    """
    centre, longest = rewards - rewards.mean(), math.sqrt(len(rewards))
    found = nearest_ordered(centre, pairs, margin, sweeps)
    if float(np.linalg.norm(found)) <= longest:
        return found
    low, high = 0.0, 1.0
    for _ in range(40):
        share = (low + high) / 2
        found = nearest_ordered(share * centre, pairs, margin, sweeps)
        low, high = (low, share) if float(np.linalg.norm(found)) > longest else (share, high)
    return nearest_ordered(low * centre, pairs, margin, sweeps)


def nearest_ordered(point: Floats, pairs: Sequence[tuple[int, int]], margin: float, sweeps: int) -> Floats:
    """The nearest point, `[n]`, with `a[j] >= a[i] + margin`, by Hildreth's ascent of the dual; its mean is kept."""
    found, multipliers = point.tolist(), [0.0] * len(pairs)
    for _ in range(sweeps):
        largest = 0.0
        for number, (worse, better) in enumerate(pairs):
            push = max((margin - found[better] + found[worse]) / 2, -multipliers[number])
            multipliers[number] += push
            found[better] += push
            found[worse] -= push
            largest = max(largest, abs(push))
        if largest < 1e-12:
            break
    return np.array(found, dtype=np.float64)


def by_scenario(credit: PrefixValue | TreeOrdered, batch: Batch) -> Occurrences:
    """The batch's occurrences with what `credit` says of each scenario's samples that count.

    A sample of which no prefix is known began from the bare prompt.
    """
    units = trajectory_units(batch)
    ways = [str(way or 0) for way in PREFIX.rows(batch)]
    group, size = units.groups(GroupBy("scenario"), batch)
    advantage = torch.zeros_like(units.value)
    for number in range(size):
        members = torch.nonzero(units.counted & (group == number)).flatten()
        if len(members):
            nodes = [ways[one] for one in units.trajectory[members].tolist()]
            advantage[members] = torch.from_numpy(credit.of(units.value[members].numpy(), nodes))
    return replace(batch.occurrences, advantage=advantage[units.member])


TREE_OPO = GRPO.but(
    name="tree-opo",
    title="Tree-OPO: completions of a tree of prefixes, against the value of their own",
    source="Tree-OPO, arXiv:2509.09284; forms of value and projection recalled",
    family="data-and-rollout",
    catalogue_ids=("tree-opo",),
    axes=("credit", "rollout", "data"),
    formula="A_i = R_i - alpha V(prefix_i),  V(p) = mean of R over the samples at and below p",
    conventions={
        **GRPO.conventions,
        **CENTRED,
        "teacher": "searches offline: hocket traces writes the right answers of a Monte Carlo tree search over steps "
        "(UCT, c = 2, outcomes as values; steps end where a text says); a file of any traces serves as well",
        "tree": "the bare prompt and the beginnings of right traces: by every number of their steps; by 1/4, 1/2 and "
        "3/4 of a trace without steps, as of one demonstration; 7 nodes of more, drawn at each step",
        "V": "from the step's own samples at and below the prefix; alpha = 1, chosen here",
        "samples": "4 per node; imposed tokens carry no gradient",
    },
    task="worked-sums?traces=2",
    rollout=PrefixTree(),
    credit=PrefixValue(),
)


TREE_OPO_ORDERED = TREE_OPO.but(
    name="tree-opo-ordered",
    title="Tree-OPO with the nearest advantages that keep the tree's order",
    formula="argmin_a |a - R|^2:  sum a = 0, |a|^2 <= n, a_better >= a_worse + margin along every way of the tree",
    conventions={
        **TREE_OPO.conventions,
        "V": "none: advantages are a projection of returns",
        "pairs": "of samples on one way: by return, then by the shorter prefix; margin 0.05; all chosen here",
    },
    credit=TreeOrdered(),
)
