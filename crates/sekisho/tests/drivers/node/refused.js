// node-postgres before a gate that refuses: its connection can be used still.
'use strict';

const assert = require('node:assert/strict');
const pg = require('pg');
const copies = require('pg-copy-streams');

const connected = async (settings = {}) => {
  const client = new pg.Client({ connectionTimeoutMillis: 60_000, ...settings });
  await client.connect();
  return client;
};

const simple = (client) => client.query("select 'simple'");

const prepared = (client) =>
  client.query({ name: 'own', text: 'select $1::text', values: ['prepared'] });

// Each of them ends by itself, so each is refused.
async function pipeline(client) {
  const asked = [1, 2, 3].map((turn) => client.query('select $1::int as n', [turn]));
  const heard = await Promise.allSettled(asked);
  const failed = heard.filter(({ status }) => status === 'rejected');
  assert.ok([0, 3].includes(failed.length), `${failed.length} of 3 have failed`);
  for (const { reason } of failed) throw reason;
  assert.deepEqual(heard.map(({ value }) => value.rows[0].n), [1, 2, 3]);
}

async function copy(client) {
  let heard = '';
  for await (const some of client.query(copies.to("copy (select 'copied') to stdout"))) heard += some;
  assert.equal(heard, 'copied\n');
}

async function main() {
  const holder = await connected();
  const [plain, pipelined] = [await connected(), await connected({ pipeline: true })];
  const processes = [plain.processID, pipelined.processID];
  for (const check of [simple, prepared, pipeline, copy]) {
    const refused = check === pipeline ? pipelined : plain;
    for (const isFull of [false, true, true, false]) {
      if (isFull) await holder.query('begin');
      const refusal = await check(refused).then(() => null, (error) => error);
      if (isFull) await holder.query('commit');
      assert.equal(refusal?.code, isFull ? '53300' : undefined, `${check.name}: ${refusal}`);
      if (isFull) assert.match(refusal.detail, /estimated wait/);
    }
    console.log('ok', check.name);
  }
  assert.deepEqual([plain.processID, pipelined.processID], processes);
  for (const client of [holder, plain, pipelined]) await client.end();
}

main().catch((cause) => {
  console.error(cause);
  process.exit(1);
});
