"""NumPy, by watched arrays: they record their ops."""
