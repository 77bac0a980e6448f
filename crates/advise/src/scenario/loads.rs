//! Jobs of a class and their times: loads, sizes and distributions, as far as their numbers make
//! sense.

use sim::{Load, Sizes};
use workload::{Arrivals, Dist, Document, DocumentSet, Draw};

use super::behaviour;
use super::{
    ArrivalsName, ClassEntry, DistEntry, DistName, DocumentsEntry, ShapedEntry, SizesEntry,
    SizesName,
};
use crate::units::Span;

/// The shortest time that is not 0 \[s\]: virtual time counts nanoseconds.
pub(super) const TIME_MIN: f64 = 1e-9;
/// The longest mean time \[s\], 11 days: far beyond what a job takes, and short enough that virtual
/// time does not run out.
const TIME_MAX: f64 = 1e6;
/// The highest rate [1/s].
const RATE_MAX: f64 = 1e9;
/// The largest squared coefficient of variation; what varies more has no mean in any finite run.
const SCV_MAX: f64 = 1e4;
/// The largest mean size \[bytes\].
const SIZE_MAX: f64 = 1e15;
/// The largest population: each customer takes memory in each replication.
const POPULATION_MAX: u32 = 1_000_000;
/// The largest deck of documents.
const DECK_MAX: u64 = 10_000_000;

/// When the jobs of a class come.
pub(super) fn load(entry: &ClassEntry) -> Result<Load, String> {
    if let Some(load) = behaviour::special_load(entry)? {
        return Ok(load);
    }
    match (entry.population, entry.rate) {
        (Some(_), Some(_)) => {
            Err("it has both a population (closed load) and a rate (open load); keep one".into())
        }
        (None, None) => {
            Err("it has neither a population (closed load) nor a rate (open load); give one (or a \
                 `rate-curve`, or a `trace`)"
                .into())
        }
        (Some(population), None) => {
            if entry.arrivals.is_some() {
                return Err(
                    "`arrivals` is of an open load, but it has a population; remove it".into()
                );
            }
            if population == 0 {
                return Err("its population is 0: nobody asks for anything; give at least 1".into());
            }
            if population > POPULATION_MAX {
                let cause = "more than a million; give fewer, or a rate instead";
                return Err(format!("its population is {population}, {cause}"));
            }
            let think = match &entry.think {
                Some(entry) => dist(entry).map_err(|cause| format!("think: {cause}"))?,
                None => Dist::Constant(0.0),
            };
            Ok(Load::Closed { population, think })
        }
        (None, Some(rate)) => {
            if entry.think.is_some() {
                return Err("`think` is of a closed load, but it has a rate; remove it".into());
            }
            let rate = rate.0;
            if !(1.0 / TIME_MAX..=RATE_MAX).contains(&rate) {
                let is = measure::figures::rate(rate);
                return Err(format!("a rate is from 1e-6/s to 1e9/s; it is {is}"));
            }
            Ok(Load::Open(match entry.arrivals {
                None | Some(ArrivalsName::Poisson) => Arrivals::Poisson { rate },
                Some(ArrivalsName::Fixed) => Arrivals::Fixed { rate },
            }))
        }
    }
}

pub(super) fn sizes(entry: Option<&SizesEntry>) -> Result<Sizes, String> {
    match entry {
        None => Ok(Sizes::None),
        Some(SizesEntry::Named(SizesName::Webstone)) => {
            Ok(Sizes::Documents(DocumentSet::webstone(), Draw::Deck))
        }
        Some(SizesEntry::Documents(entry)) => documents(entry),
        Some(SizesEntry::Lognormal(entry)) => {
            let dist = Dist::Lognormal { mu: entry.lognormal_mu, sigma: entry.lognormal_sigma };
            let dist = dist.check().map_err(|cause| format!("sizes: {cause}"))?;
            if !(1e-3..=SIZE_MAX).contains(&dist.mean()) || dist.scv() > SCV_MAX {
                return Err(format!(
                    "sizes: a lognormal of mu {} and sigma {} has mean {:.2e} B and squared cv {:.2e}; mu \
                     and sigma are of the natural logarithm of the bytes",
                    entry.lognormal_mu,
                    entry.lognormal_sigma,
                    dist.mean(),
                    dist.scv()
                ));
            }
            Ok(Sizes::Drawn(dist))
        }
    }
}

fn documents(entry: &DocumentsEntry) -> Result<Sizes, String> {
    let documents = entry.documents.iter().map(|document| Document {
        name: document.name.clone(),
        bytes: document.size.0,
        weight: document.weight,
    });
    let set = DocumentSet::new(documents.collect()).map_err(|cause| format!("sizes: {cause}"))?;
    if set.mean_of(|document| document.bytes as f64) > SIZE_MAX {
        return Err("sizes: the documents are larger than 1e15 bytes on average".into());
    }
    let draw = entry.draw.unwrap_or(Draw::Deck);
    if draw == Draw::Deck && set.total_weight() > DECK_MAX {
        return Err(format!(
            "sizes: a deck has a card for each unit of weight, {} in all; use smaller weights, or \
             draw = \"random\"",
            set.total_weight()
        ));
    }
    Ok(Sizes::Documents(set, draw))
}

pub(super) fn dist(entry: &DistEntry) -> Result<Dist, String> {
    match entry {
        DistEntry::Constant(Span(value)) => {
            check_time("it", *value)?;
            Ok(Dist::Constant(*value))
        }
        DistEntry::Shaped(shaped) => {
            check_time("its mean", shaped.mean.0)?;
            shape(shaped)
        }
    }
}

/// A distribution by name and squared cv, as far as these agree.
fn shape(entry: &ShapedEntry) -> Result<Dist, String> {
    let mean = entry.mean.0;
    let scv = match entry.scv {
        Some(scv) if !(0.0..=SCV_MAX).contains(&scv) => {
            return Err(format!("a squared cv is from 0 to {SCV_MAX}; it is {scv}"));
        }
        scv => scv,
    };
    let only = |name: &str, wanted: f64| match scv {
        Some(scv) if scv != wanted => {
            Err(format!("{name} has the squared cv {wanted}, not {scv}; remove `scv` or the name"))
        }
        _ => Ok(()),
    };
    let needed = |name: &str| scv.ok_or_else(|| format!("{name} needs `scv`, its squared cv"));
    match entry.dist {
        Some(DistName::Constant) => {
            only("a constant", 0.0)?;
            Ok(Dist::Constant(mean))
        }
        Some(DistName::Exponential) => {
            only("an exponential distribution", 1.0)?;
            Ok(Dist::Exponential { mean })
        }
        Some(DistName::Erlang) => erlang(mean, needed("an erlang distribution")?),
        Some(DistName::Hyperexponential) => {
            let scv = needed("a hyperexponential distribution")?;
            if scv <= 1.0 {
                return Err(format!(
                    "a hyperexponential distribution has a squared cv above 1, not {scv}; remove \
                     the name, and the squared cv chooses one"
                ));
            }
            Ok(Dist::Hyperexponential { mean, scv })
        }
        Some(DistName::Lognormal) => {
            let scv = needed("a lognormal distribution")?;
            Dist::lognormal_from_mean_scv(mean, scv).map_err(|cause| cause.to_string())
        }
        None => match scv {
            None => Err("a mean alone is no distribution; give `dist` or `scv`".into()),
            Some(scv) if scv > 0.0 && scv < 1.0 => erlang(mean, scv),
            Some(scv) => Dist::from_mean_scv(mean, scv).map_err(|cause| cause.to_string()),
        },
    }
}

/// The Erlang distribution with this squared cv. Only 1, 1/2, 1/3, ... exist: a neighbour would
/// silently be another model.
fn erlang(mean: f64, scv: f64) -> Result<Dist, String> {
    let stages = (1.0 / scv).round();
    if !(1.0..=1e6).contains(&stages) || (stages * scv - 1.0).abs() > 0.01 {
        let below = (1.0 / scv).ceil().max(1.0);
        let way_out = match below {
            1.0 => "a squared cv above 1 is a `hyperexponential` or `lognormal`".to_owned(),
            n => format!("use {:.4} or {:.4}, or dist = \"lognormal\"", 1.0 / n, 1.0 / (n - 1.0)),
        };
        return Err(format!("no erlang distribution has the squared cv {scv}; {way_out}"));
    }
    if stages == 1.0 {
        return Ok(Dist::Exponential { mean });
    }
    Ok(Dist::Erlang { mean, stages: stages as u32 })
}

/// A mean time \[s\] of a thing that may take no time.
pub(super) fn check_time(what: &str, seconds: f64) -> Result<(), String> {
    if seconds == 0.0 || (TIME_MIN..=TIME_MAX).contains(&seconds) {
        return Ok(());
    }
    Err(format!("{what} is {seconds} s; a time is 0, or from 1 ns to 1e6 s (11 days)"))
}

/// A time \[s\] that has no meaning at 0.
pub(super) fn above_zero(key: &str, seconds: f64) -> Result<(), String> {
    check_time(&format!("`{key}`"), seconds)?;
    if seconds == 0.0 { Err(format!("`{key}` must be above 0")) } else { Ok(()) }
}
