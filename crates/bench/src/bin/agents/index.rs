//! The rival that finds those concerned in an ordered index: one threshold a symbol, as a statement of SQL
//! without an index and with one, and the server with bounds in memory and without.

use std::sync::Arc;

use agents::{Destination, Key, PartitionSpec};
use agents_bench::{Costs, Fired, Price, Reading, RunError, Server, Watch, WatchSpec};
use agents_store::{PostgresSpec, PostgresStore, Store};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::Client;

use crate::{ALLOCATOR, Bench, COSTS, Failed, GOES, cells, checked, goes_on, table, winners};

/// The partitions of the server's two ways.
const PARTITIONS: [u32; 2] = [1, 2];
/// Symbols whose prices change at a tick.
const SYMBOLS: u32 = 5;
/// Watches that are concerned, of a thousand.
const CONCERNED: [u32; 4] = [1_000, 100, 10, 1];
/// Watches that are written at once.
const CHUNK: usize = 5_000;

const TABLES: &str = "\
    create table rival.prices (symbol int4 primary key, price int8 not null); \
    create table rival.told (tick int8, watch int8, above bool not null, primary key (tick, watch)); \
    create table rival.plain (id int8 primary key, symbol int4 not null, threshold int8 not null, \
    above bool not null, rest bytea not null) with (fillfactor = 80); \
    create table rival.indexed (like rival.plain including all) with (fillfactor = 80); \
    create index on rival.indexed (symbol, threshold)";

/// Those whose side of the threshold changes.
const PLAIN: &str = "\
    with news as (select * from unnest($2::int4[], $3::int8[]) as it (symbol, price)), \
    hit as (update rival.plain w set above = not above from news \
    where w.symbol = news.symbol and (news.price > w.threshold) <> w.above returning w.id, w.above), \
    moved as (update rival.cursor set tick = $1) \
    insert into rival.told select $1, id, above from hit";
/// The same by the prices before, so that an index over thresholds names them.
const INDEXED: &str = "\
    with news as (select * from unnest($2::int4[], $3::int8[]) as it (symbol, price)), \
    was as (update rival.prices p set price = news.price from news where p.symbol = news.symbol \
    returning p.symbol), \
    hit as (update rival.indexed w set above = news.price > w.threshold \
    from news join rival.prices old on old.symbol = news.symbol \
    where w.symbol = news.symbol and w.threshold >= least(old.price, news.price) \
    and w.threshold < greatest(old.price, news.price) returning w.id, w.above), \
    moved as (update rival.cursor set tick = $1) \
    insert into rival.told select $1, id, above from hit";

/// The tables of both statements.
struct Rival {
    runtime: Runtime,
    client: Client,
}

impl Rival {
    fn new(bench: &Bench, spec: WatchSpec) -> Result<Rival, Failed> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(bench.config.open())?;
        runtime.block_on(client.batch_execute(TABLES))?;
        let keys: Vec<i64> = (0..i64::from(spec.agents)).collect();
        for keys in keys.chunks(CHUNK) {
            let all: Vec<Watch> = keys.iter().map(|&key| spec.watch(Key(key as u64))).collect();
            let symbols: Vec<i32> = all.iter().map(|one| one.symbol as i32).collect();
            let thresholds: Vec<i64> = all.iter().map(|one| one.threshold).collect();
            let rests: Vec<&[u8]> = all.iter().map(|one| &one.rest[..]).collect();
            for name in ["plain", "indexed"] {
                let fill = format!(
                    "insert into rival.{name} select id, symbol, threshold, false, rest \
                     from unnest($1::int8[], $2::int4[], $3::int8[], $4::bytea[]) it (id, symbol, threshold, rest)"
                );
                runtime.block_on(client.execute(&fill, &[&keys, &symbols, &thresholds, &rests]))?;
            }
        }
        let first = spec.prices(0, 0);
        let (symbols, prices) = columns(&first);
        let price = "insert into rival.prices select * from unnest($1::int4[], $2::int8[])";
        runtime.block_on(async {
            client.execute(price, &[&symbols, &prices]).await?;
            client.batch_execute("vacuum analyze").await
        })?;
        Ok(Rival { runtime, client })
    }

    /// A tick: one transaction, then its notifications are read and removed.
    fn tick(&self, rule: &str, prices: &[Price]) -> Result<Fired, RunError> {
        let number = prices[0].number as i64;
        let (symbols, values) = columns(prices);
        let told = self.runtime.block_on(async {
            self.client.execute(rule, &[&number, &symbols, &values]).await?;
            let read = "delete from rival.told where tick = $1 returning watch, above";
            self.client.query(read, &[&number]).await
        });
        let mut fired = Fired::default();
        for row in told.map_err(|error| RunError::Database(error.to_string()))? {
            let payload = Watch::payload(number as u64, row.get(1));
            fired.add(Key(row.get::<_, i64>(0) as u64), &payload);
        }
        Ok(fired)
    }
}

/// Symbols and prices, each in a column.
fn columns(prices: &[Price]) -> (Vec<i32>, Vec<i64>) {
    prices.iter().map(|one| (one.symbol as i32, one.price)).unzip()
}

/// The server's two ways to find those concerned.
#[derive(Clone, Copy)]
enum Way {
    /// The bounds that agents publish, in memory.
    Bounds,
    /// Each agent is asked.
    All,
}

impl Way {
    fn to(self, price: &Price) -> Destination {
        match self {
            Way::Bounds => Destination::Crossed { symbol: price.symbol, price: price.price },
            Way::All => Destination::All,
        }
    }
}

pub(crate) fn run(bench: &mut Bench) -> Result<(), Failed> {
    let spec = WatchSpec { agents: bench.agents, symbols: SYMBOLS, bytes: 1_000 };
    println!(
        "\none threshold a symbol, {SYMBOLS} symbols, half of the agents cached; prices go up, then down"
    );
    let store = PostgresStore::open(bench.config.clone(), &PostgresSpec::default())?;
    let store: Arc<dyn Store<Price>> = Arc::new(store);
    PARTITIONS.into_iter().try_for_each(|id| spec.populate(&*store, id, &GOES))?;
    let rival = Rival::new(bench, spec)?;
    let before = ALLOCATOR.allocated();
    let open = |id| {
        let held_max = bench.agents as usize;
        let spec = PartitionSpec { held_max, ..PartitionSpec::new(id, bench.agents / 2) };
        Server::<Watch>::open(store.clone(), spec)
    };
    let mut servers = [open(PARTITIONS[0])?, open(PARTITIONS[1])?];
    let (mut rows, mut all) = (Vec::new(), Vec::new());
    for of_thousand in CONCERNED {
        let above = (u64::from(spec.each()) * u64::from(of_thousand) / 1_000).max(1) as u32;
        let mut arms = [const { Vec::new() }; 4];
        // The first two fill the cache.
        let mut tick = 0;
        while goes_on(&arms[0]) {
            let (from, to) = if tick % 2 == 0 { (0, above) } else { (above, 0) };
            bench.tick += 1;
            let prices = spec.prices(bench.tick, to);
            let expected = spec.expected(bench.tick, (from, to));
            let costs = ticked(bench, (&rival, &mut servers), &prices, expected)?;
            if tick >= 2 {
                arms.iter_mut().zip(costs).for_each(|(arm, costs)| arm.push(costs));
            }
            tick += 1;
        }
        let concerned = u64::from(above) * u64::from(SYMBOLS);
        let share = format!("{} %", 100.0 * concerned as f64 / f64::from(bench.agents));
        let names = ["sql", "index", "server, bounds", "server, all"];
        let arms: Vec<_> = names.into_iter().zip(arms).collect();
        for (name, ticks) in &arms {
            let row = [share.as_str(), *name].map(str::to_owned);
            rows.push([&row[..], &cells(ticks, concerned)].concat());
        }
        all.push((share, arms));
    }
    let memory = (ALLOCATOR.allocated() as f64 - before as f64) / 2.0;
    servers.into_iter().for_each(Server::close);
    table::print(&[&["concerned", "arm"], &COSTS[..]].concat(), &rows, 2);
    winners(&all);
    let each = Reading::of(memory / f64::from(bench.agents));
    println!("  memory of a server: {each:.0} B an agent");
    Ok(())
}

/// A tick in all arms.
fn ticked(
    bench: &Bench,
    (rival, servers): (&Rival, &mut [Server<Watch>; 2]),
    prices: &[Price],
    expected: Fired,
) -> Result<[Costs; 4], Failed> {
    let (fired, sql) = bench.meter.of(|| rival.tick(PLAIN, prices))?;
    checked("sql", fired, expected)?;
    let (fired, index) = bench.meter.of(|| rival.tick(INDEXED, prices))?;
    checked("index", fired, expected)?;
    let mut asked = [Costs::default(); 2];
    for ((way, server), costs) in [Way::Bounds, Way::All].into_iter().zip(servers).zip(&mut asked) {
        let messages = prices.iter().map(|price| (*price, way.to(price)));
        let (fired, cost) = bench.meter.of(|| server.tick(messages, expected.count, &GOES))?;
        checked("the server", fired, expected)?;
        *costs = cost;
    }
    Ok([sql, index, asked[0], asked[1]])
}
