"""Does a product's row depend on how many rows are multiplied beside it? Per shape, the largest difference.

python benchmarks/row_invariance.py [MODEL FOLDER] [--rows 64]

Sampler and learner multiply the same rows in batches of different sizes, so their log-probs are equal to the last bit
only where this is 0. The products are those of a layer of the model as hocket computes them, of the shipped base where
none is named.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from hocket.policies.family import Map, Precision, groups, linear
from hocket.policies.form_reading import known_form
from hocket.train.models import model_path


def gaps(product: Map, width: int, rows: int, dtype: torch.dtype) -> Iterator[float]:
    """The largest difference between a product of m rows and the same rows of the product of all, for each m."""
    left = torch.randn(rows, width, generator=torch.Generator().manual_seed(0)).to(dtype)
    whole = product(left)
    for count in range(1, rows + 1):
        yield float((product(left[:count]) - whole[:count]).abs().max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="nano")
    parser.add_argument("--rows", type=int, default=64)
    options = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} threads")
    made = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(model_path(options.model)))
    precisions: tuple[Precision, ...] = ("fp32", "bf16")
    for layers, scale in groups(made.model.layers[0], known_form(made).layers[0]):
        width, to = layers[0].in_features, sum(layer.out_features for layer in layers)
        for precision in precisions:
            dtype = torch.bfloat16 if precision == "bf16" else torch.float32
            with torch.no_grad():
                found = list(gaps(linear(layers, scale, precision), width, options.rows, dtype))
            differing = sum(gap > 0 for gap in found)
            sizes = f"{differing} of {options.rows} batch sizes differ"
            print(f"{width} to {to}, {precision}: {sizes}, by up to {max(found):.3g}")


if __name__ == "__main__":
    main()
