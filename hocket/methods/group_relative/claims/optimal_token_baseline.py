"""The claims on the optimal token baseline."""

from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, gap, say
from hocket.lab.documents import random_document
from hocket.lab.hand_formulas import stale_rows
from hocket.lab.microscope import RecordedBatch
from hocket.methods.group_relative.optimal_token_baseline import ENERGY, OTB, energies
from hocket.types import Evaluation

claim = Claims("optimal-token-baseline", "arXiv:2602.07078")


class Shown:
    """A policy of known distributions."""

    def __init__(self, logp: Tensor) -> None:
        self.logp = logp

    def distributions(self, batch: Batch, decisions: Tensor) -> Callable[[Tensor], Tensor]:
        return lambda rows: self.logp[decisions[rows]]


def drawn(seed: int) -> Batch:
    """A random batch with energies."""
    key = Key.of(seed).derive("claims", "otb")
    recorded = RecordedBatch(random_document(key, graded=True)).batch
    energy = torch.from_numpy(key.derive("energy").numpy().random(recorded.decisions)) + 0.05
    return recorded.but(annotations={ENERGY.name: energy})


def credited(batch: Batch, **changes: str) -> Batch:
    recipe = OTB.but({f"credit.{name}": value for name, value in changes.items()})
    return recipe.compute_credit(batch, recipe.init(), {})[0]


def rows(batch: Batch, values: Tensor) -> list[Tensor]:
    return list(torch.split(values, batch.lengths().tolist()))


@claim("The energy of a token is the squared length of the gradient of its log-prob to the logits.")
def the_energy_of_a_token_is_the_squared_length_of_the_gradient_of() -> Finding:
    batch = RecordedBatch(random_document(Key.of(0).derive("otb"))).batch
    logits = torch.from_numpy(Key.of(1).numpy().normal(size=(batch.decisions, 20))).requires_grad_()
    logp = torch.log_softmax(logits, 1)
    own = logp.gather(1, batch.action.long()[:, None]).sum()
    (slope,) = torch.autograd.grad(own, logits)
    shown = energies(batch, Shown(logp.detach()), torch.arange(batch.decisions))  # type: ignore[arg-type]
    unseen = energies(batch, object(), torch.arange(batch.decisions))  # type: ignore[arg-type]
    return below(EXACT, bool((unseen == 1).all()), off=gap(shown, slope.square().sum(1)))


@claim("At every place the baseline is the mean of rewards to go, weighed by the energy spent up to there.", "verl 0.9")
def at_every_place_the_baseline_is_the_mean_of_rewards_to_go() -> Finding:
    off = 0.0
    for seed in range(10):
        batch = credited(drawn(seed))
        seen = batch.occurrences
        reward = batch.scores["reward"].values
        energy = [one.cumsum(0) for one in rows(batch, batch.annotations[ENERGY.name][seen.decision])]
        ours = rows(batch, seen.advantage)
        for scenario in set(batch.scenario.tolist()):
            members = [n for n, one in enumerate(batch.scenario.tolist()) if one == scenario]
            for place in range(max(len(energy[n]) for n in members)):
                here = [n for n in members if place < len(energy[n])]
                total = sum(float(energy[n][place]) for n in here)
                base = sum(float(energy[n][place] * reward[n]) for n in here) / (total + 1e-8) if len(here) > 1 else 0.0
                off = max(off, *(abs(float(ours[n][place]) - (float(reward[n]) - base)) for n in here))
    return below(1e-9, off_by_hand=off)


@claim("By hand where decisions earn and some are imposed: places count what was chosen; a sample without peers has G.")
def by_hand_where_decisions_earn_and_some_are_imposed_places_count() -> Finding:
    gaps = []
    for number, documents in enumerate(stale_rows("otb", count=6)):
        noise = Key.of(number).derive("otb").numpy()
        for row in documents:
            row |= {"scores": {"end": row["scores"]["reward"]}, "logp_proximal": row["logp"]}
            row["token_scores"] = {"earned": noise.normal(size=len(row["logp"])).tolist()}
        documents[-1]["group"] = "alone"
        recorded = RecordedBatch({"version": 1, "trajectories": documents})
        recorded.batch = recorded.batch.but(
            annotations={ENERGY.name: torch.from_numpy(noise.random(recorded.batch.decisions)) + 0.05}
        )
        recipe = OTB.but({"combine.weights": {"end": 1.0, "earned": 1.0}, "credit.epsilon": 0.1})
        batch, _ = recipe.compute_credit(recorded.batch, recipe.init(), {})
        energy = iter(recorded.batch.annotations[ENERGY.name].tolist())
        walks = []
        for row in documents:
            earned, spent, walk = [*row["token_scores"]["earned"]], 0.0, list[tuple[float, float]]()
            earned[-1] += row["scores"]["end"]
            for place, used in enumerate(row["trained"]):
                own = next(energy)
                if used:
                    spent += own
                    walk.append((spent, sum(earned[place:])))
            walks.append(walk)
        wanted, peers = list[float](), Counter(row["group"] for row, walk in zip(documents, walks, strict=True) if walk)
        for row, walk in zip(documents, walks, strict=True):
            chosen = iter(enumerate(walk))
            for used in row["trained"]:
                place, (_, to_go) = next(chosen) if used else (0, (0.0, 0.0))
                others = zip(documents, walks, strict=True)
                here = [one[place] for other, one in others if other["group"] == row["group"] and place < len(one)]
                base = sum(w * g for w, g in here) / (sum(w for w, _ in here) + 0.1) if used else 0.0
                wanted.append(to_go - base * (len(here) > 1 and peers[row["group"]] > 1))
        gaps.append(gap(batch.occurrences.advantage, wanted))
        counted = batch.occurrences.weight != 0
        (term,) = recipe.loss(Evaluation(recorded.logp), batch)
        gaps.append(abs(float(term.total()) + float(torch.tensor(wanted, dtype=torch.float64)[counted].mean())))
    return below(EXACT, off_by_hand=max(gaps))


@claim("Where one sample alone goes on it has baseline 0; with tail own, no credit.", "verl 0.9, handle_zero_tail")
def where_one_sample_alone_goes_on_it_has_baseline_0_with_tail_own() -> Finding:
    lone = zero = 0
    for seed in range(10):
        batch, own = credited(drawn(seed)), credited(drawn(seed), tail="own")
        lengths = batch.lengths()
        for n, (plain, other) in enumerate(zip(*(rows(b, b.occurrences.advantage) for b in (batch, own)), strict=True)):
            peers = [int(lengths[m]) for m in torch.nonzero(batch.scenario == batch.scenario[n]).flatten() if m != n]
            tail, reward = slice(max(peers), None), float(batch.scores["reward"].values[n])
            lone += int((plain[tail] == reward).sum())
            zero += len(plain[tail]) - int((other[tail].abs() < 1e-6).sum()) + int((plain[tail] != reward).sum())
            zero += int((plain[: max(peers)] != other[: max(peers)]).sum())
    return Finding(lone > 0 and zero == 0, say(tokens_alone=lone, exceptions=zero))


@claim("Of all baselines it makes the energy-weighted squared advantage of a place least.", "section 3")
def of_all_baselines_it_makes_the_energy_weighted_squared_advantage() -> Finding:
    worst, cases = -1.0, 0
    for seed in range(5):
        batch = credited(drawn(seed))
        seen = batch.occurrences
        energy = torch.cat([o.cumsum(0) for o in rows(batch, batch.annotations[ENERGY.name][seen.decision])])
        place = torch.cat([torch.arange(n) for n in batch.lengths().tolist()])
        cell = batch.scenario[seen.trajectory] * 100 + place
        for one in set(cell.tolist()):
            here = cell == one
            if int(here.sum()) > 1:
                advantage, weight = seen.advantage[here], energy[here]
                least = float((weight * advantage.square()).sum())
                moved = [float((weight * (advantage + step).square()).sum()) for step in (-0.01, 0.01)]
                worst, cases = max(worst, least - min(moved)), cases + 1
    return Finding(worst < 0 and cases > 20, say(places=cases, least_minus_moved=worst))


claim.spares("2 ** 23 -> 2", "how much is held at once changes no number")
claim.spares("max(1, BUDGET // width) -> min(1, BUDGET // width)", "how much is held at once changes no number")
claim.spares(
    "int(group.max()) + 1 -> int(group.max()) - 1", "the least number of counts; there are more for more groups"
)
claim.spares("int(group.max()) + 1 -> int(group.max())", "the least number of counts; there are more for more groups")
claim.spares("group.max() -> group.min()", "the least number of counts; there are more for more groups")
claim.spares("-1 -> 1", "the last of two dimensions")

claim.shipped(OTB, "credit")
