//! The rival from outside: Pekko's cluster sharding, whose entities are read and written by persistence-jdbc, one
//! statement each. It gets the same accounts and ticks in the same PostgreSQL, by Java and Maven.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use agents::{Agent, Key};
use agents_bench::{Account, Costs, Fired, Order, RunError, Tick};
use gate::EvictionRule;
use postgres::Private;
use tokio::runtime::Builder;

use crate::arms::{Arm, Io};
use crate::{Bench, COSTS, Failed, cells, checked, table, wall_s};

/// The folder of its sources.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/pekko");
/// Passes that are measured, after one that fills its cache and warms its compiler up.
const PASSES: usize = 3;
const WARM_UP: usize = 2;
/// Accounts that are written at once.
const CHUNK: usize = 5_000;

/// The table as its makers have it.
const TABLE: &str = "\
    create table public.durable_state (global_offset bigserial, persistence_id varchar(255) not null primary key, \
    revision bigint not null, state_payload bytea not null, state_serial_id integer not null, \
    state_serial_manifest varchar, tag varchar, state_timestamp bigint not null); \
    create index on public.durable_state (tag); \
    create index on public.durable_state (global_offset)";
/// The serializer of arrays of bytes, by its number.
const BYTES: i32 = 4;

/// The process that runs it.
struct Rival {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Rival {
    fn start(
        (classes, url): (&Path, &str),
        (agents, room, policy): (u32, u32, &str),
    ) -> Result<Rival, Failed> {
        let path = format!("{0}/classes:{0}/lib/*", classes.display());
        let mut command = Command::new("java");
        command.args(["-Xmx1g", "-cp", &path, "sekisho.Rival"]);
        command.args([&agents.to_string(), &room.to_string(), policy]).env("RIVAL_URL", url);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("java: {error}: {NEEDS}"))?;
        let input = child.stdin.take().ok_or("its input is piped")?;
        let output = BufReader::new(child.stdout.take().ok_or("its output is piped")?);
        Ok(Rival { child, input, output })
    }

    /// A pass: who fired, the entities that were loaded, its own time and processor time.
    fn tick(&mut self, tick: &Tick) -> Result<(Fired, u64, [Duration; 2]), RunError> {
        let prices: Vec<String> = tick.prices.iter().map(i64::to_string).collect();
        writeln!(self.input, "tick {} {}", tick.number, prices.join(" "))?;
        self.input.flush()?;
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line)? == 0 {
                return Err(RunError::Unwanted("the rival has ended, see above".to_owned()));
            }
            // Libraries print here, too.
            let Some(rest) = line.strip_prefix("fired ") else { continue };
            let told: Vec<u64> = rest.split_whitespace().filter_map(|it| it.parse().ok()).collect();
            let [count, sum, loads, wall, own] = told[..] else {
                return Err(RunError::Unwanted(line));
            };
            let times = [wall, own].map(Duration::from_nanos);
            return Ok((Fired { count, sum }, loads, times));
        }
    }

    fn stop(mut self) -> Result<(), Failed> {
        drop(self.input);
        self.child.wait()?;
        Ok(())
    }
}

/// The way out where it cannot be built or started.
const NEEDS: &str = "this rival needs Java 17 with its compiler, and Maven: apt-get install \
                     openjdk-17-jdk-headless maven";

/// Builds it in the workspace's target; the folder of its classes and libraries.
fn build() -> Result<PathBuf, Failed> {
    let sources = Path::new(SOURCES).canonicalize()?;
    let out = sources.join("../../target/pekko");
    let mut command = Command::new("mvn");
    command.args(["-q", "-B", &format!("-Dout={}", out.display()), "package"]);
    let ended = command.current_dir(&sources).status();
    let ended = ended.map_err(|error| format!("mvn: {error}: {NEEDS}"))?;
    if ended.success() { Ok(out) } else { Err(format!("mvn failed: {NEEDS}").into()) }
}

pub(crate) fn run(bench: &mut Bench, server: &Private) -> Result<(), Failed> {
    let classes = build()?;
    println!(
        "\nPekko 1.2.1, cluster sharding on one node, states by persistence-jdbc 1.1.1 on 5 connections, up to 1,000\n\
         messages on their way; beside it the server and its own arms. Its notifications go to nobody, and are no rows."
    );
    fill_table(bench)?;
    let url = jdbc(server.url().as_str())?;
    let agents = bench.agents;
    let mut rows = Vec::new();
    let mut lru = None;
    for (share, policy) in [
        (50, "least-recently-used"),
        (50, "most-recently-used"),
        (90, "least-recently-used"),
        (100, "none"),
    ] {
        let room = (u64::from(agents) * share / 100) as u32;
        let mut rival = Rival::start((&classes, &url), (agents, room, policy))?;
        let (mut passes, mut loads) = (Vec::new(), 0);
        for pass in 0..WARM_UP + PASSES {
            let tick = bench.next();
            let expected = bench.load.expected(std::slice::from_ref(&tick))?[0];
            let ((fired, loaded, [wall, own]), costs) = bench.meter.of(|| rival.tick(&tick))?;
            checked(&format!("Pekko, {policy}"), fired, expected)?;
            if pass >= WARM_UP {
                passes.push(Costs { wall, own, ..costs });
                loads += loaded;
            }
        }
        rival.stop()?;
        let hits = 1.0 - loads as f64 / (PASSES as f64 * f64::from(agents));
        let theory = match policy {
            "least-recently-used" => solve::lru_hit_ratio(share as f64 / 100.0)?,
            _ => share as f64 / 100.0,
        };
        let names = [format!("{share} %"), format!("Pekko, {policy}")];
        let ratios = [format!("{hits:.3}"), format!("{theory:.3}")];
        rows.push([&names[..], &ratios, &cells(&passes, agents.into())].concat());
        lru.get_or_insert(wall_s(&passes));
    }
    let (own, pass) = ours(bench)?;
    rows.extend(own);
    table::print(&[&["cached", "arm", "hits", "theory"], &COSTS[..]].concat(), &rows, 2);
    let lru = lru.ok_or("there is an arm")?;
    println!("  half cached, the server is {:.1} times as fast as Pekko with lru", lru / pass);
    Ok(())
}

/// The rows of our own arms at half cached, and the time of the server's pass \[s\].
fn ours(bench: &mut Bench) -> Result<(Vec<Vec<String>>, f64), Failed> {
    let ground = bench.base();
    let mut rows = Vec::new();
    for (order, io) in [
        (Order::Shuffled, Io::Alone),
        (Order::Shuffled, Io::Pipelined),
        (Order::Cohort, Io::Batched),
    ] {
        let arm = Arm::new(order, EvictionRule::Lru, io);
        let found = ground.measure(bench, &arm)?;
        let theory = arm.theory(0.5)?.map_or(String::new(), |it| format!("{it:.3}"));
        let name = format!("ours, {}, {}, {}", arm.order_name(), arm.victim_name(), io.name());
        let names = ["50 %".to_owned(), name];
        let ratios = [format!("{:.3}", found.hits), theory];
        rows.push([&names[..], &ratios, &cells(&[found.costs], found.messages)].concat());
    }
    let (hits, passes, messages) = ground.serve(bench)?;
    let names = ["50 %".to_owned(), "the server".to_owned()];
    let ratios = [format!("{hits:.3}"), "0.500".to_owned()];
    rows.push([&names[..], &ratios, &cells(&passes, messages)].concat());
    Ok((rows, wall_s(&passes)))
}

/// The database's address as Java has it.
fn jdbc(url: &str) -> Result<String, Failed> {
    let (_, rest) = url.split_once("://").ok_or("an address has a scheme")?;
    let (user, place) = rest.split_once('@').ok_or("an address has a user")?;
    let (user, password) = user.split_once(':').ok_or("a user has a password")?;
    Ok(format!("jdbc:postgresql://{place}?user={user}&password={password}"))
}

/// Writes the accounts into its table: the hot part first, whose size is fixed.
fn fill_table(bench: &Bench) -> Result<(), Failed> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let client = runtime.block_on(bench.config.open())?;
    runtime.block_on(client.batch_execute(TABLE))?;
    let keys: Vec<u64> = (0..u64::from(bench.agents)).collect();
    for keys in keys.chunks(CHUNK) {
        let state = |&key: &u64| {
            let account: Account = bench.load.account(Key(key));
            let (mut bytes, mut cold) = (Vec::new(), Vec::new());
            account.encode_hot(&mut bytes);
            account.encode_cold(&mut cold);
            bytes.extend(cold);
            bytes
        };
        let states: Vec<Vec<u8>> = keys.iter().map(state).collect();
        let names: Vec<String> = keys.iter().map(|key| format!("Account|{key}")).collect();
        let fill = "insert into public.durable_state (persistence_id, revision, state_payload, state_serial_id, \
                    state_serial_manifest, state_timestamp) select id, 1, state, $3, '', 0 \
                    from unnest($1::text[], $2::bytea[]) it (id, state)";
        runtime.block_on(client.execute(fill, &[&names, &states, &BYTES]))?;
    }
    bench.meter.run("vacuum analyze")?;
    bench.meter.run("checkpoint")?;
    Ok(())
}
