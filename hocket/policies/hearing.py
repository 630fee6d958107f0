"""Models that read sounds: their tower and projector, called as the model's own forward pass calls them."""

from __future__ import annotations

import torch
from torch import Tensor

from hocket.policies.vision import Vision


class Hearing(Vision):
    """The parts of a model of the Qwen2-Audio family that its language part lacks.

    A tower reads a sound filled up with silence to one length, and attends to what is sound alone. The family has no
    method for the features by themselves.
    """

    def _rows_of(self, stacked: dict[str, Tensor]) -> Tensor:
        from transformers.masking_utils import create_bidirectional_mask

        tower = self.whole.model.audio_tower
        mel, heard = stacked["input_features"], stacked["feature_attention_mask"].sum(-1)
        frames, tokens = tower._get_feat_extract_output_lengths(heard)
        positions = torch.arange((mel.shape[-1] - 2) // 2 + 1, device=mel.device)
        mask = create_bidirectional_mask(
            config=tower.config,
            inputs_embeds=mel.new_zeros(len(mel), len(positions), 1),
            attention_mask=(positions < frames[:, None]).long(),
        )
        features = self.whole.model.multi_modal_projector(tower(mel, attention_mask=mask).last_hidden_state)
        places = torch.arange(features.shape[1], device=mel.device)
        rows: Tensor = features[places < tokens[:, None]]
        return rows
