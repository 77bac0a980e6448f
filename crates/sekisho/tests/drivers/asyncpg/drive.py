"""asyncpg before the gate, as it comes: prepares all that it asks, and speaks binary."""

import asyncio
import io
import os
import uuid
from datetime import datetime, timezone
from decimal import Decimal

import asyncpg

CLIENTS = int(os.environ["SEKISHO_CLIENTS"])
TABLE = os.environ["SEKISHO_TABLE"]
IS_SESSION = os.environ["SEKISHO_MODE"] == "session"


class connect:
    """A connection for as long as a block lasts."""

    async def __aenter__(self):
        self.connection = await asyncpg.connect(timeout=60)
        return self.connection

    async def __aexit__(self, *_):
        await self.connection.close(timeout=60)


def nonce():
    return uuid.uuid4().hex


async def at_once(work):
    await asyncio.gather(*(work(number) for number in range(CLIENTS)))


async def fails(kind, asked):
    try:
        await asked
    except kind:
        return
    raise AssertionError(f"no {kind}")


async def transactions():
    async with connect() as connection:
        await connection.execute(f"drop table if exists {TABLE}")
        await connection.execute(f"create table {TABLE} (n int, x text)")

    async def one(number):
        async with connect() as connection:
            mine = []
            for _ in range(10):
                async with connection.transaction():
                    mine.append(nonce())
                    await connection.execute(f"insert into {TABLE} values ($1, $2)", number, mine[-1])
                    rows = await connection.fetch(f"select x from {TABLE} where n = $1", number)
                    assert sorted(row["x"] for row in rows) == sorted(mine), rows
            outer = connection.transaction()
            await outer.start()
            inner = connection.transaction()
            await inner.start()
            await connection.execute(f"insert into {TABLE} values ($1, $2)", number, nonce())
            await inner.rollback()
            await connection.execute(f"insert into {TABLE} values ($1, $2)", number, nonce())
            await outer.commit()
            # A cursor, whose portal is there in several series.
            async with connection.transaction():
                heard = []
                async for row in connection.cursor("select g, $1::text from generate_series(1, 120) g", mine[0]):
                    heard.append(tuple(row))
                assert heard == [(g, mine[0]) for g in range(1, 121)], heard

    await at_once(one)
    # A pool, which asks for a reset after each use.
    async with asyncpg.create_pool(min_size=1, max_size=2, timeout=60) as pool:
        async def pooled(_):
            mine = nonce()
            assert await pool.fetchval("select $1::text", mine) == mine

        await asyncio.gather(*(pooled(number) for number in range(40)))
        count = await pool.fetchval(f"select count(*) from {TABLE}")
        assert count == CLIENTS * 11, count


async def prepared():
    async def one(number):
        async with connect() as connection:
            own = await connection.prepare(f"select '{number}', $1::text")
            for turn in range(30):
                mine = nonce()
                assert await connection.fetchval("select $1::text", mine) == mine
                assert await connection.fetchval("select $1::int + 1", turn) == turn + 1
                assert tuple(await own.fetchrow(mine)) == (str(number), mine)
            if IS_SESSION:
                count = await connection.fetchval("select count(*) from pg_prepared_statements")
                assert count >= 3, count
            # More than it keeps: the oldest are closed.
            for turn in range(110):
                row = await connection.fetchrow(f"select {turn}, $1::text", mine)
                assert tuple(row) == (turn, mine), row

    await at_once(one)


async def pipeline():
    # Its only series of several: many rows for one statement, in one transaction.
    async def one(number):
        async with connect() as connection:
            rows = [(500 + number, nonce()) for _ in range(200)]
            await connection.executemany(f"insert into {TABLE} values ($1, $2)", rows)
            got = await connection.fetch(f"select x from {TABLE} where n = $1", 500 + number)
            assert sorted(row["x"] for row in got) == sorted(x for _, x in rows)
            halves = [(1,), (0,), (1,)]
            await fails(
                asyncpg.DivisionByZeroError, connection.executemany("select 1 / $1::int", halves)
            )
            mine = nonce()
            got = await connection.fetchmany("select $1::text", [(mine + "1",), (mine + "2",)])
            assert [row[0] for row in got] == [mine + "1", mine + "2"], got

    await at_once(one)


async def copy():
    async def one(number):
        async with connect() as connection:
            rows = [(1000 + number, nonce()) for _ in range(500)]
            said = await connection.copy_records_to_table(TABLE, records=rows[:250])
            assert said == "COPY 250", said
            text = "".join(f"{n}\t{x}\n" for n, x in rows[250:]).encode()
            await connection.copy_to_table(TABLE, source=io.BytesIO(text), format="text")
            out = io.BytesIO()
            await connection.copy_from_query(
                f"select x from {TABLE} where n = $1", 1000 + number, output=out, format="text"
            )
            heard = sorted(out.getvalue().decode().split())
            assert heard == sorted(x for _, x in rows), (len(heard), len(rows))
            await fails(
                asyncpg.BadCopyFileFormatError,
                connection.copy_to_table(TABLE, source=io.BytesIO(b"1\n"), format="text"),
            )
            mine = nonce()
            assert await connection.fetchval("select $1::text", mine) == mine

    await at_once(one)


async def cancel():
    mine, over = nonce(), asyncio.Event()

    async def bystander():
        async with connect() as connection:
            while not over.is_set():
                row = await connection.fetchrow("select $1::text, pg_sleep(0.01)", mine)
                assert row[0] == mine, row

    beside = asyncio.create_task(bystander())
    async with connect() as sleeping, connect() as looking:
        for turn in range(3):
            asked = asyncio.create_task(sleeping.execute(f"select pg_sleep(600), '{mine}'"))
            began = "select count(*) from pg_stat_activity where query like $1 and state = 'active'"
            like = f"select pg\\_sleep(600), '{mine}%"
            while await looking.fetchval(began, like) != 1:
                await asyncio.sleep(0.01)
            asked.cancel()
            await fails(asyncio.CancelledError, asked)
            assert await sleeping.fetchval("select $1::text", mine) == mine
            left = await looking.fetchval(began, like)
            assert left == 0, "what was cancelled goes on"
        await fails(asyncio.TimeoutError, sleeping.execute("select pg_sleep(600)", timeout=0.2))
        assert await sleeping.fetchval("select $1::text", mine) == mine
    over.set()
    await beside


async def error():
    async def one(_):
        async with connect() as connection:
            mine = nonce()
            for wrong, kind in (
                ("selec", asyncpg.PostgresSyntaxError),
                ("select 1 / 0", asyncpg.DivisionByZeroError),
                ("select * from nothing_such", asyncpg.UndefinedTableError),
            ):
                transaction = connection.transaction()
                await transaction.start()
                await connection.fetchval("select $1::text", mine)
                await fails(kind, connection.fetch(wrong))
                await fails(asyncpg.InFailedSQLTransactionError, connection.fetch("select 1"))
                await transaction.rollback()
            assert await connection.fetchval("select $1::text", mine) == mine

    await at_once(one)


async def types():
    values = [
        7,
        2**40,
        1.5,
        True,
        None,
        "ä € \U0001f980 'quoted' \\",
        bytes(range(256)),
        Decimal("12345678901234567890.0123456789"),
        datetime(2026, 11, 22, 18, 5, 7, 123456, tzinfo=timezone.utc),
        uuid.uuid4(),
        [1, None, 3],
        ["a", "b,c", '"'],
        "x" * 300_000,
        '{"a": [1, "b"]}',
    ]
    casts = "int4 int8 float8 bool text text bytea numeric timestamptz uuid int4[] text[] text jsonb"
    places = [f"${at}::{cast}" for at, cast in enumerate(casts.split(), 1)]

    async def one(_):
        async with connect() as connection:
            row = await connection.fetchrow(f"select {', '.join(places)}", *values)
            assert list(row) == values, row

    await at_once(one)


async def notify():
    heard = asyncio.Queue()
    async with connect() as listening, connect() as telling:
        await listening.add_listener(TABLE, lambda *told: heard.put_nowait(told[-1]))
        for _ in range(3):
            mine = nonce()
            await telling.execute("select pg_notify($1, $2)", TABLE, mine)
            assert await asyncio.wait_for(heard.get(), 60) == mine
        await listening.reset()


async def main():
    for check in (transactions, prepared, pipeline, copy, cancel, error, types, notify):
        await check()
        print("ok", check.__name__, flush=True)


asyncio.run(main())
