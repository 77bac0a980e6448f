"""psycopg 3 before the gate, as it comes: prepares by itself what is asked five times."""

import os
import threading
import time
import uuid
from datetime import datetime, timezone
from decimal import Decimal

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

CLIENTS = int(os.environ["SEKISHO_CLIENTS"])
TABLE = sql.Identifier(os.environ["SEKISHO_TABLE"])
IS_SESSION = os.environ["SEKISHO_MODE"] == "session"


def connect(**settings):
    return psycopg.connect(connect_timeout=60, **settings)


def nonce():
    return uuid.uuid4().hex


def at_once(work):
    """Does the same in as many threads as there are clients, and fails if one does."""
    failures = []

    def one(number):
        try:
            work(number)
        except BaseException as failure:  # The thread would keep it to itself.
            failures.append(failure)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def transactions():
    with connect(autocommit=True) as connection:
        connection.execute(sql.SQL("drop table if exists {}").format(TABLE))
        connection.execute(sql.SQL("create table {} (n int, x text)").format(TABLE))
    insert = sql.SQL("insert into {} values (%s, %s)").format(TABLE)
    select = sql.SQL("select x from {} where n = %s order by x").format(TABLE)

    def one(number):
        with connect() as connection:
            mine = []
            for _ in range(10):
                mine.append(nonce())
                connection.execute(insert, (number, mine[-1]))
                found = [row[0] for row in connection.execute(select, (number,))]
                assert found == sorted(mine), (found, mine)
                connection.commit()
            with connection.transaction():
                connection.execute(insert, (number, nonce()))
                try:
                    with connection.transaction():
                        connection.execute(insert, (number, nonce()))
                        raise psycopg.Rollback
                except psycopg.Rollback:
                    pass
            connection.execute(insert, (number, nonce()))
            connection.rollback()

    at_once(one)
    with connect() as connection:
        count = connection.execute(sql.SQL("select count(*) from {}").format(TABLE)).fetchone()
        assert count == (CLIENTS * 11,), count


def prepared():
    def one(number):
        with connect(autocommit=True) as connection:
            for turn in range(30):
                mine = nonce()
                for text in ("select %s::text, %s::int", "select 'b', %s::text, %s::int + 1"):
                    row = connection.execute(text, (mine, turn)).fetchone()
                    assert mine in row and row[-1] - turn in (0, 1), row
                # Each client has its own text under the name that all give.
                own = f"select '{number}', %s::text"
                assert connection.execute(own, (mine,), prepare=True).fetchone() == (str(number), mine)
            if IS_SESSION:
                count = connection.execute("select count(*) from pg_prepared_statements").fetchone()
                assert count[0] >= 3, count
            # More than it keeps: the oldest are closed.
            for turn in range(110):
                row = connection.execute(f"select {turn}, %s::text", (mine,), prepare=True).fetchone()
                assert row == (turn, mine), row

    at_once(one)


def pipeline():
    def one(_):
        with connect(autocommit=True) as connection:
            for _ in range(5):
                with connection.pipeline():
                    asked = [nonce() for _ in range(20)]
                    cursors = [connection.execute("select %s::text", (one,)) for one in asked]
                heard = [cursor.fetchone()[0] for cursor in cursors]
                assert heard == asked, (heard, asked)
            try:
                with connection.pipeline():
                    connection.execute("select 1 / 0")
                    connection.execute("select 1")
                raise AssertionError("no error of a division by zero")
            except psycopg.errors.DivisionByZero:
                pass
            rows = [(number, nonce()) for number in range(100, 140)]
            with connection.cursor() as cursor:
                cursor.executemany("select %s::int, %s::text", rows, returning=True)
                heard = [cursor.fetchone()]
                while cursor.nextset():
                    heard.append(cursor.fetchone())
            assert heard == rows, heard

    at_once(one)


def copy():
    def one(number):
        rows = [(1000 + number, nonce()) for _ in range(500)]
        with connect() as connection, connection.cursor() as cursor:
            with cursor.copy(sql.SQL("copy {} from stdin").format(TABLE)) as copying:
                for row in rows[:250]:
                    copying.write_row(row)
            connection.commit()
            binary = sql.SQL("copy {} from stdin (format binary)").format(TABLE)
            with cursor.copy(binary) as copying:
                copying.set_types(["int4", "text"])
                for row in rows[250:]:
                    copying.write_row(row)
            out = sql.SQL("copy (select * from {} where n = {}) to stdout (format binary)")
            with cursor.copy(out.format(TABLE, 1000 + number)) as copying:
                copying.set_types(["int4", "text"])
                heard = list(copying.rows())
            assert sorted(heard) == sorted(rows), (len(heard), len(rows))
            connection.commit()
            try:
                with cursor.copy(sql.SQL("copy {} from stdin").format(TABLE)) as copying:
                    copying.write_row((1, "not meant"))
                    raise KeyError("changed its mind")
            except KeyError:
                connection.rollback()
            assert connection.execute("select %s::text", (rows[0][1],)).fetchone() == (rows[0][1],)

    at_once(one)


def cancel():
    mine, over, failures = nonce(), threading.Event(), []

    def bystander():
        with connect(autocommit=True) as connection:
            while not over.is_set():
                row = connection.execute("select %s::text, pg_sleep(0.01)", (mine,)).fetchone()
                if row[0] != mine:
                    failures.append(row)

    def sleeper(connection):
        try:
            connection.execute(f"select pg_sleep(600), '{mine}'")
            failures.append("it was not cancelled")
        except psycopg.errors.QueryCanceled:
            pass
        except BaseException as failure:  # The thread would keep it to itself.
            failures.append(failure)

    beside = threading.Thread(target=bystander)
    beside.start()
    with connect(autocommit=True) as sleeping, connect(autocommit=True) as looking:
        for turn in range(3):
            thread = threading.Thread(target=sleeper, args=(sleeping,))
            thread.start()
            began = "select count(*) from pg_stat_activity where query like %s and state = 'active'"
            like = f"select pg\\_sleep(600), '{mine}%"
            while looking.execute(began, (like,)).fetchone() != (1,):
                time.sleep(0.01)
            if turn == 0:
                sleeping.cancel()
            else:
                sleeping.cancel_safe(timeout=60)
            thread.join()
            assert sleeping.execute("select %s::text", (mine,)).fetchone() == (mine,)
    over.set()
    beside.join()
    assert not failures, failures


def error():
    def one(_):
        with connect() as connection:
            mine = nonce()
            for wrong, kind in (
                ("selec", psycopg.errors.SyntaxError),
                ("select 1 / 0", psycopg.errors.DivisionByZero),
                ("select * from nothing_such", psycopg.errors.UndefinedTable),
            ):
                connection.execute("select %s::text", (mine,))
                for text, failure in ((wrong, kind), ("select 1", psycopg.errors.InFailedSqlTransaction)):
                    try:
                        connection.execute(text)
                        raise AssertionError(f"no error of {text}")
                    except failure:
                        pass
                connection.rollback()
            assert connection.execute("select %s::text", (mine,)).fetchone() == (mine,)

    at_once(one)


def types():
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
    ]
    casts = "int4 int8 float8 bool text text bytea numeric timestamptz uuid int4[] text[] text"
    marks = {False: "%s", True: "%b"}

    def one(_):
        with connect(autocommit=True) as connection:
            for binary in (False, True):
                places = [f"{marks[binary]}::{cast}" for cast in casts.split()]
                cursor = connection.cursor(binary=binary)
                row = cursor.execute(f"select {', '.join(places)}", values).fetchone()
                assert list(row) == values, row
                answer = cursor.execute("select %b::jsonb", (Jsonb({"a": [1, "b"]}),)).fetchone()
                assert answer == ({"a": [1, "b"]},), answer

    at_once(one)


def notify():
    with connect(autocommit=True) as listening, connect(autocommit=True) as telling:
        listening.execute(sql.SQL("listen {}").format(TABLE))
        for _ in range(3):
            mine = nonce()
            telling.execute(sql.SQL("notify {}, {}").format(TABLE, mine))
            heard = [one.payload for one in listening.notifies(timeout=60, stop_after=1)]
            assert heard == [mine], heard
        listening.execute("unlisten *")


for check in (transactions, prepared, pipeline, copy, cancel, error, types, notify):
    check()
    print("ok", check.__name__, flush=True)
