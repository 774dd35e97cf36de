"""NumPy and SciPy: what their ops work on, and the ops live. Nothing of them is saved."""
