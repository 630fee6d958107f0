"""`hocket init`: small projects to begin with."""
