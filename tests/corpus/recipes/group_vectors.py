"""An index that `tiledb-vector-search` makes: ingested, updated, deleted from, consolidated.

In: a folder. Out: `<folder>/group`.
"""

from __future__ import annotations

import sys

import numpy as np
from tiledb.vector_search.flat_index import FlatIndex
from tiledb.vector_search.ingestion import ingest


def make(uri: str) -> None:
    """The whole history."""
    vectors = np.random.default_rng(0).random((20, 4), dtype=np.float32)
    ingest(index_type="FLAT", index_uri=uri, input_vectors=vectors, index_timestamp=10)
    index = FlatIndex(uri)
    index.update(vector=np.ones(4, np.float32), external_id=np.uint64(100), timestamp=20)
    index.delete(external_id=np.uint64(3), timestamp=30)
    index.consolidate_updates()


if __name__ == "__main__":
    make(f"{sys.argv[1]}/group")
