"""Profiles of Ascend NPUs, by msprof, torch_npu and MindSpore from 2.5 on."""
