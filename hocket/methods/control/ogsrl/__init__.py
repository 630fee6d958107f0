"""OGSRL: offline guarded safe planning for treatments."""
