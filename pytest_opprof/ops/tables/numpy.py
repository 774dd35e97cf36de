"""NumPy and SciPy: functions by the name of their module, methods as ``ndarray.astype``.

Source: the public functions of NumPy 2.4.
"""

from __future__ import annotations

from collections.abc import Mapping

NAMES: Mapping[str, str] = {
    "Abs": "numpy.absolute numpy.fabs",
    "Acos": "numpy.arccos",
    "Acosh": "numpy.arccosh",
    "Add": "numpy.add",
    "And": "numpy.logical_and",
    "ArgMax": "ndarray.argmax numpy.argmax",
    "ArgMin": "ndarray.argmin numpy.argmin",
    "Asin": "numpy.arcsin",
    "Asinh": "numpy.arcsinh",
    "Atan": "numpy.arctan",
    "Atan2": "numpy.arctan2",
    "Atanh": "numpy.arctanh",
    "BitShift": "numpy.left_shift numpy.right_shift",
    "BitwiseAnd": "numpy.bitwise_and",
    "BitwiseNot": "numpy.invert",
    "BitwiseOr": "numpy.bitwise_or",
    "BitwiseXor": "numpy.bitwise_xor",
    "Ceil": "numpy.ceil",
    "Cholesky": "numpy.linalg.cholesky scipy.linalg.cholesky scipy.linalg.cholesky_banded scipy.linalg.cho_factor",
    "Clip": "ndarray.clip numpy.clip",
    "Concat": """
        numpy.concatenate numpy.stack numpy.vstack numpy.hstack numpy.dstack numpy.column_stack numpy.append
        numpy.block
    """,
    "ConstantOfShape": """
        ndarray.fill numpy.zeros_like numpy.ones_like numpy.full_like numpy.fill_diagonal numpy.zeros numpy.ones
        numpy.full numpy.eye numpy.identity
    """,
    "Conv": """
        numpy.convolve numpy.correlate scipy.signal.convolve scipy.signal.correlate scipy.signal.convolve2d
        scipy.signal.correlate2d scipy.signal.fftconvolve scipy.signal.oaconvolve
    """,
    "Copy": """
        ndarray.astype ndarray.copy ndarray.__copy__ ndarray.flatten ndarray.ravel ndarray.reshape
        ndarray.__setitem__ numpy.copy numpy.copyto numpy.reshape numpy.ravel numpy.put numpy.putmask
        numpy.place numpy.array numpy.asarray numpy.asanyarray numpy.asarray_chkfinite numpy.ascontiguousarray
        numpy.asfarray numpy.asfortranarray numpy.require ndarray.__deepcopy__
    """,
    "Cos": "numpy.cos",
    "Cosh": "numpy.cosh",
    "CumProd": "ndarray.cumprod numpy.cumprod numpy.multiply.accumulate",
    "CumSum": "ndarray.cumsum numpy.cumsum numpy.add.accumulate",
    "Det": "numpy.linalg.det numpy.linalg.slogdet scipy.linalg.det",
    "Div": "numpy.divide numpy.true_divide",
    "Eig": """
        numpy.linalg.eig numpy.linalg.eigh numpy.linalg.eigvals numpy.linalg.eigvalsh scipy.linalg.eig
        scipy.linalg.eigh scipy.linalg.eigvals scipy.linalg.eigvalsh scipy.linalg.eig_banded
        scipy.linalg.eigvals_banded scipy.linalg.eigh_tridiagonal scipy.linalg.eigvalsh_tridiagonal
        scipy.sparse.linalg.eigs scipy.sparse.linalg.eigsh
    """,
    "Einsum": "numpy.einsum",
    "Equal": "numpy.equal",
    "Erf": "scipy.special.erf",
    "Exp": "numpy.exp",
    "Expand": "numpy.broadcast_to numpy.broadcast_arrays",
    "Expm1": "numpy.expm1",
    "FFT": """
        numpy.fft.fft numpy.fft.ifft numpy.fft.rfft numpy.fft.irfft numpy.fft.fft2 numpy.fft.ifft2
        numpy.fft.rfft2 numpy.fft.irfft2 numpy.fft.fftn numpy.fft.ifftn numpy.fft.rfftn numpy.fft.irfftn
        scipy.fft.fft scipy.fft.ifft scipy.fft.rfft scipy.fft.irfft scipy.fft.fft2 scipy.fft.ifft2
        scipy.fft.rfft2 scipy.fft.irfft2 scipy.fft.fftn scipy.fft.ifftn scipy.fft.rfftn scipy.fft.irfftn
    """,
    "Floor": "numpy.floor",
    "Gather": "ndarray.take numpy.take ndarray.__getitem__ ndarray.compress numpy.compress numpy.choose numpy.extract",
    "GatherElements": "numpy.take_along_axis",
    "Greater": "numpy.greater",
    "GreaterOrEqual": "numpy.greater_equal",
    "Inverse": """
        numpy.linalg.inv numpy.linalg.pinv scipy.linalg.inv scipy.linalg.pinv scipy.linalg.pinvh
        scipy.sparse.linalg.inv
    """,
    "IsInf": "numpy.isinf",
    "IsNaN": "numpy.isnan",
    "Less": "numpy.less",
    "LessOrEqual": "numpy.less_equal",
    "Log": "numpy.log",
    "Log1p": "numpy.log1p",
    "LogSoftmax": "scipy.special.log_softmax",
    "MatMul": """
        numpy.matmul numpy.dot ndarray.dot numpy.vdot numpy.inner numpy.tensordot numpy.matvec numpy.vecmat
        numpy.vecdot numpy.linalg.multi_dot
    """,
    "Max": "numpy.maximum numpy.fmax",
    "Min": "numpy.minimum numpy.fmin",
    "Mod": "numpy.remainder numpy.fmod",
    "Mul": "numpy.multiply numpy.square",
    "Neg": "numpy.negative",
    "NonZero": "ndarray.nonzero numpy.nonzero numpy.argwhere numpy.flatnonzero",
    "Not": "numpy.logical_not",
    "NotEqual": "numpy.not_equal",
    "Or": "numpy.logical_or",
    "Pad": "numpy.pad",
    "Pow": "numpy.power numpy.float_power",
    "RandomNormal": "numpy.random.normal numpy.random.standard_normal numpy.random.randn",
    "RandomPermutation": "numpy.random.permutation numpy.random.permuted numpy.random.shuffle",
    "RandomUniform": """
        numpy.random.random numpy.random.uniform numpy.random.rand numpy.random.integers numpy.random.randint
        numpy.random.random_sample numpy.random.random_integers numpy.random.ranf numpy.random.sample
    """,
    "Range": "numpy.arange numpy.linspace numpy.logspace numpy.geomspace",
    "Reciprocal": "numpy.reciprocal",
    "ReduceAll": "ndarray.all numpy.all numpy.logical_and.reduce",
    "ReduceAny": "ndarray.any numpy.any numpy.logical_or.reduce",
    "ReduceL2": """
        numpy.linalg.norm numpy.linalg.vector_norm numpy.linalg.matrix_norm scipy.linalg.norm
        scipy.sparse.linalg.norm
    """,
    "ReduceLogSumExp": "numpy.logaddexp.reduce scipy.special.logsumexp",
    "ReduceMax": "ndarray.max numpy.max numpy.amax numpy.maximum.reduce",
    "ReduceMean": "ndarray.mean numpy.mean numpy.average",
    "ReduceMin": "ndarray.min numpy.min numpy.amin numpy.minimum.reduce",
    "ReduceProd": "ndarray.prod numpy.prod numpy.multiply.reduce",
    "ReduceStd": "ndarray.std numpy.std",
    "ReduceSum": "ndarray.sum numpy.sum numpy.add.reduce",
    "ReduceVar": "ndarray.var numpy.var",
    "Repeat": "ndarray.repeat numpy.repeat",
    "Reverse": "numpy.flip numpy.flipud numpy.fliplr",
    "Roll": "numpy.roll",
    "Round": "ndarray.round numpy.round numpy.rint numpy.around",
    "SVD": "numpy.linalg.svd scipy.linalg.svd scipy.linalg.svdvals scipy.sparse.linalg.svds",
    "ScatterElements": "numpy.put_along_axis",
    "ScatterND": "ndarray.put numpy.add.at",
    "SearchSorted": "ndarray.searchsorted numpy.searchsorted numpy.digitize",
    "Sigmoid": "scipy.special.expit",
    "Sign": "numpy.sign",
    "Sin": "numpy.sin",
    "Sinh": "numpy.sinh",
    "Softmax": "scipy.special.softmax",
    "Softplus": "scipy.special.softplus",
    "Solve": """
        numpy.linalg.solve numpy.linalg.lstsq scipy.linalg.solve scipy.linalg.lstsq
        scipy.linalg.solve_triangular scipy.linalg.solve_banded scipy.linalg.solveh_banded
        scipy.linalg.solve_circulant scipy.linalg.solve_toeplitz scipy.linalg.cho_solve
        scipy.linalg.cho_solve_banded scipy.linalg.lu_solve scipy.sparse.linalg.spsolve
        scipy.sparse.linalg.spsolve_triangular
    """,
    "Sort": "ndarray.sort numpy.sort ndarray.argsort numpy.argsort numpy.lexsort",
    "Split": "numpy.split numpy.array_split numpy.hsplit numpy.vsplit numpy.dsplit",
    "Sqrt": "numpy.sqrt",
    "Squeeze": "numpy.squeeze",
    "Sub": "numpy.subtract",
    "Tan": "numpy.tan",
    "Tanh": "numpy.tanh",
    "Tile": "numpy.tile",
    "Transpose": "numpy.transpose numpy.swapaxes numpy.moveaxis ndarray.transpose ndarray.swapaxes",
    "Trilu": "numpy.tril numpy.triu",
    "Trunc": "numpy.trunc",
    "Unique": "numpy.unique",
    "Unsqueeze": "numpy.expand_dims",
    "Where": "numpy.where numpy.select",
    "Xor": "numpy.logical_xor",
}
