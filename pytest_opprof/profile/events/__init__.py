"""From the events of a recording to a profile: their log, their tree, the op that owns each, and the sums."""
