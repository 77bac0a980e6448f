"""psycopg 3 before a gate that refuses: its connection can be used still."""

import psycopg


def connect():
    return psycopg.connect(connect_timeout=60, autocommit=True)


def simple(connection):
    connection.execute("select 'simple'")


def prepared(connection):
    connection.execute("select %s::text", ("prepared",), prepare=True)


def pipeline(connection):
    with connection.pipeline():
        for turn in range(5):
            # What it prepares in a pipeline it takes for prepared even if that has failed.
            connection.execute("select %s::int", (turn,), prepare=False)


def copy(connection):
    with connection.cursor() as cursor:
        with cursor.copy("copy (select 'copied') to stdout") as copying:
            assert list(copying.rows()) == [("copied",)]


with connect() as holder, connect() as refused:
    process = refused.info.backend_pid
    for check in (simple, prepared, pipeline, copy):
        # The first time it is served, so that it has prepared what it prepares.
        for is_full in (False, True, True, False):
            if is_full:
                holder.execute("begin")
            try:
                check(refused)
                assert not is_full, check.__name__
            except psycopg.errors.TooManyConnections as refusal:
                assert is_full and "estimated wait" in refusal.diag.message_detail, refusal
            if is_full:
                holder.execute("commit")
            assert not refused.closed and not refused.broken
            assert refused.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        print("ok", check.__name__, flush=True)
    assert refused.info.backend_pid == process
