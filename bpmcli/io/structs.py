"""Objects as scores: `{"cat": 0.9, "dog": 0.1}` in JSON, the same as a struct in arrow, and the vectors of Spark."""

from __future__ import annotations

from typing import Any

import numpy as np

from bpmcli.core.data.sample import Floats
from bpmcli.errors import DataError

SPARK = {"type", "size", "indices", "values"}
DENSE = 1
"""The type of a Spark vector that holds all its values."""


def class_keys(kind: Any) -> tuple[str, ...]:
    """The class names: the keys of a struct of numbers, if they are not all whole numbers. Empty for other types."""
    import pyarrow as pa

    if not pa.types.is_struct(kind) or kind.num_fields < 2:
        return ()
    inner = [kind.field(i).type for i in range(kind.num_fields)]
    if not all(pa.types.is_floating(each) or pa.types.is_integer(each) for each in inner):
        return ()
    if not any(pa.types.is_floating(each) for each in inner):
        return ()
    from bpmcli.io.known_names import order_of_classes

    names = [kind.field(i).name for i in range(kind.num_fields)]
    return tuple(names[k] for k in order_of_classes(names))


def is_spark_vector(kind: Any) -> bool:
    """Whether a type is the struct in which Spark ML stores a vector."""
    import pyarrow as pa

    return bool(pa.types.is_struct(kind)) and {kind.field(i).name for i in range(kind.num_fields)} == SPARK


def vector_values(column: Any) -> Any:
    """The lists of values of Spark vectors; sparse vectors leave out zeros and are refused."""
    import pyarrow.compute as pc

    dense = pc.fill_null(pc.equal(column.field("type"), DENSE), True)
    if not pc.all(dense).as_py():
        raise DataError(
            "holds sparse vectors",
            "store lists in Spark: df.withColumn('probability', pyspark.ml.functions.vector_to_array('probability'))",
        )
    return pc.struct_field(column, "values")


def matrix(column: Any, keys: tuple[str, ...]) -> tuple[Floats, Any]:
    """One column of the matrix for each key, and the rows in which a number is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = [pc.struct_field(column, [key]).cast(pa.float64()) for key in keys]
    missing = np.zeros(len(column), dtype=bool)
    for part in parts:
        if part.null_count:
            missing |= np.array(part.is_null().to_pylist(), dtype=bool)
    values = [np.array(part.fill_null(0.0), dtype=np.float64) for part in parts]
    return np.stack(values, axis=1), missing if missing.any() else None


def struct_of(values: Floats, keys: tuple[str, ...]) -> Any:
    """A matrix as a column of objects."""
    import pyarrow as pa

    from bpmcli.io.columns import to_arrow

    parts = [to_arrow(np.ascontiguousarray(values[:, i])) for i in range(len(keys))]
    return pa.StructArray.from_arrays(parts, names=list(keys))
