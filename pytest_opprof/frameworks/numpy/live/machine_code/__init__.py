"""The code that NumPy's pointers lead through, and the layout of the structures of NumPy and Python."""
