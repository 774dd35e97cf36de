"""NumPy, by arrays that know they are watched."""
