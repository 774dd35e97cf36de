"""The input of commands: files, folders, URLs, and the ranks that a cluster reads."""
