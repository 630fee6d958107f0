"""The teachers that `--teacher` names: a model, a run, a server, or several that a column of the task routes to."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.engine.remote_http import Endpoint, only_model
from hocket.stages import Policy
from hocket.train.learner import Learner
from hocket.train.models import model_folder
from hocket.train.settings import Config

if TYPE_CHECKING:
    from hocket.engine.remote import EngineJournal
    from hocket.policies.causal_lm import CausalLM

KEY_VARIABLE = "HOCKET_TEACHER_KEY"
"""The environment variable with the API key of a teacher behind an endpoint; without it no key is sent."""

COLUMN = "teacher"
"""The column that names a trajectory's teacher, where there are several and none is named."""

_NAMED = re.compile(r"[\w.-]+=")


def seat_teachers(
    config: Config, learners: Mapping[str, Learner], journal: EngineJournal | None, *, some: bool
) -> None:
    """Makes the configured teachers the reference of the learners that have one.

    `some`: these learners are those of a further process.

    Raises:
        ConfigurationError: when no learner of the run has one, or the policy is no language model.
    """
    if config.teacher is None:
        return
    held = [learner for learner in learners.values() if learner.reference is not None and not learner.frozen]
    if not held and not some:
        names = ", ".join(dict.fromkeys(learner.recipe.name for learner in learners.values()))
        raise ConfigurationError(
            f"teacher = {config.teacher!r}: {names} compares with no reference; use dgpo-distillation or grpo-kl"
        )
    from hocket.policies.causal_lm import CausalLM

    for learner in held:
        if not isinstance(learner.policy, CausalLM):
            raise ConfigurationError(f"teacher = {config.teacher!r}: only language models have one")
        learner.reference = _teachers(config, learner.policy, journal, some=some)
        if learner.recipe.plays_reference and not isinstance(learner.reference, CausalLM):
            raise ConfigurationError(
                f"teacher = {config.teacher!r}: recipe {learner.recipe.name} samples from its teacher, and a server, "
                "several teachers or one of another tokenizer only read; let the student or the data write "
                "(rollout.other data)"
            )


def named_teachers(named: str) -> tuple[str | None, dict[str, str]]:
    """The column and the teachers by name of `[by=COLUMN,]NAME=WHERE,NAME=WHERE`; None and one of "" of anything else.

    Raises:
        ConfigurationError: when a part has no name, or two have one.
    """
    if not _NAMED.match(named):
        return None, {"": named}
    column, teachers = COLUMN, dict[str, str]()
    for part in named.split(","):
        name, sign, where = part.strip().partition("=")
        if not sign or not name or not where or name in teachers:
            raise ConfigurationError(
                f"teacher = {named!r}: {part.strip()!r} is not NAME=WHERE of a new name; write "
                "[by=COLUMN,]NAME=WHERE,NAME=WHERE"
            )
        if name == "by":
            column = where
        else:
            teachers[name] = where
    if not teachers:
        raise ConfigurationError(f"teacher = {named!r} names no teacher; add NAME=WHERE")
    return column, teachers


def _teachers(config: Config, policy: CausalLM, journal: EngineJournal | None, *, some: bool) -> Policy:
    column, teachers = named_teachers(str(config.teacher))
    loaded = {name: _teacher(config, where, policy, journal, some=some) for name, where in teachers.items()}
    if column is None:
        return loaded[""]
    from hocket.policies.routed_teachers import RoutedTeachers

    if config.learners > 1:
        raise ConfigurationError(f"teacher = {config.teacher!r}: several teachers need learners = 1")
    return RoutedTeachers(policy.name, loaded, column)


def _teacher(config: Config, where: str, policy: CausalLM, journal: EngineJournal | None, *, some: bool) -> Policy:
    if not where.startswith(("http://", "https://")):
        return _model(config, where, policy)
    if some or config.learners > 1:
        raise ConfigurationError(f"teacher = {where!r}: a teacher behind a server needs learners = 1")
    from hocket.engine.served_teacher import ServedTeacher
    from hocket.policies.shapes import text_config

    url, _, model = where.partition("#")
    key = KEY_VARIABLE if os.environ.get(KEY_VARIABLE) else None
    tokenizer = policy.tokenizer
    try:
        return ServedTeacher(
            Endpoint(url, model or only_model(url, key), key_variable=key),
            name=policy.name,
            width=int(text_config(policy.model.config).vocab_size),
            spell=lambda token: str(tokenizer.decode([token])),
            journal=journal,
            divergence=policy.divergence,
        )
    except ConfigurationError as error:
        raise ConfigurationError(f"teacher: {error}") from error


def _model(config: Config, where: str, policy: CausalLM) -> Policy:
    """A model or a run, frozen, beside a policy that it is to teach.

    Raises:
        ConfigurationError: when it has other tokens than the policy, and the recipe needs the same.
    """
    from hocket.agents.workflows.chat import Chat
    from hocket.core.span_divergences import SpanDivergence
    from hocket.policies.causal_lm import CausalLM
    from hocket.policies.other_vocabulary import ADVICE, OtherVocabulary
    from hocket.train.device_faults import move
    from hocket.train.machine import device_of

    key = Key.of(config.seed).derive("teacher", policy.name)
    teacher = CausalLM.from_pretrained(
        model_folder(where, config.runs),
        name=policy.name,
        precision=policy.precision,
        chat_template=config.template.lenient,
        key=key,
    )
    move(teacher.module.requires_grad_(False), device_of(config), where)
    if teacher.tokenizer.get_vocab() == policy.tokenizer.get_vocab():
        return teacher
    if not isinstance(policy.divergence, SpanDivergence):
        raise ConfigurationError(f"teacher = {where!r} reads other tokens than {policy.name!r}; {ADVICE}")
    if config.shard:
        raise ConfigurationError(f"teacher = {where!r}: a teacher of another tokenizer is not sharded; drop shard")
    return OtherVocabulary(teacher, Chat(teacher.tokenizer), policy.tokenizer, policy.end_of_turn or policy.stop_ids)
