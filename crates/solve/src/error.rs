//! Refusals of what cannot be asked of a formula, and the checks of parameters that every model
//! shares.

/// The smallest and largest time \[s\] or rate [1/s] that a formula accepts: far outside of what
/// can be measured, and narrow enough that no product of three of them leaves the range of a float.
const MAGNITUDE: std::ops::RangeInclusive<f64> = 1e-100..=1e100;

/// Why a question has no answer: the parameter, its value, the cause, and the way out.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SolveError {
    /// A parameter that must be positive is zero, negative, not a number, or beyond all measure.
    #[error(
        "{name} = {value} {unit} is not a positive number (1e-100 to 1e100); check its sign and \
         its unit"
    )]
    NotPositive {
        /// The parameter, with its letter.
        name: &'static str,
        /// Its value.
        value: f64,
        /// The unit of the value.
        unit: &'static str,
    },
    /// A parameter that may be zero is negative, not a number, or beyond all measure.
    #[error(
        "{name} = {value} {unit} is neither zero nor a positive number (1e-100 to 1e100); check \
         its sign and its unit"
    )]
    Negative {
        /// The parameter, with its letter.
        name: &'static str,
        /// Its value.
        value: f64,
        /// The unit of the value.
        unit: &'static str,
    },
    /// A number of clients, slots, servers or stations is zero.
    #[error("the number of {name} is 0; give at least 1")]
    Zero {
        /// The things of which there must be at least one.
        name: &'static str,
    },
    /// A quantile is not in [0, 1).
    #[error("quantile {value} is not from 0 up to but without 1; the 99th percentile is 0.99")]
    Quantile {
        /// Its value.
        value: f64,
    },
    /// A share is not in [0, 1], or not where it has a meaning.
    #[error("{name} = {value} is not a share from 0 to 1 within its range; 25 % is 0.25")]
    Share {
        /// The parameter, with its letter.
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// A quantile is higher than a chain is followed.
    #[error("quantile {value} is above {most}, up to which the chain is followed; simulate it")]
    QuantileTooHigh {
        /// Its value.
        value: f64,
        /// The highest that is answered.
        most: f64,
    },
    /// A second moment that no distribution with this mean can have.
    #[error(
        "second moment {second} is below the square of the mean {mean}, which no distribution \
         has; give E[S^2], not the variance, in the square of the unit of the mean"
    )]
    SecondMoment {
        /// The mean, E\[S\].
        mean: f64,
        /// The second moment, E\[S^2\].
        second: f64,
    },
    /// An open load reaches or exceeds the capacity.
    #[error(
        "{place}: utilisation rho = {} is not below 1: no steady state; lower the arrival rate \
         below {} /s, cut the demand, add capacity, or ask a closed model",
        short(*.rho), short(*.rate_max)
    )]
    Unstable {
        /// The part that is overloaded.
        place: String,
        /// Its utilisation, rho.
        rho: f64,
        /// The arrival rate at which rho is 1 [1/s].
        rate_max: f64,
    },
    /// A mixture of exponentials was asked for that varies less than one exponential.
    #[error(
        "squared coefficient of variation {scv} is not from 1 to 1e12, which a mixture of \
         exponentials has at least; take an Erlang or a lognormal distribution"
    )]
    NotHyperexponential {
        /// The coefficient.
        scv: f64,
    },
    /// A count is larger than what is solved.
    #[error("the number of {name} is {value}, above the {most} that are solved; simulate it")]
    TooLarge {
        /// The things that are counted.
        name: &'static str,
        /// Their number.
        value: u32,
        /// The largest number that is solved.
        most: u32,
    },
    /// A queue with less room than servers.
    #[error(
        "capacity K = {capacity} is below the {servers} servers: it counts jobs in service too; \
         give at least {servers}"
    )]
    NoRoom {
        /// Servers, c.
        servers: u32,
        /// Room for jobs, K.
        capacity: u32,
    },
    /// The response-time distribution of such a demand is not known.
    #[error("{place}: no distribution of response times is known for a {demand} demand; {way_out}")]
    NoDistribution {
        /// The model.
        place: &'static str,
        /// The demand.
        demand: &'static str,
        /// The way out.
        way_out: &'static str,
    },
    /// A closed network in which a cycle takes no time at all.
    #[error(
        "think time and all demands are 0: a cycle takes no time and the throughput has no \
         limit; give the think time or one station a time"
    )]
    NoTime,
    /// Balanced-job bounds were asked of a network that has a station with several servers.
    #[error(
        "station {station} has {servers} servers; balanced-job bounds hold for single servers \
         and delays: ask for the asymptotic bounds, or for the exact answer"
    )]
    NotSingleServer {
        /// Its index.
        station: usize,
        /// Number of its servers.
        servers: u32,
    },
    /// A refusal with the name of the class or the station that it is about.
    #[error("{place}: {cause}")]
    At {
        /// Name of the class or the station.
        place: String,
        /// The fault there.
        cause: Box<SolveError>,
    },
    /// A class is asked for that the network does not have, or not of this kind.
    #[error("there is no such class {class}: the network has {classes}, counted from 0")]
    NoClass {
        /// The index asked for.
        class: usize,
        /// Number of classes.
        classes: usize,
    },
    /// An exact answer was asked of a network that has no product form.
    #[error(
        "station `{station}`: {cause}, so the network has no product form and no exact solution; \
         ask for an approximate one (Linearizer), or simulate"
    )]
    NoProductForm {
        /// Its name.
        station: String,
        /// The property that breaks product form.
        cause: &'static str,
    },
    /// An exact answer would take too long or too much memory.
    #[error(
        "an exact solution has {states:.1e} states and takes {steps:.1e} steps, more than \
         {steps_max:.0e} or than fits in memory; ask for an approximate one (Linearizer)"
    )]
    TooManyStates {
        /// Populations from nobody to all.
        states: f64,
        /// Additions and multiplications, about.
        steps: f64,
        /// The largest number allowed.
        steps_max: f64,
    },
    /// An exact answer for so many clients would take too long.
    #[error(
        "an exact solution for {clients} clients takes {steps:.1e} steps, more than {steps_max:.0e}; \
         ask for fewer clients or servers, or simulate"
    )]
    TooManySteps {
        /// Clients, N.
        clients: u32,
        /// Additions, about.
        steps: f64,
        /// The largest number allowed.
        steps_max: f64,
    },
    /// Linearizer would need more memory than it is given.
    #[error(
        "Linearizer holds {classes} x {classes} x {stations} numbers, more than 1 GiB; ask for AQL \
         or Bard-Schweitzer"
    )]
    TooManyClasses {
        /// Closed classes.
        classes: usize,
        /// Stations.
        stations: usize,
    },
    /// A station has more servers that may all be busy than a formula can count through.
    #[error("{servers} servers, more than {servers_max}, may all be busy; make it a delay")]
    TooManyServers {
        /// Number of servers.
        servers: u32,
        /// The largest number allowed.
        servers_max: u32,
    },
    /// The iteration of an approximation does not settle.
    #[error(
        "{algorithm} does not settle within {iterations} iterations; simulate, or ask for another \
         algorithm"
    )]
    NoConvergence {
        /// Its name.
        algorithm: &'static str,
        /// Number of iterations tried.
        iterations: u32,
    },
    /// An approximation gave an answer that no network can have.
    #[error(
        "{algorithm} gives {what} = {value}, which breaks {law}; its answer is withheld: ask for \
         another algorithm, or simulate"
    )]
    Unsound {
        /// Its name.
        algorithm: &'static str,
        /// The number that is wrong.
        what: String,
        /// Its value.
        value: f64,
        /// The law that it breaks.
        law: &'static str,
    },
    /// A station is asked for that the network does not have.
    #[error("there is no station {station}: the network has {stations}, counted from 0")]
    NoStation {
        /// The index asked for.
        station: usize,
        /// Number of stations.
        stations: usize,
    },
}

impl SolveError {
    /// The same with the name of what it is about.
    pub(crate) fn at(self, place: String) -> SolveError {
        SolveError::At { place, cause: Box::new(self) }
    }
}

/// Four significant digits.
fn short(value: f64) -> String {
    if !value.is_finite() || value == 0.0 {
        return value.to_string();
    }
    let digits_before = value.abs().log10().floor() as i32 + 1;
    let decimals = (4 - digits_before).clamp(0, 12) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

pub(crate) fn positive(
    name: &'static str,
    value: f64,
    unit: &'static str,
) -> Result<f64, SolveError> {
    if MAGNITUDE.contains(&value) {
        Ok(value)
    } else {
        Err(SolveError::NotPositive { name, value, unit })
    }
}

pub(crate) fn not_negative(
    name: &'static str,
    value: f64,
    unit: &'static str,
) -> Result<f64, SolveError> {
    if value == 0.0 || MAGNITUDE.contains(&value) {
        // Adding zero turns -0.0 into 0.0, so that no answer is ever printed with a minus sign.
        Ok(value + 0.0)
    } else {
        Err(SolveError::Negative { name, value, unit })
    }
}

pub(crate) fn at_least_one(name: &'static str, count: u32) -> Result<u32, SolveError> {
    if count == 0 { Err(SolveError::Zero { name }) } else { Ok(count) }
}

pub(crate) fn at_most(name: &'static str, value: u32, most: u32) -> Result<u32, SolveError> {
    if value > most { Err(SolveError::TooLarge { name, value, most }) } else { Ok(value) }
}

pub(crate) fn quantile(value: f64) -> Result<f64, SolveError> {
    if (0.0..1.0).contains(&value) { Ok(value) } else { Err(SolveError::Quantile { value }) }
}

/// A utilisation from this on is 1: what is missing is the rounding of rates and visits. Where 0.3 a second come and each
/// visits a station 1 / (1 - 0.7) times for 1 s, rho is 1 - 1e-16, and the mean response would be 3e16 s.
pub(crate) const FULL: f64 = 1.0 - 1e-12;

/// Utilisation, rho, of a station of `servers` servers, where it is below 1.
pub(crate) fn stable(
    place: impl FnOnce() -> String,
    lambda: f64,
    demand: f64,
    servers: u32,
) -> Result<f64, SolveError> {
    let c = f64::from(servers);
    let rho = lambda * demand / c;
    if rho < FULL {
        Ok(rho)
    } else {
        Err(SolveError::Unstable { place: place(), rho, rate_max: c / demand })
    }
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn numbers_in_messages_have_four_significant_digits() {
        for (value, text) in [
            (1.07, "1.07"),
            (12.345, "12.35"),
            (0.001_234_56, "0.001235"),
            (1200.0, "1200"),
            (98_765.4, "98765"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}
