"""Why a run does not learn, in words: from its metrics and rollouts to sentences that name the cause and the remedy."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hocket.apps.report.groups import SampleGroup, group_episodes
from hocket.core import sums
from hocket.core.columns import LIMIT
from hocket.train.watch import REMEDY

Row = Mapping[str, Any]
Episode = Mapping[str, Any]

WINDOW = 20
"""The latest steps that are looked at."""

LOST = 0.2
"""At most this share of what a policy once could do is left where it is lost."""

DISAGREEMENT = 0.05
"""Nats between sampler and learner that numerics alone do not explain."""


@dataclass(frozen=True)
class Evidence:
    """What the rules look at.

    Attributes:
        rows: all training rows. recent: the latest `WINDOW` of them. first: the evaluation before training, or {}.
        groups: of the latest saved rollouts. penalty: coefficient of the KL to the reference, None when unknown.
    """

    rows: Sequence[Row]
    recent: Sequence[Row]
    first: Row
    groups: Sequence[SampleGroup]
    penalty: float | None

    @property
    def episodes(self) -> list[Episode]:
        return [episode for group in self.groups for episode in group.episodes]

    @property
    def control(self) -> bool:
        """Whether returns are measured, whose sign and scale say nothing by themselves."""
        return any("eval/return" in row for row in (*self.rows, self.first))

    @property
    def parts(self) -> list[float]:
        """What was earned by role and by name, in the means of all steps and in the latest episodes."""
        means = [row[key] for row in self.rows for key in row if _REWARD.search(key) and row[key] is not None]
        scores = [score for episode in self.episodes for score in (episode.get("scores") or {}).values()]
        single = [part for score in scores for part in (score if isinstance(score, list) else [score])]
        return [float(value) for value in (*means, *single) if isinstance(value, (int, float))]

    def mean(self, key: str) -> float | None:
        """The recent mean of a metric; the worst over roles where it is kept per role. None when never measured."""
        means = [_mean([row.get(name) for row in self.recent]) for name in _names(self.recent, key)]
        known = [mean for mean in means if mean is not None]
        return max(known, key=abs) if known else None

    @property
    def signal(self) -> float | None:
        """The recent share of groups with signal."""
        shares = [
            row["groups/with_signal"] / row["groups/total"]
            for row in self.recent
            if row.get("groups/with_signal") is not None and row.get("groups/total")
        ]
        return _mean(shares)


_WATCH = re.compile(r"watch/(.+)/since")
_REWARD = re.compile(r"^(?!eval/|watch/)(.*/)?reward(/(?!shaped$).*)?$")
"""Metrics of what was earned, before shaping."""

Rule = Callable[[Evidence], Iterator[str]]


def diagnose(rows: Sequence[Row], episodes: Sequence[Episode] = (), *, penalty: float | None = None) -> list[str]:
    """Sentences about what keeps a run from learning, gravest first; none when nothing stands out.

    Args:
        rows: the rows of `metrics.jsonl`, step 0 included or not.
        episodes: the latest saved rollouts, whose rewards, lengths and texts are looked at.
        penalty: the coefficient of the KL to the reference.
    """
    trained = [row for row in rows if row.get("step", 0) > 0]
    if not trained:
        return ["No training step was recorded, so there is nothing to learn from yet."] if rows else []
    first = next((row for row in rows if row.get("step") == 0), {})
    evidence = Evidence(trained, trained[-WINDOW:], first, group_episodes(episodes), penalty)
    ruin = [sentence for rule in (not_finite, ruined) for sentence in rule(evidence)]
    sentences = [sentence for rule in RULES if not (ruin and rule in SYMPTOMS) for sentence in rule(evidence)]
    return list(dict.fromkeys(sentences))


# ---------------------------------------------------------------- the rules


def failures(evidence: Evidence) -> Iterator[str]:
    """Episodes that failed."""
    episodes = evidence.episodes
    failed = [episode for episode in episodes if episode.get("failure") is not None]
    if episodes and len(failed) >= len(episodes) / 2:
        yield (
            f"{len(failed)} of {len(episodes)} episodes failed, the first with: {failed[0]['failure']}. Nothing can be "
            "learnt from a failed episode; correct the environment, tool or reward first."
        )


def unrewarded(evidence: Evidence) -> Iterator[str]:
    """Samples without a reward."""
    shares = [(int(row.get("step", 0)), row["unrewarded/share"]) for row in evidence.rows if "unrewarded/share" in row]
    spoke = [step for step, share in shares if share is not None and share < 1]
    silent = [step for step, _ in shares if not spoke or step > spoke[-1]]
    if silent:
        since = f"since step {silent[0]}" if spoke else f"in any of {len(shares)} steps"
        yield (
            f"No sample had a reward {since}, so nothing was learnt then: look at what the reward returned (None, not "
            "a number, no verdict of the judge), which the messages show."
        )
    elif (share := evidence.mean("unrewarded/share") or 0.0) >= 0.5:
        yield f"{share:.0%} of the samples had no reward and were left out; the messages say why."


def not_finite(evidence: Evidence) -> Iterator[str]:
    """Losses and gradients that are not numbers."""
    lost = [
        row
        for row in evidence.recent
        if row.get("groups/with_signal") and any(row.get(name) is None for name in _names([row], "loss"))
    ]
    skipped = sums.total(row.get("update/skipped") or 0.0 for row in evidence.recent)
    if lost or skipped:
        what = f"The loss was not a finite number in {len(lost)} of the last {len(evidence.recent)} steps"
        if not lost:
            what = f"{skipped:.0f} gradients of the last {len(evidence.recent)} steps were not finite and were skipped"
        yield f"{what}; lower the learning rate (update.lr), and look for rewards that are infinite or not a number."


def ruined(evidence: Evidence) -> Iterator[str]:
    """Weights that too large updates have ruined: the policy does much worse than at first, or than once."""
    advice = f"the updates were too large, so begin again with a lower learning rate (update.lr{_rate(evidence.rows)})"
    broken = [row[key] for row in evidence.rows for key in row if key == "watch/sampling/nan/since"]
    if broken:
        yield f"The probabilities of the policy are not numbers since step {broken[0]:.0f}: {advice}."
        return
    every = [evidence.first, *evidence.rows]
    losses = [row["eval/loss"] for row in every if row.get("eval/loss") is not None]
    if len(losses) > 1 and losses[-1] > 10 * max(1.0, losses[0]):
        yield f"The unseen loss rose from {losses[0]:.3g} to {losses[-1]:.3g}: {advice}."
    elif (fall := _fall(evidence)) is not None and not (len(losses) > 1 and losses[-1] <= losses[0]):
        yield f"The policy has collapsed, {fall}: {advice}."


def _rate(rows: Sequence[Row]) -> str:
    rates = [row[name] for row in rows for name in _names([row], "update/lr") if row[name] is not None]
    return f", {max(rates):g} here" if rates else ""


def _fall(evidence: Evidence) -> str | None:
    """How far what is measured fell, in words; None where it did not, or where rewards rose meanwhile."""
    if _risen(evidence.rows):
        return None
    measures = ("eval/return", "eval/sampled") if evidence.control else ("eval/accuracy",)
    falls = list[str]()
    for name in measures:
        ends = ("eval/sampled/low", "eval/sampled/high") if name == "eval/sampled" else ("eval/low", "eval/high")
        rows = [row for row in (evidence.first, *evidence.rows) if None not in map(row.get, (name, *ends))]
        if not rows:
            continue
        best, latest = max(rows, key=lambda row: row[name]), rows[-1]
        if latest[ends[1]] >= best[ends[0]] or not (evidence.control or latest[name] <= LOST * best[name]):
            return None
        values = (
            f"{best[name]:.1f} to {latest[name]:.1f}" if evidence.control else f"{best[name]:.1%} to {latest[name]:.1%}"
        )
        falls.append(f"{name.removeprefix('eval/')} {values}")
    # Returns have no scale, and may fall for a while: lost is the policy that has stopped trying as well.
    stuck = not evidence.control or _certain(evidence.rows)
    return " and ".join(falls) if falls and stuck else None


def _then_and_now(rows: Sequence[Row], key: str) -> tuple[float | None, float | None]:
    """A metric in the first step, which no update has touched, and in the mean of the latest ones after it."""
    return rows[0].get(key), _mean([row.get(key) for row in rows[1:][-5:]])


def _risen(rows: Sequence[Row]) -> bool:
    """Whether more is earned by now than in the first step."""
    first, last = _then_and_now(rows, "reward/mean")
    return last is not None and last > (first or 0.0)


def _certain(rows: Sequence[Row]) -> bool:
    """Whether next to nothing is left of the sampling entropy of the first step."""
    before, latest = _then_and_now(rows, "entropy")
    return before is not None and latest is not None and before > 0 and abs(latest) < 0.02 * before


def blown_up(evidence: Evidence) -> Iterator[str]:
    """Numbers that grew without end, as the run itself noticed."""
    rows = evidence.rows
    since = {match[1]: row[key] for row in rows for key in row if (match := _WATCH.fullmatch(key))}
    since.pop("sampling/nan", None)  # See `ruined`.
    if since:
        terms = ", ".join(f"{name} since step {step:.0f}" for name, step in since.items())
        yield f"The run diverged ({terms}): {REMEDY}."


def cut_off(evidence: Evidence) -> Iterator[str]:
    """Answers that end at the length limit."""
    if evidence.control:
        return
    episodes = [episode for episode in evidence.episodes if episode.get("turns")]
    if episodes:
        share: float | None = sum(map(_cut, episodes)) / len(episodes)
    else:
        share = evidence.mean("truncated/share")
    began, latest = _then_and_now(evidence.rows, "truncated/share")
    grown = began is not None and latest is not None and began < 0.1 and latest >= 0.5 and not _risen(evidence.rows)
    if grown and share is not None and share >= 0.5:
        yield (
            f"{share:.0%} of the answers were cut off at the length limit, and {began:.0%} in the first step: the "
            f"policy has forgotten to end them; lower the learning rate (update.lr{_rate(evidence.rows)}), or reward "
            "shorter answers."
        )
    elif share is not None and share >= 0.95:
        yield (
            "Every answer was cut off at the length limit before it was finished, so none had a "
            "result to judge; raise decoding.max_tokens, or ask for shorter answers."
        )
    elif share is not None and share >= 0.5:
        yield f"{share:.0%} of the answers were cut off at the length limit; raise decoding.max_tokens."


def _cut(episode: Episode) -> bool:
    """Whether the last answer was cut, or the episode was for no reason that is told, such as a world's last move."""
    if episode["turns"][-1].get("finish") == "length":
        return True
    return bool(episode.get("truncated")) and not (episode.get("info") or {}).get(LIMIT.name)


def never_rewarded(evidence: Evidence) -> Iterator[str]:
    """Rewards that never rise above 0, and formats that are never met."""
    sampled = [row for row in evidence.rows if row.get("tokens/generated") != 0]
    rewards = [row["reward/mean"] for row in sampled if row.get("reward/mean") is not None]
    # What cancels in a sum, as in games of zero sum, does not in its parts.
    parts = [*rewards, *evidence.parts]
    if evidence.control or not rewards or max(parts) > 0:
        return
    formats = [
        episode["scores"]["format"] for episode in evidence.episodes if "format" in (episode.get("scores") or {})
    ]
    shares = [row.get("eval/format") for row in (evidence.first, *evidence.rows)]
    measured = [value for value in (*formats, *shares) if isinstance(value, (int, float))]
    if measured and max(measured) <= 0:
        yield (
            f"No reward has been above 0 in {len(rewards)} steps, and no answer has matched the expected format: show "
            "the format in the prompt, reward it by itself, or begin with a model that was taught it."
        )
    elif min(parts) == 0:  # Costs, distances and the scores of a reward model may well be less than 0 for everything.
        yield (
            f"No reward has been above 0 in {len(rewards)} steps, so no answer is better than another: begin with "
            "easier scenarios, a stronger model or a few supervised steps (--lessons, where the task has them), or "
            "give partial rewards."
        )


def groups_alike(evidence: Evidence) -> Iterator[str]:
    """Groups whose samples all earn the same."""
    share = evidence.signal
    if share is None or share > 0.1:
        return
    what = f"Only {share:.0%} of the groups had any signal in the last {len(evidence.recent)} steps"
    if share == 0:
        what = f"No group had any signal in the last {len(evidence.recent)} steps"
    compared = [group for group in evidence.groups if group.mean is not None and len(group.rewards) > 1]
    if not compared:
        yield f"{what}: within each group the samples were credited alike, which leaves no gradient."
        return
    alike = [group for group in compared if group.std == 0]
    if len(alike) < len(compared) / 2:
        yield (
            f"{what}, although rewards differ within groups: the samples were left out by a filter or a weight of 0 "
            "(see the group table)."
        )
        return
    yield f"{what}: all rewards within a group are equal, which leaves no gradient{_kind_of_equal(alike, compared)}"


def idle_stages(evidence: Evidence) -> Iterator[str]:
    """Stages that changed nothing in any step with signal."""
    rows = [row for row in evidence.recent if any(row.get(name) for name in _names([row], "groups/with_signal"))]
    keys = sorted({key for row in rows for key in row if "idle/" in key})
    always = [key.rpartition("idle/")[2] for key in keys if all(row.get(key) for row in rows)]
    for stage in dict.fromkeys(always):
        yield (
            f"{stage} changed nothing in any of the last {len(rows)} steps with signal, so the run trained as if "
            "without it; `hocket primitives` says what it reads, which this task or workflow may not give."
        )


def _kind_of_equal(alike: Sequence[SampleGroup], compared: Sequence[SampleGroup]) -> str:
    means = [group.mean for group in alike if group.mean is not None]
    best = max(reward for group in compared for reward in group.rewards if reward is not None)
    texts = [[_text(episode) for episode in group.episodes] for group in alike]
    right = sum(mean >= best - 1e-9 for mean in means)
    if all(len(set(group)) == 1 and group[0] for group in texts):
        return (
            ", because the samples themselves are identical; raise decoding.temperature, or begin with a model that "
            "is less certain."
        )
    if best > 0 and right >= 0.9 * len(means):
        return (
            ". Nearly all samples earned the maximum: the scenarios are too easy by now, or the reward does not "
            "distinguish answers; choose harder ones, stop here, or check the reward."
        )
    if best <= 0 and min(means) < 0:
        return (
            ". None is above 0, which by itself says nothing where costs are paid: ask scenarios whose outcomes differ "
            "or take more samples per scenario (rollout.samples)."
        )
    if right <= 0.1 * len(means) or best <= 0:
        return ". Nearly all are wrong: ask easier scenarios, or take more samples per scenario (rollout.samples)."
    return (
        ". Some scenarios are always right and the others always wrong: ask scenarios in between, take more samples "
        "(rollout.samples), or sample dynamically."
    )


def clipped(evidence: Evidence) -> Iterator[str]:
    """Ratios so far from 1 that clipping takes the gradient away."""
    share = evidence.mean("ratio/clipped")
    saturated = evidence.mean("ratio/saturated")
    decisions = "steps" if evidence.control else "tokens"
    if share is not None and share >= 0.5:
        yield (
            f"{share:.0%} of the {decisions} were clipped and had no gradient: the policy has moved too far within one "
            "batch; lower the learning rate (update.lr) or make fewer passes over each batch."
        )
    elif saturated is not None and saturated >= 0.2:
        yield (
            f"{saturated:.0%} of the probability ratios were so large that they had to be cut: the policy has moved "
            "too far from what was sampled; lower the learning rate (update.lr)."
        )


def pulled_back(evidence: Evidence) -> Iterator[str]:
    """A KL penalty that outweighs what rewards can give."""
    kl, weight = evidence.mean("kl/reference"), evidence.penalty
    spreads = [group.std for group in evidence.groups if group.std is not None]
    if kl is None or not weight or not spreads:
        return
    spread = sums.mean(spreads)
    if not spread and evidence.signal:
        return  # Advantages come from elsewhere, as in games of zero sum, whose totals are all 0.
    if weight * kl > max(spread, 1e-6) and kl > 0.01:
        yield (
            f"The penalty for leaving the reference (coefficient {weight:g} times {kl:.3g} nats) is larger than the "
            f"spread of rewards within groups ({spread:.3g}), so it outweighs them; lower the "
            "coefficient of the KL regulariser."
        )


def disagreement(evidence: Evidence) -> Iterator[str]:
    """A sampler whose log-probs are not the learner's."""
    kl = evidence.mean("kl/behaviour")
    if kl is not None and abs(kl) > DISAGREEMENT:
        yield (
            f"Sampler and learner disagree by {kl:.3g} nats per decision before the first update of a step, so the "
            "gradient is not that of the policy that sampled; check precision, temperature, and that the sampler has "
            "the newest weights."
        )


def too_certain(evidence: Evidence) -> Iterator[str]:
    """A policy that no longer tries anything else."""
    before = _mean([row.get("entropy") for row in evidence.rows[:5]])
    latest = evidence.mean("entropy")
    share = evidence.signal
    if before is None or latest is None or evidence.control or share is None or share > 0.3:
        return
    if len(evidence.rows) > 5 and 0 <= latest < 0.1 * before:
        yield (
            f"The sampling entropy fell from {before:.2g} to {latest:.2g} nats: the policy hardly "
            "explores any more; lower the learning rate, add an entropy bonus, or clip less on the upper side "
            "(objective.high)."
        )


def no_gradient(evidence: Evidence) -> Iterator[str]:
    """A gradient of exactly zero in spite of signal."""
    norms = [row.get(name) for row in evidence.recent for name in _names([row], "gradient/norm")]
    known = [norm for norm in norms if norm is not None]
    if known and max(known) == 0 and (evidence.signal or 0) > 0:
        yield "The gradient is exactly 0 although advantages are not: no weight that is trained has any influence."


SYMPTOMS: tuple[Rule, ...] = (cut_off, never_rewarded, groups_alike, too_certain)
"""What follows from ruined weights, and is no cause then."""

RULES: tuple[Rule, ...] = (
    failures,
    unrewarded,
    not_finite,
    ruined,
    blown_up,
    cut_off,
    never_rewarded,
    groups_alike,
    idle_stages,
    disagreement,
    clipped,
    pulled_back,
    too_certain,
    no_gradient,
)


# ---------------------------------------------------------------- small things


def kl_coefficient(config: Any) -> float | None:
    """The summed coefficients of the KL terms in a run's configuration; None when there are none."""
    if isinstance(config, Mapping):
        coefficient = config.get("coefficient") if "KL" in str(config.get("type", "")) else None
        below = [kl_coefficient(value) for value in config.values()]
        values = [value for value in (coefficient, *below) if isinstance(value, (int, float))]
        return float(sum(values)) if values else None
    if isinstance(config, (list, tuple)):
        values = [value for value in map(kl_coefficient, config) if value is not None]
        return sum(values) if values else None
    return None


def _names(rows: Sequence[Row], key: str) -> list[str]:
    """`key` itself and `ROLE/key`."""
    names = {name for row in rows for name in row if name == key or name.endswith(f"/{key}")}
    return sorted(name for name in names if not name.startswith("eval/"))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return sums.mean(known) if known else None


def _text(episode: Episode) -> str:
    return "\n".join(str(turn.get("text", "")) for turn in episode.get("turns", ()))
