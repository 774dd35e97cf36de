"""NumPy and SciPy: machine code redirects the pointers of NumPy's calls to observers."""
