"""Everything that users see, kept as text: `test_golden.py` shows what a change does to it."""
