//! Cost of TPC-C's terminals: CPU time of the client a transaction, in each mode without waits,
//! against a private PostgreSQL; and the share of a processor that 10,000 terminals take as they
//! key and think, against answers made beforehand.
//!
//! ```text
//! cargo run --release -p bench --bin bench_tpcc [-- SECONDS [REPETITIONS]]
//! ```
//!
//! CPU time is that of the one thread of the terminals, system calls included; the best-known tool in
//! Go needs 540 us a transaction. Modes take turns, so that what else the machine does meets all of
//! them. Against the database the thread is woken by answers as they come, which is most of what it
//! costs; the canned server, a handful of threads of this program, answers every statement at once
//! with rows made beforehand, of the number that was asked for. It stands for 1000 warehouses, which
//! nobody loads for a benchmark, and its figures are no client's cost against a database.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::collections::HashMap;
use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use measure::t_quantile;
use postgres::{Private, Settings};
use tpcc::Config;
use tpcc::{DeliveryResult, Execution, Isolation, LoadPlan, Pace, Plan, Record, Watch, load, run};

/// Warehouses of the private PostgreSQL.
const WAREHOUSES: u32 = 4;

fn main() {
    let mut words = std::env::args().skip(1).map(|word| word.parse::<u64>().unwrap());
    let (seconds, repetitions) = (words.next().unwrap_or(5), words.next().unwrap_or(6));
    println!("server  mode       terminals  conns  transactions  CPU us each +- 95 %  processor");
    against_postgres(seconds, repetitions);
    against_canned(seconds);
}

/// Without waits, each mode with one connection and with eight, in turns.
fn against_postgres(seconds: u64, repetitions: u64) {
    // The disk is nothing that the client's CPU time knows of.
    let parameters = [("fsync", "off"), ("shared_buffers", "512MB"), ("max_wal_size", "4GB")];
    let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let server = Private::start(&Settings { parameters, ..Settings::default() }).unwrap();
    let config: Config = server.url().as_str().parse().unwrap();
    load(&config, &LoadPlan::new(1, WAREHOUSES), &AtomicBool::new(false), &mut |_| {}).unwrap();
    let modes = [Execution::Sql, Execution::Functions];
    let plans: Vec<Plan> = modes
        .into_iter()
        .flat_map(|mode| [1, 8].map(|connections| (mode, connections)))
        .map(|(mode, connections)| plan(mode, Pace::Stress, WAREHOUSES, connections, (1, seconds)))
        .collect();
    let mut records: Vec<Vec<Record>> = plans.iter().map(|_| Vec::new()).collect();
    for _ in 0..repetitions {
        for (plan, records) in plans.iter().zip(&mut records) {
            records.push(go(&config, plan));
        }
    }
    for (plan, records) in plans.iter().zip(&records) {
        show("real", plan, records);
    }
}

/// Each mode with as many terminals as one machine is asked for.
fn against_canned(seconds: u64) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || Canned::new(&stream).serve());
        }
    });
    let mut config = Config::new();
    config.host("127.0.0.1").port(port).user("bench").dbname("bench");
    for execution in [Execution::Sql, Execution::Functions] {
        let plan = plan(execution, Pace::Paced, 1000, 16, (25, 6 * seconds));
        show("canned", &plan, &[go(&config, &plan)]);
    }
}

fn plan(
    execution: Execution,
    pace: Pace,
    warehouses: u32,
    connections: u32,
    (ramp, measure): (u64, u64),
) -> Plan {
    let (ramp, measure) = (Duration::from_secs(ramp), Duration::from_secs(measure));
    let isolation = Isolation::RepeatableRead;
    Plan { pace, warehouses, connections, ramp, measure, execution, isolation, seed: 1 }
}

struct Nobody;

impl Watch for Nobody {
    fn tick(&mut self, _: Duration, _: u64) {}
    fn delivered(&mut self, _: &DeliveryResult) {}
}

fn go(config: &Config, plan: &Plan) -> Record {
    run(config, plan, &AtomicBool::new(false), &mut Nobody).unwrap()
}

fn show(server: &str, plan: &Plan, records: &[Record]) {
    let each = |record: &Record| record.client.cpu_s * 1e6 / record.client.transactions as f64;
    let each: Vec<f64> = records.iter().map(each).collect();
    let count = each.len() as f64;
    let mean = each.iter().sum::<f64>() / count;
    let spread = each.iter().map(|us| (us - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let half = (each.len() > 1).then(|| t_quantile(0.975, count - 1.0) * (spread / count).sqrt());
    let sum = |of: fn(&Record) -> f64| records.iter().map(of).sum::<f64>();
    println!(
        "{server:6}  {:9}  {:9}  {:5}  {:12}  {mean:11.1} +- {:>5}  {:8.1} %",
        format!("{:?}", plan.execution).to_lowercase(),
        plan.terminals(),
        plan.connections,
        records.iter().map(|record| record.client.transactions).sum::<u64>(),
        half.map_or("once".to_owned(), |half| format!("{half:.1}")),
        sum(|record| record.client.cpu_s) / sum(|record| record.client.elapsed_s) * 100.0,
    );
    for record in records {
        assert!(record.errors.is_empty(), "{:?}", record.error_first);
    }
}

/// A value, as the binary format has it.
#[derive(Clone)]
enum Value {
    Small(i16),
    Number(i32),
    Large(i64),
    Text(&'static str),
    Yes,
    Time,
    /// As many as the request has lines.
    Array(Box<Value>),
    Null,
}

impl Value {
    /// The OID of its type.
    fn oid(&self) -> i32 {
        match self {
            Value::Small(_) => 21,
            Value::Number(_) => 23,
            Value::Large(_) => 20,
            Value::Text(_) | Value::Null => 25,
            Value::Yes => 16,
            Value::Time => 1184,
            Value::Array(of) => match **of {
                Value::Number(_) => 1007,
                Value::Large(_) => 1016,
                Value::Text(_) => 1009,
                _ => 1000,
            },
        }
    }

    fn bytes(&self, lines: i32) -> Option<Vec<u8>> {
        Some(match self {
            Value::Small(value) => value.to_be_bytes().to_vec(),
            Value::Number(value) => value.to_be_bytes().to_vec(),
            Value::Large(value) => value.to_be_bytes().to_vec(),
            Value::Text(text) => text.as_bytes().to_vec(),
            Value::Yes => vec![1],
            Value::Time => 800_000_000_000_000_i64.to_be_bytes().to_vec(),
            Value::Array(of) => {
                let head = [1, 0, of.oid(), lines, 1];
                let mut bytes: Vec<u8> = head.iter().flat_map(|word| word.to_be_bytes()).collect();
                for _ in 0..lines {
                    put(&mut bytes, of.bytes(lines));
                }
                bytes
            }
            Value::Null => return None,
        })
    }
}

fn put(to: &mut Vec<u8>, value: Option<Vec<u8>>) {
    match value {
        None => to.extend((-1_i32).to_be_bytes()),
        Some(bytes) => {
            to.extend((bytes.len() as i32).to_be_bytes());
            to.extend(bytes);
        }
    }
}

/// Number of rows in an answer.
#[derive(Clone, Copy)]
enum Rows {
    /// So many.
    Just(i32),
    /// One a line; the column with number 0 in it is its number.
    EachLine,
    /// None, and the tag says so many were written as there are lines.
    Written,
}

/// The answer to a statement.
#[derive(Clone)]
struct Answer {
    columns: Vec<Value>,
    rows: Rows,
    /// The parameter of which the length is the number of lines.
    lines_of: usize,
    /// Types of parameters that the client leaves to the server.
    parameters: &'static [i32],
}

fn answer(columns: Vec<Value>, rows: Rows) -> Answer {
    Answer { columns, rows, lines_of: 0, parameters: &[] }
}

/// The answers, by words that their statement alone has among those that come after.
fn answers() -> Vec<(&'static str, Answer)> {
    use Rows::{EachLine, Just, Written};
    use Value::{Large, Null, Number, Small, Text, Time, Yes};
    let texts = |n| vec![Text("some text here"); n];
    let array = |of| Value::Array(Box::new(of));
    let head =
        vec![Number(3001), Time, Text("BARBARBAR"), Text("GC"), Number(1), Number(1), Number(1)];
    let customer =
        [vec![Number(7)], texts(9), vec![Time, Text("GC"), Large(5), Number(1), Large(-10), Null]]
            .concat();
    let status = [
        vec![Number(7)],
        texts(3),
        vec![Large(5), Number(3000), Time, Number(3)],
        vec![Number(5), Number(1), Number(5), Large(77), Time],
    ]
    .concat();
    let delivered = answer(vec![Number(1), Number(2101), Number(5)], Just(10));
    let by_function = [
        head.clone(),
        vec![array(Text("some item's name")), array(Large(100)), array(Number(50)), array(Yes)],
    ]
    .concat();
    let paid = answer([texts(10), customer].concat(), Just(1));
    let read = [head, vec![Number(0), Text("some item's name"), Large(100), Yes, Number(50), Yes]]
        .concat();
    let regclass = Answer { parameters: &[25], ..answer(vec![Yes], Just(1)) };
    let settings = Answer { parameters: &[1009], ..answer(texts(2), Just(0)) };
    let loaded = vec![Text("1"), Number(1000), Small(100), Yes];
    vec![
        ("to_regclass", regclass),
        ("from tpcc_load", answer(loaded, Just(1))),
        ("from pg_settings", settings),
        ("version()", answer(vec![Text("canned"), Number(150_000), Null], Just(1))),
        ("pg_stat_bgwriter", answer(vec![Large(1), Large(1)], Just(1))),
        ("from tpcc_new_order", Answer { lines_of: 3, ..answer(by_function, Just(1)) }),
        ("from tpcc_payment", paid.clone()),
        ("from tpcc_order_status", answer(status.clone(), Just(10))),
        ("from tpcc_delivery", delivered.clone()),
        ("tpcc_stock_level", answer(vec![Number(5)], Just(1))),
        ("for no key update of stock", Answer { lines_of: 3, ..answer(read, EachLine) }),
        ("insert into order_line", Answer { lines_of: 12, ..answer(vec![], Written) }),
        ("left join lateral", answer(status, Just(10))),
        ("with oldest", delivered),
        ("update customer", paid),
        ("with recent", answer(vec![Number(5)], Just(1))),
    ]
}

/// The first number of a packet that asks for encryption.
const SSL_REQUEST: i32 = 80_877_103;

/// One connection of the server.
struct Canned<'a> {
    input: BufReader<&'a TcpStream>,
    output: &'a TcpStream,
    answers: Vec<(&'static str, Answer)>,
    /// By the statement's name: its answer, and the types of its parameters.
    prepared: HashMap<String, (Answer, Vec<i32>)>,
    bound: Option<(Answer, i32)>,
    out: Vec<u8>,
}

impl<'a> Canned<'a> {
    fn new(stream: &'a TcpStream) -> Canned<'a> {
        stream.set_nodelay(true).unwrap();
        Canned {
            input: BufReader::with_capacity(1 << 16, stream),
            output: stream,
            answers: answers(),
            prepared: HashMap::new(),
            bound: None,
            out: Vec::new(),
        }
    }

    fn message(&mut self, tag: u8, body: &[u8]) {
        self.out.push(tag);
        self.out.extend((body.len() as i32 + 4).to_be_bytes());
        self.out.extend(body);
    }

    /// The first packet: what its first number says.
    fn opening(&mut self) -> i32 {
        let mut length = [0; 4];
        self.input.read_exact(&mut length).unwrap();
        let mut packet = vec![0; u32::from_be_bytes(length) as usize - 4];
        self.input.read_exact(&mut packet).unwrap();
        i32::from_be_bytes(packet[..4].try_into().unwrap())
    }

    fn serve(mut self) {
        // Whoever asks for encryption first is told that there is none.
        while self.opening() == SSL_REQUEST {
            self.output.write_all(b"N").unwrap();
        }
        self.message(b'R', &[0; 4]);
        self.message(b'Z', b"I");
        loop {
            // What was asked for together is answered together.
            if self.input.buffer().is_empty() {
                self.output.write_all(&self.out).unwrap();
                self.out.clear();
            }
            let mut head = [0; 5];
            if self.input.read_exact(&mut head).is_err() {
                return;
            }
            let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize - 4;
            let mut body = vec![0; length];
            self.input.read_exact(&mut body).unwrap();
            match head[0] {
                b'Q' => {
                    self.message(b'C', b"OK\0");
                    self.message(b'Z', b"I");
                }
                b'P' => self.parse(Body(&body)),
                b'D' => self.describe(Body(&body)),
                b'B' => self.bind(Body(&body)),
                b'E' => self.execute(),
                b'S' => self.message(b'Z', b"I"),
                b'C' => self.message(b'3', b""),
                _ => return,
            }
        }
    }

    fn parse(&mut self, mut body: Body) {
        let (name, sql) = (body.text(), body.text());
        let (_, found) = self
            .answers
            .iter()
            .find(|(words, _)| sql.contains(words))
            .unwrap_or_else(|| panic!("{sql}"));
        let mut types: Vec<i32> = (0..body.small()).map(|_| body.number()).collect();
        if types.is_empty() {
            types = found.parameters.to_vec();
        }
        self.prepared.insert(name, (found.clone(), types));
        self.message(b'1', b"");
    }

    fn describe(&mut self, mut body: Body) {
        body.0 = &body.0[1..];
        let (answer, types) = self.prepared[&body.text()].clone();
        let mut parameters = (types.len() as i16).to_be_bytes().to_vec();
        parameters.extend(types.iter().flat_map(|oid| oid.to_be_bytes()));
        self.message(b't', &parameters);
        if answer.columns.is_empty() {
            return self.message(b'n', b"");
        }
        let mut columns = (answer.columns.len() as i16).to_be_bytes().to_vec();
        for column in &answer.columns {
            columns.extend(b"c\0\0\0\0\0\0\0");
            columns.extend(column.oid().to_be_bytes());
            columns.extend([0; 8]);
        }
        self.message(b'T', &columns);
    }

    fn bind(&mut self, mut body: Body) {
        body.text();
        let (answer, _) = self.prepared[&body.text()].clone();
        for _ in 0..body.small() {
            body.small();
        }
        let mut lines = 0;
        for nth in 0..body.small() as usize {
            let length = body.number();
            let value = body.bytes(length.max(0) as usize);
            if nth == answer.lines_of && value.len() >= 20 {
                lines = i32::from_be_bytes(value[12..16].try_into().unwrap());
            }
        }
        self.bound = Some((answer, lines));
        self.message(b'2', b"");
    }

    fn execute(&mut self) {
        let (answer, lines) = self.bound.take().unwrap();
        let count = match answer.rows {
            Rows::Just(count) => count,
            Rows::EachLine => lines,
            Rows::Written => 0,
        };
        for nth in 1..=count {
            let mut row = (answer.columns.len() as i16).to_be_bytes().to_vec();
            for column in &answer.columns {
                match (answer.rows, column) {
                    (Rows::EachLine, Value::Number(0)) => {
                        put(&mut row, Value::Number(nth).bytes(0))
                    }
                    _ => put(&mut row, column.bytes(lines)),
                }
            }
            self.message(b'D', &row);
        }
        let written = format!("INSERT 0 {lines}\0");
        self.message(b'C', written.as_bytes());
    }
}

/// A message, read from its beginning.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, left) = self.0.split_at(count);
        self.0 = left;
        taken
    }

    fn text(&mut self) -> String {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap();
        let text = String::from_utf8(self.bytes(end).to_vec()).unwrap();
        self.bytes(1);
        text
    }

    fn small(&mut self) -> i16 {
        i16::from_be_bytes(self.bytes(2).try_into().unwrap())
    }

    fn number(&mut self) -> i32 {
        i32::from_be_bytes(self.bytes(4).try_into().unwrap())
    }
}
