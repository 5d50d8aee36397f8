"""One lab on one home, on a port that is free."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from labsite.instance import CannotStart, allowed_hosts, free_port, lock_home


def test_a_second_lab_on_a_home_is_refused_with_the_holder_named(tmp_path: Path):
    with (
        lock_home(tmp_path),
        pytest.raises(CannotStart, match=rf"already runs on {tmp_path} \(process {os.getpid()}\)"),
    ):
        lock_home(tmp_path)


def test_a_home_is_free_again_once_its_lab_has_ended(tmp_path: Path):
    lock_home(tmp_path).close()
    lock_home(tmp_path).close()


def test_a_port_in_use_is_named_with_its_holder():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(CannotStart, match=rf"port {port} on 127.0.0.1 is in use by process {os.getpid()}"):
            free_port("127.0.0.1", port)


def test_port_zero_gives_a_port_that_can_be_bound():
    port = free_port("127.0.0.1", 0)
    with socket.socket() as server:
        server.bind(("127.0.0.1", port))
    assert free_port("127.0.0.1", port) == port


def test_an_address_of_another_machine_is_refused():
    with pytest.raises(CannotStart, match=r"can't listen on 192\.0\.2\.7"):
        free_port("192.0.2.7", 0)


def test_listening_on_loopback_answers_to_loopback_alone():
    assert allowed_hosts("127.0.0.1") == "localhost,127.0.0.1,[::1]"
    assert socket.gethostname() in allowed_hosts("0.0.0.0").split(",")
