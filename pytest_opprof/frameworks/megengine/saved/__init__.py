"""MegEngine's graph profile and its timeline."""
