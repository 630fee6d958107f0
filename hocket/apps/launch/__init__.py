"""Jobs that train on machines elsewhere: what `hocket launch` writes and sends."""
