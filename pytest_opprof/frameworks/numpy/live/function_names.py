"""The names of NumPy's and SciPy's functions that do not count like other ops."""

from __future__ import annotations

import sys
from functools import lru_cache

import numpy as np

# They may return a view; no data moved then, and it is no op. Other functions that return an argument wrote into it.
FUNCTIONS_OF_VIEWS = frozenset(
    """array_split atleast_1d atleast_2d atleast_3d broadcast_arrays broadcast_to diag diagonal dsplit expand_dims flip
    fliplr flipud hsplit imag matrix_transpose moveaxis permute_dims ravel real real_if_close reshape rollaxis rot90
    sliding_window_view split squeeze swapaxes transpose unstack vsplit""".split()
)
# They compute nothing, so they are no ops.
QUERIES = frozenset(
    """shape ndim size result_type can_cast common_type min_scalar_type iscomplexobj isrealobj may_share_memory
    shares_memory array_repr array_str array2string save savez savez_compressed savetxt""".split()
)
# They call a function of the user. The ops in that are recorded, too.
CALL_BACK = frozenset(["apply_along_axis", "apply_over_axes", "piecewise"])
# They make an array of their argument, or return it as it is.
CONVERSIONS = """array asarray asanyarray asarray_chkfinite ascontiguousarray asfarray asfortranarray asmatrix bmat
    frombuffer from_dlpack require""".split()
# They make an array without an input.
CREATIONS = """arange bartlett blackman empty eye fromfile fromfunction fromiter fromregex fromstring full genfromtxt
    hamming hanning identity indices kaiser load loadtxt ones tri zeros""".split()
# They make an array of random numbers; methods of generators, too.
DRAWS = """beta binomial bytes chisquare choice dirichlet exponential f gamma geometric gumbel hypergeometric integers
    laplace logistic lognormal logseries multinomial multivariate_hypergeometric multivariate_normal negative_binomial
    noncentral_chisquare noncentral_f normal pareto permutation permuted poisson power rand randint randn random
    random_integers random_sample ranf rayleigh sample shuffle standard_cauchy standard_exponential standard_gamma
    standard_normal standard_t triangular uniform vonmises wald weibull zipf""".split()
SEEDS = ("get_state", "seed", "set_state")
BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64", "SeedSequence")
# They check the results of a test, so they are no ops of the program.
CHECKS = """assert_allclose assert_almost_equal assert_approx_equal assert_array_almost_equal
    assert_array_almost_equal_nulp assert_array_compare assert_array_equal assert_array_less assert_array_max_ulp
    assert_equal""".split()
# Modules whose functions are ops.
SCIPY = ("scipy.linalg", "scipy.fft", "scipy.signal", "scipy.sparse.linalg", "scipy.special")
# Functions of these that compute nothing.
SCIPY_QUERIES = frozenset(
    """aslinearoperator bandwidth choose_conv_method fhtoffset find_best_blas_type get_blas_funcs get_lapack_funcs
    get_workers geterr is_sptriangular ishermitian issymmetric next_fast_len prev_fast_len register_backend
    set_backend set_global_backend set_workers seterr skip_backend spbandwidth use_solver""".split()
)

# By slot of ``PyNumberMethods``: the ufunc that does the same to arrays.
OPERATORS = {
    "add": "add", "subtract": "subtract", "multiply": "multiply", "true_divide": "divide", "remainder": "remainder",
    "floor_divide": "floor_divide", "divmod": "divmod", "power": "power", "lshift": "left_shift",
    "rshift": "right_shift", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
}  # fmt: skip
UNARY_OPERATORS = {"negative": "negative", "positive": "positive", "absolute": "absolute", "invert": "invert"}
# By number: ``Py_LT`` to ``Py_GE``.
COMPARISONS = "less less_equal equal not_equal greater greater_equal".split()


@lru_cache(maxsize=1024)
def ufunc_name(ufunc: np.ufunc, method: str) -> str:
    """Return the name of a method of a ufunc, with the module that has the ufunc."""
    homes = (home for home in ("numpy", "scipy.special") if getattr(sys.modules.get(home), ufunc.__name__, 0) is ufunc)
    return f"{next(homes, 'ufunc')}.{ufunc.__name__}" + (f".{method}" if method != "__call__" else "")
