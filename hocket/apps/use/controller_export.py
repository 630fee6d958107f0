"""`hocket export` of a run of controllers: a run with one checkpoint, and ONNX."""

from __future__ import annotations

from pathlib import Path

from hocket.apps.use.loading import policy_of, reader, roles_of
from hocket.apps.use.trained_policy import new_folder
from hocket.core.errors import ConfigurationError
from hocket.train.checkpoint import Checkpoints
from hocket.train.export import ExportResult


def export_controller(
    run: Path, out: Path, *, role: str | None = None, which: str = "last", onnx: bool = False, trust: bool = False
) -> ExportResult:
    """Writes the policies of a run into the new folder `out`, which every command reads as a run.

    Args:
        role: whose ONNX file to write; None writes one for each, `model.onnx` or `model-ROLE.onnx`.
        which: the `last` checkpoint or the `best`. onnx: writes ONNX files too, see `hocket.apps.use.onnx`.

    Raises:
        ConfigurationError: when `out` exists, there is no such checkpoint or role, or the policy has no ONNX form.
    """
    new_folder(out)
    read = reader(run, {}, checkpoint=which, trust=trust)
    subject = read(None)
    roles = list(roles_of(subject)) if role is None else [role]
    if role is not None and not onnx:
        raise ConfigurationError(
            f"--policy {role}: all policies of a run of controllers are exported together; drop it"
        )
    policies = [policy_of(subject, name, read) for name in roles]
    hidden = out.with_name(f".{out.name}.onnx")
    files = []
    try:
        for policy in policies if onnx else ():
            name = "model.onnx" if len(policies) == 1 else f"model-{policy.role}.onnx"
            hidden.mkdir(parents=True, exist_ok=True)
            files.append(policy.save_onnx(hidden / name))
        policies[0].save(out)
        for file in files:
            file.rename(out / file.name)
    finally:
        for file in hidden.glob("*.onnx"):
            file.unlink()
        if hidden.is_dir():
            hidden.rmdir()
    assert subject.checkpoint is not None
    names = sorted(file.relative_to(out).as_posix() for file in out.rglob("*") if file.is_file())
    return ExportResult("controller", Checkpoints.step(subject.checkpoint), names)
