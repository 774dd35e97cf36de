"""MindSpore: op types of its CPU and GPU kernels. On Ascend: `ascend`."""

from __future__ import annotations

from collections.abc import Mapping

NAMES: Mapping[str, str] = {
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
        FlashAttentionScore PromptFlashAttention IncreFlashAttention FusedInferAttentionScore PagedAttention
        PagedAttentionMask
    """,
    "AttentionGrad": "FlashAttentionScoreGrad",
    "AveragePool": """
        AvgPool AvgPool1D AvgPool2D AvgPool3D AvgPool3DExt AdaptiveAvgPool1D AdaptiveAvgPool2D
        AdaptiveAvgPool2DExt AdaptiveAvgPool3D AdaptiveAvgPool3DExt
    """,
    "AveragePoolGrad": """
        AvgPoolGrad AvgPool2DGrad AvgPool3DGrad AvgPool3DGradExt AdaptiveAvgPool2DGrad AdaptiveAvgPool2DGradExt
        AdaptiveAvgPool3DGrad AdaptiveAvgPool3DGradExt
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
        ClampScalar ClampTensor InplaceClampScalar InplaceClampTensor ClipByValue ReLU6 Relu6 Hardtanh
        InplaceHardtanh
    """,
    "Concat": "ConcatD ConcatV2 ParallelConcat Stack StackExt Pack",
    "ConstantOfShape": """
        Zeros ZerosLike ZerosLikeExt Ones OnesLike OnesLikeExt Fill FillV2 Fills FillScalar FillTensor FullLike
        NewZeros NewOnes NewFull InplaceZero InplaceFillScalar InplaceFillTensor Eye
    """,
    "Conv": """
        Conv2D Conv3D Conv1DExt Conv2DExt Conv3DExt Conv1DPadding Conv2DPadding Conv3DPadding Convolution
        ConvolutionStr ConvTbc DepthwiseConv2dNative DepthwiseConv2D Conv2DD Conv2DBiasAddFusion
        Conv2DReLUFusion
    """,
    "ConvGrad": """
        Conv2DBackpropFilter Conv2DBackpropInput Conv3DBackpropFilter Conv3DBackpropInput Conv2DBackpropFilterD
        Conv2DBackpropInputD ConvolutionGrad ConvolutionStrGrad DepthwiseConv2dNativeBackpropFilter
        DepthwiseConv2dNativeBackpropInput
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
        FFT2 FFTN IFFT IFFT2 IFFTN RFFT RFFT2 RFFTN IRFFT IRFFT2 IRFFTN HFFT HFFT2 HFFTN IHFFT IHFFT2 IHFFTN
        FFTWithSize
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
        MatMulV2 MatMulV3 MatMulExt MatMulBiasAddFusion MatMulBiasAddReluFusion BatchMatMul BatchMatMulV2
        BatchMatMulExt Mm Mv Dot Addmm Addmv Addbmm Baddbmm Dense GroupedMatmul GroupedMatmulV2 GroupedMatmulV4
        QuantBatchMatmul WeightQuantBatchMatmul QuantMatmul InplaceAddmm InplaceMatmulAdd
    """,
    "Max": "Maximum Fmax",
    "MaxPool": """
        MaxPool3D MaxPoolWithArgmax MaxPoolWithArgmaxV2 MaxPool3DWithArgmax MaxPoolWithIndices MaxPoolWithMask
        AdaptiveMaxPool1D AdaptiveMaxPool2D AdaptiveMaxPool3D FuncMaxPool2D
    """,
    "MaxPoolGrad": """
        MaxPoolGradV1 MaxPoolGradWithArgmax MaxPoolGradWithArgmaxV2 MaxPool3DGrad MaxPool3DGradWithArgmax
        MaxPoolGradWithIndices MaxPoolGradWithMask AdaptiveMaxPool2DGrad AdaptiveMaxPool3DGrad
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
        PadV3 MirrorPad ConstantPadND ReflectionPad1D ReflectionPad2D ReflectionPad3D ReplicationPad1D
        ReplicationPad2D ReplicationPad3D PadD
    """,
    "Pow": "PowTensorScalar PowScalarTensor Square",
    "RMSNormalization": "RmsNorm",
    "RMSNormalizationGrad": "RmsNormGrad",
    "RandomNormal": """
        StandardNormal NormalTensorTensor NormalTensorFloat NormalFloatTensor NormalFloatFloat Randn RandnLike
        InplaceNormal
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
        ResizeLinear1D ResizeArea UpsampleNearest1D UpsampleNearest2D UpsampleNearest3D UpsampleLinear1D
        UpsampleBilinear2D UpsampleBicubic2D UpsampleTrilinear3D
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
    "SoftmaxCrossEntropyLoss": "SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits CrossEntropyLoss",
    "SoftmaxCrossEntropyLossGrad": "CrossEntropyLossGrad",
    "SoftmaxGrad": "SoftmaxBackward",
    "Softplus": "SoftplusExt",
    "SoftplusGrad": "SoftplusGradExt",
    "Softsign": "",
    "Solve": "MatrixSolve",
    "Sort": "SortExt ArgSort",
    "SpaceToDepth": "",
    "Split": """
        SplitD SplitV SplitVD SplitTensor SplitTensorView SplitWithSize SplitWithSizeView Chunk ChunkView
        Unstack Unpack
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
}
