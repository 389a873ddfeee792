"""What requests cost, in money.

In: a file of prices, or none. Out: `Prices`, and the cost of some requests. Prices are those of a
bucket's requests alone: storage, traffic and machines are not in them.

A file is TOML: `lists` and `reads` are the prices of 1,000 requests each; `name`, `currency` and
`date` say whose they are, and when.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from chronotile.errors import ChronotileError
from chronotile.format.documents import read_toml
from chronotile.storage.place import find_place
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

_LEN_MAX = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """The prices of requests to a bucket.

    >>> Prices(lists=5.0, reads=0.4).cost(lists=2, reads=5)
    0.012
    """

    lists: float
    """Of 1,000 requests that list."""
    reads: float
    """Of 1,000 requests that read."""
    currency: str = "USD"
    name: str = "prices of a file"
    date: str = ""

    def cost(self, *, lists: int, reads: int) -> float:
        """What some requests cost."""
        return (lists * self.lists + reads * self.reads) / 1000

    def words(self) -> str:
        """Whose prices they are.

        >>> S3_US_EAST.words()
        'S3 Standard, US East (N. Virginia), looked up 2026-11-17'
        """
        return ", ".join(filter(None, (self.name, self.date)))

    def to_json(self) -> dict[str, Any]:
        """One JSON object."""
        return asdict(self)


S3_US_EAST = Prices(
    lists=0.005,
    reads=0.0004,
    name="S3 Standard, US East (N. Virginia)",
    date="looked up 2026-11-17",
)
"""The prices that are taken unless a user gives others."""


def read_prices(place: str, storage_options: Mapping[str, str] | None = None) -> Prices:
    r"""Reads a file of prices.

    Raises:
        ChronotileError: It is no TOML, or says what no file of prices says.

    >>> store = open_store("memory:doc-prices")
    >>> store.put_if_absent("p.toml", b'lists = 0.0065\nreads = 0.0005\ncurrency = "EUR"')
    >>> read_prices("memory://doc-prices/p.toml").currency
    'EUR'
    """
    folder, _, name = find_place(place).uri.rpartition("/")
    data = open_store(folder or "/", storage_options).read(name, limit=_LEN_MAX)
    given = read_toml(data, place, "prices in TOML")
    known = {field.name: field.type for field in fields(Prices)}
    for key, value in given.items():
        if key not in known:
            expected = f"expected only {', '.join(known)}"
            raise ChronotileError(place, f"{expected}, found {key[:40]!r}")
        if known[key] == "str" and not isinstance(value, str):
            raise ChronotileError(place, f"{key}: expected a text, found {str(value)[:40]}")
    for key in ("lists", "reads"):
        price = given.get(key)
        if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < 1e9:
            problem = f"{key}: expected the price of 1,000 requests, found {str(price)[:40]}"
            raise ChronotileError(place, problem)
    return Prices(**given)
