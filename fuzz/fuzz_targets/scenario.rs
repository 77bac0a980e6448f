//! A scenario file ends in a network and perhaps a formula's answer, or in errors that say
//! something; never in a panic.
//!
//! Input: the file.
#![no_main]

use advise::{Scenario, formula};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let scenario = match toml::from_str::<Scenario>(text) {
        Ok(scenario) => scenario,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let network = match scenario.network() {
        Ok(network) => network,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert!(!network.classes.is_empty(), "a network that nobody uses");
    if let Ok(answer) = formula(&scenario) {
        assert!(answer.throughput > 0.0 && answer.throughput.is_finite(), "{answer:?}");
        assert!(answer.response >= 0.0 && answer.response.is_finite(), "{answer:?}");
    }
});
