"""References that are no single model of the policy's vocabulary: several routed ones, other tokenizers, other prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import other_tokens
from torch import Tensor

from hocket.agents.workflows.chat import Chat
from hocket.core.columns import METADATA, PROMPT
from hocket.core.divergences import JensenShannon
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.core.span_divergences import SharedTokens, SortedProbabilities, SpanDivergence
from hocket.methods.base.opsd import behind_privileged
from hocket.methods.base.self_distillation import PRIVILEGED_PROMPT
from hocket.nano import BASE
from hocket.policies import heads
from hocket.policies.causal_lm import CausalLM
from hocket.policies.other_vocabulary import OtherVocabulary, spans_apart
from hocket.policies.routed_teachers import RoutedTeachers
from hocket.policies.text_spans import ends_of, spans_of
from hocket.types import Batch, Quantity, Scenario, Trajectory, Turn
