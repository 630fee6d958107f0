"""What the formulas of the recipes say of a recorded batch, in plain float64 numpy and apart from the library.

Losses are ordinary functions of the log-probs. They are written so that they accept complex numbers, which gives the
gradient to the last digits by the complex step: d L / d x = Im L(x + i h) / h. `const` is where a gradient stops.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, lgamma, log
from typing import Any

import numpy as np

Array = np.ndarray
Flat = list[Array]
STEP = 1e-30


def const(x: Any) -> Any:
    return np.real(x)


def least(a: Any, b: Any) -> Any:
    return np.where(np.real(a) <= np.real(b), a, b)


def most(a: Any, b: Any) -> Any:
    return np.where(np.real(a) >= np.real(b), a, b)


def clip(x: Any, low: float, high: float) -> Any:
    return most(least(x, high + 0 * x.real), low + 0 * x.real)


def saturated(d: Any, bound: float = 50.0) -> Any:
    """The value and the derivative that exp(d) has at the bound, beyond it."""
    return np.clip(np.real(d), -bound, bound) + 1j * np.imag(d)


@dataclass
class Recorded:
    """A microscope document, read by the contract's words."""

    document: dict[str, Any]

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        return self.document["trajectories"]

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def progress(self) -> float:
        return float(self.document.get("state", {}).get("progress", 0.0))

    @cached_property
    def logp(self) -> Flat:
        return [np.array(r["logp"], dtype=complex) for r in self.rows]

    def column(self, name: str) -> Flat:
        return [np.array(r[name], dtype=float) for r in self.rows]

    @cached_property
    def old(self) -> Flat:
        """The policy before the update: proximal, else behaviour, else the recorded log-probs themselves."""
        return [np.array(r.get("logp_proximal", r.get("logp_behaviour", r["logp"])), dtype=float) for r in self.rows]

    @cached_property
    def behaviour(self) -> Flat:
        return [np.array(r.get("logp_behaviour", r["logp"]), dtype=float) for r in self.rows]

    @cached_property
    def reference(self) -> Flat:
        return self.column("logp_ref")

    @cached_property
    def trained(self) -> list[Array]:
        return [np.array(r.get("trained", [True] * len(r["logp"])), dtype=bool) for r in self.rows]

    @cached_property
    def alive(self) -> Array:
        return np.array([m.any() for m in self.trained])

    @cached_property
    def groups(self) -> list[list[int]]:
        found: dict[str, list[int]] = {}
        for i, r in enumerate(self.rows):
            if self.alive[i]:
                found.setdefault(r["group"], []).append(i)
        return list(found.values())

    @cached_property
    def returns(self) -> Array:
        return np.array([self.total(r) for r in self.rows], dtype=float)

    @staticmethod
    def total(row: dict[str, Any]) -> float:
        own = sum(row["scores"].values())
        turns = sum(sum(t.values()) for t in row.get("turn_scores", []))
        tokens = sum(sum(v) for v in row.get("token_scores", {}).values())
        return own + turns + tokens

    @cached_property
    def sizes(self) -> Array:
        """All decisions, imposed ones included."""
        return np.array([len(r["logp"]) for r in self.rows])

    @cached_property
    def lengths(self) -> Array:
        return np.array([m.sum() for m in self.trained])

    def spread(self, values: Array) -> Flat:
        """One number per trajectory, at each of its decisions."""
        return [np.full(len(r["logp"]), float(v)) for r, v in zip(self.rows, values, strict=True)]

    # Aggregates, over what is trained.

    def token_mean(self, terms: Flat) -> Any:
        return sum(t[m].sum() for t, m in zip(terms, self.trained, strict=True)) / self.lengths.sum()

    def sequence_mean(self, terms: Flat) -> Any:
        means = [t[m].mean() for t, m in zip(terms, self.trained, strict=True) if m.any()]
        return sum(means) / self.alive.sum()

    def sequence_sum(self, terms: Flat) -> Any:
        return sum(t[m].sum() for t, m in zip(terms, self.trained, strict=True)) / self.alive.sum()

    def constant_length(self, terms: Flat, horizon: int = 128) -> Any:
        return self.sequence_sum(terms) / horizon

    def ratios(self, logp: Flat) -> Flat:
        return [np.exp(saturated(x - o)) for x, o in zip(logp, self.old, strict=True)]

    def sums(self, terms: Flat) -> Array:
        return np.array([t[m].sum() for t, m in zip(terms, self.trained, strict=True)])

    def means(self, terms: Flat) -> Array:
        return np.array([t[m].mean() if m.any() else 0.0 for t, m in zip(terms, self.trained, strict=True)])


# ---------------------------------------------------------------- credit


def standardised(r: Array, ddof: int = 1, epsilon: float = 1e-6) -> Array:
    """0 for a constant group and for a group of one."""
    if len(r) < 2 or np.ptp(r) == 0:
        return np.zeros(len(r))
    return (r - r.mean()) / (r.std(ddof=ddof) + epsilon)


def centred(r: Array) -> Array:
    return np.zeros(len(r)) if len(r) < 2 or np.ptp(r) == 0 else r - r.mean()


def by_group(b: Recorded, rule: Callable[[Array], Array], rewards: Array | None = None) -> Array:
    rewards = b.returns if rewards is None else rewards
    out = np.zeros(len(b))
    for g in b.groups:
        out[g] = rule(rewards[g])
    return out


# ---------------------------------------------------------------- terms


def surrogate(ratio: Any, a: Array, low: float = 0.2, high: float = 0.2) -> Any:
    return -least(ratio * a, clip(ratio, 1 - low, 1 + high) * a)


def k3(logp: Flat, ref: Flat) -> Flat:
    """ref/pi - log(ref/pi) - 1."""
    out = []
    for x, r in zip(logp, ref, strict=True):
        d = saturated(r - x)
        out.append(np.exp(d) - d - 1)
    return out


@dataclass
class Said:
    """A recipe's answer by its formula: advantages per decision, and the loss as a function of the log-probs."""

    advantages: Flat
    loss: Callable[[Flat], Any]


Oracle = Callable[[Recorded], Said]


def value_and_gradient(loss: Callable[[Flat], Any], logp: Flat) -> tuple[float, Flat]:
    value = float(np.real(loss(logp)))
    gradient = [np.zeros(len(x)) for x in logp]
    for i, x in enumerate(logp):
        for t in range(len(x)):
            moved = list(logp)
            moved[i] = x.copy()
            moved[i][t] += 1j * STEP
            gradient[i][t] = np.imag(loss(moved)) / STEP
    return value, gradient


def clipped(b: Recorded, a: Flat, mean: str = "sequence_mean", low: float = 0.2, high: float = 0.2) -> Callable:
    """`mean` names an aggregate of `Recorded`."""
    aggregate = getattr(b, mean)

    def loss(logp: Flat) -> Any:
        return aggregate([surrogate(r, x, low, high) for r, x in zip(b.ratios(logp), a, strict=True)])

    return loss


def likelihood(b: Recorded, a: Flat, mean: str) -> Callable:
    aggregate = getattr(b, mean)
    return lambda logp: aggregate([-x * y for x, y in zip(a, logp, strict=True)])


def grpo(
    b: Recorded,
    ddof: int = 1,
    epsilon: float = 1e-6,
    low: float = 0.2,
    high: float = 0.2,
    mean: str = "sequence_mean",
    rewards: Array | None = None,
) -> Said:
    a = b.spread(by_group(b, lambda r: standardised(r, ddof, epsilon), rewards))
    return Said(a, clipped(b, a, mean, low, high))


def with_kl(coefficient: float) -> Oracle:
    def oracle(b: Recorded) -> Said:
        said = grpo(b)
        return Said(
            said.advantages,
            lambda logp: said.loss(logp) + coefficient * b.sequence_mean(k3(logp, b.reference)),
        )

    return oracle


def dr_grpo(b: Recorded) -> Said:
    a = b.spread(by_group(b, centred))
    return Said(a, clipped(b, a, "constant_length"))


def mean_centred(b: Recorded, rewards: Array | None = None) -> Said:
    a = b.spread(by_group(b, centred, rewards))
    return Said(a, clipped(b, a))


def loop(b: Recorded) -> Said:
    def rule(r: Array) -> Array:
        return np.zeros(1) if len(r) < 2 else np.array([x - np.delete(r, i).mean() for i, x in enumerate(r)])

    a = b.spread(by_group(b, rule))
    return Said(a, clipped(b, a))


def mapo(b: Recorded, ddof: int = 1) -> Said:
    def rule(r: Array) -> Array:
        p, mu = (r > 0.5).mean(), r.mean()
        lam = 1 - 4 * p * (1 - p)
        relative = (r - mu) / (mu + 1e-6) if mu > 0 else np.zeros(len(r))
        return (1 - lam) * standardised(r, ddof) + lam * relative if np.ptp(r) else np.zeros(len(r))

    a = b.spread(by_group(b, rule))
    return Said(a, clipped(b, a))


def beta_density(x: float, a: float, b: float) -> float:
    if x <= 0 or x >= 1:
        return (float(x == 0) * b if a == 1 else 0.0) + (float(x == 1) * a if b == 1 else 0.0)
    return exp((a - 1) * log(x) + (b - 1) * log(1 - x) + lgamma(a + b) - lgamma(a) - lgamma(b))


def bnpo(b: Recorded, fixed: tuple[float, float] | None = None) -> Said:
    p = np.array([np.clip(b.returns[g].mean(), 0, 1) for g in b.groups])
    first = second = 1.0
    if len(p) > 1 and np.ptp(p) > 0:
        m, v = p.mean(), p.var(ddof=1)
        k = m * (1 - m) / v - 1
        first, second = max(1.0, 1 + k * m / 3), max(1.0, 1 + k * (1 - m) / 3)
    first, second = fixed or (first, second)
    out = np.zeros(len(b))
    for g, q in zip(b.groups, p, strict=True):
        density = beta_density(q, first, second)
        out[g] = centred(b.returns[g]) * (1e6 if density == 0 else min(1 / density, 1e6))
    a = b.spread(out)
    return Said(a, clipped(b, a))


def ngrpo(b: Recorded, largest: float = 1.0) -> Said:
    def rule(r: Array) -> Array:
        full = np.append(r, largest)
        return np.zeros(len(r)) if np.ptp(full) == 0 else (r - full.mean()) / (full.std(ddof=1) + 1e-6)

    a = b.spread(by_group(b, rule))
    return Said(a, clipped(b, a, low=0.16, high=0.24))


def s_grpo_noise(b: Recorded, flip: float = 0.15, e: float = 1e-8) -> Said:
    live = b.returns[b.alive]
    middle = (live.min() + live.max()) / 2

    def rule(r: Array) -> Array:
        q = (r > middle).mean()
        t = np.clip((q - flip) / (1 - 2 * flip), 0, 1)
        w = (1 - 2 * flip) * t * (1 - t) / (np.sqrt(q * (1 - q) + e) * np.sqrt(t * (1 - t) + e))
        return standardised(r) * w

    a = b.spread(by_group(b, rule))
    return Said(a, clipped(b, a))


def seed_grpo(b: Recorded, alpha: float = 0.02) -> Said:
    out = np.zeros(len(b))
    likely = np.exp(np.real(b.sums(b.behaviour)))
    for g in b.groups:
        if len(g) < 2:
            continue
        clusters: dict[Any, float] = {}
        for i in g:
            label = b.rows[i].get("label")
            key = ("own", i) if label is None else label
            clusters[key] = clusters.get(key, 0.0) + likely[i]
        p = np.array(list(clusters.values())) / sum(likely[g])
        entropy = min(-np.log(p).mean(), np.log(len(g)))
        out[g] = centred(b.returns[g]) * (1 - alpha * entropy / np.log(len(g)))
    a = b.spread(out)
    return Said(a, clipped(b, a, "constant_length"))


def gpg(b: Recorded, rule: Callable[[Array], Array] = centred) -> Said:
    valid = sum(len(g) for g in b.groups if np.ptp(b.returns[g]) > 0)
    a = b.spread(by_group(b, rule) * (b.alive.sum() / valid if valid else 1.0))
    return Said(a, likelihood(b, a, "token_mean"))


def gmpo(b: Recorded, bound: float = 0.4) -> Said:
    a = by_group(b, standardised)

    def loss(logp: Flat) -> Any:
        total = 0.0
        for i, (x, o, m) in enumerate(zip(logp, b.old, b.trained, strict=True)):
            if not m.any():
                continue
            s = np.sign(a[i]) if a[i] else 1.0
            d = (x - o)[m]
            total = total - a[i] * np.exp(saturated((s * least(s * d, clip(s * d, -bound, bound))).mean()))
        return total / b.alive.sum()

    return Said(b.spread(a), loss)


def log_ratio_sums(b: Recorded, logp: Flat, against: Flat) -> Array:
    return b.sums([x - o for x, o in zip(logp, against, strict=True)])


def gvpo(b: Recorded, beta: float = 0.1, old: bool = False) -> Said:
    a = by_group(b, centred)
    anchor = b.old if old else b.reference

    def loss(logp: Flat) -> Any:
        d = log_ratio_sums(b, logp, anchor)
        total, count = 0.0, 0
        for g in b.groups:
            count += 1
            if len(g) > 1:
                gap = a[g] - beta * (d[g] - d[g].mean())
                total = total + 0.5 * (gap**2).sum() / (len(g) - 1)
        return total / count

    return Said(b.spread(a), loss)


def verdicts(b: Recorded) -> Array:
    """Right are those above the group's mean."""
    out = np.zeros(len(b), dtype=bool)
    for g in b.groups:
        out[g] = b.returns[g] > b.returns[g].mean()
    return out


def verdict_advantages(b: Recorded) -> Flat:
    return b.spread(by_group(b, centred, verdicts(b).astype(float)))


def nft(b: Recorded, floor: float = 1.0, prompts: str = "failure") -> Said:
    right = verdicts(b)
    rate, decided = np.zeros(len(b)), np.zeros(len(b))
    for g in b.groups:
        rate[g], decided[g] = right[g].mean(), right[g].any()
    q = np.clip(rate, 0.02, 0.98)
    weight = decided * (1 - q if prompts == "failure" else np.sqrt((1 - q) / q))

    def loss(logp: Flat) -> Any:
        terms = []
        for i, r in enumerate(b.ratios(logp)):
            if right[i]:
                x = -np.log(r)
            else:
                bare = (1 - q[i] * r) / (1 - q[i])
                held = np.maximum(np.real(bare), floor) + 1j * np.imag(bare)
                x = -np.log(held)
            terms.append(weight[i] * x)
        return b.constant_length(terms)

    return Said(verdict_advantages(b), loss)


def disco(b: Recorded, tau: float | None = 10.0, radius: float = 1e-4, beta: float = 1e3) -> Said:
    right = verdicts(b)

    def loss(logp: Flat) -> Any:
        s = b.means(logp)
        total = 0.0
        for g in b.groups:
            yes = [i for i in g if right[i]]
            no = [i for i in g if not right[i]]
            if yes and no:
                wrong = s[no].mean() if tau is None else tau * np.log(np.exp(s[no] / tau).mean())
                total = total + wrong - s[yes].mean()
        kl = b.token_mean(old_to_new(b, logp))
        over = kl - radius
        return total / len(b.groups) + (beta / 2 * over**2 if np.real(over) > 0 else 0.0)

    return Said(verdict_advantages(b), loss)


def old_to_new(b: Recorded, logp: Flat) -> Flat:
    """r - 1 - log r, r = pi/old: KL(old || pi) from the old policy's samples."""
    out = []
    for x, o in zip(logp, b.old, strict=True):
        d = saturated(x - o, 50.0)
        out.append(np.exp(d) - 1 - d)
    return out


def softplus(x: Any) -> Any:
    """log(1 + exp(x)), also for complex x."""
    return np.where(np.real(x) > 0, x + np.log(1 + np.exp(-x)), np.log(1 + np.exp(x)))


def rule_levels(b: Recorded) -> Array:
    """TRPA's levels: 1 right, 0 wrong, -1 unread, -2 malformed; returns where nothing has the form."""

    def formed(text: str) -> bool:
        tags = re.findall(r"</?(?:think|answer)>", text)
        return tags in (["<answer>", "</answer>"], ["<think>", "</think>", "<answer>", "</answer>"])

    texts = [row.get("text") or "" for row in b.rows]
    if not any(map(formed, texts)):
        return b.returns
    read = [str(row.get("label") or "").strip() != "" for row in b.rows]
    kept = zip(texts, read, b.returns, strict=True)
    return np.array([-2.0 if not formed(text) else -1.0 if not known else float(r >= 0.5) for text, known, r in kept])


def trpa(
    b: Recorded, beta: float = 0.1, top: float = 2.5, coefficient: float = 1e-3, root: float | None = None
) -> Said:
    level = rule_levels(b)

    def loss(logp: Flat) -> Any:
        d = b.means([x - r for x, r in zip(logp, b.reference, strict=True)])
        terms = []
        for g in b.groups:
            for w in g:
                for x in g:
                    if level[w] > level[x]:
                        terms.append(softplus(-(top if level[w] >= 0.5 else 1.0) * beta * (d[w] - d[x])))
        if not terms:
            terms = [softplus(-(1.0 if level[i] >= 0.5 else -1.0) * d[i]) for g in b.groups for i in g]
        # KL(pi || old) by the old policy's share: old/pi - 1 - log(old/pi).
        region = b.token_mean(k3(logp, b.behaviour))
        return sum(terms) / len(terms) + coefficient * (region if root is None else np.sqrt(region + root))

    return Said([], loss)


def mirror(b: Recorded, rewards: Array, tau: float) -> Said:
    a = by_group(b, centred, rewards)

    def loss(logp: Flat) -> Any:
        d = log_ratio_sums(b, logp, b.old)
        return (((a - tau * d) ** 2) * b.alive).sum() / (2 * tau) / b.alive.sum()

    return Said(b.spread(a), loss)


def kimi(b: Recorded, tau: float = 0.1) -> Said:
    r = b.returns.copy()
    if b.progress >= 0.25:
        for g in b.groups:
            n = b.lengths[g]
            if np.ptp(n) > 0:
                c = 0.5 - (n - n.min()) / np.ptp(n)
                r[g] += 0.5 * np.where(b.returns[g] >= 0.5, c, np.minimum(0, c))
    return mirror(b, r, tau)


def deepvideo(b: Recorded, scale: float = 1.0) -> Said:
    a = by_group(b, standardised)

    def loss(logp: Flat) -> Any:
        d = log_ratio_sums(b, logp, b.old)
        total = 0.0
        for g in b.groups:
            total = total + ((a[g] - scale * (d[g] - d[g].mean())) ** 2).sum()
        return total / b.alive.sum()

    return Said(b.spread(a), loss)


def lens(b: Recorded, limit: float | None = 1.0, whole: bool = False, difficulty: float | None = None) -> Said:
    """g = c/(D - c), bounded smoothly: g/(1 + g/limit). D: mean c over the smoothed success rate, in [max c, 1]."""
    c = np.exp(np.real((b.sums if whole else b.means)(b.behaviour)))
    r = b.returns.copy()
    for g in b.groups:
        rate = (b.returns[g].sum() + 0.5) / (len(g) + 1)
        d = np.clip(c[g].mean() / rate, c[g].max(), 1)
        d = d if difficulty is None else difficulty
        bounded = c[g] / (d - c[g] + (c[g] / limit if limit else 0.0))
        r[g] = b.returns[g] - (1 - b.returns[g]) * bounded
    return grpo(b, rewards=r)


def unlikeliness(b: Recorded, beta: float = 0.25) -> Said:
    s = np.real(b.means(b.behaviour))
    r = b.returns.copy()
    for g in b.groups:
        for i in g:
            below, same = sum(s[j] < s[i] for j in g), sum(s[j] == s[i] for j in g)
            rank = below + (same - 1) / 2
            if b.returns[i] > 0:
                r[i] = b.returns[i] * (1 - beta * rank / len(g))
    return grpo(b, rewards=r)


def entropies(b: Recorded) -> Array:
    return np.real(b.means(b.column("entropy")))


def edge(b: Recorded, low: float = 0.1, high: float = 10.0) -> Said:
    h = entropies(b)
    factor = np.array([np.clip(h[b.alive].mean() / x, low, high) if x > 0 else high for x in h])
    a = b.spread(by_group(b, standardised) * factor)
    return Said(a, clipped(b, a))


def fc_entropy(b: Recorded, gain: float = 0.4, share: float = 0.5) -> Said:
    a = by_group(b, standardised)
    lifted = [x + np.minimum(gain * h, share * abs(x)) for x, h in zip(a, b.column("entropy"), strict=True)]
    return Said(lifted, clipped(b, lifted))


def gtpo(b: Recorded) -> Said:
    a = by_group(b, centred)
    h = entropies(b)
    out: Flat = []
    multipliers: list[Array] = [np.ones(len(r["logp"])) for r in b.rows]
    conflicts = np.zeros(len(b))
    for g in b.groups:
        for i in g:
            if a[i] == 0:
                continue
            marked = np.zeros(len(b.rows[i]["logp"]), dtype=bool)
            for end in (False, True):
                mine = b.rows[i]["tokens"][:: -1 if end else 1]
                run = 0
                for t in range(len(mine)):
                    met = any(
                        a[j] * a[i] < 0
                        and t < len(b.rows[j]["tokens"])
                        and b.rows[j]["tokens"][:: -1 if end else 1][t] == mine[t]
                        for j in g
                    )
                    if not met:
                        break
                    run += 1
                where = np.zeros(len(mine), dtype=bool)
                where[:run] = True
                where = where[::-1] if end else where
                multipliers[i] = np.where(where, multipliers[i] * (2.0 if a[i] > 0 else 0.0), multipliers[i])
                marked |= where
            conflicts[i] = marked.sum()
    for i in range(len(b)):
        base = a[i] - 0.1 * h[i] if h[i] <= 0.7 else 0.0
        out.append(multipliers[i] * base / max(1.0, conflicts[i]))
    return Said(out, likelihood(b, out, "sequence_mean"))


def vital(b: Recorded, strength: float = 1.0) -> Said:
    w = np.zeros(len(b))
    for g in b.groups:
        w[g] = np.exp(-strength * b.returns[g].mean())
    w[b.alive] /= w[b.alive].mean()
    a = b.spread(by_group(b, standardised) * w)
    return Said(a, clipped(b, a))


def noisy_backward(b: Recorded, rho0: float = 0.1, rho1: float = 0.1) -> Said:
    return mean_centred(b, (b.returns - rho0) / (1 - rho0 - rho1))


def noisy_forward(b: Recorded, rho1: float = 0.1) -> Said:
    a = b.spread((b.returns - (1 - rho1)) * b.alive)
    return Said(a, clipped(b, a))


def tempsamp(b: Recorded, t: float = 0.8, above: float = 0.01, below: float = 1.0) -> Said:
    r = b.returns
    shaped = np.where(
        r > t,
        t + above * np.log(1 + np.maximum(r - t, 0)),
        t - (np.exp(below * (t - r)) - 1) / (np.exp(below) - 1),
    )
    return grpo(b, rewards=shaped)


def grpo_lead(b: Recorded, alpha: float = 0.05) -> Said:
    r = np.full(len(b), -1.0)
    out = np.zeros(len(b))
    for g in b.groups:
        right = [i for i in g if b.returns[i] >= 0.5]
        n = b.sizes[right]
        for i in right:
            z = 0.0 if np.ptp(n) == 0 else (b.sizes[i] - n.mean()) / (n.std() + 1e-6)
            r[i] = np.exp(-alpha * z)
        rho = (r[g] > 0).mean()
        a = standardised(r[g])
        x = np.where(a > 0, rho, 1 - rho)
        out[g] = a * (0.4 + 1.1 / (1 + np.exp(10 * (x - 0.75))))
    a = b.spread(out)
    return Said(a, clipped(b, a))


def conciser(b: Recorded, limit: int = 128) -> Said:
    out = np.zeros(len(b))
    for g in b.groups:
        r = b.returns[g]
        if (r >= 0.5).all():
            out[g] = centred(r + 1 - b.sizes[g] / limit)
        else:
            out[g] = standardised(r)
    a = b.spread(out)
    return Said(a, clipped(b, a, low=0.2, high=0.28))


def otc(b: Recorded, smooth: float = 4.0) -> Said:
    r = b.returns.copy()
    for g in b.groups:
        calls = {i: b.rows[i]["info"]["tool_calls"] for i in g}
        right = [i for i in g if b.returns[i] >= 0.5]
        n = min((calls[i] for i in right), default=None)
        for i in g:
            m = calls[i]
            if n is None:
                f = 1.0
            elif n > 0:
                f = np.sin(np.pi * m / (m + n))
            else:
                f = np.cos(np.pi * m / (2 * m + smooth)) if m else 1.0
            r[i] = b.returns[i] * f
    return grpo(b, rewards=r)


def dra(b: Recorded, nonnegative: bool = True) -> Said:
    e = np.array([np.array(r["embedding"], dtype=float) for r in b.rows])
    e = e / np.linalg.norm(e, axis=1, keepdims=True)
    r = b.returns.copy()
    for g in b.groups:
        cos = e[g] @ e[g].T
        cos = np.maximum(0, cos) if nonnegative else cos
        r[g] = b.returns[g] / (cos.sum(1) + 1e-6)
    return grpo(b, rewards=r)


def ttrv(b: Recorded, majority: bool = False) -> Said:
    r = np.zeros(len(b))
    for g in b.groups:
        labels = [b.rows[i].get("label") for i in g]
        counts = {x: labels.count(x) for x in labels}
        p = np.array(list(counts.values())) / len(g)
        h = -(p * np.log(p)).sum() / np.log(len(counts)) if len(counts) > 1 else 0.0
        for i, x in zip(g, labels, strict=True):
            vote = float(counts[x] == max(counts.values())) if majority else counts[x] / len(g)
            r[i] = (0.0 if x is None else vote) - 0.75 * h
    return grpo(b, rewards=r)


def bapo(b: Recorded) -> Said:
    """The bounds that make up half of sum |r A|, over decisions that carry a gradient, positive."""
    a = b.spread(by_group(b, standardised))
    live = [(np.real(r)[m], x[m]) for r, x, m in zip(b.ratios(b.logp), a, b.trained, strict=True)]
    r, x = (np.concatenate([y[k] for y in live]) for k in (0, 1))

    def short(low: float, high: float) -> bool:
        up = (r * x)[(x > 0) & (r <= high)].sum()
        down = (r * -x)[(x < 0) & (r >= low) & (r <= 3)].sum()
        return up + down > 0 and up / (up + down) < 0.5

    low, high = 0.6, 1.2
    while short(low, high) and low < 0.9 - 1e-9:
        low = min(0.9, low + 0.05)
    while short(low, high) and high < 3 - 1e-9:
        high = min(3.0, high + 0.1)

    def loss(logp: Flat) -> Any:
        terms = []
        for q, y in zip(b.ratios(logp), a, strict=True):
            value = least(q * y, clip(q, low, high) * y)
            terms.append(-np.where(y < 0, most(value, 3 * y + 0j), value))
        return b.token_mean(terms)

    return Said(a, loss)


# ---------------------------------------------------------------- off-policy REINFORCE


def rec_reinforce(b: Recorded) -> Said:
    a = b.spread(by_group(b, centred))
    return Said(a, likelihood(b, a, "token_mean"))


def rec_asymre(b: Recorded, shift: float = 0.1) -> Said:
    a = b.spread(by_group(b, centred) + shift * b.alive)
    return Said(a, likelihood(b, a, "token_mean"))


def rec_weight(b: Recorded, temperature: float = 1.0) -> Said:
    a = by_group(b, centred)
    weighted = b.spread(np.exp(a / temperature) * a)
    return Said(weighted, likelihood(b, weighted, "token_mean"))


def rec_one_side(b: Recorded, weighted: bool = False) -> Said:
    a = b.spread(by_group(b, centred))

    def loss(logp: Flat) -> Any:
        terms = []
        for x, y, r in zip(a, logp, b.ratios(logp), strict=True):
            q = const(r)
            mask = np.where(x > 0, q <= 1.2, np.where(x < 0, q >= 0.8, True))
            terms.append(-1.0 * mask * (q if weighted else 1.0) * x * y)
        return b.token_mean(terms)

    return Said(a, loss)


def rec_opmd(b: Recorded, half: float = 0.05) -> Said:
    a = b.spread(by_group(b, centred))

    def loss(logp: Flat) -> Any:
        d = log_ratio_sums(b, logp, b.old)
        return likelihood(b, a, "sequence_sum")(logp) + half * (d**2 * b.alive).sum() / b.alive.sum()

    return Said(a, loss)


# ---------------------------------------------------------------- actor and critic


def gae(b: Recorded, rewards: Flat, gamma: float = 1.0, lam: float = 0.95) -> Flat:
    out = []
    for r, v, row in zip(rewards, b.column("value"), b.rows, strict=True):
        last = float(row.get("final_value", 0.0)) if row.get("truncated") else 0.0
        after = np.append(v[1:], last)
        delta = r + gamma * after - v
        a = np.zeros(len(v))
        run = 0.0
        for t in range(len(v) - 1, -1, -1):
            run = delta[t] + gamma * lam * run
            a[t] = run
        out.append(a)
    return out


def placed(b: Recorded) -> Flat:
    """Rewards where they are earned: tokens' at the token, turns' at their last decision, the rest at the end."""
    out = []
    for row in b.rows:
        r = np.zeros(len(row["logp"]))
        r[-1] += sum(row["scores"].values())
        for v in row.get("token_scores", {}).values():
            r += np.array(v, dtype=float)
        turn = np.array(row.get("turn", [0] * len(r)))
        for k, scores in enumerate(row.get("turn_scores", [])):
            r[np.flatnonzero(turn == k)[-1]] += sum(scores.values())
        out.append(r)
    return out


def whitened(b: Recorded, a: Flat) -> Flat:
    live = np.concatenate([x[m] for x, m in zip(a, b.trained, strict=True)])
    deviation = live.std(ddof=1) if len(live) > 1 else 0.0
    return [(x - live.mean()) / (deviation + 1e-8) for x in a]


def actor_critic(policy: Callable[[Any, Array, Recorded], Any], rewards: Callable[[Recorded], Flat] = placed) -> Oracle:
    """`policy` gives a decision's term from log-ratio and advantage; the critic's loss is added as a constant."""

    def oracle(b: Recorded) -> Said:
        bare = gae(b, rewards(b))
        a = whitened(b, bare)
        critic = 0.5 * b.token_mean([x**2 for x in bare])

        def loss(logp: Flat) -> Any:
            d = [saturated(x - o) for x, o in zip(logp, b.old, strict=True)]
            return b.token_mean([policy(x, y, b) for x, y in zip(d, a, strict=True)]) + critic

        return Said(a, loss)

    return oracle


def spo_term(d: Any, a: Array, b: Recorded) -> Any:
    r = np.exp(d)
    return -(r * a - abs(a) * (r - 1) ** 2 / (2 * 0.2))


def mdpo_term(d: Any, a: Array, b: Recorded) -> Any:
    r = np.exp(d)
    t = 1 + (0.05 - 1) * b.progress
    return -(r * a - (r * d - r + 1) / t)


def dpo_term(d: Any, a: Array, b: Recorded) -> Any:
    r = np.exp(d)
    up, down = (r - 1) * a, d * a
    f = np.where(a >= 0, most(up - 2 * np.tanh(up / 2), 0 * d.real), most(down - 0.6 * np.tanh(down / 0.6), 0 * d.real))
    return -(r * a - f)


def ppo_term(d: Any, a: Array, b: Recorded) -> Any:
    return surrogate(np.exp(d), a)


def trpo_term(d: Any, a: Array, b: Recorded) -> Any:
    return -np.exp(d) * a


def charged(coefficient: float) -> Callable[[Recorded], Flat]:
    """k1 in the reward: r_t - beta log(pi_t / ref_t), with the policy that sampled as pi."""

    def rewards(b: Recorded) -> Flat:
        return [
            r - coefficient * (x - y) * m
            for r, x, y, m in zip(placed(b), b.behaviour, b.reference, b.trained, strict=True)
        ]

    return rewards


# ---------------------------------------------------------------- comparing


def flat(rows: Sequence[Any]) -> Array:
    return np.concatenate([np.atleast_1d(np.asarray(x, dtype=float)) for x in rows]) if len(rows) else np.zeros(0)


def gap(printed: Sequence[Any], computed: Sequence[Any]) -> float:
    """The largest difference, relative to the largest number of the two."""
    x, y = flat(printed), flat(computed)
    scale = max(1.0, float(np.abs(x).max(initial=0)), float(np.abs(y).max(initial=0)))
    return float(np.abs(x - y).max(initial=0)) / scale
