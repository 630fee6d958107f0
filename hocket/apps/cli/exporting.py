"""`hocket export`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hocket.apps.cli.output import Pairs, emit
from hocket.core.errors import ConfigurationError
from hocket.train.runfolder import find_run


def export(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket export`."""
    from hocket.train.export import export_run, push

    run = find_run(options.run, options.runs)
    out = Path(options.out) if options.out else run / "export"
    other = options.average
    if other is None and options.share is not None:
        raise ConfigurationError(
            "--share is the weight of a second model: name that model with --average, or drop --share"
        )
    found = export_run(
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
        emit({"path": str(out), "step": found.step, "kind": found.kind, "files": found.files, "pushed": address})
        return 0
    print(f"{found.kind} of step {found.step}, {len(found.files)} files", file=sys.stderr)
    print(out if address is None else address)
    return 0
