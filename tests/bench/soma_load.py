"""A load into a SOMA experiment that breaks off, taken back and run again, with `tiledbsoma`.

In: nothing. Out: a line for each step; status 1 if `tiledbsoma` reads anything else after the
restore than before the load, or if the second load does not end as an undisturbed one does.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import anndata
import numpy as np
import pandas as pd
import scipy.sparse
import tiledbsoma as soma
import tiledbsoma.io

import chronotile as ct

GENES = 30


def cells(first: int, count: int) -> anndata.AnnData:
    """Some cells, with names and values of their own."""
    names = [f"cell-{first + at}" for at in range(count)]
    genes = pd.DataFrame(index=[f"gene-{at}" for at in range(GENES)])
    kinds = pd.DataFrame({"kind": [f"kind-{at % 3}" for at in range(count)]}, index=names)
    values = scipy.sparse.random(
        count, GENES, 0.2, "csr", np.float32, random_state=np.random.default_rng(first)
    )
    return anndata.AnnData(X=values, obs=kinds, var=genes)


def load(uri: str, new: anndata.AnnData) -> None:
    """Append cells, as the guide of `tiledbsoma` does."""
    known = tiledbsoma.io.register_anndatas(
        uri, [new], measurement_name="RNA", obs_field_name="obs_id", var_field_name="var_id"
    )
    known.prepare_experiment(uri)
    tiledbsoma.io.from_anndata(uri, new, measurement_name="RNA", registration_mapping=known)


def content(uri: str) -> dict[str, Any]:
    """Everything that `tiledbsoma` reads."""
    with soma.open(uri) as experiment:
        values = experiment.ms["RNA"].X["data"]
        return {
            "obs": experiment.obs.read().concat().to_pydict(),
            "obs_domain": experiment.obs.domain,
            "var": experiment.ms["RNA"].var.read().concat().to_pydict(),
            "values": values.read().tables().concat().to_pydict(),
            "shape": values.shape,
        }


def main() -> int:
    """Run all steps."""
    with tempfile.TemporaryDirectory() as folder:
        uri, undisturbed = str(Path(folder) / "experiment"), str(Path(folder) / "undisturbed")
        for place in (uri, undisturbed):
            tiledbsoma.io.from_anndata(place, cells(0, 50), measurement_name="RNA")
        load(undisturbed, cells(1000, 40))
        before = content(uri)
        ct.open(uri).tag("before-load", message="tonight's load")
        with patch.object(soma.SparseNDArray, "write", side_effect=OSError("the disk is full")):
            try:
                load(uri, cells(1000, 40))
            except OSError as error:
                print(f"the load breaks off: {error}")
        broken = content(uri)
        print(f"obs has {len(broken['obs']['obs_id'])} cells, X has the values of 50")
        done = ct.open(uri).restore("before-load", message="the load broke off")
        print(done.summary())
        restored = content(uri) == before != broken
        load(uri, cells(1000, 40))
        loaded = content(uri) == content(undisturbed)
        worst = [one.code for one in ct.open(uri).check() if one.severity != "info"]
    print(f"as before the load: {restored}; as an undisturbed load: {loaded}; findings: {worst}")
    return 0 if restored and loaded and not worst else 1


if __name__ == "__main__":
    sys.exit(main())
