"""What a command is given: files, folders, URLs, and the ranks that a cluster reads."""
