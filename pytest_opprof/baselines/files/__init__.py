"""The files of baselines: where they lie, what they hold, how they are read and written."""
