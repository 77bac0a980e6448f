//! Arrivals that were recorded, or made elsewhere.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use gate::Job;

/// A list of jobs in the order of their arrival, shared by all that replay it.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    jobs: Arc<[TraceJob]>,
    period: Option<f64>,
    /// As many as there are jobs, or none.
    recorded: Arc<[RecordedJob]>,
}

/// A job of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TraceJob {
    /// When it arrives \[s\], 0 or above.
    pub at: f64,
    /// How large it is \[bytes\].
    pub size: Option<f64>,
    /// How much service it needs where the route says so \[s\].
    pub demand: Option<f64>,
}

/// A job that was recorded at a gate: all that the gate saw of it, to the nanosecond.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecordedJob {
    /// The job as it came: its arrival is [`Job::since`], and its name is given anew.
    pub job: Job,
    /// For how long it holds its slot.
    pub hold: Duration,
    /// After how long its client gives up if it still waits then; `None` if it never does.
    pub patience: Option<Duration>,
    /// Places of its arrival, its departure and the end of its patience among all that happens at the
    /// same moment.
    pub order: RecordedOrder,
}

/// Order of what happens to a recorded job, among what happens at the same moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedOrder {
    /// Of its arrival.
    pub arrival: u32,
    /// Of its departure.
    pub departure: u32,
    /// Of the end of its patience.
    pub patience: u32,
}

/// Why a list of jobs is no trace.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceError(String);

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TraceError {}

impl Trace {
    /// A trace; with a period \[s\] it begins anew after it.
    ///
    /// # Errors
    /// If it is empty, times decrease, a number is negative or not finite, or the period is not above 0
    /// or ends before the last job.
    pub fn new(jobs: Vec<TraceJob>, period: Option<f64>) -> Result<Trace, TraceError> {
        let error = |text: String| Err(TraceError(text));
        let Some(last) = jobs.last() else {
            return error("the trace is empty: nobody asks for anything".into());
        };
        let fits = |value: f64| value.is_finite() && value >= 0.0;
        for (at, job) in jobs.iter().enumerate() {
            let numbers = [Some(job.at), job.size, job.demand];
            if let Some(bad) = numbers.into_iter().flatten().find(|value| !fits(*value)) {
                return error(format!(
                    "job {} has the number {bad}, which is not 0 or above",
                    at + 1
                ));
            }
        }
        if let Some(at) = jobs.windows(2).position(|two| two[0].at > two[1].at) {
            return error(format!(
                "job {} arrives before the job in front of it: sort the trace by time",
                at + 2
            ));
        }
        if let Some(period) = period
            && !(period.is_finite() && period > 0.0 && period >= last.at)
        {
            return error(format!(
                "its period must be above 0 s and not end before its last job, at {} s, but it is \
                 {period} s",
                last.at
            ));
        }
        Ok(Trace { jobs: jobs.into(), period, recorded: Arc::new([]) })
    }

    /// A trace of jobs that were recorded at a gate. Their demands are their holds.
    ///
    /// # Errors
    /// If it is empty, or times decrease.
    pub fn recorded(recorded: Vec<RecordedJob>) -> Result<Trace, TraceError> {
        let jobs = recorded.iter().map(|one| TraceJob {
            at: one.job.since.as_secs_f64(),
            size: None,
            demand: Some(one.hold.as_secs_f64()),
        });
        let trace = Trace::new(jobs.collect(), None)?;
        Ok(Trace { recorded: recorded.into(), ..trace })
    }

    /// Its jobs as a gate saw them, if they were recorded at one; else of none.
    pub fn recorded_jobs(&self) -> &[RecordedJob] {
        &self.recorded
    }

    /// The jobs.
    pub fn jobs(&self) -> &[TraceJob] {
        &self.jobs
    }

    /// After which time it begins anew \[s\].
    pub fn period(&self) -> Option<f64> {
        self.period
    }

    /// The job number `n`, counted over all rounds, and when it arrives \[s\]; none after the end.
    pub fn job(&self, n: u64) -> Option<(f64, TraceJob)> {
        let len = self.jobs.len() as u64;
        let (round, at) = (n / len, (n % len) as usize);
        let offset = match self.period {
            Some(period) => round as f64 * period,
            None if round == 0 => 0.0,
            None => return None,
        };
        let job = self.jobs[at];
        Some((job.at + offset, job))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(at: f64) -> TraceJob {
        TraceJob { at, ..TraceJob::default() }
    }

    #[test]
    fn a_trace_ends_or_begins_anew() {
        let jobs = vec![job(0.5), job(1.0)];
        let once = Trace::new(jobs.clone(), None).unwrap();
        assert_eq!(once.job(1).unwrap().0, 1.0);
        assert_eq!(once.job(2), None);
        let again = Trace::new(jobs, Some(2.0)).unwrap();
        assert_eq!(again.job(5).unwrap().0, 5.0);
    }

    #[test]
    fn lists_that_are_no_trace_are_refused() {
        let new = |jobs: Vec<TraceJob>, period| Trace::new(jobs, period).unwrap_err().to_string();
        assert!(new(vec![], None).contains("empty"));
        assert!(new(vec![job(2.0), job(1.0)], None).contains("job 2 arrives before"));
        assert!(new(vec![job(f64::NAN)], None).contains("job 1"));
        let negative = TraceJob { demand: Some(-1.0), ..job(0.0) };
        assert!(new(vec![job(0.0), negative], None).contains("job 2"));
        assert!(new(vec![job(3.0)], Some(2.0)).contains("period"));
        assert!(new(vec![job(0.0)], Some(0.0)).contains("period"));
    }
}
