"""Other Pythons: pytests that a run starts to measure its tests apart from each other."""
