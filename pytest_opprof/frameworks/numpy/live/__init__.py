"""NumPy and SciPy: machine code leads the pointers of NumPy's calls past an observer."""
