"""Memory and objects: the peak of a body, what its calls leave behind, and who holds it."""
