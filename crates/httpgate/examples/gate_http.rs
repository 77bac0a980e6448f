//! A gate on the command line, for measuring: `gate_http LISTEN SLOTS UPSTREAM...`, for instance
//! `gate_http 127.0.0.1:8080 64 127.0.0.1:8081`. SIGTERM drains it.

#![allow(clippy::print_stdout, reason = "it is a command")]

use std::net::SocketAddr;

use httpgate::{Config, Server};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let usage = "usage: gate_http LISTEN SLOTS UPSTREAM...";
    let listen = args.next().ok_or(usage)?.parse()?;
    let slots = args.next().ok_or(usage)?.parse()?;
    let upstreams = args.map(|arg| arg.parse()).collect::<Result<Vec<SocketAddr>, _>>()?;
    let mut config = Config::new(listen, upstreams, slots);
    config.admin = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let server = Server::bind(config)?.drain_on_signals();
    let handle = server.handle();
    let admin = handle.admin_address().map_or(String::new(), |address| address.to_string());
    println!("listening on {}, metrics on http://{admin}/metrics", handle.address());
    let finished = server.run()?;
    println!("{} responses, {} connections cut", finished.stats.responses(), finished.cut);
    Ok(())
}
