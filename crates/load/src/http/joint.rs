//! Share of a probe of a search for the knee that several parts make together.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use measure::knee::Probe;
use measure::{Interval, RunRecord};

use super::plan::{Plan, PlanSpec};
use super::probe::ProbeError;
use super::run::record_from;
use crate::joint::{Base, Begin};
use crate::probe::{Layout, NoRate};

impl Base for PlanSpec {
    type Error = ProbeError;

    fn layout(&self, at: Probe, number: u64, length: Duration) -> Result<Layout, NoRate> {
        Layout::new(&self.load, self.seed, at, number, length)
    }

    fn press(
        &self,
        layout: Layout,
        begin: Begin<'_>,
        stop: &AtomicBool,
        sink: &mut dyn FnMut(&Interval),
    ) -> Result<RunRecord, ProbeError> {
        let Layout { load, until, warmup, interval, seed, naming } = layout;
        let spec = PlanSpec { load, until, warmup, interval, seed, ..self.clone() };
        Ok(record_from(&Plan::new(spec)?, naming, begin, stop, sink)?)
    }
}
