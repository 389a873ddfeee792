"""Whether a Spark master answers, before Spark itself waits for it.

In: a master, as `--master` takes it. Out: nothing, or one error at once: Spark tries for a minute,
and then ends in pages of Java. Opens a connection and closes it; starts nothing.
"""

from __future__ import annotations

import os
import re
import socket
from typing import TYPE_CHECKING

from chronotile.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

WAIT_S = 10.0
_STANDALONE = re.compile(r"spark://([^/]+)/?")
_KUBERNETES = re.compile(r"k8s://(?:(https?)://)?([^/]+)/?.*")
_PORTS = {"https": 443, "http": 80}
_HADOOP = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")


def is_local(master: str | None) -> bool:
    """Whether tasks run in processes of this machine, which have its folders.

    >>> is_local("local[2]"), is_local(None), is_local("spark://host:7077")
    (True, True, False)
    """
    return master is None or master.startswith("local")


def check_master(
    master: str, *, wait_s: float = WAIT_S, environ: Mapping[str, str] = os.environ
) -> None:
    """Refuses a master that does not answer.

    Raises:
        StorageError: It does not.

    >>> check_master("yarn", environ={})
    Traceback (most recent call last):
    chronotile.errors.StorageError: yarn: expected HADOOP_CONF_DIR or YARN_CONF_DIR, found neither
    """
    if master == "yarn" and not any(environ.get(name) for name in _HADOOP):
        raise StorageError(master, f"expected {' or '.join(_HADOOP)}, found neither")
    causes = []
    for host, port in _addresses(master):
        try:
            with socket.create_connection((host, port), timeout=wait_s):
                return
        except OSError as cause:
            causes.append(f"{host}:{port}: {cause.strerror or cause}")
    if causes:
        problem = f"expected a Spark master that answers, found none ({'; '.join(causes)})"
        raise StorageError(master, problem)


def _addresses(master: str) -> Iterator[tuple[str, int]]:
    """The hosts and ports of a master, one of which has to answer."""
    standalone, kubernetes = _STANDALONE.fullmatch(master), _KUBERNETES.fullmatch(master)
    if standalone:
        places, fallback = standalone[1].split(","), 7077
    elif kubernetes:
        places, fallback = [kubernetes[2]], _PORTS[kubernetes[1] or "https"]
    else:
        return
    for place in places:
        host, colon, port = place.rpartition(":")
        if colon and port.isdigit():
            yield host.strip("[]"), int(port)
        else:
            yield place.strip("[]"), fallback
