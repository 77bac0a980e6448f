//! A run record that is read can be judged and written, and reads back the same.
//!
//! Input: the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use measure::{RunRecord, RunWriter, read_run};

fuzz_target!(|bytes: &[u8]| {
    let Ok(record) = read_run(bytes) else { return };
    for interval in &record.intervals {
        let numbers = [interval.start_s, interval.length_s, interval.in_flight_mean];
        assert!(numbers.iter().all(|number| number.is_finite() && *number >= 0.0), "{interval:?}");
        assert_eq!(interval.classes.len(), record.header.classes.len());
    }
    let judgement = record.judge(0.95);
    assert_eq!(judgement.classes.len(), record.header.classes.len());
    assert_eq!(judgement.is_valid(), judgement.faults.is_empty());
    let responses = judgement.all.quantiles.iter().filter_map(|quantile| quantile.response);
    for response in responses.chain(judgement.all.response) {
        assert!(response.mean >= 0.0 && response.half_width >= 0.0, "{response:?}");
    }
    let again = read_run(&written(&record)[..]).expect("what is written is read");
    assert_eq!(again, record);
});

fn written(record: &RunRecord) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = RunWriter::new(&mut file, &record.header).expect("a header that was read");
    for interval in &record.intervals {
        writer.interval(interval).expect("an interval that was read");
    }
    if let Some(summary) = &record.summary {
        writer.finish(summary).expect("a summary that was read");
    }
    file
}
