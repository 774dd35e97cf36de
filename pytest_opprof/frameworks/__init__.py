"""A room for each framework: its work, its events, its backend (`live`), the readers of its files (`saved`)."""
