"""One POST to an address that a person gave, without lending him the lab's place in the network.

The host's addresses are looked up here, every one must be public, and the connection goes to just that address, so
that a name which answers differently a moment later gains nothing. No proxy, no redirect, no cookie; of the answer only
the status is read. The whole exchange has one deadline, which a receiver that drips bytes can't stretch.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import time
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

import httpcore

CONNECT_S = 3.0
TOTAL_S = 8.0
SCHEMES = ("http", "https")
# Addresses that carry an IPv4 address in them, which a gateway may translate.
TRANSLATED = tuple(ipaddress.ip_network(net) for net in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32"))

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class BadAddress(ValueError):
    """The text is no address that a request could go to: `message` says why."""


class NotSent(Exception):
    """There was no answer: why, for whoever owns the receiver."""


def check_address(url: str, *, private: bool = False) -> SplitResult:
    """The parts of an http or https address without credentials or fragment. Raises BadAddress.

    An address written in numbers must be public (unless `private`); what a name stands for is looked at when sending.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise BadAddress(f"this is no address: {error}") from error
    if not url.isascii() or not url.isprintable() or " " in url:
        raise BadAddress("an address holds ASCII letters, digits and signs alone")
    if parts.scheme not in SCHEMES or not host or port == 0:
        raise BadAddress("an address begins with http:// or https:// and a host")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise BadAddress("an address must not hold a user name, a password or a fragment")
    literal = _literal(host)
    if literal is not None and not private and not is_public(literal):
        raise BadAddress(f"{host} is not a public address")
    return parts


def is_public(address: Address) -> bool:
    """Not of this machine, a private network, a cloud's metadata service, or a group."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address.is_site_local or any(address in net for net in TRANSLATED):
            return False
    return address.is_global and not address.is_multicast


def post(url: str, body: bytes, headers: Mapping[str, str], *, private: bool = False) -> int:
    """The status of the answer, whatever it is. Raises BadAddress, NotSent."""
    parts = check_address(url, private=private)
    backend = _GuardedBackend(private, time.monotonic() + TOTAL_S)
    timeout = {"connect": CONNECT_S, "read": TOTAL_S, "write": TOTAL_S, "pool": TOTAL_S}
    lines = [("Host", parts.netloc), ("Content-Length", str(len(body))), *headers.items()]
    try:
        with (
            httpcore.ConnectionPool(network_backend=backend) as pool,
            pool.stream("POST", url, headers=lines, content=body, extensions={"timeout": timeout}) as response,
        ):
            return response.status
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
        raise NotSent(f"{type(error).__name__}: {error}".rstrip(": ")) from error


class _GuardedBackend(httpcore.SyncBackend):
    """Connects to public addresses alone, and gives streams that end at the deadline."""

    def __init__(self, private: bool, deadline: float) -> None:
        self._private = private
        self._deadline = deadline

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        address = str(self._address_of(host, port))
        stream = super().connect_tcp(address, port, _left(timeout, self._deadline), local_address, socket_options)
        return _DeadlineStream(stream, self._deadline)

    def _address_of(self, host: str, port: int) -> Address:
        """One address of the host. Of several none may be private: which one is taken must not matter."""
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(f"{host} can't be looked up: {error}") from error
        addresses = [ipaddress.ip_address(str(one[4][0]).partition("%")[0]) for one in found]
        if not self._private and not all(is_public(address) for address in addresses):
            raise httpcore.ConnectError(f"{host} stands for an address that is not public")
        return addresses[0]


class _DeadlineStream(httpcore.NetworkStream):
    """A stream whose every wait ends at the deadline."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: float) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(timeout, self._deadline))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _left(timeout, self._deadline))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        secured = self._stream.start_tls(ssl_context, server_hostname, _left(timeout, self._deadline))
        return _DeadlineStream(secured, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _left(timeout: float | None, deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise httpcore.ReadTimeout(f"no answer within {TOTAL_S:g} s")
    return left if timeout is None else min(timeout, left)


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
