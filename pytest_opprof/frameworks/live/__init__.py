"""Shared by live backends: their contract, their registry, their failures, source lines while a window is open."""
