"""Compare with another revision: `run` starts both sides by turns, `pairs` judges each test."""
