"""An experiment that `tiledbsoma` makes: written, grown, deleted from, resumed at other times.

In: a folder. Out: `<folder>/group`.
"""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa
import tiledbsoma as soma
from tiledbsoma.options import SOMATileDBContext


def context(at: int) -> SOMATileDBContext:
    """Everything that happens in it happens at one time."""
    return SOMATileDBContext(timestamp=at)


def frame(first: int, last: int) -> pa.Table:
    """Some rows."""
    ids = range(first, last)
    return pa.table(
        {
            "soma_joinid": pa.array(ids, pa.int64()),
            "label": pa.array([f"c{i}" for i in ids], pa.large_string()),
        }
    )


def add_frame(parent: soma.Collection, name: str, rows: pa.Table) -> None:
    """A data frame with some rows."""
    made = parent.add_new_dataframe(
        name, schema=rows.schema, index_column_names=["soma_joinid"], domain=[(0, 99)]
    )
    made.write(rows)


def make(uri: str) -> None:
    """The whole history."""
    with soma.Experiment.create(uri, context=context(10)) as experiment:
        add_frame(experiment, "obs", frame(0, 4))
    with soma.Experiment.open(uri, "w", context=context(20)) as experiment:
        rna = experiment.add_new_collection("ms").add_new_collection("RNA", soma.Measurement)
        add_frame(rna, "var", frame(0, 3))
        layers = rna.add_new_collection("X", soma.Collection)
        data = layers.add_new_sparse_ndarray("data", type=pa.float32(), shape=(100, 100))
        values, places = np.array([1, 2, 3], np.float32), np.array([[0, 0], [1, 1], [2, 2]])
        data.write(pa.SparseCOOTensor.from_numpy(values, places, shape=(100, 100)))
        dense = layers.add_new_dense_ndarray("dense", type=pa.float32(), shape=(4, 4))
        dense.write((slice(0, 3), slice(0, 3)), pa.Tensor.from_numpy(np.ones((4, 4), np.float32)))
    with soma.Experiment.open(uri, "w", context=context(30)) as experiment:
        experiment.obs.write(frame(4, 8))
        experiment.metadata["note"] = "grown"
    with soma.Collection.open(f"{uri}/ms/RNA/X", "w", context=context(40)) as layers:
        del layers["dense"]
    with soma.Experiment.open(uri, "w", context=context(15)) as experiment:
        experiment.add_new_collection("late", soma.Collection)
    with soma.Experiment.open(uri, "w", context=context(50)) as experiment:
        experiment.obs.write(frame(8, 9))


if __name__ == "__main__":
    make(f"{sys.argv[1]}/group")
