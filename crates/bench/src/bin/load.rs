//! Speed of the engine against wrk, and by HTTP/2 against h2load, in one run, interleaved: one thread each,
//! bound to one processor, against a minimal responder bound to another, by HTTP/2 against nginx.
//!
//! ```text
//! cargo run --release -p bench --bin bench_load
//! ```
//!
//! Prints requests per second and CPU time per request (user and system, of the whole client
//! process), medians of three runs of three seconds, and their ratios. Ends with status 2 if
//! wrk, h2load, nginx or taskset is missing, or there is only one processor.
#![allow(unsafe_code, clippy::print_stdout, clippy::print_stderr)]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::AtomicBool;

use load::http::{Closing, Connections, Load, Plan, PlanSpec, Protocol, Reach, Target, run};
use measure::Until;
use workload::Dist;

const RUNS: usize = 3;
const SECONDS: f64 = 3.0;
const CLIENTS: u32 = 64;
const CLIENT_CPU: &str = "0";
const SERVER_CPU: &str = "1";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("respond") => respond(),
        Some("press") => press(&words[1], &words[2]),
        _ => return compare(),
    }
    ExitCode::SUCCESS
}

/// One side of a comparison: what it is called, and how it is started on a URL.
struct Side {
    name: &'static str,
    command: fn(&str) -> Vec<String>,
}

const KEPT: [Side; 2] = [
    Side { name: "load", command: |url| own(url, "kept") },
    Side { name: "wrk", command: |url| wrk(url, false) },
];
const SINGLE: [Side; 3] = [
    Side { name: "load, FIN", command: |url| own(url, "fin") },
    Side { name: "load, RST", command: |url| own(url, "rst") },
    Side { name: "wrk, close", command: |url| wrk(url, true) },
];

/// As many requests in flight as wrk's connections, all on one.
const STREAMS: [Side; 2] = [
    Side { name: "load", command: |url| own(url, "http2") },
    Side { name: "h2load", command: h2load },
];

fn own(url: &str, how: &str) -> Vec<String> {
    let me = std::env::current_exe().expect("a running program has a path");
    vec![me.display().to_string(), "press".into(), url.into(), how.into()]
}

fn wrk(url: &str, close: bool) -> Vec<String> {
    let mut words = vec!["wrk".into(), "-t1".into(), format!("-c{CLIENTS}")];
    words.push(format!("-d{SECONDS}s"));
    if close {
        words.extend(["-H".into(), "Connection: close".into()]);
    }
    words.push(url.into());
    words
}

fn h2load(url: &str) -> Vec<String> {
    let words = ["h2load", "-t1", "-c1", &format!("-m{CLIENTS}"), &format!("-D{SECONDS}"), url];
    words.map(str::to_owned).into()
}

fn compare() -> ExitCode {
    for (peer, arg, package) in [
        ("wrk", "--version", "wrk"),
        ("h2load", "--version", "nghttp2-client"),
        ("nginx", "-v", "nginx"),
        ("taskset", "--version", "util-linux"),
    ] {
        if command(peer).arg(arg).output().is_err() {
            eprintln!(
                "{peer} is missing, so there is nothing to compare with: apt-get install {package}"
            );
            return ExitCode::from(2);
        }
    }
    if std::thread::available_parallelism().map_or(1, |cpus| cpus.get()) < 2 {
        eprintln!("client and responder need a processor each, and there is one in all");
        return ExitCode::from(2);
    }
    let me = std::env::current_exe().expect("a running program has a path").display().to_string();
    let mut responder = start(SERVER_CPU, &[me, "respond".into()]);
    let mut port = String::new();
    let out = responder.stdout.take().expect("its output is piped");
    BufReader::new(out).read_line(&mut port).expect("the responder says its port");
    let url = format!("http://127.0.0.1:{}/", port.trim());
    println!("keep-alive, {CLIENTS} connections, one thread");
    contest(&url, &KEPT);
    println!("one connection a request, {CLIENTS} clients, one thread");
    contest(&url, &SINGLE);
    responder.kill().expect("our own child");
    responder.wait().expect("our own child");
    println!("HTTP/2, {CLIENTS} streams on one connection, one thread, nginx");
    let (mut nginx, url, folder) = nginx();
    contest(&url, &STREAMS);
    nginx.kill().expect("our own child");
    nginx.wait().expect("our own child");
    std::fs::remove_dir_all(folder).expect("our own folder");
    ExitCode::SUCCESS
}

/// nginx in one process, which speaks HTTP/2 without a word and never ends a connection by itself.
fn nginx() -> (Child, String, std::path::PathBuf) {
    let folder = std::env::temp_dir().join(format!("bench-load-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("room for a folder");
    let address = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    let address = address.expect("a free port");
    let kept = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {kind};\n"))
        .concat();
    let text = format!(
        "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log nginx.err;\n\
         events {{ worker_connections 512; }}\nhttp {{\naccess_log off;\n\
         keepalive_requests 1000000000;\n{kept}\
         server {{ listen {address} http2; location / {{ return 200 \"Hello, load\\n\"; }} }}\n}}\n"
    );
    let file = folder.join("nginx.conf");
    std::fs::write(&file, text).expect("room for a configuration");
    let place = folder.display().to_string();
    let errors = folder.join("nginx.err").display().to_string();
    let words = ["nginx", "-p", &place, "-e", &errors, "-c", &file.display().to_string()];
    let mut child = start(SERVER_CPU, &words.map(str::to_owned));
    for _ in 0..200 {
        if TcpStream::connect(address).is_ok() {
            return (child, format!("http://{address}/"), folder);
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    child.kill().expect("our own child");
    child.wait().expect("our own child");
    panic!("nginx does not listen at {address}: see {errors}");
}

/// A program, also where Debian keeps those of administrators.
fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("PATH", "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin");
    command
}

fn start(cpu: &str, words: &[String]) -> Child {
    command("taskset")
        .args(["-c", cpu])
        .args(words)
        .stdout(Stdio::piped())
        .spawn()
        .expect("taskset is there")
}

/// Runs all sides in turn, and prints medians and ratios to the last side.
fn contest(url: &str, sides: &[Side]) {
    let mut seen: Vec<Vec<(f64, f64)>> = vec![Vec::new(); sides.len()];
    for _ in 0..RUNS {
        for (side, seen) in sides.iter().zip(&mut seen) {
            seen.push(measure_once(&(side.command)(url)));
        }
    }
    let medians: Vec<(f64, f64)> = seen
        .iter()
        .map(|runs| (median(runs.iter().map(|r| r.0)), median(runs.iter().map(|r| r.1))))
        .collect();
    let (peer_rate, peer_cpu) = medians[sides.len() - 1];
    for (side, &(rate, cpu_us)) in sides.iter().zip(&medians) {
        println!(
            "  {:<11} {rate:>8.0} req/s  x{:<5.2} {cpu_us:>7.2} us CPU/req  x{:.2}",
            side.name,
            rate / peer_rate,
            cpu_us / peer_cpu,
        );
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Requests per second, and CPU time per request [us].
fn measure_once(words: &[String]) -> (f64, f64) {
    let before = children_cpu_s();
    let mut child = start(CLIENT_CPU, words);
    let mut text = String::new();
    child.stdout.take().expect("its output is piped").read_to_string(&mut text).expect("text");
    assert!(child.wait().expect("our own child").success(), "{words:?}: {text}");
    let cpu_s = children_cpu_s() - before;
    let (requests, rate) = summary(&text).unwrap_or_else(|| panic!("no summary: {text}"));
    (rate, cpu_s * 1e6 / requests)
}

/// Number of requests, and requests per second, of what a side says at its end.
fn summary(text: &str) -> Option<(f64, f64)> {
    let mut lines = text.lines();
    // h2load: "finished in 3.00s, 51234.67 req/s, ..." and "requests: 153704 total, ...".
    if let Some(finished) = text.lines().find(|line| line.starts_with("finished in ")) {
        let rate = finished.split(", ").nth(1)?.strip_suffix(" req/s")?.parse().ok()?;
        let counts = lines.find_map(|line| line.strip_prefix("requests: "))?;
        let of = |what: &str| -> Option<f64> {
            let count = counts.split(", ").find_map(|one| one.strip_suffix(what))?;
            count.trim().parse().ok()
        };
        assert_eq!(of(" failed")? + of(" errored")?, 0.0, "nothing may fail here: {text}");
        return Some((of(" done")?, rate));
    }
    // wrk: "  438762 requests in 3.10s, ..." and ours alike.
    let line = text.lines().find(|line| line.contains("requests in"))?;
    let requests = line.split_whitespace().next()?.parse().ok()?;
    let rate = lines.find_map(|line| line.strip_prefix("Requests/sec:")?.trim().parse().ok())?;
    Some((requests, rate))
}

/// CPU time of all children that have ended, user and system [s].
fn children_cpu_s() -> f64 {
    // SAFETY: all-zero is a valid `rusage`, and it lives through the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn press(url: &str, how: &str) {
    let target = Target::parse(url, Reach::Private).expect("a loopback URL");
    let load = Load::Closed { clients: CLIENTS, think: Dist::Constant(0.0) };
    let mut spec = PlanSpec::new(target, load, Until::Seconds(SECONDS));
    if how == "http2" {
        spec.protocol = Protocol::Http2 { streams_max: CLIENTS };
    } else if how != "kept" {
        spec.connections = Connections::PerRequest;
    }
    if how == "rst" {
        spec.closing = Closing::Rst;
    }
    let plan = Plan::new(spec).expect("a plan");
    let (mut completed, mut failed) = (0, 0);
    let summary = run(&plan, &AtomicBool::new(false), &mut |interval| {
        completed += interval.classes[0].completed;
        failed += interval.classes[0].errors.values().sum::<u64>();
    })
    .expect("a run");
    assert_eq!(failed, 0, "nothing may fail here");
    println!("  {completed} requests in {:.2}s", summary.elapsed_s);
    println!("Requests/sec: {:.2}", completed as f64 / summary.elapsed_s);
}

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nHello, load\n";

/// A server that does next to nothing: epoll, one thread, a fixed answer to whatever ends in an
/// empty line; it closes where the request says so.
fn respond() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("a socket");
    println!("{}", listener.local_addr().expect("a bound socket").port());
    // SAFETY: no pointers.
    let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    assert!(epoll >= 0, "epoll");
    watch(epoll, listener.as_raw_fd());
    let mut connections: HashMap<RawFd, TcpStream> = HashMap::new();
    let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; 256];
    let mut buffer = [0; 4096];
    loop {
        // SAFETY: `events` lives through the call.
        let count = unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), 256, -1) };
        for event in &events[..usize::try_from(count).unwrap_or(0)] {
            let fd = event.u64 as RawFd;
            if fd == listener.as_raw_fd() {
                while let Ok((connection, _)) = listener.accept() {
                    connection.set_nonblocking(true).expect("a socket");
                    watch(epoll, connection.as_raw_fd());
                    connections.insert(connection.as_raw_fd(), connection);
                }
            } else if let Some(connection) = connections.get_mut(&fd)
                && !answer(connection, &mut buffer)
            {
                connections.remove(&fd);
            }
        }
    }
}

fn watch(epoll: RawFd, fd: RawFd) {
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: fd as u64 };
    // SAFETY: `event` lives through the call.
    let done = unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event) };
    assert_eq!(done, 0, "epoll_ctl");
}

/// Answers; whether the connection stays open.
fn answer(connection: &mut TcpStream, buffer: &mut [u8]) -> bool {
    match connection.read(buffer) {
        Ok(0) => false,
        Ok(count) => {
            let request = &buffer[..count];
            if !request.ends_with(b"\r\n\r\n") {
                return true;
            }
            let closes = request.windows(17).any(|at| at == b"Connection: close");
            connection.write(ANSWER).is_ok() && !closes
        }
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    }
}
