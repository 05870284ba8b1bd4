"""Every mistake a user can make, by name. Each is a `FlatpcError`, which is a `ValueError`."""

__all__ = [
    "ClusterError", "DataError", "DecomposabilityError", "FamilyError", "FileFormatError", "FlatpcError", "MissingPackageError",
    "MissingValueError", "OptionError", "ParameterError", "ShapeError", "SmoothnessError", "StructureError",
    "SupportError", "TiedParametersError", "TooLargeError", "WriteError",
]  # fmt: skip


class FlatpcError(ValueError):
    """Base class of every error flatpc raises on purpose."""


class DataError(FlatpcError):
    """Rows that can't be used: the message names the column, the value and the remedy."""


class ShapeError(DataError):
    """Rows with the wrong number of dimensions or columns, or none at all."""


class MissingValueError(DataError):
    """A NaN where missing values were not allowed."""


class SupportError(DataError):
    """A value outside the support of its column's family."""


class ColumnTypeError(DataError, TypeError):
    """A table or a column that holds neither numbers nor text, or text where only numbers will do."""


class TooLargeError(DataError):
    """More variables or values than a structure has memory for."""


class StructureError(FlatpcError):
    """Nodes that don't make a circuit."""


class SmoothnessError(StructureError):
    """A sum over children with different scopes."""


class DecomposabilityError(StructureError):
    """A product of children whose scopes overlap."""


class ParameterError(FlatpcError):
    """Parameters of the wrong shape, off the simplex, out of range or NaN."""


class TiedParametersError(FlatpcError):
    """Something that is only true for untied parameters was asked of a circuit with tied ones."""


class FileFormatError(FlatpcError):
    """A model file that is damaged, of an unknown version, or not a model file."""


class OptionError(FlatpcError):
    """An option out of its range; `option` is its name, where the error is about a single one."""

    def __init__(self, message: str, option: str | None = None) -> None:
        super().__init__(message)
        self.option = option


class DeviceError(OptionError):
    """A device that isn't there, or that the engine can't use: the message names those that are."""


class MissingPackageError(FlatpcError, ImportError):
    """A package that is not part of the base install; the message names the extra to install."""


class ClusterError(FlatpcError, ConnectionError):
    """A scheduler that can't be reached, or workers that were lost for good: the message says how to start anew."""


class WriteError(FlatpcError, OSError):
    """A file that can't be written: no such folder, no permission, no room."""


class FamilyError(FlatpcError):
    """A family was asked for something that it doesn't define, or answered with something that can't be."""
