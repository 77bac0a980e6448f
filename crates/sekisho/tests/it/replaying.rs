//! Recordings as a user has them: `replay` holds one against today's gate, `sim` takes its load to others.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use gate::{DisciplineSpec, Event, GateSpec, Job, JobId};
use measure::Recording;
use serde_json::Value;
use sim::{Class, Demand, GateNode, Load, Network, Options, Plan, Station, StationKind, Step};
use workload::{Arrivals, Dist};

use crate::browser::Scratch;
use crate::command::{Ended, PATIENCE, sekisho, shell, start};
use crate::site::{alone, server};

/// Two classes before three slots with room for five, made by the simulator.
pub(crate) fn recording() -> Recording {
    let mut network = Network::default();
    let spec = GateSpec { room: Some(5), ..GateSpec::fifo(3) };
    let gate = network.add_gate(GateNode::new("gate", spec));
    let station = network.add_station(Station::new("work", StationKind::Delay));
    for (name, mean) in [("web", 0.02), ("bulk", 0.2)] {
        let demand = Demand::Drawn(Dist::Exponential { mean });
        let inside = vec![Step::Visit { station, demand }];
        let load = Load::Open(Arrivals::Poisson { rate: 0.9 / mean });
        network.add_class(Class::new(name, load, vec![Step::Hold { gate, inside }]));
    }
    let options = Options {
        record: Some((0, 6_000)),
        plan: Plan::Replications(2),
        completions_max: 6_000,
        ..Options::default()
    };
    let outcome = sim::run(&network, &options).expect("it can be run");
    let recording = outcome.recording.expect("it was asked for");
    Recording { classes: vec!["web".into(), "bulk".into()], ..recording }
}

pub(crate) fn write(path: &Path, recording: &Recording) {
    recording.write(File::create(path).expect("a folder of our own")).expect("there is room");
}

/// A folder with a recording in it.
fn kept(recording: &Recording) -> (Scratch, PathBuf) {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    write(&folder.join("gate.rec"), recording);
    (scratch, folder)
}

fn object(ended: &Ended) -> Value {
    let objects = ended.objects();
    assert_eq!(objects.len(), 1, "{ended:?}");
    assert_eq!(objects[0]["exit_code"], ended.code);
    objects[0].clone()
}

/// Words of a message, wherever its lines were broken.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Asks the server at an address so often, each time on another connection.
fn ask(address: &str, target: &str, times: usize) {
    for _ in 0..times {
        let mut stream = TcpStream::connect(address).expect("the gate listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("it is a socket");
        write!(stream, "GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            .expect("the gate reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    }
}

/// A real gate under a small load writes a recording; today's gate, which is the same, answers it the same,
/// and the simulator does it again to the nanosecond.
#[test]
fn a_live_gates_recording_holds_and_is_simulated_as_it_was() {
    let _live = alone();
    let origin = server();
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let upstream = origin.address().to_string();
    let mut call = vec!["gate", "http", "--listen", "127.0.0.1:0", "--upstream", &upstream];
    call.extend(["--slots", "2", "--size", "/20k=20", "--record", "gate.rec", "--json"]);
    let running = start(&folder, &call);
    let said = running.says("}\n");
    let first: Value = serde_json::from_str(said.lines().next().expect("a line")).expect("JSON");
    let address = first["listening"].as_str().expect("an address").to_owned();
    let clients: Vec<_> = (0..6)
        .map(|nth| {
            let address = address.clone();
            let target = if nth % 2 == 0 { "/1k" } else { "/20k" };
            thread::spawn(move || ask(&address, target, 10))
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().expect("it was served"));
    running.signal("TERM");
    assert_eq!(running.ended(PATIENCE).code, 0);
    origin.stop();

    let replayed = sekisho(&folder, &["replay", "gate.rec"]);
    assert_eq!(replayed.code, 0, "{replayed:?}");
    assert!(replayed.out.starts_with("holds: "), "{replayed:?}");
    assert!(replayed.out.contains("/20k"), "its classes have names: {replayed:?}");
    let found = object(&sekisho(&folder, &["replay", "gate.rec", "--json"]));
    assert_eq!((&found["verdict"], &found["jobs"]["served"]), (&"holds".into(), &60.into()));
    assert_eq!(found["classes"][1]["class"], "/20k");
    assert_eq!(found["classes"][1]["arrived"], 30);

    let simulated = object(&sekisho(&folder, &["sim", "gate.rec", "--slots", "1,8", "--json"]));
    assert_eq!(simulated["reproduced"]["exactly"], true, "{simulated}");
    assert_eq!(simulated["reproduced"]["jobs"], 60);
    let gates = simulated["gates"].as_array().expect("gates");
    let wait = |nth: usize| gates[nth]["jobs"]["wait_s"]["mean"].as_f64().expect("a mean");
    assert_eq!(gates.len(), 3);
    assert!(wait(1) > wait(0) && wait(0) > wait(2), "{simulated}");
    assert_eq!(gates[2]["gate"]["servers"][0]["slots"], 8);
}

/// The story: a recording was read as a scenario's TOML, whose first brace was said to be no key. What is told is typed.
#[test]
fn a_recording_where_a_scenario_or_a_run_is_needed_is_told_what_takes_it() {
    let (_scratch, folder) = kept(&recording());
    fs::rename(folder.join("gate.rec"), folder.join("a gate.rec")).expect("it is there");
    for (verb, wanted) in [
        (&["ask", "a gate.rec", "--clients", "8"][..], "a scenario"),
        (&["ask", "bottleneck", "a gate.rec"], "a scenario"),
        (&["solve", "a gate.rec"], "a scenario"),
        (&["fit", "a gate.rec"], "a run"),
        (&["check", "a gate.rec", "--expect", "p99<1s"], "a run"),
        (&["report", "a gate.rec"], "a run"),
    ] {
        let ended = sekisho(&folder, verb);
        assert_eq!(ended.code, 2, "{ended:?}");
        let needed = format!("a gate.rec is a gate's recording, and {wanted} is needed.");
        assert!(words(&ended.err).contains(&needed), "{ended:?}");
        let typed: Vec<&str> =
            ended.err.lines().filter(|line| line.starts_with("    sekisho ")).collect();
        assert_eq!(typed.len(), 2, "{ended:?}");
        if verb[0] == "solve" {
            for line in typed {
                let ended = shell(&folder, line.trim()).ended(PATIENCE);
                assert_eq!(ended.code, 0, "{line}: {ended:?}");
            }
        }
    }
}

/// Typed as printed, a name with a space in it too.
#[test]
fn a_gate_that_recorded_names_the_command_that_replays_it() {
    let _live = alone();
    let origin = server();
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let upstream = origin.address().to_string();
    let call = ["gate", "http", "--listen", "127.0.0.1:0", "--upstream", &upstream];
    let running =
        start(&folder, &[&call[..], &["--slots", "2", "--record", "a gate.rec"]].concat());
    let said = running.says("next: curl ");
    let (_, address) = said.split_once("listening on ").expect("it says so");
    ask(address.split(' ').next().expect("it says where"), "/1k", 5);
    running.signal("TERM");
    let ended = running.ended(PATIENCE);
    origin.stop();
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(words(&ended.out).contains("recorded: a gate.rec"), "{ended:?}");
    assert_eq!(ended.last("next"), "sekisho replay 'a gate.rec'", "{ended:?}");
    let replayed = shell(&folder, ended.last("next")).ended(PATIENCE);
    assert_eq!(replayed.code, 0, "{replayed:?}");
    assert!(replayed.out.starts_with("holds: "), "{replayed:?}");
}

#[test]
fn a_recording_says_what_is_in_it() {
    let recording = recording();
    let (_scratch, folder) = kept(&recording);
    let ended = sekisho(&folder, &["replay", "gate.rec"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let first = "holds: 6000 steps; today's gate answers each as it was recorded";
    assert!(words(&ended.out).starts_with(first), "{ended:?}");
    assert!(words(&ended.out).contains("The gate went on when 6000 steps were recorded"));
    let found = object(&sekisho(&folder, &["replay", "gate.rec", "--json"]));
    let measures = recording.measures().expect("the simulator keeps the protocol");
    let jobs = &found["jobs"];
    assert_eq!(jobs["refused"]["queue-full"], measures.refused[&gate::Reason::QueueFull]);
    assert_eq!(found["length_s"], measures.length.as_secs_f64());
    let held = found["slots_held_mean"].as_f64().expect("a number");
    assert!((held - measures.busy_mean).abs() < 1e-9);
    // It counts the waits of those that were started, and they still hold slots at the end.
    let at_end = found["slots_held_at_end"].as_u64().expect("a number");
    assert_eq!(jobs["served"], measures.served.len() as u64 + at_end);
    let hold = jobs["hold_s"]["mean"].as_f64().expect("a number");
    let holds: Duration = measures.served.iter().map(|job| job.hold).sum();
    assert!((hold - holds.as_secs_f64() / measures.served.len() as f64).abs() < 1e-9);
    // The command that it prints works.
    let next = ended.after("next").to_owned();
    assert_eq!(next, "sekisho sim gate.rec --slots 1,6");
    let next: Vec<&str> = next.split(' ').skip(1).collect();
    assert_eq!(sekisho(&folder, &next).code, 0);
}

/// Today's gate, were it another: the recorded gate was first in first out, and the file says that it was
/// last in first out.
#[test]
fn the_first_step_that_differs_is_found() {
    let mut planted = recording();
    planted.spec.discipline = DisciplineSpec::Lifo;
    let divergence = planted.replay().expect_err("the order differs");
    let (_scratch, folder) = kept(&planted);
    let ended = sekisho(&folder, &["replay", "gate.rec"]);
    assert_eq!(ended.code, 3, "{ended:?}");
    let told = words(&ended.out);
    let number = divergence.step + 1;
    let first = format!("fails: today's gate answers step {number} of 6000 otherwise than it was");
    assert!(told.starts_with(&first), "{told}");
    let at = format!("at {:.9} s", divergence.recorded.at.as_secs_f64());
    let gate::Action::Start { job: was, .. } = divergence.recorded.actions[0] else { panic!() };
    let gate::Action::Start { job: is, .. } = divergence.replayed[0] else { panic!() };
    let event = "event the job in slot ".to_owned();
    let (was, is) = (format!("recorded job {} starts", was.0), format!("now job {} starts", is.0));
    for wanted in [at, event, was, is] {
        assert!(told.contains(&wanted), "no `{wanted}` in {told}");
    }
    let found = object(&sekisho(&folder, &["replay", "gate.rec", "--json"]));
    assert_eq!(found["verdict"], "fails");
    assert_eq!(found["first_difference"]["step"], number);
    // What the simulator would say of other gates does not count then, and it says why.
    let simulated = sekisho(&folder, &["sim", "gate.rec", "--slots", "4"]);
    assert_eq!(simulated.code, 6, "{simulated:?}");
    assert!(simulated.out.starts_with("does not fit: "), "{simulated:?}");
    let why = format!("today's gate decides otherwise from step {number} on");
    assert!(words(&simulated.out).contains(&why), "{simulated:?}");
}

#[test]
fn other_gates_are_compared_with_the_recorded_one() {
    let (_scratch, folder) = kept(&recording());
    let call = ["sim", "gate.rec", "--slots", "2,2+1", "--discipline", "fifo"];
    let call = [&call[..], &["--discipline", "shortest-job", "--room", "50"]].concat();
    let ended = sekisho(&folder, &call);
    assert_eq!(ended.code, 0, "{ended:?}");
    let told = words(&ended.out);
    assert!(told.starts_with("simulated: the recorded gate and 4 others under the recorded load"));
    for wanted in [
        "have the fate and the wait of the recording, to the nanosecond",
        "gate 4: slots 2+1, shortest-job, room 50",
        "Holds are as recorded, with at most 3 jobs at work",
        "never started, with a hold that nobody knows",
        "The recording ends before the gate did",
    ] {
        assert!(told.contains(wanted), "no `{wanted}` in {told}");
    }
    let json = [&call[..], &["--json"]].concat();
    let first = object(&sekisho(&folder, &json));
    assert_eq!(first["reproduced"]["exactly"], true);
    assert_eq!(first["as_recorded"]["classes"][0]["class"], "web");
    let gates = first["gates"].as_array().expect("gates");
    let names: Vec<&str> = gates.iter().filter_map(|gate| gate["name"].as_str()).collect();
    let wanted =
        ["slots 2, fifo", "slots 2, shortest-job", "slots 2+1, fifo", "slots 2+1, shortest-job"];
    assert_eq!(names[0], "as it was");
    assert_eq!(names[1..].to_vec(), wanted.map(|name| format!("{name}, room 50")));
    for gate in gates {
        let jobs = &gate["jobs"];
        let number = |of: &Value| of.as_u64().unwrap_or(0);
        let refused = number(&jobs["refused"]["queue-full"]);
        assert_eq!(number(&jobs["served"]) + refused, number(&jobs["arrived"]), "{gate}");
        assert_eq!(gate["never_ended"], 0);
    }
    // More room, fewer refused, longer waits; two servers with one queue are as good as one of both.
    let wait = |nth: usize| gates[nth]["jobs"]["wait_difference_s"]["mean"].as_f64();
    assert!(wait(1) > wait(3) && wait(3) > Some(0.0), "{gates:?}");
    // The draws are of the seed alone.
    assert_eq!(object(&sekisho(&folder, &json))["gates"], first["gates"]);
    let other = [&json[..], &["--seed", "2"]].concat();
    assert_ne!(object(&sekisho(&folder, &other))["gates"][1], first["gates"][1]);
}

#[test]
fn recordings_that_are_damaged_or_cut_off_are_told() {
    let recording = recording();
    let (_scratch, folder) = kept(&recording);
    let bytes = fs::read(folder.join("gate.rec")).expect("it was written");
    fs::write(folder.join("cut.rec"), &bytes[..bytes.len() / 2]).expect("a folder of our own");
    let text = String::from_utf8(bytes).expect("it is text");
    let wrong = text.replacen("\"arrive\"", "\"arrives\"", 1);
    fs::write(folder.join("wrong.rec"), wrong).expect("the same");
    fs::write(folder.join("other.rec"), "[]").expect("the same");
    let mut nothing = recording.clone();
    nothing.steps.clear();
    nothing.truncated = false;
    write(&folder.join("nothing.rec"), &nothing);
    for (call, wanted) in [
        (&["replay", "cut.rec"][..], "it is cut off: its first line announces 6000 steps"),
        (&["sim", "cut.rec", "--slots", "4"], "say `--partial`"),
        (&["replay", "wrong.rec"], "wrong.rec: line 2"),
        (&["replay", "other.rec"], "line 1: this is no recording"),
        (&["replay", "absent.rec"], "cannot read the recording absent.rec"),
        (&["sim", "nothing.rec"], "no job arrives in it"),
    ] {
        let ended = sekisho(&folder, call);
        assert_eq!(ended.code, 2, "{call:?}: {ended:?}");
        assert!(words(&ended.err).contains(wanted), "{call:?}: {ended:?}");
    }
    let partial = sekisho(&folder, &["replay", "cut.rec", "--partial"]);
    assert_eq!(partial.code, 0, "{partial:?}");
    assert!(words(&partial.out).contains("of 6000 steps are there"), "{partial:?}");
    let next = partial.after("next").to_owned();
    let next: Vec<&str> = next.split(' ').skip(1).collect();
    assert_eq!(sekisho(&folder, &next).code, 0, "{next:?}");
    let empty = sekisho(&folder, &["replay", "nothing.rec"]);
    assert_eq!(
        (empty.code, empty.out.starts_with("inconclusive: nothing")),
        (4, true),
        "{empty:?}"
    );
}

#[test]
fn flags_that_do_not_go_with_a_file_are_refused_with_the_way_out() {
    let mut quotas = recording();
    quotas.quotas = 1;
    let (_scratch, folder) = kept(&quotas);
    fs::write(folder.join("s.toml"), crate::arguments::SCENARIO).expect("a folder of our own");
    write(&folder.join("plain.rec"), &recording());
    for (call, wanted) in [
        (&["sim", "gate.rec", "--slots", "4"][..], "its jobs also passed quotas"),
        (&["sim", "s.toml", "--slots", "4"], "`--slots` goes with a gate's recording"),
        (
            &["sim", "plain.rec", "--sweep", "gate.pool.slots=1..4"],
            "`--sweep` goes with a scenario",
        ),
        (&["sim", "plain.rec", "--slots", "0"], "lets nobody in"),
        (&["sim", "plain.rec", "--slots", "few"], "whole numbers such as `4,16`"),
        (&["sim", "plain.rec", "--ties", "lowest"], "--router"),
        (&["sim", "plain.rec", "--router", "weighted"], "`weights` has 0 numbers for 1 servers"),
        (&["sim", "plain.rec", "--discipline", "lif"], "lifo"),
    ] {
        let ended = sekisho(&folder, call);
        assert_eq!(ended.code, 2, "{call:?}: {ended:?}");
        assert!(words(&ended.err).contains(wanted), "{call:?}: {ended:?}");
        assert_eq!(ended.out, "", "{call:?}");
    }
    // Each gate by itself is held against today's all the same.
    assert_eq!(sekisho(&folder, &["replay", "gate.rec"]).code, 0);
}

/// A recording without an end, through a pipe with a name.
#[test]
fn ctrl_c_ends_a_replay() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let pipe = folder.join("endless.rec");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("there is mkfifo");
    assert!(made.success());
    let running = start(&folder, &["replay", "endless.rec"]);
    let mut recording = Recording::new(GateSpec::fifo(1), 10);
    recording.push(gate::Time::ZERO, Event::Arrive(Job::new(JobId(1))), &[]);
    let mut text = Vec::new();
    recording.write(&mut text).expect("memory has room");
    let text = String::from_utf8(text).expect("it is text");
    let head = text.lines().next().expect("a header").replace("\"steps\":1", "\"steps\":999999999");
    let mut out = File::options().write(true).open(&pipe).expect("it is being read");
    writeln!(out, "{head}").expect("the same");
    let wakes = "{\"at\":7,\"event\":\"wake\"}\n".repeat(1_000);
    let mut written = 0;
    // Until nobody reads any more.
    while out.write_all(wakes.as_bytes()).is_ok() {
        written += 1;
        if written == 50 {
            running.signal("INT");
        }
    }
    let ended = running.ended(PATIENCE);
    assert_eq!(ended.code, 130, "{ended:?}");
    assert!(ended.err.contains("interrupted while reading endless.rec"), "{ended:?}");
}
