//! A gate whose servers are all down gives one answer, whoever drives it: the same job is let in, the
//! same one refused for the same reason, and the recordings are the same but for the times.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use advise::Scenario;
use gate::{Action, Event, GateSpec, Job, JobId, Reason, Time};
use live::Driver;
use live::model::Work;
use measure::Recording;
use monitor::{Address, Admission, Database, Monitor};
use pgwire::auth::Method;
use pgwire::secrets::{MockKey, Users};
use sim::{Options, Plan};

/// An address at which nobody listens.
fn nobody() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("it is bound")
}

/// Events and decisions, without times and names.
fn shape(recording: &Recording) -> Vec<String> {
    assert_eq!(recording.replay(), Ok(()));
    let step = |step: &measure::Step| {
        let event = match step.event {
            Event::Arrive(_) => "arrive".to_owned(),
            Event::Depart(_) => "depart".to_owned(),
            other => format!("{other:?}"),
        };
        let action = |action: &Action| match action {
            Action::Start { .. } => ": start".to_owned(),
            Action::Refuse { reason, .. } => format!(": refuse {reason:?}"),
        };
        event + &step.actions.iter().map(action).collect::<String>()
    };
    recording.steps.iter().map(step).collect()
}

const SHAPE: [&str; 4] = ["arrive: start", "Down(0)", "depart", "arrive: refuse Unreachable"];

fn simulated() -> Recording {
    let text = "
        sekisho = 1
        name = \"a server that goes down\"
        seed = 1
        [agenda]
        length = \"3s\"
        change = [{ at = \"1200ms\", gate = \"pool\", server = 1, state = \"down\" }]
        [[class]]
        name = \"jobs\"
        population = 1
        think = \"1s\"
        route = [\"pool\"]
        [[gate]]
        name = \"pool\"
        slots = 1
        unreachable = \"refuse\"
        inside = [\"work\"]
        [[station]]
        name = \"work\"
        kind = \"delay\"
        demand = \"500ms\"
    ";
    let scenario: Scenario = toml::from_str(text).expect("a scenario");
    let network = scenario.network().expect("it can be run");
    let options =
        Options { record: Some((0, 100)), plan: Plan::Replications(2), ..Options::default() };
    let outcome = sim::run(&network, &options).expect("it has an end");
    assert!(outcome.gates[0].refused_unreachable.mean > 0.0);
    outcome.recording.expect("it was asked for")
}

fn driven() -> Recording {
    let spec = GateSpec { unreachable_max: Some(Duration::ZERO), ..GateSpec::fifo(1) };
    let mut driver = Driver::new(&spec, 1, 100).expect("a gate");
    let at = |millis| Time::ZERO + Duration::from_millis(millis);
    let job = Job::new(JobId(0));
    driver.arrive(at(1000), 'a', at(1000), job);
    let slot = driver.next_decision().expect("a decision").outcome.expect("a slot");
    driver.lower(at(1200), 0);
    driver.depart(at(1500), slot, Work::Done);
    driver.arrive(at(2500), 'b', at(2500), job);
    let refused = driver.next_decision().expect("a decision").outcome;
    assert_eq!(refused.expect_err("no server is up"), Reason::Unreachable);
    driver.recording().expect("it records").clone()
}

fn over_http() -> Recording {
    let mut config = httpgate::Config::new(([127, 0, 0, 1], 0).into(), vec![nobody()], 1);
    config.record_max = 100;
    let server = httpgate::Server::bind(config).expect("it can listen");
    let handle = server.handle();
    let thread = std::thread::spawn(move || server.run().expect("it runs"));
    for status in ["502", "503"] {
        let mut client = TcpStream::connect(handle.address()).expect("it listens");
        client
            .write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            .expect("it reads");
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("it answers");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
    handle.drain().expect("it runs");
    thread.join().expect("no panic").recording.expect("it records")
}

fn over_postgres() -> Recording {
    let users = Users::parse("\"x\" \"\"\n", MockKey::new([7; 32])).expect("a list");
    let database = Database::new("shop", vec![Address::Tcp(nobody())], 1);
    let listen = ([127, 0, 0, 1], 0).into();
    let mut config = monitor::Config::new(listen, vec![database], users);
    config.admission = Admission::Everybody(Method::Trust);
    config.unreachable_max = Some(Duration::ZERO);
    config.record_max = 100;
    let monitor = Monitor::bind(config).expect("it can listen");
    let handle = monitor.handle();
    let thread = std::thread::spawn(move || monitor.run().expect("it runs"));
    for _ in 0..2 {
        let mut client = TcpStream::connect(handle.address()).expect("it listens");
        let packet = b"\0\0\0\x1e\0\x03\0\0user\0x\0database\0shop\0\0";
        assert_eq!(packet.len(), 0x1e);
        client.write_all(packet).expect("it reads");
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).expect("it answers");
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.contains("08006") && answer.contains("cannot be reached"), "{answer}");
    }
    handle.drain().expect("it runs");
    let finished = thread.join().expect("no panic");
    assert_eq!(finished.stats.pools[0].counters.refused_unreachable, 1);
    finished.recordings[0].clone().expect("it records")
}

#[test]
fn a_gate_whose_servers_are_all_down_gives_one_answer_whoever_drives_it() {
    for (who, recording) in [
        ("the simulator", simulated()),
        ("the driver of live gates", driven()),
        ("the HTTP gate", over_http()),
        ("the gate for PostgreSQL", over_postgres()),
    ] {
        assert_eq!(shape(&recording), SHAPE, "{who}");
        assert_eq!(recording.spec.unreachable_max, Some(Duration::ZERO), "{who}");
    }
}
