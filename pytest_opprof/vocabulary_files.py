"""The op vocabulary of frameworks whose profiles are read from files: raw names by canonical op. Data only.

As in `vocabulary`: whole names, ONNX operator names for canonical ops, which stand for themselves and are not listed.
"""

from __future__ import annotations

from collections.abc import Mapping

RAW_NAMES: Mapping[str, Mapping[str, str]] = {
    "ascend": {
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
            FusedInferAttentionScore FusedInferAttentionScoreV2 PagedAttention
            PagedAttentionMaskNdKernel FlashAttention UnpadFlashAttention MultiLatentAttention
            NsaCompressAttention
        """,
        "AttentionGrad": "FlashAttentionScoreGrad FlashAttentionVarLenScoreGrad",
        "AveragePool": """
            AvgPool AvgPoolV2 AvgPool1D AvgPool1DD AvgPool3D AvgPool3DD AdaptiveAvgPool2d
            AdaptiveAvgPool2D AdaptiveAvgPool3d
        """,
        "AveragePoolGrad": """
            AvgPoolGrad AvgPoolGradD AvgPoolV2Grad AvgPoolV2GradD AvgPool3DGrad AvgPool3DGradD
            AdaptiveAvgPool2dGrad AdaptiveAvgPool2DGrad AdaptiveAvgPool3dGrad
        """,
        "BatchNormalization": """
            BatchNorm BatchNormV3 BatchNormExt2 BNTrainingReduce BNTrainingUpdate BNTrainingUpdateV2
            BNTrainingUpdateV3 BNInfer BNInference BNInferenceD BN3DTrainingReduce BN3DTrainingUpdate
            BnInfer SyncBatchNormGatherStats BatchNormElemt
        """,
        "BatchNormalizationGrad": """
            BatchNormGrad BatchNormGradV3 BatchNormGradExt2 BNTrainingReduceGrad BNTrainingUpdateGrad
            BNInferGrad BN3DTrainingReduceGrad BN3DTrainingUpdateGrad SyncBatchNormBackwardReduce
            SyncBatchNormBackwardElemt
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
            Conv2DTranspose Conv2DTransposeD Conv2DTransposeV2 Conv3DTranspose Conv3DTransposeD
            Conv3DTransposeV2
        """,
        "Copy": "TensorMove ViewCopy AsStrided InplaceCopy ForeachCopy ForeachCopyV2",
        "Cos": "ForeachCos",
        "Cosh": "ForeachCosh",
        "CumProd": "Cumprod CumprodD",
        "CumSum": "Cumsum CumsumD",
        "DepthToSpace": "DepthToSpaceD",
        "DequantizeLinear": """
            AscendDequant AntiQuant AscendAntiQuant AscendAntiQuantV2 AntiquantWeight DequantBias
            Dequantize
        """,
        "Det": "MatrixDeterminant LogMatrixDeterminant",
        "Div": "RealDiv DivV2 DivNoNan FloorDiv TruncateDiv ForeachDivList ForeachDivScalar ForeachDivScalarList",
        "Dropout": """
            DropOutDoMask DropOutDoMaskV3 DropOutDoMaskV3D DropOutGenMask DropOutGenMaskV3
            DropOutGenMaskV4 DSAGenBitMask StatelessDropOutGenMask DSAStatelessGenBitMask
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
            ApplyKerasMomentum ApplyKerasMomentumD ApplyGradientDescent SGD AdamApplyOne
            AdamApplyOneAssign AdamApplyOneWithDecay AdamApplyOneWithDecayAssign LambNextMV
            LambUpdateWithLR LambApplyOptimizerAssign LambApplyWeightAssign FusedMulApplyMomentum
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
            GroupedMatmulV2 GroupedMatmulAdd QuantBatchMatmul QuantBatchMatmulV2 QuantBatchMatmulV3
            QuantMatmul QuantMatmulReduceSum WeightQuantBatchMatmul WeightQuantBatchMatmulV2
            WeightQuantBatchMatmulV3 FullyConnection MatMulCompress
        """,
        "Max": "Maximum ForeachMaximumList ForeachMaximumScalar",
        "MaxPool": """
            MaxPoolV2 MaxPoolV3 MaxPool3D MaxPool3DD MaxPoolWithArgmax MaxPoolWithArgmaxV1
            MaxPoolWithArgmaxV2 MaxPoolWithArgmaxV3 MaxPool3DWithArgmax MaxPool3DWithArgmaxV2
            AdaptiveMaxPool2d AdaptiveMaxPool3d
        """,
        "MaxPoolGrad": """
            MaxPoolGradWithArgmax MaxPoolGradWithArgmaxV1 MaxPoolGradWithArgmaxV2
            MaxPoolGradWithArgmaxV3 MaxPool3DGrad MaxPool3DGradD MaxPool3DGradWithArgmax
            AdaptiveMaxPool2dGrad AdaptiveMaxPool3DGrad
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
            RmsNorm AddRmsNorm AddRmsNormQuant AddRmsNormCast InplaceAddRmsNorm RmsNormQuant
            AddRmsNormDynamicQuant
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
            ResizeBilinear ResizeBilinearV2 ResizeBilinearV2D ResizeNearestNeighbor
            ResizeNearestNeighborV2 ResizeNearestNeighborV2D ResizeD ResizeBicubic ResizeBicubicV2
            UpsampleNearest UpsampleBilinear2d UpsampleNearest1d UpsampleNearest3d UpsampleTrilinear3d
            UpsampleBicubic2d
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
            ScatterElementsV2 ScatterUpdate ScatterAdd InplaceScatterAdd ScatterAddWithAxis ScatterMul
            ScatterMax ScatterMin IndexPut IndexPutV2 InplaceIndexAdd InplaceIndexAddWithSorted
            UnsortedSegmentSum UnsortedSegmentSumD MaskedScatter MaskedFill MaskedFillScalar IndexFillD
            Scatter ScatterList
        """,
        "ScatterND": """
            ScatterNd ScatterNdD ScatterNdAdd ScatterNdUpdate TensorScatterUpdate TensorScatterAdd
            ScatterNdUpdateV2
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
        "SoftmaxCrossEntropyLoss": """
            SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits CrossEntropyLoss
        """,
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
    },
    "cuda": {
        "ConvGrad": """
            aten::cudnn_convolution_backward aten::cudnn_convolution_backward_input
            aten::cudnn_convolution_backward_weight
        """,
    },
    "hlo": {
        "Abs": "abs",
        "Acos": "acos",
        "Acosh": "acosh",
        "Add": "add",
        "And": "and",
        "Asin": "asin",
        "Asinh": "asinh",
        "Atan2": "atan2",
        "Atanh": "atanh",
        "BatchNormalization": "batch-norm-inference batch-norm-training batch_norm_inference batch_norm_training",
        "BatchNormalizationGrad": "batch-norm-grad batch_norm_grad",
        "BitShift": """
            shift-left shift-right-arithmetic shift-right-logical shift_left shift_right_arithmetic
            shift_right_logical
        """,
        "Cast": "convert convert_element_type",
        "Ceil": "ceil",
        "Cholesky": "cholesky",
        "Clip": "clamp",
        "Concat": "concatenate",
        "Conv": "convolution dynamic_conv dynamic-convolution",
        "Copy": "copy",
        "Cos": "cosine",
        "Cosh": "cosh",
        "CumProd": "cumprod",
        "CumSum": "cumsum",
        "DequantizeLinear": "uniform_dequantize",
        "Div": "divide",
        "Erf": "erf",
        "Exp": "exponential",
        "Expand": "broadcast broadcast_in_dim dynamic_broadcast_in_dim",
        "Expm1": "exponential-minus-one exponential_minus_one",
        "FFT": "fft",
        "Floor": "floor",
        "Gather": "gather dynamic_gather",
        "Log": "log",
        "Log1p": "log-plus-one log_plus_one",
        "MatMul": "dot dot_general ragged_dot ragged-dot",
        "Max": "maximum",
        "Min": "minimum",
        "Mod": "remainder",
        "Mul": "multiply",
        "Neg": "negate",
        "Not": "not",
        "Or": "or",
        "Pad": "pad dynamic_pad",
        "Pow": "power",
        "QuantizeLinear": "uniform_quantize",
        "Range": "iota dynamic_iota",
        "ReduceMax": "reduce_max",
        "ReduceMin": "reduce_min",
        "ReduceProd": "reduce_prod",
        "ReduceSum": "reduce_sum",
        "Reshape": "reshape dynamic_reshape dynamic-reshape",
        "Reverse": "reverse",
        "Round": "round_nearest_even round_nearest_afz round-nearest-even round-nearest-afz",
        "Rsqrt": "rsqrt",
        "ScatterND": "scatter",
        "Sigmoid": "logistic",
        "Sign": "sign",
        "Sin": "sine",
        "Sinh": "sinh",
        "Slice": "slice dynamic_slice dynamic-slice real_dynamic_slice",
        "Sort": "sort",
        "Sqrt": "sqrt",
        "Sub": "subtract",
        "Tan": "tan",
        "Tanh": "tanh",
        "TopK": "topk top_k",
        "Transpose": "transpose",
        "Where": "select select_n",
        "Xor": "xor",
    },
    "megengine": {
        "Abs": "ABS",
        "Acos": "ACOS",
        "Acosh": "ACOSH",
        "Add": "ADD",
        "And": "AND",
        "ArgMax": "Argmax",
        "ArgMin": "Argmin",
        "Asin": "ASIN",
        "Asinh": "ASINH",
        "Atan2": "ATAN2",
        "Atanh": "ATANH",
        "BatchNormalization": "BatchNorm BatchNormForward",
        "BatchNormalizationGrad": "BatchNormBackward",
        "Cast": "TypeCvt TypeCvtV2",
        "Ceil": "CEIL",
        "Clip": "RELU6 CLIP",
        "ConstantOfShape": "Fill FillLike",
        "Conv": """
            Convolution ConvolutionForward ConvBias ConvBiasForward Convolution3D Convolution3DForward
            GroupLocal GroupLocalForward DeformableConv DeformableConvForward
        """,
        "ConvGrad": """
            ConvolutionBackwardData ConvolutionBackwardDataV2 ConvolutionBackwardFilter
            ConvolutionBackwardFilterV2 Convolution3DBackwardData Convolution3DBackwardFilter
            DeformableConvBackwardData DeformableConvBackwardFilter
        """,
        "Cos": "COS",
        "Cosh": "COSH",
        "CumSum": "Cumsum CumsumForward",
        "Div": "TRUE_DIV",
        "Dropout": "DropoutForward",
        "DropoutGrad": "DropoutBackward",
        "Equal": "EQ",
        "Erf": "ERF",
        "Exp": "EXP",
        "Expand": "Broadcast",
        "Expm1": "EXPM1",
        "Floor": "FLOOR",
        "Gather": "IndexingMultiAxisVec MeshIndexing BatchedMeshIndexing",
        "GatherElements": "IndexingOneHot",
        "Gelu": "GELU",
        "GeluGrad": "GELU_GRAD",
        "GroupNormalization": "GroupNorm GroupNormForward",
        "GroupNormalizationGrad": "GroupNormBackward",
        "HardSigmoid": "HSIGMOID",
        "HardSwish": "H_SWISH",
        "LSTM": "LSTMForward",
        "LSTMGrad": "LSTMBackward",
        "LayerNormalization": "LayerNorm LayerNormForward",
        "LayerNormalizationGrad": "LayerNormBackward",
        "Less": "LT",
        "LessOrEqual": "LEQ",
        "Log": "LOG",
        "Log1p": "LOG1P",
        "MatMul": "MatrixMul BatchedMatrixMul Dot",
        "Max": "MAX",
        "MemcpyHtoD": "HostToDevice Host2DeviceCopy",
        "Min": "MIN",
        "Mish": "MISH",
        "Mod": "MOD",
        "Mul": "MUL",
        "Neg": "NEGATE",
        "NonZero": "CondTake",
        "Not": "NOT",
        "NotEqual": "NEQ",
        "Or": "OR",
        "PRelu": "PRELU",
        "PReluGrad": "PRELU_GRAD",
        "Pad": "Padding PaddingForward",
        "Pow": "POW PowC",
        "RandomNormal": "GaussianRNG",
        "RandomPermutation": "PermutationRNG",
        "RandomUniform": "UniformRNG",
        "Relu": "RELU",
        "ReluGrad": "SWITCH_GT0",
        "Round": "ROUND",
        "ScatterElements": "IndexingSetOneHot",
        "Sigmoid": "SIGMOID",
        "SigmoidGrad": "SIGMOID_GRAD",
        "Sign": "SIGN",
        "Sin": "SIN",
        "Sinh": "SINH",
        "Slice": "Subtensor",
        "Softmax": "SoftmaxForward",
        "SoftmaxGrad": "SoftmaxBackward",
        "Softplus": "SOFTPLUS",
        "SoftplusGrad": "SOFTPLUS_GRAD",
        "Sqrt": "SQRT",
        "Squeeze": "RemoveAxis",
        "Sub": "SUB",
        "Swish": "SILU",
        "SwishGrad": "SILU_GRAD",
        "Tan": "TAN",
        "Tanh": "TANH",
        "TanhGrad": "TANH_GRAD",
        "Transpose": "Dimshuffle",
        "Unsqueeze": "AddAxis",
        "Where": "WHERE",
        "Xor": "XOR",
    },
    "mindspore": {
        "Acos": "ACos AcosExt",
        "Acosh": "AcoshExt",
        "Add": "AddExt AddV2 TensorAdd AddScalar BiasAdd InplaceAddExt InplaceAddsExt AssignAdd",
        "Addcdiv": "AddcdivExt",
        "Addcmul": "AddcmulExt",
        "And": "LogicalAnd",
        "ArgMax": "Argmax ArgMaxExt ArgMaxWithValue ArgMaxD ArgMaxV2",
        "ArgMin": "Argmin ArgMinExt ArgMinWithValue ArgMinD",
        "Asin": "AsinExt",
        "Asinh": "AsinhExt",
        "Atan": "AtanExt",
        "Atan2": "Atan2Ext",
        "Attention": """
            FlashAttentionScore PromptFlashAttention IncreFlashAttention FusedInferAttentionScore
            PagedAttention PagedAttentionMask
        """,
        "AttentionGrad": "FlashAttentionScoreGrad",
        "AveragePool": """
            AvgPool AvgPool1D AvgPool2D AvgPool3D AvgPool3DExt AdaptiveAvgPool1D AdaptiveAvgPool2D
            AdaptiveAvgPool2DExt AdaptiveAvgPool3D AdaptiveAvgPool3DExt
        """,
        "AveragePoolGrad": """
            AvgPoolGrad AvgPool2DGrad AvgPool3DGrad AvgPool3DGradExt AdaptiveAvgPool2DGrad
            AdaptiveAvgPool2DGradExt AdaptiveAvgPool3DGrad AdaptiveAvgPool3DGradExt
        """,
        "BatchNormalization": "BatchNorm BatchNormExt FusedBatchNorm FusedBatchNormEx",
        "BatchNormalizationGrad": """
            BatchNormGrad BatchNormGradExt FusedBatchNormGrad FusedBatchNormGradEx SyncBatchNormGrad
        """,
        "Bernoulli": "BernoulliExt InplaceBernoulliScalar InplaceBernoulliTensor",
        "BinaryCrossEntropy": "BCEWithLogitsLoss SigmoidCrossEntropyWithLogits",
        "BinaryCrossEntropyGrad": "BinaryCrossEntropyWithLogitsBackward SigmoidCrossEntropyWithLogitsGrad",
        "BitShift": "LeftShift RightShift",
        "BitwiseAnd": "BitwiseAndScalar BitwiseAndTensor",
        "BitwiseNot": "Invert",
        "BitwiseOr": "BitwiseOrScalar BitwiseOrTensor",
        "BitwiseXor": "BitwiseXorScalar BitwiseXorTensor",
        "Cast": "ScalarCast ToDtype TypeAs",
        "Celu": "CeLU",
        "Clip": """
            ClampScalar ClampTensor InplaceClampScalar InplaceClampTensor ClipByValue ReLU6 Relu6
            Hardtanh InplaceHardtanh
        """,
        "Concat": "ConcatD ConcatV2 ParallelConcat Stack StackExt Pack",
        "ConstantOfShape": """
            Zeros ZerosLike ZerosLikeExt Ones OnesLike OnesLikeExt Fill FillV2 Fills FillScalar
            FillTensor FullLike NewZeros NewOnes NewFull InplaceZero InplaceFillScalar InplaceFillTensor
            Eye
        """,
        "Conv": """
            Conv2D Conv3D Conv1DExt Conv2DExt Conv3DExt Conv1DPadding Conv2DPadding Conv3DPadding
            Convolution ConvolutionStr ConvTbc DepthwiseConv2dNative DepthwiseConv2D Conv2DD
            Conv2DBiasAddFusion Conv2DReLUFusion
        """,
        "ConvGrad": """
            Conv2DBackpropFilter Conv2DBackpropInput Conv3DBackpropFilter Conv3DBackpropInput
            Conv2DBackpropFilterD Conv2DBackpropInputD ConvolutionGrad ConvolutionStrGrad
            DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput
        """,
        "ConvTranspose": "Conv2DTranspose Conv3DTranspose ConvTranspose2D",
        "Copy": "TensorMove Clone Contiguous InplaceCopy Assign",
        "CumSum": "CumsumExt CumsumD",
        "DepthToSpace": "",
        "Det": "MatrixDeterminant LogMatrixDeterminant",
        "Div": "RealDiv Divs DivNoNan InplaceDiv InplaceDivs",
        "Dropout": "DropoutExt Dropout2D Dropout3D Dropout2dExt FuncDropoutExt DropoutDoMask DropoutDoMaskExt",
        "DropoutGrad": "DropoutGradExt",
        "Einsum": "EinsumExt",
        "Elu": "EluExt InplaceElu",
        "EluGrad": "EluGradExt",
        "Equal": "EqualExt EqScalar",
        "Exp": "InplaceExp",
        "Expand": "BroadcastTo BroadcastToView BroadcastToD ExpandAs",
        "FFT": """
            FFT2 FFTN IFFT IFFT2 IFFTN RFFT RFFT2 RFFTN IRFFT IRFFT2 IRFFTN HFFT HFFT2 HFFTN IHFFT
            IHFFT2 IHFFTN FFTWithSize
        """,
        "Floor": "InplaceFloor",
        "GRU": "DynamicGRUV2 GRUV2",
        "GRUGrad": "DynamicGRUV2Grad GRUV2Grad",
        "Gather": "GatherV2 GatherV2D SparseGatherV2 Embedding EmbeddingLookup IndexSelect Index Take MaskedSelect",
        "GatherElements": "GatherD",
        "GatherGrad": "EmbeddingDenseBackward",
        "GatherND": "GatherNd GatherNdExt",
        "Gelu": "GeLU GeluExt FastGelu FastGeLU NpuGelu",
        "GeluGrad": "GeLUGrad GeluGradExt FastGeLUGrad FastGeluGrad",
        "Glu": "GLU",
        "GreaterOrEqual": "GreaterEqual GreaterEqualScalar",
        "GridSample": "GridSampler2D GridSampler3D",
        "GroupNormalization": "GroupNorm",
        "GroupNormalizationGrad": "GroupNormGrad",
        "HardSigmoid": "HSigmoid",
        "HardSwish": "HSwish",
        "Identity": "IdentityN StopGradient InplaceStopGradient Detach",
        "InstanceNormalization": "InstanceNorm",
        "Inverse": "MatrixInverse MatrixInverseExt",
        "IsNaN": "IsNan",
        "LRN": "",
        "LSTM": "DynamicRNN",
        "LSTMGrad": "LSTMGradData LSTMGradWeight DynamicRNNGrad",
        "LayerNormalization": "LayerNorm LayerNormExt LayerNormV3",
        "LayerNormalizationGrad": "LayerNormGrad LayerNormGradExt LayerNormGradV3",
        "LeakyRelu": "LeakyReLUExt LeakyReLU",
        "LeakyReluGrad": "LeakyReLUGradExt",
        "Less": "LessScalar",
        "LessOrEqual": "LessEqual",
        "Log": "InplaceLog",
        "LogSoftmax": "LogSoftmaxExt LogSoftmaxV2",
        "MSELoss": "MSELossExt",
        "MSELossGrad": "MSELossGradExt",
        "MatMul": """
            MatMulV2 MatMulV3 MatMulExt MatMulBiasAddFusion MatMulBiasAddReluFusion BatchMatMul
            BatchMatMulV2 BatchMatMulExt Mm Mv Dot Addmm Addmv Addbmm Baddbmm Dense GroupedMatmul
            GroupedMatmulV2 GroupedMatmulV4 QuantBatchMatmul WeightQuantBatchMatmul QuantMatmul
            InplaceAddmm InplaceMatmulAdd
        """,
        "Max": "Maximum Fmax",
        "MaxPool": """
            MaxPool3D MaxPoolWithArgmax MaxPoolWithArgmaxV2 MaxPool3DWithArgmax MaxPoolWithIndices
            MaxPoolWithMask AdaptiveMaxPool1D AdaptiveMaxPool2D AdaptiveMaxPool3D FuncMaxPool2D
        """,
        "MaxPoolGrad": """
            MaxPoolGradV1 MaxPoolGradWithArgmax MaxPoolGradWithArgmaxV2 MaxPool3DGrad
            MaxPool3DGradWithArgmax MaxPoolGradWithIndices MaxPoolGradWithMask AdaptiveMaxPool2DGrad
            AdaptiveMaxPool3DGrad
        """,
        "MaxUnpool": "MaxUnpool2D MaxUnpool2DExt MaxUnpool3D",
        "MemcpyDtoH": "CopyToHost",
        "MemcpyHtoD": "CopyToDevice",
        "Memset": "AtomicAddrClean MemSet",
        "Min": "Minimum Fmin",
        "Mish": "MishExt",
        "Mod": """
            FloorMod TruncateMod FmodScalar FmodTensor RemainderTensorScalar RemainderScalarTensor
            RemainderTensorTensor
        """,
        "Mul": "Muls MulNoNan InplaceMul InplaceMuls",
        "NegativeLogLikelihoodLoss": "NLLLoss NLLLoss2d",
        "NegativeLogLikelihoodLossGrad": "NLLLossGrad NLLLoss2dGrad",
        "NonMaxSuppression": "NonMaxSuppressionV3",
        "NonZero": "NonZeroExt",
        "Not": "LogicalNot BoolNot",
        "OneHot": "OneHotExt OneHotD",
        "Or": "LogicalOr",
        "PRelu": "PReLU",
        "PReluGrad": "PReLUGrad",
        "Pad": """
            PadV3 MirrorPad ConstantPadND ReflectionPad1D ReflectionPad2D ReflectionPad3D
            ReplicationPad1D ReplicationPad2D ReplicationPad3D PadD
        """,
        "Pow": "PowTensorScalar PowScalarTensor Square",
        "RMSNormalization": "RmsNorm",
        "RMSNormalizationGrad": "RmsNormGrad",
        "RandomNormal": """
            StandardNormal NormalTensorTensor NormalTensorFloat NormalFloatTensor NormalFloatFloat Randn
            RandnLike InplaceNormal
        """,
        "RandomPermutation": "Randperm RandpermExt RandpermV2",
        "RandomUniform": "UniformReal UniformExt RandExt RandLikeExt InplaceUniform",
        "Range": "Arange",
        "Reciprocal": "Inv",
        "ReduceAll": "ReduceAllD",
        "ReduceAny": "ReduceAnyD Any AnyExt",
        "ReduceLogSumExp": "LogSumExp",
        "ReduceMax": "ReduceMaxD MaxDim",
        "ReduceMean": "ReduceMeanD MeanExt",
        "ReduceMin": "ReduceMinD MinDim",
        "ReduceProd": "ReduceProdD ProdExt",
        "ReduceStd": "Std",
        "ReduceSum": "ReduceSumD SumExt",
        "ReduceVar": "Var",
        "Relu": "ReLU ReluV2 ReLUV2 ReLUV3 InplaceReLU",
        "ReluGrad": "ReluGradV2 ReLUGrad ReLUGradV2",
        "Repeat": "RepeatInterleaveInt RepeatInterleaveTensor",
        "Reshape": "View ViewAs Flatten FlattenExt",
        "Resize": """
            ResizeBilinear ResizeBilinearV2 ResizeNearestNeighbor ResizeNearestNeighborV2 ResizeBicubic
            ResizeLinear1D ResizeArea UpsampleNearest1D UpsampleNearest2D UpsampleNearest3D
            UpsampleLinear1D UpsampleBilinear2D UpsampleBicubic2D UpsampleTrilinear3D
        """,
        "ResizeGrad": """
            ResizeBilinearGrad ResizeNearestNeighborGrad ResizeNearestNeighborV2Grad ResizeBicubicGrad
            ResizeLinear1DGrad UpsampleNearest1DGrad UpsampleNearest2DGrad UpsampleNearest3DGrad
            UpsampleLinear1DGrad UpsampleBilinear2DGrad UpsampleBicubic2DGrad UpsampleTrilinear3DGrad
        """,
        "Reverse": "ReverseV2 ReverseV2D",
        "ReverseSequence": "",
        "RoiAlign": "ROIAlign",
        "Round": "Rint",
        "STFT": "",
        "SVD": "Svd",
        "ScatterElements": "TensorScatterElements ScatterAddWithAxis Scatter ScatterAddExt ScatterValue",
        "ScatterND": "ScatterNd ScatterNdUpdate ScatterNdAdd TensorScatterUpdate TensorScatterAdd",
        "Selu": "SeLU SeLUExt",
        "Shape": "TensorShape",
        "Sigmoid": "InplaceSigmoid",
        "Sign": "InplaceSign",
        "Size": "",
        "Slice": "SliceD SliceExt StridedSlice StridedSliceD SliceExtView Narrow NarrowView",
        "SliceGrad": "StridedSliceGrad",
        "Softmax": "SoftmaxV2",
        "SoftmaxCrossEntropyLoss": """
            SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits CrossEntropyLoss
        """,
        "SoftmaxCrossEntropyLossGrad": "CrossEntropyLossGrad",
        "SoftmaxGrad": "SoftmaxBackward",
        "Softplus": "SoftplusExt",
        "SoftplusGrad": "SoftplusGradExt",
        "Softsign": "",
        "Solve": "MatrixSolve",
        "Sort": "SortExt ArgSort",
        "SpaceToDepth": "",
        "Split": """
            SplitD SplitV SplitVD SplitTensor SplitTensorView SplitWithSize SplitWithSizeView Chunk
            ChunkView Unstack Unpack
        """,
        "Sub": "SubExt SubScalar InplaceSub InplaceSubExt InplaceSubScalar AssignSub",
        "Swish": "SiLU InplaceSiLU",
        "SwishGrad": "SiLUGrad",
        "Tanh": "InplaceTanh",
        "Tile": "TileD",
        "TopK": "TopkExt TopKD",
        "Transpose": "TransposeD TransposeView TransposeExtView TExt",
        "Trilu": "Tril TrilExt Triu",
        "Unique": "Unique2 UniqueConsecutive UniqueDim UniqueWithPad",
        "Unsqueeze": "ExpandDims ExpandDimsView",
        "Where": "Select SelectV2",
        "Xor": "LogicalXor",
    },
    "nsys": {
        "Synchronize": """
            cudaDeviceSynchronize cudaStreamSynchronize cudaEventSynchronize cuCtxSynchronize
            cuStreamSynchronize cuEventSynchronize cudaThreadSynchronize
        """,
    },
    "onnxruntime": {
        "Attention": """
            MultiHeadAttention GroupQueryAttention PackedAttention PackedMultiHeadAttention
            DecoderMaskedMultiHeadAttention DecoderMaskedSelfAttention SparseAttention PagedAttention
            QAttention LongformerAttention
        """,
        "AveragePool": "GlobalAveragePool",
        "Cast": "CastLike",
        "Conv": "FusedConv NhwcFusedConv NhwcConv ConvInteger QLinearConv",
        "Dropout": "BitmaskDropout",
        "FFT": "DFT Rfft Irfft",
        "Gelu": "FastGelu BiasGelu QuickGelu",
        "GroupNormalization": "GroupNorm SkipGroupNorm",
        "LayerNormalization": "SkipLayerNormalization",
        "MatMul": """
            Gemm FusedMatMul FusedGemm TransposeMatMul FusedMatMulActivation GemmFloat8 MatMulInteger
            MatMulIntegerToFloat MatMulNBits MatMulBnb4 MatMulFpQ4 QLinearMatMul QGemm
            DynamicQuantizeMatMul GemmFastGelu SparseToDenseMatMul
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
    },
}
