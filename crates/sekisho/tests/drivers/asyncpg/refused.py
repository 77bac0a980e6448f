"""asyncpg before a gate that refuses: its connection can be used still."""

import asyncio
import io

import asyncpg


async def simple(connection):
    await connection.execute("select 'simple'")


async def prepared(connection):
    assert await connection.fetchval("select $1::text", "prepared") == "prepared"


async def pipeline(connection):
    await connection.executemany("select $1::int", [(turn,) for turn in range(5)])


async def copy(connection):
    out = io.BytesIO()
    await connection.copy_from_query("select 'copied'", output=out)
    assert out.getvalue() == b"copied\n"


async def main():
    holder = await asyncpg.connect(timeout=60)
    refused = await asyncpg.connect(timeout=60)
    process = refused.get_server_pid()
    for check in (simple, prepared, pipeline, copy):
        # The first time it is served, so that it has prepared what it prepares.
        for is_full in (False, True, True, False):
            if is_full:
                await holder.execute("begin")
            try:
                await check(refused)
                assert not is_full, check.__name__
            except asyncpg.TooManyConnectionsError as refusal:
                assert is_full and "estimated wait" in refusal.detail, refusal
            if is_full:
                await holder.execute("commit")
            assert not refused.is_closed() and not refused.is_in_transaction()
        print("ok", check.__name__, flush=True)
    assert refused.get_server_pid() == process
    await refused.close()
    await holder.close()


asyncio.run(main())
