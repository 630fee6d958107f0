"""`hocket optimise`: better texts for a policy whose weights stay as they are."""
