"""Call sites: which line of the user's code asked for an op."""
