//! Recordings of gates: as files, and what they say about waiting and holding.

use std::collections::BTreeMap;
use std::time::Duration;

use gate::{
    Action, Event, Gate, GateSpec, Job, JobId, Reason, Report, Role, ServerSpec, Slot, Time,
};
use measure::{
    BrokenProtocol, GateAccount, JobFate, JobTimes, ReadError, Recording, RecordingReader, Replay,
};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::records::damage;

fn at(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

fn job(id: u64, class: u32) -> Event {
    Event::Arrive(Job { class, ..Job::new(JobId(id)) })
}

/// Tells a real gate these events and records it.
fn record(spec: GateSpec, events: &[(u64, Event)]) -> Recording {
    let mut gate = Gate::new(&spec).unwrap();
    let mut recording = Recording::new(spec, 1_000);
    let mut actions = Vec::new();
    for &(ms, event) in events {
        actions.clear();
        gate.handle(at(ms), event, &mut actions);
        recording.push(at(ms), event, &actions);
    }
    recording
}

/// One slot, room for two: job 1 is served at once, 2 waits and is served, 3 gives up, 4 finds no
/// room, 5 is late, 6 waits until the end.
fn story() -> Recording {
    let slot = Slot { server: 0, index: 0 };
    let spec =
        GateSpec { room: Some(2), wait_max: Some(Duration::from_millis(20)), ..GateSpec::fifo(1) };
    let events = [
        (0, job(1, 0)),
        (2, job(2, 7)),
        (3, job(3, 0)),
        (4, job(4, 0)),
        (6, Event::Renege(JobId(3))),
        (10, Event::Depart(slot)),
        (11, job(5, 0)),
        (25, job(6, 0)),
        (31, Event::Wake),
        (40, Event::Depart(slot)),
        (44, Event::Wake),
    ];
    record(spec, &events)
}

#[test]
fn waits_and_holds_by_hand() {
    let measures = story().measures().unwrap();
    let ms = Duration::from_millis;
    assert_eq!(
        measures.served,
        [
            JobTimes { class: 0, wait: ms(0), hold: ms(10) },
            JobTimes { class: 7, wait: ms(8), hold: ms(30) },
        ]
    );
    assert_eq!(measures.refused, BTreeMap::from([(Reason::QueueFull, 1), (Reason::Deadline, 1)]));
    assert_eq!((measures.reneged, measures.unfinished, measures.length), (1, 1, ms(44)));
    // Waited: job 2 from 2 to 10, 3 from 3 to 6, 5 from 11 to 31, 6 from 25 to 40: 46 of 44 ms.
    assert!((measures.waiting_mean - 46.0 / 44.0).abs() < 1e-12, "{measures:?}");
    assert!((measures.busy_mean - 1.0).abs() < 1e-12, "{measures:?}");
    assert_eq!((measures.waits(None).len(), measures.holds(Some(7)).len()), (2, 1));
    assert!((measures.holds(Some(7)).mean_s() - 0.03).abs() < 3e-5);
}

fn account(recording: &Recording) -> GateAccount {
    let mut account = GateAccount::new(&recording.spec).unwrap().with_fates();
    for step in &recording.steps {
        account.step(step.at, &step.event, &step.actions).unwrap();
    }
    account
}

/// The same story, told step by step.
#[test]
fn an_account_says_what_the_measures_say() {
    let recording = story();
    let (account, measures) = (account(&recording), recording.measures().unwrap());
    let ms = Duration::from_millis;
    assert_eq!(
        account.fates(),
        [
            JobFate::Started(ms(0)),
            JobFate::Started(ms(8)),
            JobFate::Reneged,
            JobFate::Refused(Reason::QueueFull),
            JobFate::Refused(Reason::Deadline),
            JobFate::Started(ms(15)),
        ]
    );
    let all = account.all();
    assert_eq!((all.arrived, all.waits.count(), all.holds.count()), (6, 3, 2));
    assert_eq!((&all.refused, all.reneged), (&measures.refused, measures.reneged));
    assert_eq!(all.waits.mean_s(), Some(0.023 / 3.0));
    assert_eq!(account.classes()[&7].holds.mean_s(), Some(0.03));
    assert_eq!((account.unfinished(), account.length()), ((0, 1), measures.length));
    assert_eq!(account.waiting_mean(), measures.waiting_mean);
    assert_eq!((account.held_mean(), account.utilisation()), (measures.busy_mean, Some(1.0)));
    assert_eq!(all.waits.histogram().len(), 3);
    // Over half of the time, half of the slot-seconds.
    let half = GateAccount::new(&recording.spec).unwrap().between(at(0), at(22));
    let mut half = half;
    for step in &recording.steps {
        half.step(step.at, &step.event, &step.actions).unwrap();
    }
    assert_eq!((half.length(), half.held_mean()), (ms(22), 1.0));
    assert_eq!(half.fates(), [], "they were not asked for");
}

#[test]
fn slots_are_averaged_over_their_changes() {
    let slot = Slot { server: 0, index: 0 };
    let events =
        [(0, job(1, 0)), (10, Event::Resize { server: 0, slots: 3 }), (20, Event::Depart(slot))];
    let account = account(&record(GateSpec::fifo(1), &events));
    assert_eq!((account.slots_mean(), account.slots()), (2.0, 3));
    assert_eq!(account.utilisation(), Some(0.5));
}

/// A file that was made up may have a class for each job, and each class has distributions.
#[test]
fn classes_beyond_the_first_are_counted_together() {
    let events: Vec<(u64, Event)> =
        (0..100).map(|nth| (nth, job(nth + 1, 7 * nth as u32))).collect();
    let account = account(&record(GateSpec::fifo(100), &events));
    assert_eq!(account.classes().len(), 65);
    assert_eq!(account.classes()[&GateAccount::OTHERS].waits.count(), 36);
    assert_eq!(account.all().arrived, 100);
}

#[test]
fn a_recording_is_read_step_by_step_and_replayed_on_the_way() {
    let mut recording = story();
    (recording.classes, recording.quotas) = (vec!["web".into()], 2);
    let bytes = written(&recording);
    assert_eq!(Recording::read(&bytes[..], 100).unwrap(), recording);
    let mut reader = RecordingReader::new(&bytes[..]).unwrap();
    assert_eq!((reader.steps, reader.quotas, &*reader.classes), (11, 2, &["web".to_owned()][..]));
    let mut replay = Replay::new(&reader.spec).unwrap();
    while let Some(step) = reader.next_step().unwrap() {
        replay.step(&step);
    }
    assert!(!reader.is_cut_off() && reader.read() == 11 && replay.divergence().is_none());
    // Cut off in the fourth step.
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let cut = [&lines[..4].concat()[..], &lines[4][..9]].concat();
    let mut reader = RecordingReader::new(&cut[..]).unwrap();
    while reader.next_step().unwrap().is_some() {}
    assert!(reader.is_cut_off() && reader.read() == 3);
    // The second job starts at once, as nobody had recorded it.
    recording.steps[1].actions = vec![Action::Refuse { job: JobId(2), reason: Reason::QueueFull }];
    let divergence = recording.replay().unwrap_err();
    assert_eq!((divergence.step, divergence.replayed), (1, Vec::new()));
}

#[test]
fn a_gate_that_began_with_slots_held_is_measured_without_their_jobs() {
    // After a reload of a monitor nobody could read its recording: a slot departed that no job of the
    // recording held.
    let slot = |index| Slot { server: 0, index };
    let spec = GateSpec::fifo(2);
    let events = [
        (0, Event::Occupy(slot(0))),
        (0, Event::Occupy(slot(5))),
        (1, job(1, 0)),
        (2, job(2, 0)),
        (10, Event::Depart(slot(5))),
        (20, Event::Depart(slot(0))),
        (30, Event::Depart(slot(1))),
    ];
    let recording = record(spec, &events);
    let bytes = written(&recording);
    assert_eq!(Recording::read(&bytes[..], 100).unwrap(), recording);
    assert_eq!(recording.replay(), Ok(()));
    let measures = recording.measures().unwrap();
    let ms = Duration::from_millis;
    assert_eq!(measures.served, [JobTimes { class: 0, wait: ms(9), hold: ms(20) }]);
    assert_eq!(measures.unfinished, 1, "the second job has the slot that was held");
    // Held: slot 0 from 0 to 30 by two jobs, 5 from 0 to 10, 1 from 10 to 30.
    assert!((measures.busy_mean - 2.0).abs() < 1e-12, "{measures:?}");
}

#[test]
fn events_that_no_gate_takes_are_refused_by_line_and_not_replayed() {
    let slot = |server, index| Slot { server, index };
    for (event, told) in [
        (Event::Occupy(slot(0, 0)), "is occupied, but a job holds it"),
        (Event::Occupy(slot(1, 0)), "server 1 does not exist"),
        (Event::Occupy(slot(0, u32::MAX)), "at most 16777216 are possible"),
        (Event::Role { server: 1, role: Role::Primary }, "server 1 does not exist"),
        (Event::Role { server: 0, role: Role::Replica }, "one queue for all servers"),
        // Once a replay of it panicked.
        (Event::Report { server: 1, report: Report::default() }, "server 1 does not exist"),
    ] {
        let mut recording = story();
        recording.steps[1].event = event;
        recording.steps[1].actions.clear();
        let error = Recording::read(&written(&recording)[..], 100).unwrap_err().to_string();
        assert!(error.starts_with("line 3: ") && error.contains(told), "{event:?}: {error}");
    }
    let mut recording = story();
    recording.spec.roles = vec![Role::Primary; 3];
    let error = Recording::read(&written(&recording)[..], 100).unwrap_err().to_string();
    assert!(error.starts_with("line 1: "), "{error}");
}

/// A busy gate of two servers with everything that can happen to it, at random.
fn busy(seed: u64) -> Recording {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let spec = GateSpec {
        servers: vec![ServerSpec { slots: 2 }, ServerSpec { slots: 1 }],
        room: Some(5),
        wait_max: Some(Duration::from_millis(30)),
        ..GateSpec::fifo(1)
    };
    let mut gate = Gate::new(&spec).unwrap();
    let mut recording = Recording::new(spec, 10_000);
    let (mut now, mut held, mut last) = (0, Vec::<Slot>::new(), 0);
    for _ in 0..400 {
        now += rng.random_range(0..4);
        let event = match rng.random_range(0..12) {
            0..6 => {
                last += 1;
                job(last, rng.random_range(0..3))
            }
            6..10 if !held.is_empty() => {
                Event::Depart(held.swap_remove(rng.random_range(0..held.len())))
            }
            10 => Event::Renege(JobId(rng.random_range(0..=last))),
            11 => Event::Resize { server: 0, slots: rng.random_range(1..4) },
            _ => Event::Wake,
        };
        let mut actions = Vec::new();
        gate.handle(at(now), event, &mut actions);
        held.extend(actions.iter().filter_map(|action| match action {
            Action::Start { slot, .. } => Some(*slot),
            Action::Refuse { .. } => None,
        }));
        recording.push(at(now), event, &actions);
    }
    recording
}

#[test]
fn nobody_is_lost() {
    let mut fates = [0; 3];
    for seed in 0..20 {
        let recording = busy(seed);
        let measures = recording.measures().unwrap();
        let arrivals =
            recording.steps.iter().filter(|step| matches!(step.event, Event::Arrive(_))).count()
                as u64;
        let refused: u64 = measures.refused.values().sum();
        let accounted =
            measures.served.len() as u64 + refused + measures.reneged + measures.unfinished;
        assert_eq!(accounted, arrivals, "seed {seed}");
        let served = measures.served.len() as u64;
        fates = [fates[0] + served, fates[1] + refused, fates[2] + measures.reneged];
        // The slots held, integrated, are the holds, but for the few that never ended.
        let held_s: f64 = measures.served.iter().map(|job| job.hold.as_secs_f64()).sum();
        let integral = measures.busy_mean * measures.length.as_secs_f64();
        assert!(held_s <= integral + 1e-9 && integral < held_s * 1.2, "seed {seed}");
    }
    assert!(fates[0] > 1000 && fates[1] > 20 && fates[2] > 20, "{fates:?}");
}

fn written(recording: &Recording) -> Vec<u8> {
    let mut bytes = Vec::new();
    recording.write(&mut bytes).unwrap();
    bytes
}

#[test]
fn what_is_written_is_read_and_replays() {
    let recording = busy(1);
    let read = Recording::read(&written(&recording)[..], 10_000).unwrap();
    assert_eq!(read, recording);
    read.replay().unwrap();
}

#[test]
fn a_shortened_recording_says_so_and_replays() {
    let whole = story();
    let bytes = written(&whole);
    for end in 0..bytes.len() - 1 {
        match Recording::read(&bytes[..end], 100) {
            Ok(read) => {
                assert_eq!(read.steps, whole.steps[..read.steps.len()]);
                assert_eq!(read.truncated, read.steps.len() < whole.steps.len());
                read.replay().unwrap();
            }
            Err(ReadError::NoHeader) => assert!(!bytes[..end].contains(&b'\n')),
            Err(error) => panic!("cut at {end}: {error}"),
        }
    }
    let bounded = Recording::read(&bytes[..], 4).unwrap();
    assert_eq!((bounded.steps.len(), bounded.truncated), (4, true));
}

#[test]
fn errors_name_the_line_and_what_the_gate_cannot_have_done() {
    let text = String::from_utf8(written(&story())).unwrap();
    let refusal = |from: &str, to: &str| {
        assert!(text.contains(from), "{from} is not in {text}");
        Recording::read(text.replacen(from, to, 1).as_bytes(), 100).unwrap_err().to_string()
    };
    let unknown = refusal(r#""discipline":"#, r#""discpline":"#);
    assert!(unknown.contains("line 1") && unknown.contains("did you mean `discipline`?"));
    let event = refusal(r#""depart":"#, r#""dapart":"#);
    assert!(event.contains("line 7") && event.contains("did you mean `depart`?"), "{event}");
    let back = refusal(r#"{"at":2000000"#, r#"{"at":9000000"#);
    assert!(back.starts_with("line 4: the time is"), "{back}");
    let steps = refusal(r#""steps":11"#, r#""steps":10"#);
    assert!(steps.starts_with("line 12: the header announces 10 steps"), "{steps}");
    let slots = refusal(r#""slots":1"#, r#""slots":4000000000"#);
    assert!(slots.starts_with("line 1: the gate has 4000000000 slots"), "{slots}");
    let number = refusal(r#""arrive":{"id":3}"#, r#""arrive":{"id":2}"#);
    assert!(number.starts_with("line 4: JobId(2) arrives"), "{number}");
    let free =
        refusal(r#"{"depart":{"server":0,"index":0}"#, r#"{"depart":{"server":0,"index":1}"#);
    assert!(free.starts_with("line 7") && free.contains("nobody holds it"), "{free}");
    let run = Recording::read(&b"{\"sekisho-run\":1,\"header\":{}}\n"[..], 1).unwrap_err();
    assert!(matches!(run, ReadError::NotThis { wanted: "recording" }));
}

#[test]
fn measures_of_an_impossible_recording_name_the_step() {
    let mut recording = story();
    recording.steps.remove(0);
    let slot = Slot { server: 0, index: 0 };
    assert_eq!(recording.measures(), Err((4, BrokenProtocol::SlotFree(slot))));
    recording.spec.servers.clear();
    assert_eq!(recording.measures(), Err((0, BrokenProtocol::Servers(0))));
}

#[test]
fn damaged_recordings_never_panic_and_replay_if_they_are_read() {
    let seed = 20261120;
    println!("seed {seed}");
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let whole = written(&busy(3));
    let mut read = 0;
    for _ in 0..3_000 {
        let mut bytes = whole.clone();
        damage(&mut rng, &mut bytes);
        if let Ok(recording) = Recording::read(&bytes[..], 10_000) {
            read += 1;
            recording.measures().unwrap();
            // It may diverge: somebody changed it. It must not panic.
            let _ = recording.replay();
        }
    }
    assert!(read > 30, "only {read} were read");
}
