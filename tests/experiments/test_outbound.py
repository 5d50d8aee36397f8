"""A POST to an address that a person gave reaches no machine that is not public, and ends in time."""

from __future__ import annotations

import ipaddress
import socket
import threading
from typing import Any

import pytest
from receiver import receiver

from experiments import outbound
from experiments.outbound import BadAddress, NotSent, check_address, is_public, post

NOT_PUBLIC = [
    "127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
    "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "fec0::1", "ff02::1", "::ffff:10.0.0.1", "64:ff9b::a00:1",
    "2002:a00:1::", "fd00:ec2::254",
]  # fmt: skip


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_an_address_that_is_not_public_is_told_from_one_that_is(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["1.1.1.1", "2606:4700:4700::1111", "::ffff:1.1.1.1"])
def test_a_public_address_is_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "url",
    ["", "ftp://example.org", "//example.org", "http://", "http://user:pw@example.org", "http://example.org/#a",
     "http://exa mple.org", "http://example.org:99999", "http://example.org:0", "http://[::1", "http://127.0.0.1/",
     "http://[::1]/", "http://exämple.org/", "http://example.org/\r\nHost: x", "file:///etc/passwd",
     "http://[::ffff:127.0.0.1]/"],
)  # fmt: skip
def test_what_is_no_public_address_is_refused_when_it_is_given(url: str) -> None:
    with pytest.raises(BadAddress):
        check_address(url)


def resolve_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[str]:
    asked: list[str] = []
    really = socket.getaddrinfo

    def look_up(host: str, port: int, *args: Any, **options: Any) -> list[Any]:
        if host != "hook.example":
            return really(host, port, *args, **options)
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return asked


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["1.1.1.1", "127.0.0.1"], ["169.254.169.254"]])
def test_a_name_that_stands_for_a_private_address_is_not_connected_to(
    monkeypatch: pytest.MonkeyPatch, addresses: list[str]
) -> None:
    with receiver() as told:
        resolve_to(monkeypatch, *addresses)
        with pytest.raises(NotSent, match="not public"):
            post(f"http://hook.example:{told.port}/", b"{}", {})
        assert told.got == []


def test_the_address_that_was_looked_at_is_the_one_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiver() as told:
        asked = resolve_to(monkeypatch, "127.0.0.1")
        assert post(f"http://hook.example:{told.port}/a?b=c", b"{}", {"X-A": "b"}, private=True) == 204
        assert asked == ["hook.example"]
        headers, body = told.got[0]
        assert (headers["host"], headers["x-a"], body) == (f"hook.example:{told.port}", "b", b"{}")


def test_a_redirect_is_an_answer_and_not_followed() -> None:
    with receiver() as told, receiver() as other:
        told.statuses, told.location = [302], other.url
        assert post(told.url, b"{}", {}, private=True) == 302
        assert other.got == []


def test_a_receiver_that_is_not_there_is_told() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(NotSent, match="ConnectError"):
            post(f"http://127.0.0.1:{unused.getsockname()[1]}/", b"{}", {}, private=True)


def test_a_receiver_that_drips_bytes_is_left_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbound, "TOTAL_S", 0.5)
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)

        def drip() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\n")
                while not over.wait(0.05):
                    connection.sendall(b"X-Drip: 1\r\n")

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            with pytest.raises(NotSent):
                post(f"http://127.0.0.1:{server.getsockname()[1]}/", b"{}", {}, private=True)
        finally:
            over.set()
            thread.join()
