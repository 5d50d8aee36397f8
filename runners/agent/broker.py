"""One connection to the broker for writing streams, which never reconnects behind its user's back.

redis-py's client reopens a dropped connection by itself. After a restart in which the broker lost its last second,
the next event would then follow a hole. Here a broken connection is an error, and its user looks how far the stream
really goes before it writes on.
"""

from __future__ import annotations

from typing import Any

from redis import ConnectionPool, RedisError
from redis.backoff import NoBackoff
from redis.exceptions import ResponseError
from redis.retry import Retry

NO_SUCH_KEY = "no such key"
ID_NOT_ABOVE = "equal or smaller than the target stream top item"


class BrokerError(Exception):
    """The broker can't be used now; try again."""


class StreamBroker:
    """Streams of one broker. Every call raises BrokerError when the connection fails, and the next one reconnects."""

    def __init__(self, url: str, timeout_s: float = 5.0) -> None:
        pool = ConnectionPool.from_url(
            url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s, retry=Retry(NoBackoff(), 0), protocol=2
        )
        self._connection_class: Any = pool.connection_class
        self._connection_options = pool.connection_kwargs
        self._connection: Any = None

    def last_id(self, key: str) -> tuple[int, int]:
        """The highest id that the stream ever had, as (attempt, seq); (0, 0) where there is no stream."""
        (reply,) = self._send([("XINFO", "STREAM", key)])
        if isinstance(reply, ResponseError):
            if NO_SUCH_KEY in str(reply):
                return (0, 0)
            raise BrokerError(str(reply))
        fields = dict(zip(reply[::2], reply[1::2], strict=True))
        return _parse_id(fields[b"last-generated-id"])

    def first_id_from(self, key: str, attempt: int, seq: int) -> tuple[int, int] | None:
        """The id of the first entry at or after `<attempt>-<seq>`, None where there is none."""
        (reply,) = self._send([("XRANGE", key, f"{attempt}-{seq}", "+", "COUNT", 1)])
        if isinstance(reply, ResponseError):
            raise BrokerError(str(reply))
        return _parse_id(reply[0][0]) if reply else None

    def add(self, key: str, attempt: int, first_seq: int, events: list[bytes]) -> None:
        """Appends events under the ids `<attempt>-<first_seq>` and on. An id that is there already stays as it is."""
        added = [("XADD", key, f"{attempt}-{first_seq + i}", "e", event) for i, event in enumerate(events)]
        # A transaction: short of memory, the broker must not refuse one event and take the next.
        *_, result = self._send([("MULTI",), *added, ("EXEC",)])
        for reply in result if isinstance(result, list) else [result]:
            if isinstance(reply, ResponseError) and ID_NOT_ABOVE not in str(reply):
                raise BrokerError(str(reply))

    def delete(self, key: str) -> None:
        """Forgets a stream, its last id too."""
        (reply,) = self._send([("DEL", key)])
        if isinstance(reply, ResponseError):
            raise BrokerError(str(reply))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.disconnect()
            self._connection = None

    def _send(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        """The replies, in order; the broker's own refusals among them as ResponseError."""
        try:
            if self._connection is None:
                connection = self._connection_class(**self._connection_options)
                connection.connect()
                self._connection = connection
            self._connection.send_packed_command(self._connection.pack_commands(commands), check_health=False)
            return [self._read() for _ in commands]
        except (RedisError, OSError) as error:
            self.close()
            raise BrokerError(str(error) or type(error).__name__) from error

    def _read(self) -> Any:
        try:
            return self._connection.read_response()
        except ResponseError as refusal:
            return refusal


def _parse_id(text: bytes) -> tuple[int, int]:
    attempt, seq = text.split(b"-")
    return int(attempt), int(seq)
