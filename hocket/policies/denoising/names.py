"""How folders of samplers say what they are."""

SAMPLER = "hocket-flow"
"""The `model_type` of hocket's own samplers in their `config.json`."""

INDEX = "model_index.json"
"""The file that makes a folder a pipeline of diffusers."""

TRAINED = "hocket-pipeline"
"""The `model_type` in the `config.json` of a pipeline's trained weights, which names the pipeline."""
