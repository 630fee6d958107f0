"""Vectors for tools that search by embeddings: `--embedder`, by default the run's model as it was before training."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from hocket.agents.tools.embedding_search import EmbeddedIndex, Encoder
from hocket.agents.tools.search import Search
from hocket.core.errors import ConfigurationError
from hocket.core.packing import pack
from hocket.rewards.embedding import text_vectors
from hocket.train.embedders import POLICY, SENTENCES, checked_vectors, compares_texts, text_function
from hocket.train.settings import Config
from hocket.types import Scenario, Trajectory, Turn

if TYPE_CHECKING:
    from hocket.policies.causal_lm import CausalLM


def seat_searches(config: Config, workflow: Any, policies: Mapping[str, Any]) -> None:
    """Gives the workflow's searches by embedding their encoder. Nothing is embedded where there is none.

    Raises:
        ConfigurationError: when there is no such embedder, or it does not embed the articles.
    """
    indexes = list(searched_by_vectors(workflow))
    if not indexes:
        return
    encoder = encoder_of(config, policies)
    for index in indexes:
        index.seat(encoder)


def check_embedder(config: Config, workflow: Any) -> None:
    """Refuses an embedder that nothing asks.

    Raises:
        ConfigurationError: when no stage compares texts, and no tool searches by embedding.
    """
    idle = config.embedder is not None and not compares_texts(config)
    if idle and not any(searched_by_vectors(workflow)):
        raise ConfigurationError(
            f"embedder = {config.embedder!r}: {config.method} compares no texts, and no tool searches by embedding; "
            "drop it"
        )


def searched_by_vectors(workflow: Any) -> Iterator[EmbeddedIndex]:
    """The indexes that a workflow's tools search by embedding; tools made for each episode bring their own encoder."""
    tools = getattr(workflow, "tools_of", None)
    for tool in tools if isinstance(tools, (list, tuple)) else ():
        if isinstance(tool, Search) and isinstance(tool.index, EmbeddedIndex):
            yield tool.index


def encoder_of(config: Config, policies: Mapping[str, Any]) -> Encoder:
    """What the run's `embedder` names.

    Of several policies the first gives its states. They are those of a copy that training leaves alone, since an index
    whose articles moved at every step would have to be made again at every step.

    Raises:
        ConfigurationError: when there is no such embedder, or no policy has states.
    """
    named = config.embedder or POLICY
    if named == POLICY:
        from hocket.policies.causal_lm import CausalLM

        writer = next((policy for policy in policies.values() if isinstance(policy, CausalLM)), None)
        if writer is None:
            raise ConfigurationError(
                "embedder = 'policy': no policy of this run has hidden states to search by; name a "
                f"{SENTENCES}MODEL or a FILE.py:FUNCTION"
            )
        still = writer.frozen_copy()
        return Encoder(named, functools.partial(mean_states, still), _weights(still))
    function = text_function(named, None)
    if function is None:
        return Encoder(named, lambda texts: text_vectors(texts).numpy(), named)
    outside = not named.startswith(SENTENCES)
    identity = f"{named} {Path(named.partition('.py:')[0] + '.py').read_text('utf-8')}" if outside else named
    return Encoder(named, lambda texts: checked_vectors(named, function, texts).numpy(), identity, outside=outside)


def mean_states(policy: CausalLM, texts: Sequence[str]) -> NDArray[np.float64]:
    """The mean of a policy's last hidden states over the tokens of each text, `[M, H]`; of one that is cut to fit.

    A text is read as a turn that stands alone, after a token that ends one; an empty one has that token's state.
    """
    start = min(policy.stop_ids, default=0)
    limit = policy.context_length
    read = [policy.tokenizer.encode(text, add_special_tokens=False) for text in texts]
    limited = [(tokens or [start])[: None if limit is None else limit - 1] for tokens in read]
    turns = [
        Turn(policy.name, policy.name, np.array([start]), np.array(tokens), logp=np.zeros(len(tokens), np.float32))
        for tokens in limited
    ]
    return policy.mean_states(pack([Trajectory(Scenario(""), [turn]) for turn in turns])).numpy()


def _weights(policy: CausalLM) -> str:
    """Names a policy's weights and what it computes in."""
    digest = hashlib.blake2b(f"{policy.precision} {policy.adapted}".encode(), digest_size=16)
    with policy.residence.whole():
        for name, value in policy.module.state_dict().items():
            digest.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
            digest.update(value.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
