// node-postgres before the gate, as it comes: what has a name is prepared under it, and what is asked
// before the last answer is there waits at the client, unless it is told to send it at once.
'use strict';

const assert = require('node:assert/strict');
const { randomUUID: nonce } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const { pipeline: flow } = require('node:stream/promises');
const { Readable } = require('node:stream');
const pg = require('pg');
const copies = require('pg-copy-streams');

const clients = Number(process.env.SEKISHO_CLIENTS);
const table = process.env.SEKISHO_TABLE;
const isSession = process.env.SEKISHO_MODE === 'session';

async function connected(work, settings = {}) {
  const client = new pg.Client({ connectionTimeoutMillis: 60_000, ...settings });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

// Does the same for each client, with a connection of its own.
function atOnce(work) {
  const numbers = Array.from({ length: clients }, (_, number) => number);
  return Promise.all(numbers.map((number) => connected((client) => work(client, number))));
}

async function ask(client, text, values) {
  const { rows } = await client.query({ text, values, rowMode: 'array' });
  return rows[0][0];
}

const fails = (asked, code) => assert.rejects(asked, (error) => error.code === code);

async function transactions() {
  await connected(async (client) => {
    await client.query(`drop table if exists ${table}`);
    await client.query(`create table ${table} (n int, x text)`);
  });
  await atOnce(async (client, number) => {
    const mine = [];
    for (let turn = 0; turn < 10; turn++) {
      await client.query('begin');
      mine.push(nonce());
      await client.query(`insert into ${table} values ($1, $2)`, [number, mine[turn]]);
      const { rows } = await client.query(`select x from ${table} where n = $1`, [number]);
      assert.deepEqual(rows.map((row) => row.x).sort(), [...mine].sort());
      await client.query('commit');
    }
    await client.query('begin');
    await client.query('savepoint s');
    await client.query(`insert into ${table} values ($1, 'x')`, [number]);
    await client.query('rollback to savepoint s');
    await client.query('commit');
  });
  const pool = new pg.Pool({ max: 2 });
  await Promise.all(Array.from({ length: 40 }, async () => {
    const mine = nonce();
    const { rows } = await pool.query('select $1::text as mine', [mine]);
    assert.equal(rows[0].mine, mine);
  }));
  assert.equal(await ask(pool, `select count(*)::int from ${table}`), clients * 10);
  await pool.end();
}

async function prepared() {
  await atOnce(async (client, number) => {
    // The same name for another text in each.
    const own = { name: 'own', text: `select '${number} ' || $1::text as own` };
    for (let turn = 0; turn < 30; turn++) {
      const mine = nonce();
      const { rows } = await client.query({ ...own, values: [mine] });
      assert.equal(rows[0].own, `${number} ${mine}`);
      const next = { name: 'next', text: 'select $1::int + 1 as next', values: [turn] };
      assert.equal((await client.query(next)).rows[0].next, turn + 1);
      assert.equal(await ask(client, 'select $1::text', [mine]), mine);
    }
    if (isSession) {
      assert.ok((await ask(client, 'select count(*)::int from pg_prepared_statements')) >= 2);
    }
    const wrong = { name: 'wrong', text: 'selec' };
    await fails(client.query(wrong), '42601');
    await fails(client.query(wrong), '42601');
    const right = { name: 'wrong', text: 'select 1 as well' };
    assert.equal((await client.query(right)).rows[0].well, 1);
  });
}

async function pipeline() {
  const many = async (client, number) => {
    for (let turn = 0; turn < 5; turn++) {
      const asked = Array.from({ length: 20 }, nonce);
      const named = { name: 'own', text: `select '${number} ' || $1::text` };
      const heard = asked.map((one, at) => (at % 3 === 0
        ? client.query({ ...named, values: [one], rowMode: 'array' }).then(({ rows }) => rows[0][0])
        : ask(client, `select '${number} ' || $1::text`, [one])));
      const wrong = fails(client.query('select 1 / $1::int', [0]), '22012');
      const behind = ask(client, 'select $1::text', [asked[0]]);
      assert.deepEqual(await Promise.all(heard), asked.map((one) => `${number} ${one}`));
      await wrong;
      assert.equal(await behind, asked[0]);
    }
  };
  await atOnce(many);
  const numbers = Array.from({ length: clients }, (_, number) => number);
  const sent = (number) => connected((client) => many(client, number), { pipeline: true });
  await Promise.all(numbers.map(sent));
}

async function copy() {
  await atOnce(async (client, number) => {
    const mine = Array.from({ length: 500 }, nonce);
    const lines = mine.map((one) => `${1000 + number}\t${one}\n`);
    await flow(Readable.from(lines), client.query(copies.from(`copy ${table} from stdin`)));
    let heard = '';
    const out = client.query(copies.to(`copy (select x from ${table} where n = ${1000 + number}) to stdout`));
    for await (const some of out) heard += some;
    assert.deepEqual(heard.trim().split('\n').sort(), mine.sort());
    await fails(flow(Readable.from(['1\n']), client.query(copies.from(`copy ${table} from stdin`))), '22P04');
    assert.equal(await ask(client, 'select $1::text', [mine[0]]), mine[0]);
  });
}

async function cancel() {
  const mine = nonce();
  let over = false;
  const beside = connected(async (client) => {
    while (!over) assert.equal(await ask(client, 'select $1::text, pg_sleep(0.01)', [mine]), mine);
  });
  await connected((sleeping) => connected(async (looking) => {
    const began = "select count(*)::int from pg_stat_activity where query like $1 and state = 'active'";
    for (let turn = 0; turn < 3; turn++) {
      const query = new pg.Query(`select pg_sleep(600), '${mine}'`);
      const ended = fails(new Promise((resolve, reject) => {
        query.on('end', resolve).on('error', reject);
      }), '57014');
      sleeping.query(query);
      while ((await ask(looking, began, [`select pg\\_sleep(600), '${mine}%`])) !== 1) await sleep(10);
      new pg.Client().cancel(sleeping, query);
      await ended;
      assert.equal(await ask(sleeping, 'select $1::text', [mine]), mine);
    }
  }));
  over = true;
  await beside;
}

async function error() {
  const wrong = [['selec', '42601'], ['select 1 / 0', '22012'], ['select * from nothing_such', '42P01']];
  await atOnce(async (client) => {
    const mine = nonce();
    for (const [text, code] of wrong) {
      await client.query('begin');
      assert.equal(await ask(client, 'select $1::text', [mine]), mine);
      await fails(client.query(text), code);
      await fails(ask(client, 'select $1::text', [mine]), '25P02');
      await client.query('rollback');
    }
    assert.equal(await ask(client, 'select $1::text', [mine]), mine);
  });
}

async function types() {
  const moment = new Date(Date.UTC(2026, 10, 22, 18, 5, 7, 123));
  const values = [
    7, '1099511627776', 1.5, true, null, "ä € \u{1f980} 'quoted' \\", Buffer.from([0, 1, 2, 255, 92, 39]),
    '12345678901234567890.0123456789', moment, nonce(), [1, null, 3], ['a', 'b,c', '"'],
    'x'.repeat(300_000), { a: [1, 'b'] },
  ];
  const casts = 'int4 int8 float8 bool text text bytea numeric timestamptz uuid int4[] text[] text jsonb';
  const places = casts.split(' ').map((cast, at) => `$${at + 1}::${cast}`);
  await atOnce(async (client) => {
    const { rows } = await client.query({ text: `select ${places.join(', ')}`, values, rowMode: 'array' });
    assert.deepEqual(rows[0], values);
  });
}

async function notify() {
  await connected((listening) => connected(async (telling) => {
    const heard = [];
    listening.on('notification', ({ payload }) => heard.push(payload));
    await listening.query(`listen ${table}`);
    const mine = [nonce(), nonce(), nonce()];
    for (const one of mine) await telling.query('select pg_notify($1, $2)', [table, one]);
    const deadline = Date.now() + 60_000;
    while (heard.length < mine.length && Date.now() < deadline) await sleep(10);
    assert.deepEqual(heard, mine);
    await listening.query('unlisten *');
  }));
}

async function main() {
  for (const check of [transactions, prepared, pipeline, copy, cancel, error, types, notify]) {
    await check();
    console.log('ok', check.name);
  }
}

main().catch((cause) => {
  console.error(cause);
  process.exit(1);
});
