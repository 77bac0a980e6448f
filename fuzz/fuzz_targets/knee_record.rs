//! A record of a search for a knee that is read is written back equal, its ends are those of its probes, and the runs at
//! them can be judged.
//!
//! Input: the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use measure::knee::{Knee, Outcome};
use measure::{RunRecord, read_knee, write_knee};

fuzz_target!(|bytes: &[u8]| {
    let Ok(record) = read_knee(bytes) else { return };
    let (believed, (low, high)) = (record.believed(), record.knee.ends());
    let seen = |rate: f64, outcome: Outcome| {
        record.probes.iter().any(|one| one.probe.rate == rate && one.outcome == outcome)
    };
    for (outcome, ends) in
        [(Outcome::Holds, [low, believed.low]), (Outcome::Fails, [high, believed.high])]
    {
        for end in ends.into_iter().flatten() {
            assert!(end.is_finite() && end > 0.0 && seen(end, outcome), "{end}, {outcome:?}");
        }
    }
    if let (Some(low), Some(high)) = (believed.low, believed.high) {
        assert!(low < high, "{low} holds and {high} fails");
    }
    if !matches!(record.knee, Knee::Inconclusive { .. }) {
        assert_eq!(
            (low, high),
            (believed.low.filter(|_| low.is_some()), believed.high.filter(|_| high.is_some()))
        );
    }
    for end in &record.ends {
        let run = RunRecord::from(end.clone());
        let judgement = run.judge(0.95);
        assert_eq!(judgement.classes.len(), run.header.classes.len());
    }
    let mut file = Vec::new();
    write_knee(&mut file, &record).expect("what is read can be written");
    let again = read_knee(&file[..]).expect("what is written is read");
    assert_eq!(again, record);
});
