//! Cost of a request at the HTTP gate, against nginx as a reverse proxy, in one run, interleaved.
//!
//! ```text
//! cargo run --release -p bench --bin bench_proxy [WORDS OF A CASE]
//! ```
//!
//! Both stand before the same nginx that serves constants, with connections kept open on both sides;
//! wrk presses them in turn. The proxy under test has a CPU of its own, wrk and the origin share
//! another. What is compared is the CPU time (user and system) of the proxy's process for a
//! request, which depends far less than the rate on what wrk and the origin can do. nginx has no
//! queue before its servers: with 8 slots the gate has 8 requests at the origin and nginx all 64, so
//! nginx finds more to do each time it wakes up.
//!
//! Ends with status 2 if nginx, wrk or taskset is missing, or there is only one CPU.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use bench::Spread;
use httpgate::{Config, Server};

const ROUNDS: usize = 3;
const SECONDS: u32 = 3;
const CONNECTIONS: u32 = 64;
const PROXY_CPU: &str = "1";
const OTHER_CPU: &str = "0";
/// Unit of `/proc/PID/stat` \[us\]: Linux says 100 a second to programs, whatever it uses itself.
const TICK_US: f64 = 10_000.0;
/// Time that a server may take to listen.
const START_MAX: Duration = Duration::from_secs(5);

const TINY: &str = "hello, this is a small body\n";
const LARGE: usize = 50_000;

struct Case {
    name: &'static str,
    /// Of the gate; nginx has none.
    slots: u32,
    path: &'static str,
    /// The body behind the path \[B\].
    length: usize,
}

const CASES: [Case; 3] = [
    Case { name: "28 B, 64 slots, nobody waits", slots: 64, path: "/", length: TINY.len() },
    Case { name: "28 B, 8 slots, most wait", slots: 8, path: "/", length: TINY.len() },
    Case { name: "50 kB, 64 slots, nobody waits", slots: 64, path: "/large", length: LARGE },
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, origin, slots] = words.as_slice()
        && mode == "gate"
    {
        run_gate(
            origin.parse().expect("our parent names an address"),
            slots.parse().expect("and a number"),
        );
        return ExitCode::SUCCESS;
    }
    if let Err(missing) = check_machine() {
        eprintln!("{missing}");
        return ExitCode::from(2);
    }
    compare(&words.join(" "));
    ExitCode::SUCCESS
}

/// The gate as a process of its own, so that its CPU time is its own. It ends with its parent.
fn run_gate(origin: SocketAddr, slots: u32) {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::bind(Config::new(listen, vec![origin], slots)).expect("a free port");
    println!("{}", server.handle().address());
    thread::spawn(|| {
        // Nothing is ever written to it: it ends when the parent does.
        let _ = io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    server.run().expect("the gate runs until it is killed");
}

fn check_machine() -> Result<(), String> {
    for (program, flag, package) in
        [("nginx", "-v", "nginx"), ("wrk", "-v", "wrk"), ("taskset", "-V", "util-linux")]
    {
        let mut peer = Command::new(program);
        if peer.arg(flag).stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
            return Err(format!("{program} is missing: apt-get install {package}"));
        }
    }
    if thread::available_parallelism().map_or(1, usize::from) < 2 {
        return Err("the proxy needs a CPU of its own, and there is one in all".to_owned());
    }
    Ok(())
}

fn compare(only: &str) {
    let folder = Folder::new();
    let origin = nginx(&folder.0, "origin", OTHER_CPU, &origin_text());
    let peer = nginx(&folder.0, "proxy", PROXY_CPU, &proxy_text(origin.address));
    println!("CPU time of the proxy's process a request, median of {ROUNDS} runs (least..most)");
    println!("each: wrk -t1 -c{CONNECTIONS} -d{SECONDS}s; origin and peer: {}", nginx_version());
    println!(
        "{:<31} {:>23} {:>23} {:>20} {:>10} {:>11}",
        "", "gate us", "nginx us", "gate/nginx", "gate req/s", "nginx req/s"
    );
    for case in CASES.iter().filter(|case| case.name.contains(only)) {
        let gate = gate(origin.address, case.slots);
        let sides = [&gate, &peer];
        sides.iter().for_each(|side| check_body(side.address, case));
        let mut seen = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            for (side, seen) in sides.iter().zip(&mut seen) {
                seen.push(press(side, case));
            }
        }
        print_row(case.name, &seen);
    }
}

fn print_row(name: &str, [gate, nginx]: &[Vec<Run>; 2]) {
    let cost = |runs: &[Run]| Spread::of(runs.iter().map(|run| run.cpu_us));
    let rate = |runs: &[Run]| Spread::of(runs.iter().map(|run| run.rate)).median;
    let ratio = Spread::of(gate.iter().zip(nginx).map(|(gate, nginx)| gate.cpu_us / nginx.cpu_us));
    println!(
        "{name:<31} {:>23} {:>23} {:>20} {:>10.0} {:>11.0}",
        cost(gate).show(1),
        cost(nginx).show(1),
        ratio.show(2),
        rate(gate),
        rate(nginx)
    );
}

/// Results of one run of wrk.
struct Run {
    /// CPU time of the proxy a request \[us\].
    cpu_us: f64,
    /// Requests a second.
    rate: f64,
}

/// A process of ours that listens; it ends with this value.
struct Listening {
    child: Child,
    address: SocketAddr,
}

impl Drop for Listening {
    fn drop(&mut self) {
        // Both fail only when it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder of our own, gone with this value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let path = std::env::temp_dir().join(format!("bench_proxy-{}", std::process::id()));
        fs::create_dir(&path).expect("a new folder for temporary files");
        fs::write(path.join("large"), vec![b'x'; LARGE]).expect("room for 50 kB");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("{}: cannot be removed: {error}", self.0.display());
        }
    }
}

fn gate(origin: SocketAddr, slots: u32) -> Listening {
    let me = std::env::current_exe().expect("a running program has a path");
    let mut command = on_cpu(PROXY_CPU, me.to_str().expect("a path that is text"));
    command.args(["gate", &origin.to_string(), &slots.to_string()]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("taskset is there");
    let mut line = String::new();
    let out = child.stdout.take().expect("its output is piped");
    BufReader::new(out).read_line(&mut line).expect("the gate says its address");
    Listening { child, address: line.trim().parse().expect("an address") }
}

/// nginx in one process without a master, so that its id is the child's and killing it leaves
/// nobody behind; what serves requests is the same.
fn nginx(folder: &Path, name: &str, cpu: &str, http: &str) -> Listening {
    let address = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a free port");
    let kept = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {name}_{kind};\n"))
        .concat();
    let text = format!(
        "daemon off;\nmaster_process off;\npid {name}.pid;\nerror_log {name}.err;\n\
         events {{ worker_connections 2048; }}\n\
         http {{\naccess_log off;\nsendfile on;\nkeepalive_timeout 75;\n\
         keepalive_requests 1000000000;\n{kept}{}\n}}\n",
        http.replace("ADDRESS", &address.to_string()),
    );
    let file = folder.join(format!("{name}.conf"));
    fs::write(&file, text).expect("room for a configuration");
    let mut command = on_cpu(cpu, "nginx");
    // Where it says what is wrong before it has read its configuration.
    command.arg("-p").arg(folder).arg("-e").arg(folder.join(format!("{name}.err")));
    let child = command.arg("-c").arg(&file).stdin(Stdio::null()).spawn();
    let started = Listening { child: child.expect("taskset is there"), address };
    let deadline = Instant::now() + START_MAX;
    while TcpStream::connect(address).is_err() {
        assert!(Instant::now() < deadline, "nginx does not listen: {}", errors(folder, name));
        thread::sleep(Duration::from_millis(20));
    }
    started
}

fn errors(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(format!("{name}.err"))).unwrap_or_default()
}

fn origin_text() -> String {
    format!(
        "server {{ listen ADDRESS; root .;\nlocation = / {{ return 200 \"{}\"; }} }}",
        TINY.replace('\n', "\\n")
    )
}

/// As the gate by default: connections kept, the client's address passed on, and as much of a
/// response buffered.
fn proxy_text(origin: SocketAddr) -> String {
    format!(
        "upstream origin {{ server {origin}; keepalive {CONNECTIONS}; \
         keepalive_requests 1000000000; }}\n\
         server {{ listen ADDRESS; location / {{ proxy_pass http://origin; proxy_http_version 1.1;\n\
         proxy_set_header Connection \"\"; proxy_set_header X-Forwarded-For $remote_addr;\n\
         proxy_buffers 16 4k; proxy_max_temp_file_size 0; }} }}"
    )
}

fn nginx_version() -> String {
    let output = Command::new("nginx").arg("-v").output().expect("nginx is there");
    String::from_utf8_lossy(&output.stderr).trim().replace("nginx version: ", "")
}

fn on_cpu(cpu: &str, program: &str) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", cpu, program]);
    command
}

/// Both sides must do the same work, or there is nothing to compare.
fn check_body(address: SocketAddr, case: &Case) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let request = format!("GET {} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", case.path);
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("it answers");
    let head = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
    assert!(bytes.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&bytes[..head]));
    assert_eq!(bytes.len() - head, case.length, "{}", case.name);
}

fn press(side: &Listening, case: &Case) -> Run {
    let before = cpu_us(side.child.id());
    let output = on_cpu(OTHER_CPU, "wrk")
        .args(["-t1", &format!("-c{CONNECTIONS}"), &format!("-d{SECONDS}s")])
        .arg(format!("http://{}{}", side.address, case.path))
        .output()
        .expect("taskset is there");
    let spent = cpu_us(side.child.id()) - before;
    let text = String::from_utf8_lossy(&output.stdout);
    let failed = ["Non-2xx", "Socket errors"].iter().any(|word| text.contains(word));
    assert!(output.status.success() && !failed, "wrk, {}:\n{text}", case.name);
    // "  438762 requests in 3.10s, ..."
    let requests = text
        .lines()
        .find_map(|line| line.split_once(" requests in ")?.0.trim().parse::<f64>().ok())
        .expect("wrk sums up");
    let rate = text
        .lines()
        .find_map(|line| line.strip_prefix("Requests/sec:")?.trim().parse().ok())
        .expect("wrk says its rate");
    Run { cpu_us: spent / requests, rate }
}

/// CPU time of a process so far, user and system \[us\].
fn cpu_us(process: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("our own child");
    // "id (name) state ...", where the name may hold anything; user and system are 14th and 15th.
    let (_, after_name) = stat.rsplit_once(')').expect("the name is in parentheses");
    let ticks = after_name.split_whitespace().skip(11).take(2);
    ticks.map(|count| count.parse::<f64>().expect("a number")).sum::<f64>() * TICK_US
}
