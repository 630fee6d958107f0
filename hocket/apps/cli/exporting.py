"""`hocket export`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hocket.apps.cli.output import Pairs, emit
from hocket.core.errors import ConfigurationError
from hocket.train.runfolder import find_run

if TYPE_CHECKING:
    from hocket.train.export import ExportResult


def export(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket export`."""
    from hocket.train.export import export_run, is_language_run, push

    run = find_run(options.run, options.runs)
    out = Path(options.out) if options.out else run / "export"
    other = options.average
    if other is None and options.share is not None:
        raise ConfigurationError(
            "--share is the weight of a second model: name that model with --average, or drop --share"
        )
    if not is_language_run(run, options.checkpoint):
        exported = _controller(options, run, out)
    elif options.onnx:
        raise ConfigurationError(
            f"--onnx is for controllers, and {run} trained a language model; write --gguf for llama.cpp, or --merge"
        )
    else:
        exported = export_run(
            run,
            out,
            policy=options.policy,
            which=options.checkpoint,
            merge=options.merge,
            gguf=options.gguf,
            average=None if other is None else Path(other) if Path(other).is_dir() else find_run(other, options.runs),
            share=0.5 if options.share is None else options.share,
        )
    address = push(out, options.push, private=options.private) if options.push else None
    if options.json:
        outcome = {"step": exported.step, "kind": exported.kind, "files": exported.files}
        emit({"path": str(out), **outcome, "pushed": address})
        return 0
    print(f"{exported.kind} of step {exported.step}, {len(exported.files)} files", file=sys.stderr)
    print(out if address is None else address)
    return 0


def _controller(options: argparse.Namespace, run: Path, out: Path) -> ExportResult:
    """Exports a run that trained no language model."""
    from hocket.apps.use.controller_export import export_controller

    stray = next((flag for flag in ("merge", "gguf", "average") if getattr(options, flag)), None)
    if stray is not None:
        raise ConfigurationError(f"--{stray} is for language models, and {run} trained none; drop it")
    how: dict[str, Any] = {"role": options.policy, "which": options.checkpoint, "onnx": options.onnx}
    return export_controller(run, out, trust=options.trust, **how)
