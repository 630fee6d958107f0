"""PM4GRPO: GSPO that rewards reasoning which proceeds like a teacher's, by process mining (arXiv:2510.25065).

Sentences become labelled activities (`activities`); a net is mined from the policy's own trace and the teacher's trace
replayed on it, and `Conformance` adds how well the two agree to form and answer.
"""

from __future__ import annotations

import contextlib
import functools
import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from hocket.core.batch import Batch
from hocket.core.columns import TEXT, InfoColumn
from hocket.core.errors import ConfigurationError
from hocket.core.signals import returns
from hocket.methods.base.gspo import GSPO
from hocket.rewards.judging import Judge, picked
from hocket.rewards.key_steps import OrderedStages, reasoning_of
from hocket.rewards.members import with_return
from hocket.stages import Shaping

TEACHER = InfoColumn("teacher", "A teacher's trace, as text or activities; also in a scenario's metadata.")


Rules = tuple[tuple[str, str], ...]


RULES: Rules = (
    ("conclude", r"\b(so the answer|therefore|the answer is|in conclusion|conclude|final(ly)?)\b|<answer>"),
    ("check", r"\b(check|verify|double-check|confirm|test|indeed)\w*\b"),
    ("plan", r"\b(plan|first,? i|strategy|approach|we need to|let us start)\b"),
    ("restate", r"\b(asks?|asked|given|the (question|problem|task) (is|says|wants)|we (know|have))\b"),
    ("derive", r"\b(add|subtract|multipl|divid|comput|calculat|deriv|sum|gives?|equals?|makes?)\w*\b|="),
)
"""Activities and the patterns that name them, in order of precedence."""


_SENTENCE = re.compile(r"(?:[^.;!?\n]|\.(?=\d))+")


def activities(text: str, rules: Rules = RULES) -> tuple[str, ...]:
    """The trace of a text: the activity of every sentence or line whose wording a rule knows, in order."""
    found = []
    for sentence in _SENTENCE.findall(text.lower()):
        named = next((name for name, pattern in rules if re.search(pattern, sentence)), None)
        found += [named] if named else []
    return tuple(found)


ACTIVITY = (
    "What does this sentence of a solution do? restate: it says what is given or asked. plan: it says how to proceed. "
    "derive: it computes or concludes a step. check: it verifies. conclude: it gives the answer. other: none of these."
)


def judged_activities(judge: Judge, texts: Sequence[str]) -> list[tuple[str, ...]]:
    """The trace of each text as a judge labels its sentences; those that are `other`, or unanswered, are left out."""
    names = (*sorted(name for name, _ in RULES), "other")
    sentences = [[one.strip() for one in _SENTENCE.findall(text) if one.strip()] for text in texts]
    told = iter(picked(judge, [(f"{ACTIVITY}\n\n{one}\n", names) for every in sentences for one in every]))
    rows = [[next(told) for _ in every] for every in sentences]
    return [tuple(name for name in row if name is not None and name != "other") for row in rows]


def harmonic_mean(fitness: float, precision: float) -> float:
    """`2 f q / (f + q)`, 0 where both are 0."""
    return 2 * fitness * precision / (fitness + precision) if fitness + precision > 0 else 0.0


@functools.cache
def _pm4py() -> Any:
    """The library, imported without the banner it would print.

    Raises:
        ConfigurationError: when it is not installed.
    """
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            import pm4py
    except ImportError:
        raise ConfigurationError(
            "process conformance is measured by pm4py, which is not installed; install hocket[process]"
        ) from None
    return pm4py


@functools.lru_cache(maxsize=16384)
def conformance(policy: tuple[str, ...], teacher: tuple[str, ...]) -> tuple[float, float]:
    """Fitness and precision of the teacher's trace on the net that the inductive miner finds in the policy's.

    By pm4py with alignments. An empty trace conforms to nothing: (0, 0).

    Raises:
        ConfigurationError: without pm4py.
    """
    if not policy or not teacher:
        return 0.0, 0.0
    pm4py = _pm4py()
    from pm4py.algo.evaluation.precision import algorithm as precisions
    from pm4py.algo.evaluation.replay_fitness import algorithm as fitnesses

    log, quiet = _log(teacher), {"show_progress_bar": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)  # its matrices are NumPy's old ones
        net = pm4py.discover_petri_net_inductive(_log(policy))
        fitness = fitnesses.apply(log, *net, parameters=quiet, variant=fitnesses.Variants.ALIGNMENT_BASED)
        aligned = precisions.Variants.ALIGN_ETCONFORMANCE
        precision = precisions.apply(log, *net, parameters=quiet, variant=aligned)
    return float(fitness["log_fitness"]), float(precision)


def _log(trace: Sequence[str]) -> Any:
    """A log with one case."""
    from pm4py.objects.log.obj import Event, EventLog, Trace

    return EventLog([Trace([Event({"concept:name": name}) for name in trace], attributes={"concept:name": "0"})])


@dataclass(frozen=True)
class Conformance(Shaping):
    """`R += weight 2 f q / (f + q)`: the conformance reward of PM4GRPO (arXiv 2510.25065).

    f and q are fitness and precision of the teacher's trace, aligned on the net mined from the policy's own
    (`conformance`). A judge labels sentences, as the paper's language model does; without one rules on their wording do
    (`activities`). Reads `text`, whose part before the last `<answer>` is labelled, and `teacher`, the teacher's
    reasoning as text or as a list of activities (a column or in the scenario's metadata); a trajectory without one gets
    no such reward.

    The measure has pitfalls: repeats lower it (a trace with repeats scores below 1 even against itself), one leading
    activity too many can make it 0, and further repeats can raise it again, because the miner answers with loops.

    Attributes:
        rules: pairs of an activity and the regular expression that names it, in order of precedence; None is `RULES`.

    Raises:
        ConfigurationError: on a call, where some trajectory has a teacher and pm4py is not installed.
    """

    weight: float = 1.0
    rules: Rules | None = None
    judge: Judge | None = None

    asks_judge: ClassVar[bool] = True

    def __call__(self, batch: Batch) -> Batch:
        texts = TEXT.read(batch, "Conformance")
        teachers = TEACHER.or_metadata(batch)
        scores = (
            [self.score(text or "", teacher) for text, teacher in zip(texts, teachers, strict=True)]
            if self.judge is None
            else self._judged(self.judge, texts, teachers)
        )
        return with_return(batch, returns(batch) + self.weight * torch.tensor(scores, dtype=torch.float64))

    def _judged(self, judge: Judge, texts: Sequence[str | None], teachers: Sequence[Any]) -> list[float]:
        """The conformance of each text, traces labelled by a judge; 0 without a teacher."""
        asked = [
            reasoning_of(text or "") if teacher is not None else ""
            for text, teacher in zip(texts, teachers, strict=True)
        ]
        shown = [teacher if isinstance(teacher, str) else "" for teacher in teachers]
        labelled = judged_activities(judge, [*asked, *shown])
        pairs = zip(labelled[: len(asked)], labelled[len(asked) :], teachers, strict=True)
        return [
            0.0
            if teacher is None
            else harmonic_mean(*conformance(own, model if isinstance(teacher, str) else tuple(teacher)))
            for own, model, teacher in pairs
        ]

    def score(self, text: str, teacher: str | Sequence[str] | None) -> float:
        """The conformance of one text, in [0, 1]; 0 without a teacher."""
        if teacher is None:
            return 0.0
        rules = self.rules or RULES
        trace = activities(teacher, rules) if isinstance(teacher, str) else tuple(teacher)
        return harmonic_mean(*conformance(activities(reasoning_of(text), rules), trace))


PM4GRPO = GSPO.but(
    name="pm4grpo",
    title="Reasoning-aware GRPO by process mining",
    source="PM4GRPO, arXiv:2510.25065",
    catalogue_ids=("pm4grpo",),
    axes=("reward", "analysis"),
    formula="r_i = [format] + R_i + 2 f_i q_i/(f_i + q_i),  f, q fitness and precision of the teacher's trace on the "
    "net mined from sample i's; then GSPO",
    conventions={
        **GSPO.conventions,
        "weights": "1 each for format (<think>, </think>, <answer>, </answer> in order), answer and conformance",
        "labels": "--judge picks one for every sentence (`ACTIVITY`); without one, rules on their wording (built in, "
        "or shaping.1.rules)",
        "miner": "pm4py's inductive miner on the sample's own trace, alignments for fitness and precision",
        "empty trace": "conformance 0",
        "no teacher": "conformance 0; the teacher's reasoning stands in the scenario's metadata",
    },
    shaping=(OrderedStages(), Conformance()),
)
