"""NumPy and SciPy: the work of their ops, and the live recording. They have no saved profiles."""
