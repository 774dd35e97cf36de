"""Ascend: op types of CANN, as msprof, torch_npu and MindSpore report them."""

from __future__ import annotations

from collections.abc import Mapping

NAMES: Mapping[str, str] = {
    "Acos": "ForeachAcos",
    "Add": "AddN ForeachAddList ForeachAddListV2 ForeachAddScalar ForeachAddScalarList InplaceAdd",
    "Addcdiv": "ForeachAddcdivScalar ForeachAddcdivList ForeachAddcdivScalarList",
    "Addcmul": "ForeachAddcmulScalar ForeachAddcmulList ForeachAddcmulScalarList",
    "And": "LogicalAnd",
    "ArgMax": "ArgMaxV2 ArgMaxD ArgMaxWithValue",
    "ArgMin": "ArgMinV2 ArgMinD ArgMinWithValue",
    "Asin": "ForeachAsin",
    "Atan": "ForeachAtan",
    "Attention": """
        FlashAttentionScore FlashAttentionVarLenScore PromptFlashAttention IncreFlashAttention
        FusedInferAttentionScore FusedInferAttentionScoreV2 PagedAttention PagedAttentionMaskNdKernel
        FlashAttention UnpadFlashAttention MultiLatentAttention NsaCompressAttention
    """,
    "AttentionGrad": "FlashAttentionScoreGrad FlashAttentionVarLenScoreGrad",
    "AveragePool": """
        AvgPool AvgPoolV2 AvgPool1D AvgPool1DD AvgPool3D AvgPool3DD AdaptiveAvgPool2d AdaptiveAvgPool2D
        AdaptiveAvgPool3d
    """,
    "AveragePoolGrad": """
        AvgPoolGrad AvgPoolGradD AvgPoolV2Grad AvgPoolV2GradD AvgPool3DGrad AvgPool3DGradD AdaptiveAvgPool2dGrad
        AdaptiveAvgPool2DGrad AdaptiveAvgPool3dGrad
    """,
    "BatchNormalization": """
        BatchNorm BatchNormV3 BatchNormExt2 BNTrainingReduce BNTrainingUpdate BNTrainingUpdateV2
        BNTrainingUpdateV3 BNInfer BNInference BNInferenceD BN3DTrainingReduce BN3DTrainingUpdate BnInfer
        SyncBatchNormGatherStats BatchNormElemt
    """,
    "BatchNormalizationGrad": """
        BatchNormGrad BatchNormGradV3 BatchNormGradExt2 BNTrainingReduceGrad BNTrainingUpdateGrad BNInferGrad
        BN3DTrainingReduceGrad BN3DTrainingUpdateGrad SyncBatchNormBackwardReduce SyncBatchNormBackwardElemt
    """,
    "Bernoulli": "StatelessBernoulli StatelessBernoulliV2",
    "BinaryCrossEntropy": "SigmoidCrossEntropyWithLogits SigmoidCrossEntropyWithLogitsV2",
    "BinaryCrossEntropyGrad": "SigmoidCrossEntropyWithLogitsGrad SigmoidCrossEntropyWithLogitsGradV2",
    "BitShift": "LeftShift RightShift",
    "Clip": "ClipByValue ClipByValueV2 ClipByValueD Relu6 Relu6D",
    "Concat": "ConcatD ConcatV2 ConcatV2D Pack PackD",
    "ConstantOfShape": "Fill FillD FillV2 FillV2D ZerosLike OnesLike",
    "Conv": "Conv1D Conv2D Conv2DV2 Conv3D Conv3DV2 DepthwiseConv2D DepthwiseConv2d",
    "ConvGrad": """
        Conv2DBackpropFilter Conv2DBackpropFilterD Conv2DBackpropFilterV2 Conv2DBackpropFilterV3
        Conv2DBackpropInput Conv2DBackpropInputD Conv2DBackpropInputV2 Conv3DBackpropFilter
        Conv3DBackpropFilterD Conv3DBackpropFilterV2 Conv3DBackpropInput Conv3DBackpropInputD
        Conv3DBackpropInputV2 DepthwiseConv2DBackpropFilter DepthwiseConv2DBackpropFilterD
        DepthwiseConv2DBackpropInput DepthwiseConv2DBackpropInputD
    """,
    "ConvTranspose": """
        Conv2DTranspose Conv2DTransposeD Conv2DTransposeV2 Conv3DTranspose Conv3DTransposeD Conv3DTransposeV2
    """,
    "Copy": "TensorMove ViewCopy AsStrided InplaceCopy ForeachCopy ForeachCopyV2",
    "Cos": "ForeachCos",
    "Cosh": "ForeachCosh",
    "CumProd": "Cumprod CumprodD",
    "CumSum": "Cumsum CumsumD",
    "DepthToSpace": "DepthToSpaceD",
    "DequantizeLinear": """
        AscendDequant AntiQuant AscendAntiQuant AscendAntiQuantV2 AntiquantWeight DequantBias Dequantize
    """,
    "Det": "MatrixDeterminant LogMatrixDeterminant",
    "Div": "RealDiv DivV2 DivNoNan FloorDiv TruncateDiv ForeachDivList ForeachDivScalar ForeachDivScalarList",
    "Dropout": """
        DropOutDoMask DropOutDoMaskV3 DropOutDoMaskV3D DropOutGenMask DropOutGenMaskV3 DropOutGenMaskV4
        DSAGenBitMask StatelessDropOutGenMask DSAStatelessGenBitMask
    """,
    "Elu": "EluV2",
    "EluGrad": "EluGradV2",
    "Equal": "TensorEqual ApproximateEqual",
    "Erf": "ForeachErf",
    "Exp": "ForeachExp",
    "Expand": "BroadcastTo BroadcastToD ExpandD",
    "Expm1": "ForeachExpm1",
    "FusedOptimizer": """
        ApplyAdam ApplyAdamD ApplyAdamV2 ApplyAdamW ApplyAdamWV2 FusedAdamW FusedAdam ApplyMomentum
        ApplyMomentumD ApplyFusedEmaAdam ApplyAdagrad ApplyAdagradD ApplyRMSProp ApplyRMSPropD
        ApplyKerasMomentum ApplyKerasMomentumD ApplyGradientDescent SGD AdamApplyOne AdamApplyOneAssign
        AdamApplyOneWithDecay AdamApplyOneWithDecayAssign LambNextMV LambUpdateWithLR LambApplyOptimizerAssign
        LambApplyWeightAssign FusedMulApplyMomentum
    """,
    "GRU": "DynamicGRU DynamicGRUV2",
    "GRUGrad": "DynamicGRUV2Grad GRUV2HiddenGrad",
    "Gather": "GatherV2 GatherV2D GatherV3 Index MaskedSelect MaskedSelectV3 EmbeddingBag",
    "GatherElements": "GatherElementsV2 GatherD",
    "GatherGrad": "EmbeddingDenseGrad EmbeddingDenseGradV2 GatherElementsGrad GatherDGradV2 GatherDGrad",
    "GatherND": "GatherNd",
    "Gelu": "GeluV2 FastGelu FastGeluV2 QuickGelu",
    "GeluGrad": "GeluGradV2 FastGeluGrad",
    "Glu": "SwiGlu GeGluV2 GeGluV3",
    "GluGrad": "SwiGluGrad GeGluGradV2",
    "GreaterOrEqual": "GreaterEqual",
    "GridSample": "GridSampler2D GridSampler3D",
    "GroupNormalization": "GroupNorm GroupNormV2 GroupNormSilu GroupNormSwish GroupNormSiluV2",
    "GroupNormalizationGrad": "GroupNormGrad GroupNormSwishGrad",
    "InstanceNormalization": """
        InstanceNorm InstanceNormV3 InstanceNormV2 INInferV2 INTrainingReduceV2 INTrainingUpdateV2
    """,
    "Inverse": "MatrixInverse",
    "IsNaN": "IsNan",
    "LSTM": "DynamicRNN DynamicRNNV2 DynamicRNNV3 BasicLSTMCell",
    "LSTMGrad": "DynamicRNNGrad BasicLSTMCellCStateGrad BasicLSTMCellInputGrad BasicLSTMCellWeightGrad",
    "LayerNormalization": "LayerNorm LayerNormV3 LayerNormV4 AddLayerNorm DeepNorm",
    "LayerNormalizationGrad": """
        LayerNormGrad LayerNormGradV3 LayerNormXBackprop LayerNormXBackpropV2 LayerNormXBackpropV3
        LayerNormBetaGammaBackprop LayerNormBetaGammaBackpropV2 AddLayerNormGrad DeepNormGrad
    """,
    "LessOrEqual": "LessEqual",
    "Log": "ForeachLog",
    "Log1p": "ForeachLog1p",
    "LogSoftmax": "LogSoftmaxV2",
    "MSELossGrad": "MseLossGrad",
    "MatMul": """
        MatMulV2 MatMulV3 BatchMatMul BatchMatMulV2 BatchMatMulV3 TransposeBatchMatMul GroupedMatmul
        GroupedMatmulV2 GroupedMatmulAdd QuantBatchMatmul QuantBatchMatmulV2 QuantBatchMatmulV3 QuantMatmul
        QuantMatmulReduceSum WeightQuantBatchMatmul WeightQuantBatchMatmulV2 WeightQuantBatchMatmulV3
        FullyConnection MatMulCompress
    """,
    "Max": "Maximum ForeachMaximumList ForeachMaximumScalar",
    "MaxPool": """
        MaxPoolV2 MaxPoolV3 MaxPool3D MaxPool3DD MaxPoolWithArgmax MaxPoolWithArgmaxV1 MaxPoolWithArgmaxV2
        MaxPoolWithArgmaxV3 MaxPool3DWithArgmax MaxPool3DWithArgmaxV2 AdaptiveMaxPool2d AdaptiveMaxPool3d
    """,
    "MaxPoolGrad": """
        MaxPoolGradWithArgmax MaxPoolGradWithArgmaxV1 MaxPoolGradWithArgmaxV2 MaxPoolGradWithArgmaxV3
        MaxPool3DGrad MaxPool3DGradD MaxPool3DGradWithArgmax AdaptiveMaxPool2dGrad AdaptiveMaxPool3DGrad
    """,
    "Memset": "MemSet MemSetV2 AtomicAddrClean DynamicAtomicAddrClean",
    "Min": "Minimum ForeachMinimumList ForeachMinimumScalar",
    "Mod": "FloorMod TruncateMod",
    "Mul": "MulNoNan ForeachMulScalar ForeachMulList ForeachMulScalarList ForeachMulScalarV2",
    "Neg": "ForeachNeg",
    "NegativeLogLikelihoodLoss": "NLLLoss",
    "NegativeLogLikelihoodLossGrad": "NLLLossGrad",
    "NonMaxSuppression": "NonMaxSuppressionV3 NonMaxSuppressionV6 NMSWithMask BatchMultiClassNonMaxSuppression",
    "Not": "LogicalNot",
    "OneHot": "OneHotD OneHotV2",
    "Or": "LogicalOr",
    "PReluGrad": "PReluGradUpdate PReluGradReduce",
    "Pad": "PadD PadV2 PadV2D PadV3 PadV3D PadV4 ConstantPadNd MirrorPad ReflectionPad2d ReplicationPad2d",
    "Pow": "PowV2 ForeachPowScalar ForeachPowList ForeachPowScalarAndTensor",
    "QuantizeLinear": "AscendQuant AscendQuantV2 DynamicQuant DynamicQuantV2 Quantize QuantizePerChannel",
    "RMSNormalization": """
        RmsNorm AddRmsNorm AddRmsNormQuant AddRmsNormCast InplaceAddRmsNorm RmsNormQuant AddRmsNormDynamicQuant
    """,
    "RMSNormalizationGrad": "RmsNormGrad",
    "RandomNormal": """
        DSARandomNormal StatelessRandomNormal StatelessRandomNormalV2 StatelessRandomNormalV3
        RandomStandardNormal TruncatedNormal ParameterizedTruncatedNormal DSARandomTruncatedNormal
    """,
    "RandomPermutation": "RandomPerm StatelessRandperm",
    "RandomUniform": """
        DSARandomUniform StatelessRandomUniform StatelessRandomUniformV2 StatelessRandomUniformV3
        StatelessRandomUniformInt StatelessRandomUniformIntV2
    """,
    "Range": "RangeD",
    "Reciprocal": "Inv ForeachReciprocal",
    "ReduceAll": "ReduceAllD",
    "ReduceAny": "ReduceAnyD",
    "ReduceL2": "LpNorm LpNormV2 LpNormReduce LpNormReduceV2 ForeachNorm",
    "ReduceLogSumExp": "LogSumExp",
    "ReduceMax": "ReduceMaxD",
    "ReduceMean": "ReduceMeanD ReduceMeanWithCount",
    "ReduceMin": "ReduceMinD",
    "ReduceProd": "ReduceProdD",
    "ReduceStd": "ReduceStdV2 ReduceStdWithMean",
    "ReduceSum": "ReduceSumD",
    "ReduceVar": "ReduceVarV2",
    "Relu": "ReluV2 ReluV3",
    "ReluGrad": "ReluGradV2",
    "Resize": """
        ResizeBilinear ResizeBilinearV2 ResizeBilinearV2D ResizeNearestNeighbor ResizeNearestNeighborV2
        ResizeNearestNeighborV2D ResizeD ResizeBicubic ResizeBicubicV2 UpsampleNearest UpsampleBilinear2d
        UpsampleNearest1d UpsampleNearest3d UpsampleTrilinear3d UpsampleBicubic2d
    """,
    "ResizeGrad": """
        ResizeBilinearV2Grad ResizeNearestNeighborV2Grad ResizeNearestNeighborV2GradD ResizeGradD
        UpsampleNearest2dGrad UpsampleBilinear2dGrad UpsampleBicubic2dGrad
    """,
    "Reverse": "ReverseV2 ReverseV2D",
    "RoiAlign": "ROIAlign",
    "Round": "RoundV2 Rint",
    "Rsqrt": "ForeachRsqrt",
    "ScatterElements": """
        ScatterElementsV2 ScatterUpdate ScatterAdd InplaceScatterAdd ScatterAddWithAxis ScatterMul ScatterMax
        ScatterMin IndexPut IndexPutV2 InplaceIndexAdd InplaceIndexAddWithSorted UnsortedSegmentSum
        UnsortedSegmentSumD MaskedScatter MaskedFill MaskedFillScalar IndexFillD Scatter ScatterList
    """,
    "ScatterND": """
        ScatterNd ScatterNdD ScatterNdAdd ScatterNdUpdate TensorScatterUpdate TensorScatterAdd ScatterNdUpdateV2
    """,
    "Sigmoid": "ForeachSigmoid",
    "Sign": "ForeachSign",
    "Sin": "ForeachSin",
    "Sinh": "ForeachSinh",
    "Slice": "SliceD StridedSlice StridedSliceD StridedSliceV2 StridedSliceV3 DynamicSlice",
    "SliceGrad": "StridedSliceGrad StridedSliceGradD",
    "SmoothL1Loss": "SmoothL1LossV2",
    "SmoothL1LossGrad": "SmoothL1LossGradV2",
    "Softmax": "SoftmaxV2 ScaledMaskedSoftmax ScaledSoftmax MaskedSoftmax MaskedSoftmaxWithRelPosBias",
    "SoftmaxCrossEntropyLoss": "SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits CrossEntropyLoss",
    "SoftmaxCrossEntropyLossGrad": "CrossEntropyLossGrad",
    "SoftmaxGrad": "ScaledMaskedSoftmaxGrad ScaledSoftmaxGrad MaskedSoftmaxGrad SoftmaxGradExt",
    "Softplus": "SoftplusV2",
    "SoftplusGrad": "SoftplusV2Grad",
    "Sort": "SortWithIndex",
    "SpaceToDepth": "SpaceToDepthD",
    "Split": "SplitD SplitV SplitVD Unpack UnpackD",
    "Sqrt": "ForeachSqrt",
    "Sub": "ForeachSubList ForeachSubScalar ForeachSubScalarList",
    "Swish": "SiLU",
    "SwishGrad": "SiLUGrad",
    "Tan": "ForeachTan",
    "Tanh": "ForeachTanh",
    "Tile": "TileD TileWithAxis",
    "TopK": "TopKD TopKV2 TopKV2D",
    "Transpose": "TransposeD ConfusionTransposeD ConfusionTranspose",
    "Trilu": "Tril Triu",
    "Trunc": "Truncate",
    "Unique": "UniqueV2 UniqueWithCountsAndSorting UniqueWithCountsExt2",
    "Where": "Select SelectV2 SWhere",
    "Xor": "LogicalXor",
}
