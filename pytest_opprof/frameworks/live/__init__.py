"""What live backends share: their contract, the registry of them, their failures, lines while a window is open."""
