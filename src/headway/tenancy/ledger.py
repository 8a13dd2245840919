"""What each tenant used, of each model, in each hour: kept in a database.

Requests are added up in memory and written twice a second, in a thread of the ledger's own: a
process that is killed loses what it had not written yet, a second of it at most. Sums are added in
the database, so that several servers may share one.

SQLAlchemy speaks to the database; SQLite needs no server. Refuses to know limits.
"""

import logging
import threading
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from msgspec import Struct, structs

from headway.core import ModelName, TenantId
from headway.errors import ConfigError, HeadwayError
from headway.tenancy.outcomes import Ask, Outcome
from headway.units import NS_PER_S

if TYPE_CHECKING:
    from sqlalchemy import Engine, Table

__all__ = ["Ledger", "Usage", "UsageSum", "open_ledger"]

_WRITE_EVERY_S: Final = 0.5
_CLOSE_S: Final = 5.0
"""How long a database may take for the last of it."""
_LINES_MAX: Final = 100_000
"""Lines that may wait for a database that does not answer."""
_HOUR_S: Final = 3600
_HOUR_FORMATS: Final = {"hour": "%Y-%m-%dT%H:00Z", "day": "%Y-%m-%d", "month": "%Y-%m"}

_log: Final = logging.getLogger(__name__)


class Usage(Struct):
    """Sums of one tenant, model and hour. The fields are the columns."""

    requests: int = 0
    completed: int = 0
    refused: int = 0
    expired: int = 0
    failed: int = 0
    cancelled: int = 0
    violations: int = 0
    rows: int = 0
    tokens: int = 0
    device_ns: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    def add(self, other: "Usage") -> None:
        """Add another to this one."""
        for name in _AMOUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))


_AMOUNTS: Final = Usage.__struct_fields__


class UsageSum(Struct, frozen=True, kw_only=True):
    """Lines of the ledger that have something in common, added up."""

    keys: tuple[str, ...]
    """What they have in common, in the order that was asked for."""
    usage: Usage


_Line = tuple[TenantId, ModelName, int]
"""A tenant, a model, and the beginning of an hour in seconds since 1970."""


class Ledger:
    """One database.

    Args:
        engine: of SQLAlchemy.
        table: with the columns of `Usage` and those of a line's key.

    Invariants: what was added is in ``_waiting``, or in the database, or, while it is written, in
    the writer's hands.
    """

    def __init__(self, engine: "Engine", table: "Table") -> None:
        self._engine = engine
        self._table = table
        self._lock = threading.Lock()
        self._waiting: dict[_Line, Usage] = {}
        self._is_closing = threading.Event()
        self._is_failing = False
        self._dropped = 0
        """Requests for which there was no line while the database was silent."""
        self._writer: threading.Thread | None = None

    def start(self) -> None:
        """Begin to write what is added."""
        self._writer = threading.Thread(target=self._write_on, name="ledger", daemon=True)
        self._writer.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def note(self, tenant: TenantId, ask: Ask, outcome: Outcome, unix_ns: int) -> None:
        """Add a request that has ended, as a gate tells it.

        Cost: 1.5 us. Never waits for the database.
        """
        unix_s = unix_ns // NS_PER_S
        line = (tenant, ask.model, unix_s - unix_s % _HOUR_S)
        with self._lock:
            usage = self._waiting.get(line)
            if usage is None:
                if len(self._waiting) >= _LINES_MAX:
                    self._dropped += 1
                    return
                usage = self._waiting[line] = Usage()
            ending: str = outcome.ending
            setattr(usage, ending, getattr(usage, ending) + 1)
            usage.requests += 1
            usage.violations += outcome.is_violation
            usage.rows += outcome.rows
            usage.tokens += outcome.tokens
            usage.device_ns += outcome.device_ns
            usage.bytes_in += ask.bytes_in
            usage.bytes_out += outcome.bytes_out

    def used_ns(self, tenant: TenantId, since_unix_ns: int, until_unix_ns: int) -> int:
        """Device time that a tenant used from one hour to another, as far as it is written.

        Raises:
            ConfigError: the database does not answer.
        """
        from sqlalchemy import func, select
        from sqlalchemy.exc import SQLAlchemyError

        columns = self._table.c
        asked = select(func.coalesce(func.sum(columns.device_ns), 0)).where(
            columns.tenant == tenant,
            columns.hour_unix_s >= since_unix_ns // NS_PER_S,
            columns.hour_unix_s < until_unix_ns // NS_PER_S,
        )
        try:
            with self._engine.connect() as connection:
                return int(connection.execute(asked).scalar_one())
        except SQLAlchemyError as error:
            raise ConfigError(
                f"the usage ledger cannot be read: {_first_line(error)}", path="tenancy.ledger"
            ) from error

    def sums(
        self,
        keys: Sequence[str],
        *,
        tenant: TenantId | None = None,
        since_unix_s: int | None = None,
        until_unix_s: int | None = None,
    ) -> list[UsageSum]:
        """What was used, in the order of the keys.

        Args:
            keys: what a sum is of: `tenant`, `model`, and `hour`, `day` or `month`.
            tenant: of this one alone.
            since_unix_s: from this hour on.
            until_unix_s: before this hour.

        Raises:
            HeadwayError: the database cannot be read.
        """
        from sqlalchemy import select
        from sqlalchemy.exc import SQLAlchemyError

        columns = self._table.c
        asked = select(self._table).order_by(columns.hour_unix_s)
        if tenant is not None:
            asked = asked.where(columns.tenant == tenant)
        if since_unix_s is not None:
            asked = asked.where(columns.hour_unix_s >= since_unix_s)
        if until_unix_s is not None:
            asked = asked.where(columns.hour_unix_s < until_unix_s)
        sums: dict[tuple[str, ...], Usage] = {}
        try:
            with self._engine.connect() as connection:
                for found in connection.execute(asked).mappings():
                    line = tuple(_key_of(key, found) for key in keys)
                    usage = Usage(**{name: int(found[name]) for name in _AMOUNTS})
                    sums.setdefault(line, Usage()).add(usage)
        except SQLAlchemyError as error:
            raise HeadwayError(
                f"the ledger cannot be read: {_first_line(error)}",
                hint="is it the database of a server's tenancy.ledger?",
            ) from error
        return [UsageSum(keys=line, usage=sums[line]) for line in sorted(sums)]

    def write(self) -> None:
        """Write what waits; it goes on waiting where the database refuses."""
        with self._lock:
            taken, self._waiting = self._waiting, {}
        if not taken:
            return
        from sqlalchemy.exc import DataError, IntegrityError

        try:
            self._store(taken.items())
        except (DataError, IntegrityError, OverflowError):
            self._store_one_by_one(taken)
        except Exception as error:  # noqa: BLE001 (a database may raise anything; serving goes on)
            self._put_back(taken)
            if not self._is_failing:
                _log.error("the usage ledger cannot be written, and is tried again: %s", error)
            self._is_failing = True
        else:
            self._is_failing = False
            if self._dropped:
                _log.error("%d requests are missing in the usage ledger", self._dropped)
                self._dropped = 0

    def close(self) -> None:
        """Write the last of it, and let go of the database; it is not waited for long."""
        self._is_closing.set()
        if self._writer is None:
            self.write()
        else:
            self._writer.join(_CLOSE_S)
            if self._writer.is_alive():
                _log.error("the usage ledger does not answer: what was not written is lost")
                return
        if self._waiting:
            _log.error("%d lines of the usage ledger were not written", len(self._waiting))
        self._engine.dispose()

    def _write_on(self) -> None:
        while not self._is_closing.wait(_WRITE_EVERY_S):
            self.write()
        self.write()

    def _store_one_by_one(self, taken: dict[_Line, Usage]) -> None:
        """A line that no database takes must not keep all others out of it."""
        for line, usage in taken.items():
            try:
                self._store([(line, usage)])
            except Exception as error:  # noqa: BLE001 (as above)
                _log.error("a line of the usage ledger, %s, is dropped: %s", line, error)

    def _put_back(self, taken: dict[_Line, Usage]) -> None:
        with self._lock:
            for line, usage in taken.items():
                sums = self._waiting.get(line)
                if sums is None:
                    self._waiting[line] = usage
                else:
                    sums.add(usage)

    def _store(self, lines: Iterable[tuple[_Line, Usage]]) -> None:
        """Add to each line in one transaction; a line that is new is there first, with nothing."""
        columns = self._table.c
        with self._engine.begin() as connection:
            for (tenant, model, hour_unix_s), usage in lines:
                key = {"tenant": tenant, "model": model, "hour_unix_s": hour_unix_s}
                of_line = [columns[name] == value for name, value in key.items()]
                amounts = structs.asdict(usage)
                added = {name: columns[name] + amount for name, amount in amounts.items()}
                update = self._table.update().where(*of_line).values(**added)
                if connection.execute(update).rowcount == 0:
                    # Another server may do the same now: then this fails, and is tried again.
                    connection.execute(self._table.insert().values(**key, **amounts))


def open_ledger(url: str, *, creates: bool = True) -> Ledger:
    """Open a database by its SQLAlchemy URL.

    Args:
        url: of the database.
        creates: make the table where there is none, and the file of SQLite.

    Raises:
        ConfigError: SQLAlchemy is not installed, the URL is none, or the database does not answer.
    """
    try:
        from sqlalchemy import (
            BigInteger,
            Column,
            MetaData,
            String,
            Table,
            create_engine,
            event,
        )
        from sqlalchemy.engine import make_url
        from sqlalchemy.exc import SQLAlchemyError
    except ImportError as error:
        raise ConfigError(
            f"the usage ledger needs a library that is not installed: {error}",
            path="tenancy.ledger",
            hint="pip install 'headway[tenants]', or set tenancy.ledger to null",
        ) from error
    table = Table(
        "headway_usage",
        MetaData(),
        Column("tenant", String(128), primary_key=True),
        Column("model", String(128), primary_key=True),
        Column("hour_unix_s", BigInteger, primary_key=True, autoincrement=False),
        *(Column(name, BigInteger, nullable=False) for name in _AMOUNTS),
    )
    try:
        parsed = make_url(url)
        engine = create_engine(parsed)
        if parsed.get_backend_name() == "sqlite":
            _see_file(parsed.database, creates=creates)
            event.listen(engine, "connect", _tune_sqlite)
        if creates:
            _create(table, engine)
    except (SQLAlchemyError, ImportError, ValueError) as error:
        scheme = url.partition(":")[0]  # what follows may hold a password
        raise ConfigError(
            f"the usage ledger, `{scheme}`, cannot be opened: {_first_line(error)}",
            path="tenancy.ledger",
            value=scheme,
            hint="write an SQLAlchemy URL such as `sqlite:///usage.db`",
        ) from error
    return Ledger(engine, table)


def _create(table: "Table", engine: "Engine") -> None:
    """Make the table, which another server may do at the same moment."""
    from sqlalchemy import inspect
    from sqlalchemy.exc import SQLAlchemyError

    try:
        table.metadata.create_all(engine)
    except SQLAlchemyError:
        if not inspect(engine).has_table(table.name):
            raise


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _see_file(name: str | None, *, creates: bool) -> None:
    """SQLite would make an empty database of a name that was mistyped."""
    is_file = name not in {None, "", ":memory:"}
    if is_file and not creates and not Path(str(name)).exists():
        raise ConfigError(
            f"there is no ledger `{name}`",
            value=name,
            hint="name that of a server's tenancy.ledger",
        )


def _tune_sqlite(connection: Any, _: Any) -> None:
    """Readers do not stop the writer, and a write that was committed outlives the process."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")


def _key_of(key: str, found: Any) -> str:
    """A part of a line: a name, or a part of its hour in UTC."""
    if key not in _HOUR_FORMATS:
        return str(found[key])
    return datetime.fromtimestamp(found["hour_unix_s"], UTC).strftime(_HOUR_FORMATS[key])
