"""What people start: the command line, pages, studies, serving, play."""
