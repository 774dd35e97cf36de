"""Run a test again, in this process or in others: to confirm a worse result, and to find its cause."""
