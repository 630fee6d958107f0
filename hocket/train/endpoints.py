"""Casting a role with a model behind an endpoint."""

from __future__ import annotations

from hocket.agents.workflows.chat import Chat
from hocket.agents.workflows.plain import TextChat
from hocket.agents.workflows.team import Actor
from hocket.core.errors import ConfigurationError
from hocket.engine.barrier import Barrier
from hocket.engine.remote import EngineJournal, RemoteEngine
from hocket.engine.remote_http import Endpoint
from hocket.policies.loading import read_tokenizer
from hocket.policies.templates import TemplateSettings
from hocket.train.settings import RoleSettings


def outside_actor(
    role: str,
    settings: RoleSettings,
    *,
    tokenizer: str,
    chat_template: TemplateSettings,
    journal: EngineJournal | None,
    barrier: Barrier,
) -> Actor:
    """The seat of a role whose settings name an endpoint. It acts and is never trained.

    With a tokenizer of its own the role is asked by token ids, rendered by that tokenizer's chat template; else by
    messages, and `tokenizer` with `chat_template`, those of the run, only encode the record.

    Raises:
        ConfigurationError: when the settings do not fit together.
    """
    for name in ("recipe", "policy"):
        if getattr(settings, name) is not None:
            raise ConfigurationError(f"roles.{role}.{name}: a role behind an endpoint is not trained here; drop it")
    if settings.model is None:
        raise ConfigurationError(f"roles.{role}.endpoint needs roles.{role}.model, the server's name for the model")
    assert settings.endpoint is not None
    try:
        endpoint = Endpoint(settings.endpoint, settings.model, key_variable=settings.key_variable)
    except ConfigurationError as error:
        raise ConfigurationError(f"roles.{role}: {error}") from error
    if settings.tokenizer is None:
        plain = TextChat(read_tokenizer(tokenizer, chat_template))
        engine = RemoteEngine(endpoint, encode=plain.encode, journal=journal, barrier=barrier)
        return Actor(policy=role, engine=engine, chat=plain, learns=False)
    chat = Chat(read_tokenizer(settings.tokenizer))
    engine = RemoteEngine(endpoint, encode=chat.encode, tokens=True, stops=chat.stops, journal=journal, barrier=barrier)
    return Actor(policy=role, engine=engine, chat=chat, learns=False)
