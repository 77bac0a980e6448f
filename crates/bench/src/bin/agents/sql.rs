//! The rival that needs no agents: the rule as one statement of SQL over tables of accounts and holdings, with
//! notifications and cursor in its transaction. Beside it the server's core, half of the accounts cached.

use std::sync::Arc;

use agents::{Destination, Key, PartitionSpec};
use agents_bench::{Account, Fired, RunError, Server, Tick};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::Client;

use crate::{Bench, COSTS, Failed, GOES, PARTITION, cells, checked, goes_on, table, winners};

/// Accounts that are concerned, of a thousand.
const CONCERNED: [u64; 4] = [1_000, 100, 10, 1];
/// Accounts that are written at once.
const CHUNK: usize = 5_000;

const TABLES: &str = "\
    create schema rival; \
    create table rival.accounts (id int8 primary key, low int8 not null, high int8 not null, \
    notified bool not null, last int8 not null, rest bytea not null) with (fillfactor = 80); \
    create table rival.holdings (account int8, symbol int4, count int4 not null, bought int8 not null, \
    primary key (account, symbol)); \
    create table rival.outbox (tick int8, account int8, profit int8 not null, primary key (tick, account)); \
    create table rival.cursor (tick int8 not null); \
    insert into rival.cursor values (0)";

/// The rule: `WHERE` stands for those concerned.
const RULE: &str = "\
    with prices as (select ordinality - 1 as symbol, price \
    from unnest($2::int8[]) with ordinality as it (price, ordinality)), \
    profits as (select account, sum(count * (price - bought))::int8 as profit \
    from rival.holdings join prices using (symbol) WHERE group by account), \
    hit as (update rival.accounts set notified = true, last = profit from profits \
    where id = account and (profit < low or profit > high) returning id, profit), \
    moved as (update rival.cursor set tick = $1) \
    insert into rival.outbox select $1, id, profit from hit";

/// A database with the rule in it.
struct Rival {
    runtime: Runtime,
    client: Client,
}

impl Rival {
    fn new(bench: &Bench) -> Result<Rival, Failed> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(bench.config.open())?;
        let it = Rival { runtime, client };
        it.fill(bench)?;
        Ok(it)
    }

    fn fill(&self, bench: &Bench) -> Result<(), Failed> {
        self.runtime.block_on(self.client.batch_execute(TABLES))?;
        let keys: Vec<i64> = (0..i64::from(bench.agents)).collect();
        for keys in keys.chunks(CHUNK) {
            let accounts: Vec<Account> =
                keys.iter().map(|&key| bench.load.account(Key(key as u64))).collect();
            let (lows, highs): (Vec<i64>, Vec<i64>) = accounts.iter().map(|one| one.limits).unzip();
            let rests: Vec<&[u8]> = accounts.iter().map(|one| &one.rest[..]).collect();
            let held = keys.iter().zip(&accounts);
            let held = held.flat_map(|(&key, one)| one.holdings.iter().map(move |it| (key, it)));
            let (mut owners, mut symbols) = (Vec::new(), Vec::new());
            let (mut counts, mut bought) = (Vec::new(), Vec::new());
            for (key, holding) in held {
                owners.push(key);
                symbols.push(holding.symbol as i32);
                counts.push(holding.count as i32);
                bought.push(holding.bought);
            }
            let fill = "insert into rival.accounts select id, low, high, false, 0, rest \
                from unnest($1::int8[], $2::int8[], $3::int8[], $4::bytea[]) it (id, low, high, rest)";
            let hold = "insert into rival.holdings \
                select * from unnest($1::int8[], $2::int4[], $3::int4[], $4::int8[])";
            self.runtime.block_on(async {
                self.client.execute(fill, &[&keys, &lows, &highs, &rests]).await?;
                self.client.execute(hold, &[&owners, &symbols, &counts, &bought]).await
            })?;
        }
        self.runtime.block_on(self.client.batch_execute("vacuum analyze"))?;
        Ok(())
    }

    /// A tick to these accounts, `None` for all: one transaction, then its notifications are read and removed.
    fn tick(&self, tick: &Tick, keys: Option<&[i64]>) -> Result<Fired, tokio_postgres::Error> {
        let number = tick.number as i64;
        let prices: &[i64] = &tick.prices;
        self.runtime.block_on(async {
            match keys {
                Some(keys) => {
                    let rule = RULE.replace("WHERE", "where account = any($3)");
                    self.client.execute(&rule, &[&number, &prices, &keys]).await?
                }
                None => {
                    let rule = RULE.replace("WHERE", "");
                    self.client.execute(&rule, &[&number, &prices]).await?
                }
            };
            let read = "delete from rival.outbox where tick = $1 returning account, profit";
            let mut fired = Fired::default();
            for row in self.client.query(read, &[&number]).await? {
                let payload = Account::payload(tick.number, row.get(1));
                fired.add(Key(row.get::<_, i64>(0) as u64), &payload);
            }
            Ok(fired)
        })
    }
}

/// Every so-and-so-many-th account is concerned.
fn concerned(agents: u32, of_thousand: u64) -> Vec<Key> {
    (0..u64::from(agents)).step_by((1_000 / of_thousand) as usize).map(Key).collect()
}

pub(crate) fn run(bench: &mut Bench) -> Result<(), Failed> {
    println!("\nthe paper's rule in SQL beside the server, half of the accounts cached");
    let rival = Rival::new(bench)?;
    let held_max = bench.agents as usize;
    let spec = PartitionSpec { held_max, ..PartitionSpec::new(PARTITION, bench.agents / 2) };
    let mut server = Server::<Account>::open(bench.store.clone(), spec)?;
    let warm = bench.next();
    let expected = bench.load.expected(std::slice::from_ref(&warm))?[0];
    checked("warm-up", server.tick([(warm, Destination::All)], expected.count, &GOES)?, expected)?;
    let (mut rows, mut all) = (Vec::new(), Vec::new());
    for of_thousand in CONCERNED {
        let keys = concerned(bench.agents, of_thousand);
        let (shared, numbers): (Arc<[Key]>, Vec<i64>) =
            (Arc::from(&keys[..]), keys.iter().map(|key| key.0 as i64).collect());
        let mut arms = [Vec::new(), Vec::new()];
        while goes_on(&arms[0]) {
            let tick = bench.next();
            let expected =
                bench.load.expected_of(keys.iter().copied(), std::slice::from_ref(&tick))?[0];
            let some = (of_thousand < 1_000).then_some(&numbers[..]);
            let (fired, costs) = bench.meter.of(|| {
                rival.tick(&tick, some).map_err(|error| RunError::Database(error.to_string()))
            })?;
            checked("sql", fired, expected)?;
            arms[0].push(costs);
            let to = match some {
                Some(_) => Destination::Keys(shared.clone()),
                None => Destination::All,
            };
            let (fired, costs) =
                bench.meter.of(|| server.tick([(tick, to)], expected.count, &GOES))?;
            checked("the server", fired, expected)?;
            arms[1].push(costs);
        }
        let share = format!("{} %", of_thousand as f64 / 10.0);
        let arms: Vec<_> = ["sql", "the server"].into_iter().zip(arms).collect();
        for (name, passes) in &arms {
            let row = [share.as_str(), *name].map(str::to_owned);
            rows.push([&row[..], &cells(passes, keys.len() as u64)].concat());
        }
        all.push((share, arms));
    }
    server.close();
    table::print(&[&["concerned", "arm"], &COSTS[..]].concat(), &rows, 2);
    winners(&all);
    Ok(())
}
