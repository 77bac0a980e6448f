//! Counts live searches for a knee that answer in time: `cargo run --release -p bench --bin bench_knees [--small]`.
//!
//! The command `sekisho measure http URL --knee 'p99<50ms'` is run ten times at its defaults against a server whose
//! knee is known: one place, exponential service of 2 ms in the mean, one queue. The moments of its answers are
//! reckoned beforehand, so that only what the machine itself is late adds to them.

#![allow(clippy::print_stdout, reason = "a benchmark that prints")]

use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bench::Spread;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::Value;

/// Mean service of a request \[s\].
const SERVICE_S: f64 = 0.002;
/// The limit that is to hold, as it is typed, its quantile, and its response \[s\].
const LIMIT: (&str, f64, f64) = ("p99<50ms", 0.99, 0.05);
/// Searches, and those of them that must answer.
const SEARCHES: (usize, usize) = (10, 9);
/// Budgets of a search \[s\], the default one and that of `--small`, and the time after it until the command has ended.
const BUDGETS_S: [u32; 2] = [180, 60];
const END_S: f64 = 5.0;

/// The one place of the server.
struct Place {
    free_at: Instant,
    rng: Xoshiro256PlusPlus,
}

impl Place {
    /// The moment at which a request that arrives now is served.
    fn served(&mut self) -> Instant {
        let share: f64 = self.rng.random_range(f64::MIN_POSITIVE..1.0);
        let service = Duration::from_secs_f64(-share.ln() * SERVICE_S);
        self.free_at = self.free_at.max(Instant::now()) + service;
        self.free_at
    }
}

/// Starts the server, which goes on to the end of the program.
fn serve() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let place = Arc::new(Mutex::new(Place { free_at: Instant::now(), rng }));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let place = Arc::clone(&place);
            // A client that goes away ends its thread.
            thread::spawn(move || answer(stream, &place).ok());
        }
    });
    Ok(address)
}

/// Answers each request of a connection, one after the other.
fn answer(mut stream: TcpStream, place: &Mutex<Place>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut buffer, mut head) = ([0; 4096], Vec::new());
    loop {
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read(&mut buffer)? {
                0 => return Ok(()),
                count => head.extend_from_slice(&buffer[..count]),
            }
        }
        head.clear();
        let at = place.lock().unwrap_or_else(PoisonError::into_inner).served();
        thread::sleep(at.saturating_duration_since(Instant::now()));
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
    }
}

/// The rate at which the limit just holds \[1/s\]: P(T > t) = exp(-(mu - lambda) t).
fn knee() -> f64 {
    1.0 / SERVICE_S + (1.0 - LIMIT.1).ln() / LIMIT.2
}

/// Number of programs that want a processor: what else runs is taken for the server.
fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().map_or("?".to_owned(), str::to_owned)
}

/// The command beside this program.
fn sekisho() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let path = own.with_file_name("sekisho");
    if path.is_file() {
        return Ok(path);
    }
    Err(format!("{} is missing: build it with `cargo build --release -p sekisho`", path.display()))
}

/// A search, as the command has told it.
struct Search {
    code: i32,
    took_s: f64,
    low: Option<f64>,
    high: Option<f64>,
    probes: usize,
}

impl Search {
    /// True if it has found an interval within its budget.
    fn answers(&self, budget_s: u32) -> bool {
        let is_known = self.low.is_some() && self.high.is_some();
        self.code == 0 && is_known && self.took_s <= f64::from(budget_s) + END_S
    }
}

fn search(
    command: &PathBuf,
    url: &str,
    seed: usize,
    budget_s: u32,
) -> Result<Search, Box<dyn Error>> {
    let begun = Instant::now();
    let out = std::env::temp_dir().join(format!("bench-knees-{}.knee.json", std::process::id()));
    let ended = Command::new(command)
        .args(["measure", "http", url, "--knee", LIMIT.0, "--json", "--seed", &seed.to_string()])
        .args(["--budget", &format!("{budget_s}s"), "--preflight", "30s", "--out"])
        .arg(&out)
        .output()?;
    let took_s = begun.elapsed().as_secs_f64();
    // What is not there need not be removed.
    std::fs::remove_file(&out).ok();
    let told: Value = serde_json::from_slice(&ended.stdout).map_err(|error| {
        format!("the search told no JSON ({error}): {}", String::from_utf8_lossy(&ended.stderr))
    })?;
    Ok(Search {
        code: ended.status.code().unwrap_or(-1),
        took_s,
        low: told["knee_low_per_s"].as_f64(),
        high: told["knee_high_per_s"].as_f64(),
        probes: told["probes"].as_array().map_or(0, Vec::len),
    })
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let command = match sekisho() {
        Ok(command) => command,
        Err(why) => {
            println!("{why}");
            return Ok(ExitCode::from(2));
        }
    };
    let budget_s = BUDGETS_S[usize::from(std::env::args().any(|word| word == "--small"))];
    let url = format!("http://{}/", serve()?);
    let (searches, aim) = SEARCHES;
    println!("load of this machine before: {}", load_average());
    println!("{} on M/M/1, {:.0}/s: the knee is {:.0}/s", LIMIT.0, 1.0 / SERVICE_S, knee());
    let mut all = Vec::new();
    for seed in 1..=searches {
        let found = search(&command, &url, seed, budget_s)?;
        let end = |end: Option<f64>| end.map_or("?".to_owned(), |rate| format!("{rate:.0}"));
        println!(
            "search {seed:2}: exit code {}, {}/s to {}/s, {} probes in {:.0} s",
            found.code,
            end(found.low),
            end(found.high),
            found.probes,
            found.took_s
        );
        all.push(found);
    }
    let answered: Vec<&Search> = all.iter().filter(|search| search.answers(budget_s)).collect();
    let ends = answered.iter().filter_map(|search| search.low.zip(search.high));
    let holding = ends.clone().filter(|(low, high)| *low <= knee() && knee() <= *high).count();
    println!("load of this machine now: {}", load_average());
    println!(
        "{} of {searches} answer within {budget_s} s (aim {aim}), and {holding} of these intervals hold the knee",
        answered.len()
    );
    if ends.clone().next().is_some() {
        let widths = Spread::of(ends.map(|(low, high)| 100.0 * (high / low - 1.0)));
        println!("width {} %, in {} s", widths.show(0), {
            Spread::of(answered.iter().map(|search| search.took_s)).show(0)
        });
    }
    Ok(if answered.len() >= aim { ExitCode::SUCCESS } else { ExitCode::from(3) })
}
