"""MindSpore: profiles of the CPU, of GPUs, and of Ascend up to 2.4; the graphs and models that it saves."""
