"""Op-level performance regression testing of numerical and ML code, as a pytest plugin.

Importing the package costs nothing; its modules are imported where they are used.
"""

from .own import op

__all__ = ["op"]
__version__ = "0.1.0"
