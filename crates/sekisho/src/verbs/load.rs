//! Load of a measurement: clients that wait for their answers, arrivals at a rate, a rate that changes, or
//! the gaps of a log.

use std::str::FromStr;
use std::time::Duration;

use advise::{Rate, Span};
use clap::{Args as ClapArgs, ValueEnum};
use cli::Failure;
use expectations::Expectation;
use load::http::{Load, Order, PlanSpec, Schedule};
use measure::{ArrivalSpacing, Until};
use workload::{Arrivals, Dist};

use super::parts::PartArgs;

#[derive(ClapArgs)]
#[command(next_help_heading = "Load")]
pub(crate) struct LoadArgs {
    /// Closed load: numbers of clients, one run each
    #[arg(long, value_delimiter = ',', value_name = "N,...", conflicts_with_all = ["rate", "knee"])]
    clients: Vec<u32>,
    /// Mean think time of closed clients, exponential
    #[arg(long, value_name = "TIME", requires = "clients")]
    think: Option<Span>,
    /// Open load: arrivals per second
    #[arg(long, value_name = "RATE", conflicts_with = "knee")]
    rate: Option<Rate>,
    /// Open load that changes: each rate for its time, such as 10s:100/s,10s:300/s
    #[arg(long, value_delimiter = ',', value_name = "TIME:RATE,...",
          conflicts_with_all = ["clients", "rate", "knee", "duration", "requests"])]
    steps: Vec<Step>,
    /// Open load that goes straight from one rate to another within `--duration`
    #[arg(long, value_name = "RATE:RATE",
          conflicts_with_all = ["clients", "rate", "knee", "steps", "requests"])]
    ramp: Option<Ramp>,
    /// Another rate for a while in the middle of `--duration`, `--rate` before and after it
    #[arg(long, value_name = "TIME:RATE", requires = "rate", conflicts_with = "requests")]
    blip: Option<Step>,
    /// How open arrivals are spaced
    #[arg(long, value_enum, default_value = "poisson")]
    arrivals: Spacing,
    /// Most requests in flight under open load; one more counts as failed
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    in_flight: u32,
    /// Find the highest open load that holds a limit on a quantile
    #[arg(long, value_name = "LIMIT")]
    knee: Option<Expectation>,
    /// The longest that a search for the knee may take
    #[arg(long, value_name = "TIME", default_value = "3min", requires = "knee")]
    budget: Span,
    /// How long each run is measured, warm-up not counted: 10 s; a log's length under its own gaps; a probe
    /// of the knee as long as the limit needs
    #[arg(long, value_name = "TIME", conflicts_with = "requests")]
    duration: Option<Span>,
    /// End each run after so many requests instead
    #[arg(long, value_name = "N")]
    requests: Option<u64>,
    /// Length at the start of each run that is not used: 1 s, or none under a log's own gaps
    #[arg(long, value_name = "TIME")]
    warmup: Option<Span>,
    #[command(flatten)]
    pub(super) parts: PartArgs,
}

/// Run that is asked for, whatever is pressed.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) load: Load,
    pub(crate) until: Until,
    pub(crate) warmup: Duration,
    /// The length of the record's intervals, where it is not the usual one.
    pub(crate) interval: Option<Duration>,
}

impl Run {
    /// The same against an HTTP server.
    pub(crate) fn on(self, spec: PlanSpec) -> PlanSpec {
        let Run { load, until, warmup, interval } = self;
        PlanSpec { load, until, warmup, interval: interval.unwrap_or(spec.interval), ..spec }
    }
}

/// The length of a run, as far as it is known beforehand \[s\].
pub(crate) fn length_s(until: Until, load: &Load, warmup: Duration) -> f64 {
    match (until, load) {
        (Until::Seconds(seconds), _) => seconds + warmup.as_secs_f64(),
        (Until::Requests(_), Load::Varying { schedule, .. }) => schedule.length_s(),
        (Until::Requests(_), _) => 0.0,
    }
}

/// Way in which classes are drawn by their weights.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum DrawName {
    /// From a shuffled deck with the exact mix
    Deck,
    /// Each independently
    Random,
}

impl DrawName {
    /// Order in which the classes of a run come.
    pub(super) fn order(self) -> Order {
        match self {
            DrawName::Deck => Order::Deck,
            DrawName::Random => Order::Random,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Spacing {
    /// Exponential gaps
    Poisson,
    /// Equal gaps
    Fixed,
}

/// A rate for a while.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    span: f64,
    rate: f64,
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Step, String> {
        let wanted = || format!("`{text}` is not a time and a rate, such as 10s:300/s");
        let (span, rate) = text.split_once(':').ok_or_else(wanted)?;
        let Span(span) = span.parse().map_err(|error| format!("{}: {error}", wanted()))?;
        let Rate(rate) = rate.parse().map_err(|error| format!("{}: {error}", wanted()))?;
        if span <= 0.0 {
            return Err(format!("`{text}` takes no time: write one such as 10s:300/s"));
        }
        Ok(Step { span, rate })
    }
}

/// From one rate to another.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ramp {
    from: f64,
    to: f64,
}

impl FromStr for Ramp {
    type Err = String;

    fn from_str(text: &str) -> Result<Ramp, String> {
        let wanted = || format!("`{text}` is not two rates, such as 0/s:500/s");
        let (from, to) = text.split_once(':').ok_or_else(wanted)?;
        let Rate(from) = from.parse().map_err(|error| format!("{}: {error}", wanted()))?;
        let Rate(to) = to.parse().map_err(|error| format!("{}: {error}", wanted()))?;
        Ok(Ramp { from, to })
    }
}

/// Length of a run where nothing says otherwise, and of its warm-up \[s\].
const LENGTH_S: f64 = 10.0;
const WARMUP_S: f64 = 1.0;
/// Number of intervals of a shorter run, as far as they are not shorter than this \[s\]: blocks that tell
/// what neighbours have in common.
const INTERVALS: f64 = 40.0;
const INTERVAL_MIN_S: f64 = 0.025;

impl LoadArgs {
    /// The limit whose knee is looked for.
    pub(crate) fn knee(&self) -> Option<&Expectation> {
        self.knee.as_ref()
    }

    /// Length of a run's measurement \[s\].
    fn length_s(&self) -> f64 {
        self.length_given_s().unwrap_or(LENGTH_S)
    }

    /// The same, if it was asked for \[s\].
    pub(crate) fn length_given_s(&self) -> Option<f64> {
        self.duration.map(|Span(length)| length)
    }

    /// Longest time of a search for the knee \[s\].
    pub(crate) fn budget_s(&self) -> f64 {
        self.budget.0
    }

    /// Length of a run's warm-up \[s\], where no log says otherwise.
    fn warmup_s(&self) -> f64 {
        self.warmup.map_or(WARMUP_S, |Span(length)| length)
    }

    /// The end of a steady run.
    fn until(&self) -> Until {
        match self.requests {
            Some(requests) => Until::Requests(requests),
            None => Until::Seconds(self.length_s()),
        }
    }

    /// An open load of this rate, spaced as asked for.
    pub(crate) fn open(&self, rate: f64) -> Load {
        let arrivals = match self.arrivals {
            Spacing::Poisson => Arrivals::Poisson { rate },
            Spacing::Fixed => Arrivals::Fixed { rate },
        };
        Load::Open { arrivals, in_flight_max: self.in_flight }
    }

    /// A run at this load, of the usual length and warm-up.
    pub(crate) fn at(&self, load: Load) -> Run {
        let until = self.until();
        let interval = match until {
            Until::Seconds(length) if length < LENGTH_S => {
                Some(Duration::from_secs_f64((length / INTERVALS).max(INTERVAL_MIN_S)))
            }
            _ => None,
        };
        Run { load, until, warmup: Duration::from_secs_f64(self.warmup_s()), interval }
    }

    /// The runs that are asked for, where there may be a log with its own gaps.
    ///
    /// # Errors
    /// If no load is, or a schedule is none.
    pub(crate) fn runs(&self, log: Option<&Schedule>) -> Result<Vec<Run>, Failure> {
        if let Some(schedule) = self.schedule()? {
            let until = Until::Seconds(schedule.length_s());
            let load = Load::Varying { schedule, in_flight_max: self.in_flight };
            return Ok(vec![Run { until, ..self.at(load) }]);
        }
        if let Some(Rate(rate)) = self.rate {
            return Ok(vec![self.at(self.open(rate))]);
        }
        if !self.clients.is_empty() {
            let think = match self.think {
                Some(Span(mean)) if mean > 0.0 => Dist::Exponential { mean },
                _ => Dist::Constant(0.0),
            };
            let closed = |&clients: &u32| self.at(Load::Closed { clients, think });
            return Ok(self.clients.iter().map(closed).collect());
        }
        if let Some(schedule) = log {
            return Ok(vec![self.own_gaps(schedule)]);
        }
        Err(Failure::Usage(
            "say what load: `--clients 1,8,32` (closed), `--rate 200/s` (open), `--steps`, `--ramp`, \
             or `--knee 'p99<50ms'`"
                .into(),
        ))
    }

    /// A log with its own gaps: to its last answer, where nothing says otherwise.
    fn own_gaps(&self, schedule: &Schedule) -> Run {
        let until = match (self.duration, self.requests) {
            (Some(Span(length)), _) => Until::Seconds(length),
            (None, Some(requests)) => Until::Requests(requests),
            (None, None) => Until::Requests(schedule.arrivals() as u64),
        };
        let warmup = self.warmup.map_or(0.0, |Span(length)| length);
        Run {
            load: Load::Varying { schedule: schedule.clone(), in_flight_max: self.in_flight },
            until,
            warmup: Duration::from_secs_f64(warmup),
            interval: None,
        }
    }

    /// A rate that changes, where one is asked for.
    fn schedule(&self) -> Result<Option<Schedule>, Failure> {
        let spacing = match self.arrivals {
            Spacing::Poisson => ArrivalSpacing::Poisson,
            Spacing::Fixed => ArrivalSpacing::Fixed,
        };
        let length = self.length_s();
        let (flag, made) = if !self.steps.is_empty() {
            let steps: Vec<(f64, f64)> =
                self.steps.iter().map(|step| (step.rate, step.span)).collect();
            ("steps", Schedule::steps(&steps, spacing))
        } else if let Some(Ramp { from, to }) = self.ramp {
            ("ramp", Schedule::ramp(from, to, length, spacing))
        } else if let (Some(Step { span, rate }), Some(Rate(base))) = (self.blip, self.rate) {
            if span >= length {
                return Err(Failure::Usage(format!(
                    "`--blip` lasts {}, and the whole run {}: give a longer `--duration`",
                    Span(span),
                    Span(length)
                )));
            }
            let from = (length - span) / 2.0;
            ("blip", Schedule::blip([base, rate], [from, from + span, length], spacing))
        } else {
            return Ok(None);
        };
        made.map(Some).map_err(|error| Failure::Usage(format!("`--{flag}`: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_ramps_are_read_with_their_units() {
        assert_eq!("10s:300/s".parse(), Ok(Step { span: 10.0, rate: 300.0 }));
        assert_eq!("0/s:500/s".parse(), Ok(Ramp { from: 0.0, to: 500.0 }));
        let wrong = |text: &str| text.parse::<Step>().unwrap_err();
        assert!(wrong("300/s:10s").contains("such as 10s:300/s"));
        assert!(wrong("10s").contains("such as 10s:300/s"));
        assert!(wrong("10:300/s").contains("a time such as \"250ms\""));
        assert!(wrong("0s:300/s").contains("takes no time"));
        assert!("500/s".parse::<Ramp>().unwrap_err().contains("two rates"));
    }
}
