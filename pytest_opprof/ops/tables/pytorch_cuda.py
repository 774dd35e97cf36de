"""PyTorch on CUDA: operators that only its build for CUDA registers. Names of kernels: `ops.cuda_kernels`."""

from __future__ import annotations

from collections.abc import Mapping

NAMES: Mapping[str, str] = {
    "ConvGrad": """
        aten::cudnn_convolution_backward aten::cudnn_convolution_backward_input
        aten::cudnn_convolution_backward_weight
    """,
}
