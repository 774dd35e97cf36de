"""ONNX Runtime: op types of its contrib operators; ONNX's own are canonical."""

from __future__ import annotations

from collections.abc import Mapping

NAMES: Mapping[str, str] = {
    "Attention": """
        MultiHeadAttention GroupQueryAttention PackedAttention PackedMultiHeadAttention
        DecoderMaskedMultiHeadAttention DecoderMaskedSelfAttention SparseAttention PagedAttention QAttention
        LongformerAttention
    """,
    "AveragePool": "GlobalAveragePool",
    "Cast": "CastLike InsertedPrecisionFreeCast",
    "Conv": "FusedConv NhwcFusedConv NhwcConv ConvInteger QLinearConv",
    "Dropout": "BitmaskDropout",
    "FFT": "DFT Rfft Irfft",
    "Gelu": "FastGelu BiasGelu QuickGelu",
    "GroupNormalization": "GroupNorm SkipGroupNorm",
    "LayerNormalization": "SkipLayerNormalization",
    "MatMul": """
        Gemm FusedMatMul FusedGemm TransposeMatMul FusedMatMulActivation GemmFloat8 MatMulInteger
        MatMulIntegerToFloat MatMulNBits MatMulBnb4 MatMulFpQ4 QLinearMatMul QGemm DynamicQuantizeMatMul
        GemmFastGelu SparseToDenseMatMul
    """,
    "MaxPool": "GlobalMaxPool",
    "MemcpyDtoH": "MemcpyToHost",
    "MemcpyHtoD": "MemcpyFromHost",
    "Mul": "QLinearMul",
    "QuantizeLinear": "DynamicQuantizeLinear",
    "RMSNormalization": "SimplifiedLayerNormalization SkipSimplifiedLayerNormalization",
    "RandomNormal": "RandomNormalLike",
    "RandomUniform": "RandomUniformLike",
    "ReduceSum": "ReduceSumInteger",
    "Reshape": "Flatten",
    "Resize": "Upsample",
    "ScatterElements": "Scatter",
}
