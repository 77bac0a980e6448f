//! A recording that is read can be measured, replayed and written, and reads back the same.
//!
//! Input: the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use measure::Recording;

const STEPS_MAX: usize = 1000;
/// A gate sets memory aside for each slot; larger ones are sound, but slow to build.
const SLOTS_MAX: u64 = 1 << 16;

fuzz_target!(|bytes: &[u8]| {
    let Ok(recording) = Recording::read(bytes, STEPS_MAX) else { return };
    assert!(recording.steps.len() <= STEPS_MAX);
    let measures = recording.measures().expect("what is read keeps the protocol");
    assert!(measures.waiting_mean >= 0.0 && measures.busy_mean >= 0.0, "{measures:?}");
    assert_eq!(measures.waits(None).len(), measures.served.len() as u64);
    let slots: u64 = recording.spec.servers.iter().map(|server| u64::from(server.slots)).sum();
    if slots <= SLOTS_MAX
        && let Err(divergence) = recording.replay()
    {
        assert!(divergence.step < recording.steps.len(), "{divergence}");
    }
    let mut file = Vec::new();
    recording.write(&mut file).expect("a Vec takes everything");
    let again = Recording::read(&file[..], STEPS_MAX).expect("what is written is read");
    assert_eq!(again, recording);
});
