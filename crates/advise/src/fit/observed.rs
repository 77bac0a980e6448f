//! A closed run as far as a fit looks at it.

use measure::{Estimate, Interval, LoadShape, Measures, RunRecord};

use super::FitError;
use crate::DocumentEntry;
use crate::units::Bytes;

/// A closed run as far as a fit looks at it.
pub(super) struct Observed {
    pub(super) id: String,
    pub(super) clients: u32,
    /// Mean think time of its clients \[s\].
    pub(super) think_s: f64,
    pub(super) throughput: Estimate,
    /// All that was asked for, completed or not.
    pub(super) documents: Vec<DocumentEntry>,
    /// The documents that were completed.
    pub(super) classes: Vec<DocumentSeen>,
    /// By interval after the warm-up: its length \[s\], the bytes of the documents that were
    /// completed in it, and how many these were.
    pub(super) intervals: Vec<[f64; 3]>,
    pub(super) response: Estimate,
}

/// The documents of one class, as measured.
pub(super) struct DocumentSeen {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) share: f64,
    pub(super) completed: u64,
    pub(super) response: Estimate,
}

impl Observed {
    pub(super) fn new(run: &RunRecord, confidence: f64) -> Result<Observed, FitError> {
        let id = run.header.id.clone();
        let error = |why: &str| FitError::Run(id.clone(), why.into());
        let LoadShape::Closed { clients, think_s } = run.header.load else {
            return Err(error("it has an open load; a fit needs closed runs (`--clients N`)"));
        };
        let judgement = run.judge(confidence);
        if judgement.all.completed == 0 {
            return Err(error("nothing was completed in it"));
        }
        let failed = judgement.all.failed();
        if failed * 100 > judgement.all.completed {
            return Err(error("more than 1 % of its requests failed"));
        }
        let total = judgement.all.completed as f64;
        let class = |(spec, measures): (&measure::ClassSpec, &Measures)| {
            Some(DocumentSeen {
                name: spec.name.clone(),
                bytes: spec.bytes?,
                share: measures.completed as f64 / total,
                completed: measures.completed,
                response: measures.response?,
            })
        };
        let classes: Vec<_> =
            run.header.classes.iter().zip(&judgement.classes).filter_map(class).collect();
        let documents = run.header.classes.iter().filter_map(|class| {
            Some(DocumentEntry {
                name: class.name.clone(),
                size: Bytes(class.bytes?),
                weight: class.weight,
            })
        });
        let documents = documents.collect();
        let response =
            judgement.all.response.ok_or_else(|| error("nothing was completed in it"))?;
        Ok(Observed {
            id,
            clients,
            think_s,
            throughput: judgement.all.throughput,
            documents,
            classes,
            intervals: run.steady().iter().map(|interval| work_of(run, interval)).collect(),
            response,
        })
    }

    /// Time that a request cost that run beside its bytes \[s\], with its standard error: the busy
    /// time of all processors, less the work of the bytes, for each request. A huge document counts
    /// with its work, so that nothing depends on the chance that one fell into the run.
    pub(super) fn base(&self, per_byte: f64, cores: f64) -> (f64, f64) {
        let times = |[length, bytes, _]: &[f64; 3]| cores * length - per_byte * bytes;
        let times: Vec<f64> = self.intervals.iter().map(times).collect();
        let counts: Vec<f64> = self.intervals.iter().map(|[_, _, count]| *count).collect();
        let estimate = Estimate::from_ratio(&times, &counts, 0.95);
        (estimate.mean, standard_error(&estimate).abs())
    }

    /// True if documents of several known sizes were completed.
    pub(super) fn tells_sizes(&self) -> bool {
        self.classes.windows(2).any(|pair| pair[0].bytes != pair[1].bytes)
    }

    pub(super) fn means(&self) -> Vec<f64> {
        self.classes.iter().map(|class| class.response.mean).collect()
    }

    pub(super) fn response_mean(&self) -> f64 {
        self.response.mean
    }

    pub(super) fn bytes_mean(&self) -> f64 {
        self.classes.iter().map(|class| class.share * class.bytes as f64).sum()
    }
}

/// Length \[s\], bytes of completed documents, and how many, of an interval.
pub(super) fn work_of(run: &RunRecord, interval: &Interval) -> [f64; 3] {
    let classes = run.header.classes.iter().zip(&interval.classes);
    classes.fold([interval.length_s, 0.0, 0.0], |[length, bytes, count], (spec, counts)| {
        let completed = counts.completed as f64;
        [length, bytes + completed * spec.bytes.unwrap_or(0) as f64, count + completed]
    })
}

/// Two standard errors fill a 95 % interval, near enough for weights and draws.
pub(super) fn standard_error(estimate: &Estimate) -> f64 {
    if estimate.half_width.is_finite() { estimate.half_width / 2.0 } else { estimate.mean * 0.2 }
}
