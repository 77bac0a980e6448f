//! Histograms with fixed bounds as a witness: the fit uses counts, sums and busy time only, so the
//! quantiles that buckets tell, each between two bounds, can contradict the fitted scenario.

use measure::Estimate;
use sim::Options;

use super::demands::{DemandEvidence, Group, Window, group_name};
use super::draft::Draft;
use super::{FitError, FitOptions};
use crate::Scenario;

/// A quantile of a class's responses: by a histogram, and by the fitted scenario.
#[derive(Clone, Debug)]
pub struct QuantileWitness {
    /// The class.
    pub class: String,
    /// The quantile, 0 to 1.
    pub quantile: f64,
    /// Number of windows that were taken together.
    pub windows: usize,
    /// Mean number of processors that were busy in these.
    pub busy: f64,
    /// Number of responses that the histogram counted in these.
    pub completed: f64,
    /// Two bounds of the histogram between which the quantile lies \[s\]; the upper one is infinite
    /// where it may lie beyond the last bound. Wide enough for the chance of so many responses, as if
    /// they were independent (95 %).
    pub measured: [f64; 2],
    /// The quantile by the fitted scenario at the rates of these windows \[s\], simulated.
    pub fitted: Estimate,
}

impl QuantileWitness {
    /// True if the two intervals meet.
    pub fn agrees(&self) -> bool {
        let Estimate { mean, half_width, .. } = self.fitted;
        mean + half_width >= self.measured[0] && mean - half_width <= self.measured[1]
    }
}

/// The quantiles that are looked at.
const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];
/// From this number of windows on, the quiet, the middling and the busy ones are looked at one by
/// one.
const WINDOWS_MIN: usize = 6;
/// Counters of one program are not read in one instant: a sum may be ahead of its buckets by this share.
const SKEW: f64 = 0.01;
/// Above this utilisation a simulation settles too slowly to be a judge.
const BUSY_MAX: f64 = 0.95;

/// Windows with histograms, and the classes as they are fitted.
pub(super) struct Buckets<'a> {
    pub(super) evidence: &'a DemandEvidence,
    pub(super) windows: &'a [&'a Window],
    pub(super) groups: &'a [Group],
}

/// Numbers of responses of a group, in some windows, that took at most as long as each bound.
struct Counted {
    bounds: Vec<f64>,
    within: Vec<f64>,
    completed: f64,
}

impl Counted {
    /// The bounds between which the response of this rank lies; the first has rank 1.
    fn bucket(&self, rank: f64) -> [f64; 2] {
        let at = self.within.iter().position(|within| *within >= rank);
        let at = at.unwrap_or(self.bounds.len());
        let low = if at == 0 { 0.0 } else { self.bounds[at - 1] };
        [low, self.bounds.get(at).copied().unwrap_or(f64::INFINITY)]
    }

    /// The bounds between which a quantile lies: the ranks of it are binomial.
    fn quantile(&self, q: f64) -> [f64; 2] {
        let (n, spread) = (self.completed, 1.96 * (self.completed * q * (1.0 - q)).sqrt());
        let [low, _] = self.bucket((n * q - spread).floor().max(1.0));
        let last = (n * q + spread).ceil();
        // No response has a rank beyond the last, so that nothing bounds the quantile from above.
        [low, if last > n { f64::INFINITY } else { self.bucket(last)[1] }]
    }

    /// Between what the mean response lies \[s\].
    fn mean(&self) -> [f64; 2] {
        let (mut low, mut high, mut before) = (0.0, 0.0, 0.0);
        for (at, within) in self.within.iter().enumerate() {
            let count = within - before;
            low += count * if at == 0 { 0.0 } else { self.bounds[at - 1] };
            high += count * self.bounds[at];
            before = *within;
        }
        let beyond = (self.completed - before).max(0.0);
        low += beyond * self.bounds[self.bounds.len() - 1];
        let high = if beyond > 0.0 { f64::INFINITY } else { high };
        [low / self.completed, high / self.completed]
    }
}

impl Buckets<'_> {
    /// Counts of all members of a group together, by the bounds that all of them have. None where a
    /// member has no histogram or was not seen.
    fn counted(&self, windows: &[&Window], group: &Group) -> Option<Counted> {
        let of = |class: usize| &self.evidence.bounds[class];
        let mut bounds = of(group.members[0]).clone();
        bounds.retain(|bound| group.members.iter().all(|&class| of(class).contains(bound)));
        if bounds.is_empty() {
            return None;
        }
        let mut within = vec![0.0; bounds.len()];
        let mut completed = 0.0;
        for window in windows {
            for &class in &group.members {
                let counts = window.within[class].as_ref()?;
                completed += window.completed[class];
                for (sum, bound) in within.iter_mut().zip(&bounds) {
                    let at = of(class).iter().position(|own| own == bound);
                    *sum += counts[at.expect("the bound is common to all")];
                }
            }
        }
        (completed > 0.0).then_some(Counted { bounds, within, completed })
    }

    /// The windows of which the counts of every histogram are known.
    fn whole(&self) -> Vec<&Window> {
        let known = |window: &Window| {
            let mut all = window.within.iter().zip(&self.evidence.bounds);
            all.all(|(within, bounds)| bounds.is_empty() || within.is_some())
        };
        self.windows.iter().copied().filter(|window| known(window)).collect()
    }

    /// Names what buckets cannot tell.
    ///
    /// # Errors
    /// If the mean response cannot be where the buckets have it.
    pub(super) fn check(&self, draft: &mut Draft) -> Result<(), FitError> {
        let mut beyond = Vec::new();
        let mut any = false;
        for group in self.groups {
            let windows = self.whole();
            let Some(counted) = self.counted(&windows, group) else { continue };
            any = true;
            let name = group_name(self.evidence, group);
            let sum: Option<f64> = windows
                .iter()
                .flat_map(|w| group.members.iter().map(|&class| w.response[class]))
                .sum();
            let [low, high] = counted.mean();
            if let Some(mean) = sum.map(|sum| sum / counted.completed)
                && !(low * (1.0 - SKEW)..=high * (1.0 + SKEW)).contains(&mean)
            {
                return Err(FitError::DoesNotFit(format!(
                    "the sum of the responses of `{name}` makes a mean of {mean:.6} s, but its buckets \
                     have it between {low:.6} s and {high:.6} s: do both count the same requests, in \
                     seconds?"
                )));
            }
            let last = counted.bounds.len() - 1;
            let share = 1.0 - counted.within[last] / counted.completed;
            if share > 0.0 {
                let bound = counted.bounds[last];
                beyond.push(format!("{:.2} % of `{name}` beyond {bound} s", 100.0 * share));
            }
        }
        if any {
            draft.unidentified.push(
                "where between two bounds of the histogram a response lies, how much of it is waiting, \
                 and which requests were slow together: buckets are a witness of quantiles, not of \
                 demands"
                    .into(),
            );
        }
        if !beyond.is_empty() {
            draft.unidentified.push(format!(
                "how long the responses beyond the last bound took ({})",
                beyond.join(", ")
            ));
        }
        Ok(())
    }

    /// Windows of like load, the quiet first.
    fn pools<'w>(&self, whole: &[&'w Window]) -> Vec<Vec<&'w Window>> {
        let mut windows = whole.to_vec();
        windows.sort_by(|a, b| (a.busy / a.seconds).total_cmp(&(b.busy / b.seconds)));
        let each = match windows.len() {
            0 => return Vec::new(),
            WINDOWS_MIN.. => windows.len().div_ceil(3),
            few => few,
        };
        windows.chunks(each).map(<[_]>::to_vec).collect()
    }
}

/// The quantiles of each class in quiet, middling and busy windows, as the buckets tell them and as
/// the fitted scenario gives them.
///
/// # Errors
/// If the scenario cannot be simulated.
pub(super) fn witnesses(
    buckets: &Buckets<'_>,
    scenario: &mut Scenario,
    options: &FitOptions,
    notes: &mut Vec<String>,
) -> Result<Vec<QuantileWitness>, FitError> {
    let groups: Vec<(String, &Group)> = buckets
        .groups
        .iter()
        .map(|group| (group_name(buckets.evidence, group), group))
        .filter(|(name, _)| scenario.classes.iter().any(|class| class.name == *name))
        .collect();
    let servers = f64::from(options.cores.unwrap_or(1));
    let mut found = Vec::new();
    for pool in buckets.pools(&buckets.whole()) {
        let seconds: f64 = pool.iter().map(|w| w.seconds).sum();
        let busy = pool.iter().map(|w| w.busy).sum::<f64>() / seconds;
        let judged: Vec<_> = groups
            .iter()
            .filter_map(|(name, group)| {
                let known =
                    pool.iter().all(|w| group.members.iter().all(|&c| w.response[c].is_some()));
                Some((name, buckets.counted(&pool, group).filter(|_| known)?))
            })
            .collect();
        if judged.is_empty() {
            continue;
        }
        if busy > BUSY_MAX * servers {
            notes.push(format!(
                "{} windows with {busy:.2} busy processors are no witness: a queue that full never \
                 settles",
                pool.len()
            ));
            continue;
        }
        let rate = |group: &Group| {
            let completed = pool.iter().flat_map(|w| group.members.iter().map(|&c| w.completed[c]));
            completed.sum::<f64>() / seconds
        };
        let rates = groups.iter().map(|(name, group)| (name.as_str(), rate(group)));
        let Some(fitted) = simulated(scenario, rates, options)? else {
            notes.push(format!(
                "{} windows with {busy:.2} busy processors are no witness: a class does not come in \
                 them",
                pool.len()
            ));
            continue;
        };
        for (name, counted) in judged {
            let class = fitted.classes.iter().find(|class| class.name == *name);
            let quantiles = class.map_or(&[][..], |class| &class.quantiles);
            found.extend(beside(name, &counted, quantiles, (pool.len(), busy)));
        }
    }
    judge(&found, scenario, notes);
    Ok(found)
}

/// Witnesses of a class: the buckets beside the simulated quantiles, with the number of windows and
/// their busy processors.
fn beside(
    class: &str,
    counted: &Counted,
    simulated: &[(f64, Estimate)],
    (windows, busy): (usize, f64),
) -> Vec<QuantileWitness> {
    let known = simulated
        .iter()
        .filter(|(quantile, fitted)| QUANTILES.contains(quantile) && fitted.half_width.is_finite());
    let witness = known.map(|&(quantile, fitted)| QuantileWitness {
        class: class.to_owned(),
        quantile,
        windows,
        busy,
        completed: counted.completed,
        measured: counted.quantile(quantile),
        fitted,
    });
    // Between nothing and infinity there is nothing to say.
    witness.filter(|witness| witness.measured != [0.0, f64::INFINITY]).collect()
}

/// The fitted scenario at other rates; none where a class would have none.
fn simulated<'n>(
    scenario: &Scenario,
    rates: impl Iterator<Item = (&'n str, f64)>,
    options: &FitOptions,
) -> Result<Option<sim::Outcome>, FitError> {
    let broken = |cause: String| FitError::DoesNotFit(cause);
    let mut at_rates = scenario.clone();
    for (name, rate) in rates {
        if rate <= 0.0 {
            return Ok(None);
        }
        at_rates = at_rates.with_rate(name, rate).map_err(|error| broken(error.to_string()))?;
    }
    let network = at_rates.network().map_err(|error| broken(error.to_string()))?;
    let sim_options = Options { seed: options.seed, completions_max: 60_000, ..Options::default() };
    sim::run(&network, &sim_options).map(Some).map_err(|error| broken(error.to_string()))
}

/// Says what the witnesses say, and what that means for the scenario.
fn judge(found: &[QuantileWitness], scenario: &mut Scenario, notes: &mut Vec<String>) {
    if found.is_empty() {
        return;
    }
    notes.push(
        "a quantile lies between two bounds of the histogram; of those at 95 % one in twenty may miss \
         by chance, and more where slow responses come together"
            .into(),
    );
    let Some(worst) = found
        .iter()
        .filter(|witness| !witness.agrees())
        .max_by(|a, b| a.quantile.total_cmp(&b.quantile).then(a.busy.total_cmp(&b.busy)))
    else {
        return;
    };
    let above = worst.fitted.mean < worst.measured[0];
    let cause = if above {
        "what a request waits for elsewhere or its demand varies more than the model has it"
    } else {
        "what a request waits for elsewhere or its demand varies less than the model has it, or the \
         load did within the windows"
    };
    if let Some(calibration) = &mut scenario.calibration {
        calibration.unidentified.push(format!(
            "the distribution of the responses: {} of {} quantiles of the fitted scenario are outside \
             the bounds of the histogram, the p{:.0} of `{}` {} them ({cause}); its means hold, its \
             quantiles do not",
            found.iter().filter(|witness| !witness.agrees()).count(),
            found.len(),
            100.0 * worst.quantile,
            worst.class,
            if above { "below" } else { "above" },
        ));
    }
}
