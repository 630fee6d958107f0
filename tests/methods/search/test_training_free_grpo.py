"""What the reflecting model of Training-Free GRPO reads."""

from __future__ import annotations

from hocket.lab.texts_worlds import contrasting, searched
from hocket.methods.search.claims.training_free_grpo import world
from hocket.methods.search.training_free_grpo import SemanticAdvantage


def test_the_reflecting_model_reads_the_lessons_by_number() -> None:
    told: list[str] = []

    def reflect(question: str) -> str:
        told.extend(question.partition("Lessons so far:\n")[2].partition("\n\n")[:1])
        return contrasting(question)

    bench = searched(world(3), reflect, SemanticAdvantage(batch=6), budget=3000)
    libraries = [trial.texts.library for trial in bench.trials]
    lists = ["\n".join(f"{n}. {lesson}" for n, lesson in enumerate(one, 1)) or "(none)" for one in libraries]
    heard = list(dict.fromkeys(one for one in told if one))
    holds = heard[0] == "(none)" and len(heard) > 1 and heard == lists[: len(heard)]
    assert holds
