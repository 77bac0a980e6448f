//! The fair share of a processor, moment by moment, against examples worked out by hand.
//!
//! A recording of the gate before the processor has the moments of all departures.

use gate::{Event, GateSpec};
use sim::{Class, GateNode, Network, Options, Station, StationKind, Step};
use workload::Dist;

use crate::support::*;

/// The moments of departure of each slot's jobs, the first ones [s].
fn departures(classes: &[(f64, f64)], quantum_s: f64, slots: u32, until: f64) -> Vec<(u32, f64)> {
    by_ticks(classes, (quantum_s, 0.0), slots, until)
}

/// The same where turns end at ticks.
fn by_ticks(
    classes: &[(f64, f64)],
    (quantum_s, tick_s): (f64, f64),
    slots: u32,
    until: f64,
) -> Vec<(u32, f64)> {
    let mut network = Network::default();
    let kind = StationKind::FairShare { quantum_s, tick_s };
    let station = network.add_station(Station::new("cpu", kind));
    let gate = network.add_gate(GateNode::new("workers", GateSpec::fifo(slots)));
    for (think, demand) in classes {
        let inside = vec![Step::Visit { station, demand: constant(*demand) }];
        let load = closed(1, Dist::Constant(*think));
        network.add_class(Class::new("worker", load, vec![Step::Hold { gate, inside }]));
    }
    let options = Options { record: Some((gate, 10_000)), ..options(61, 4_000) };
    let recording = sim::run(&network, &options).unwrap().recording.unwrap();
    let departures = recording.steps.iter().filter_map(|step| match step.event {
        Event::Depart(slot) => Some((slot.index, step.at.as_secs_f64())),
        _ => None,
    });
    departures.take_while(|(_, at)| *at <= until).collect()
}

#[test]
fn processor_time_survives_from_job_to_job() {
    // Three workers that always have work: A jobs of 1 s, B and C of 0.4 s, quantum 1 s; the least
    // processor time first, then who waits longest. A runs to 1 (has 1), B to 1.4 and C to 1.8 (0.4
    // each); now B and C come before A, who has had its share: B to 2.2, C to 2.6 (0.8 each), B to 3
    // and C to 3.4 (1.2 each), and only now A again, to 4.4 (2). B to 4.8, C to 5.2, B to 5.6, C to 6 (2
    // each); A has waited longest, to 7. If shares began anew with each job, A would run at 1.8.
    let found = departures(&[(0.0, 1.0), (0.0, 0.4), (0.0, 0.4)], 1.0, 3, 7.0);
    let expected = [
        (0, 1.0),
        (1, 1.4),
        (2, 1.8),
        (1, 2.2),
        (2, 2.6),
        (1, 3.0),
        (2, 3.4),
        (0, 4.4),
        (1, 4.8),
        (2, 5.2),
        (1, 5.6),
        (2, 6.0),
        (0, 7.0),
    ];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for ((slot, at), (expected_slot, expected_at)) in found.iter().zip(expected) {
        assert!(*slot == expected_slot && (at - expected_at).abs() < 1e-8, "{found:?}");
    }
}

/// A worker that comes to a processor where another has long been alone must not run until it has
/// caught up. It once did: the floor stood where the other's slice had begun.
#[test]
fn idling_earns_no_credit() {
    // L has jobs of 10 s, S thinks for 4 s and needs 2 s; quantum 1 s. S comes at 4 and takes over at
    // once, since L's slice is long over: S to 5, L to 6, S to 7 and done. L alone to 11, when S comes: S
    // to 12, L to 13 and done (it comes again at once), S to 14 and done.
    let found = departures(&[(0.0, 10.0), (4.0, 2.0)], 1.0, 2, 14.0);
    assert_eq!(found.len(), 3, "{found:?}");
    for ((_, at), expected) in found.iter().zip([7.0, 13.0, 14.0]) {
        assert!((at - expected).abs() < 1e-8, "{found:?}");
    }
}

/// Nor by idling while nobody wants the processor: the floor once forgot who had run last.
#[test]
fn a_pause_of_all_earns_no_credit() {
    // A: 1 s of thought, 3 s of work. B: 5 s of thought, 2 s of work. Quantum 1 s. A runs from 1 to 4,
    // alone (has 3). At 5 both come, B first (its thought began earlier). If it had credit for A's 3 s, B
    // would run to 7 without a break. With none, they take turns: B to 6, A to 7, B to 8 and done, A to
    // 10 and done.
    let found = departures(&[(1.0, 3.0), (5.0, 2.0)], 1.0, 2, 10.0);
    let at: Vec<f64> = found.iter().map(|(_, at)| *at).collect();
    assert_eq!(at.len(), 3, "{found:?}");
    for (at, expected) in at.iter().zip([4.0, 8.0, 10.0]) {
        assert!((at - expected).abs() < 1e-8, "{found:?}");
    }
}

#[test]
fn turns_end_at_the_first_tick_behind_their_quantum() {
    // Ticks each second, quantum 0.6 s, jobs of 1.5 s (A) and of 0.7 s (B). A has had its quantum at 0.6
    // and runs on to the tick at 1; B to 1.7, where its job ends; A, which waits, to 2.2; B to 2.9. A's
    // turn is then over at 3.5 and ends with the tick at 4; B to 4.7; A has 0.4 s left, to 5.1.
    let found = by_ticks(&[(0.0, 1.5), (0.0, 0.7)], (0.6, 1.0), 2, 5.1 + 1e-9);
    let expected = [(1, 1.7), (0, 2.2), (1, 2.9), (1, 4.7), (0, 5.1)];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for ((slot, at), (expected_slot, expected_at)) in found.iter().zip(expected) {
        assert!(*slot == expected_slot && (at - expected_at).abs() < 1e-8, "{found:?}");
    }
}
