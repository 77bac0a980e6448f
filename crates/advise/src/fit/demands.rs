//! Demands from windows of busy time and completions: the utilisation law, U_k = sum_c X_c D_ck, as
//! a regression (research of LibReDE and LINE calls it UBR; Lazowska et al. 1984, chapter 3, for the
//! law).

use rand_distr::{Distribution, Uniform};
use workload::stream;

use super::buckets::{Buckets, witnesses};
use super::draft::{
    Draft, RowStand, SourceFit, SourceRow, exponential, listed, open_class, station,
};
use super::evidence::interval;
use super::linear::{condition, correlations, inflations, non_negative};
use super::{FitError, FitOptions, draft};
use crate::StationName;

/// A window of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Its length \[s\].
    pub seconds: f64,
    /// Processor time that was used in it, all processors together \[s\].
    pub busy: f64,
    /// Completions by class.
    pub completed: Vec<f64>,
    /// Sum of the responses of these \[s\], by class, where it is known.
    pub response: Vec<Option<f64>>,
    /// By class, where it is known: how many of these took at most as long as each of the class's
    /// bounds ([`DemandEvidence::bounds`]).
    pub within: Vec<Option<Vec<f64>>>,
}

/// Observations of the use of one machine by several classes.
#[derive(Clone, Debug)]
pub struct DemandEvidence {
    /// Sources of the observations.
    pub sources: Vec<String>,
    /// The names of the classes.
    pub classes: Vec<String>,
    /// The bounds \[s\] of the histogram of responses of each class, ascending and finite; none
    /// where it has no histogram.
    pub bounds: Vec<Vec<f64>>,
    /// The windows, all with as many entries as there are classes.
    pub windows: Vec<Window>,
}

/// Number of draws of the bootstrap.
const DRAWS: usize = 400;
/// Beyond this inflation of variance (an interval 5.5 times as wide) classes are not told apart.
const INFLATION_MAX: f64 = 30.0;
/// Rates that vary by less than this share cannot be told from a background that is always there.
const VARIATION_MIN: f64 = 0.03;

/// Classes that are told apart only together.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) members: Vec<usize>,
}

/// Fits the demand of each class on the processors.
///
/// # Errors
/// If nothing was completed or used, the numbers of `cores` contradict the busy time, or they are
/// not known.
pub fn fit_demands(evidence: &DemandEvidence, options: &FitOptions) -> Result<SourceFit, FitError> {
    let windows: Vec<&Window> = evidence.windows.iter().filter(|w| w.seconds > 0.0).collect();
    let seconds: f64 = windows.iter().map(|w| w.seconds).sum();
    let busy: f64 = windows.iter().map(|w| w.busy).sum();
    let completed: f64 = windows.iter().flat_map(|w| &w.completed).sum();
    if completed <= 0.0 || busy <= 0.0 {
        return Err(FitError::TooLittle(format!(
            "{completed} requests and {busy} s of processor time are in these windows: both are \
             needed; choose a longer or busier time"
        )));
    }
    let Some(cores) = options.cores.filter(|cores| *cores > 0) else {
        let least = windows.iter().map(|w| w.busy / w.seconds).fold(0.0, f64::max).ceil().max(1.0);
        return Err(FitError::TooLittle(format!(
            "how many processors the machine has is not in this source (at least {least}): say it \
             with `--cores`"
        )));
    };
    if let Some(worst) = windows.iter().find(|w| w.busy > 1.02 * f64::from(cores) * w.seconds) {
        return Err(FitError::DoesNotFit(format!(
            "in a window of {} s, {} s of processor time were used, more than {cores} processor(s) \
             have: is `--cores` right, is the counter in seconds?",
            worst.seconds, worst.busy
        )));
    }
    let mut draft = Draft::new();
    let mut notes = Vec::new();
    let groups = groups(evidence, &windows, &mut draft, &mut notes);
    let told = Told::new(&windows, &groups, options);
    told.report(&mut draft, evidence, &groups, options);
    let scenario = Scenic { evidence, windows: &windows, groups: &groups, told: &told, cores };
    let (mut draft, rows) = scenario.build(draft, &mut notes)?;
    let buckets = Buckets { evidence, windows: &windows, groups: &groups };
    buckets.check(&mut draft)?;
    let in_flight: f64 = windows.iter().flat_map(|w| &w.response).flatten().sum::<f64>() / seconds;
    let most =
        windows.iter().map(|w| w.completed.iter().sum::<f64>() / w.seconds).fold(0.0, f64::max);
    let clients = [1.0, in_flight.max(busy / seconds).max(1.0)];
    let mut scenario = draft.scenario(options, &evidence.sources, clients, most);
    let witnesses = witnesses(&buckets, &mut scenario, options, &mut notes)?;
    Ok(SourceFit { scenario, rows, witnesses, notes })
}

/// The rates of the groups in each window [1/s].
fn rates(windows: &[&Window], groups: &[Group]) -> Vec<Vec<f64>> {
    let rate = |window: &Window, group: &Group| {
        group.members.iter().map(|&c| window.completed[c]).sum::<f64>() / window.seconds
    };
    windows.iter().map(|w| groups.iter().map(|group| rate(w, group)).collect()).collect()
}

/// The classes, those together that always come together.
fn groups(
    evidence: &DemandEvidence,
    windows: &[&Window],
    draft: &mut Draft,
    notes: &mut Vec<String>,
) -> Vec<Group> {
    let total = |c: usize| windows.iter().map(|w| w.completed[c]).sum::<f64>();
    let seen = (0..evidence.classes.len()).filter(|&c| total(c) > 0.0);
    let mut groups: Vec<Group> = seen.map(|c| Group { members: vec![c] }).collect();
    let name = |group: &Group| group_name(evidence, group);
    // A regression needs clearly more windows than demands, and one for the background.
    if windows.len() < groups.len() + 4 && groups.len() > 1 {
        draft.unidentified.push(format!(
            "the demand of each class: {} windows cannot tell {} of them apart; only their mean is \
             fitted; give at least {} windows with different mixes",
            windows.len(),
            groups.len(),
            groups.len() + 4
        ));
        return vec![Group { members: groups.into_iter().flat_map(|g| g.members).collect() }];
    }
    while groups.len() > 1 {
        let correlations = correlations(&rates(windows, &groups));
        let inflations = inflations(&correlations);
        let worst = (0..groups.len()).max_by(|&a, &b| inflations[a].total_cmp(&inflations[b]));
        let Some(worst) = worst.filter(|&at| inflations[at] > INFLATION_MAX) else {
            notes.push(format!(
                "the rates of the classes can be told apart: condition number {:.1}, variance \
                 inflation at most {:.1}",
                condition(&correlations),
                inflations.iter().copied().fold(1.0, f64::max)
            ));
            break;
        };
        let partner = (0..groups.len())
            .filter(|&at| at != worst)
            .max_by(|&a, &b| correlations[worst][a].abs().total_cmp(&correlations[worst][b].abs()))
            .expect("there are at least two");
        draft.unidentified.push(format!(
            "the demands of `{}` and `{}` one by one: their rates go together (correlation {:.4}, \
             variance inflation {:.0}); only their mean at this mix is fitted; measure a time in \
             which one comes without the other",
            name(&groups[worst.min(partner)]),
            name(&groups[worst.max(partner)]),
            correlations[worst][partner],
            inflations[worst]
        ));
        let (keep, gone) = (worst.min(partner), worst.max(partner));
        let members = groups.remove(gone).members;
        groups[keep].members.extend(members);
    }
    groups
}

pub(super) fn group_name(evidence: &DemandEvidence, group: &Group) -> String {
    let names: Vec<String> = group.members.iter().map(|&c| evidence.classes[c].clone()).collect();
    match names.len() {
        0..=3 => names.join("+"),
        all => format!("{}+{} more", names[0], all - 1),
    }
}

/// The demands with their regions.
struct Told {
    /// By group \[s\].
    demands: Vec<f64>,
    regions: Vec<[f64; 2]>,
    /// Busy processors without any request, with its region; none where it cannot be told.
    background: Option<(f64, [f64; 2])>,
}

impl Told {
    fn new(windows: &[&Window], groups: &[Group], options: &FitOptions) -> Told {
        let rates = rates(windows, groups);
        let totals: Vec<f64> = rates.iter().map(|row| row.iter().sum()).collect();
        if windows.len() < groups.len() + 4 || variation(&totals) < VARIATION_MIN {
            // The service demand law, D = U / X: all is charged to the requests.
            let busy: f64 = windows.iter().map(|w| w.busy).sum();
            let all: f64 = windows.iter().flat_map(|w| &w.completed).sum();
            let demand = busy / all;
            let demands = vec![demand; groups.len()];
            let regions = vec![[0.0, demand]; groups.len()];
            return Told { demands, regions, background: None };
        }
        let rows: Vec<(Vec<f64>, f64)> = windows
            .iter()
            .zip(rates)
            .map(|(window, mut row)| {
                // The work of n requests varies as n does, so each window counts by its root.
                let weight = (window.seconds / row.iter().sum::<f64>().max(1e-9)).sqrt();
                row.push(1.0);
                (row.iter().map(|x| x * weight).collect(), weight * window.busy / window.seconds)
            })
            .collect();
        let solve = |chosen: &[&(Vec<f64>, f64)]| {
            let matrix: Vec<Vec<f64>> = chosen.iter().map(|row| row.0.clone()).collect();
            let right: Vec<f64> = chosen.iter().map(|row| row.1).collect();
            non_negative(&matrix, &right)
        };
        let point = solve(&rows.iter().collect::<Vec<_>>());
        let mut chance = stream(options.seed, 0xde3a);
        let pick = Uniform::new(0, rows.len()).expect("there are windows");
        let draws: Vec<Vec<f64>> = (0..DRAWS)
            .map(|_| {
                let chosen: Vec<_> = rows.iter().map(|_| &rows[pick.sample(&mut chance)]).collect();
                solve(&chosen)
            })
            .collect();
        let widen = small_sample(rows.len(), point.len());
        let region = |at: usize| {
            let value = point[at];
            let of = |draw: &Vec<f64>| value + widen * (draw[at] - value);
            let [low, high] = interval(value, draws.iter().map(of), options.confidence);
            [low.max(0.0), high]
        };
        let regions: Vec<[f64; 2]> = (0..point.len()).map(region).collect();
        let last = groups.len();
        Told {
            demands: point[..last].to_vec(),
            regions: regions[..last].to_vec(),
            background: Some((point[last], regions[last])),
        }
    }

    fn report(
        &self,
        draft: &mut Draft,
        evidence: &DemandEvidence,
        groups: &[Group],
        options: &FitOptions,
    ) {
        for ((group, demand), region) in groups.iter().zip(&self.demands).zip(&self.regions) {
            let name = format!("demand {}", group_name(evidence, group));
            draft.parameter(name, *demand, *region, "s", options);
        }
        match self.background {
            Some((value, region)) => {
                draft.parameter("background", value, region, "processors", options);
            }
            None => draft.unidentified.push(
                "how much processor time was used by something else than these requests: the load \
                 hardly changes, or the windows are too few, so all of it is charged to the \
                 requests, and the demand may be anything from 0 to that; give a time in which the \
                 load changes"
                    .into(),
            ),
        }
        for ((group, demand), region) in groups.iter().zip(&self.demands).zip(&self.regions) {
            if self.background.is_some() && (*demand == 0.0 || region[1] - region[0] > *demand) {
                draft.unidentified.push(format!(
                    "the demand of `{}` to better than its own size",
                    group_name(evidence, group)
                ));
            }
        }
    }
}

/// Ratio by which the regions of a bootstrap of n windows and p coefficients must be widened.
fn small_sample(n: usize, p: usize) -> f64 {
    let (n, p) = (n as f64, p as f64);
    let normal = 1.96;
    // Student's quantile at 97.5 % to first order (Abramowitz and Stegun 26.7.5).
    let freedom = (n - p).max(1.0);
    let student = normal + (normal * normal * normal + normal) / (4.0 * freedom);
    (n / freedom).sqrt() * student / normal
}

fn variation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let square = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64;
    if mean > 0.0 { square.sqrt() / mean } else { 0.0 }
}

/// Builder of a scenario from demands.
struct Scenic<'a> {
    evidence: &'a DemandEvidence,
    windows: &'a [&'a Window],
    groups: &'a [Group],
    told: &'a Told,
    cores: u32,
}

impl Scenic<'_> {
    /// Open classes before shared processors, and a delay for what takes time elsewhere.
    fn build(
        &self,
        mut draft: Draft,
        notes: &mut Vec<String>,
    ) -> Result<(Draft, Vec<SourceRow>), FitError> {
        let seconds: f64 = self.windows.iter().map(|w| w.seconds).sum();
        let busy: f64 = self.windows.iter().map(|w| w.busy).sum();
        let load = busy / seconds / f64::from(self.cores);
        if load >= 0.98 {
            return Err(FitError::TooLittle(format!(
                "the processors were {:.0} % busy on average: an open model has no steady state \
                 there; choose a quieter time for the fit",
                100.0 * load
            )));
        }
        let mut cpu = station("cpu", StationName::Sharing, self.cores);
        let mut elsewhere = station("elsewhere", StationName::Delay, 1);
        let mut rows = vec![SourceRow {
            name: "busy processors".into(),
            measured: busy / seconds,
            fitted: self.told.background.map_or(0.0, |(value, _)| value),
            unit: "",
            stand: RowStand::TakenUp,
        }];
        for (group, demand) in self.groups.iter().zip(&self.told.demands) {
            let name = group_name(self.evidence, group);
            let count: f64 = self
                .windows
                .iter()
                .flat_map(|w| group.members.iter().map(|&c| w.completed[c]))
                .sum();
            rows[0].fitted += count / seconds * demand;
            if *demand <= 0.0 {
                notes.push(format!("`{name}` uses no processor time that can be seen; left out"));
                continue;
            }
            let stretch = stretch(self.cores, load);
            let mut route = vec!["cpu"];
            cpu.demands.insert(name.clone(), exponential(*demand));
            if let Some(measured) = self.response(group, count) {
                let model = demand * stretch;
                if measured < 0.8 * demand {
                    return Err(FitError::DoesNotFit(format!(
                        "`{name}` is answered in {measured:.6} s but costs {demand:.6} s of \
                         processor time: does it use several at once, or is work charged to it that \
                         it does not do?"
                    )));
                }
                let rest = (measured - model).max(0.0);
                let (fitted, stand) = if rest > 0.02 * measured {
                    elsewhere.demands.insert(name.clone(), draft::constant(rest));
                    route.push("elsewhere");
                    (model + rest, RowStand::TakenUp)
                } else {
                    (model, RowStand::Compared)
                };
                let name = format!("response {name}");
                rows.push(SourceRow { name, measured, fitted, unit: "s", stand });
            }
            draft.classes.push(open_class(&name, count / seconds, &route));
        }
        self.add_background(&mut draft, &mut cpu, notes);
        draft.stations.push(cpu);
        finish(&mut draft, elsewhere);
        Ok((draft, rows))
    }

    /// The mean response of a group, if it is known in all windows \[s\].
    fn response(&self, group: &Group, count: f64) -> Option<f64> {
        let mut sum = 0.0;
        for window in self.windows {
            for &c in &group.members {
                sum += window.response.get(c).copied().flatten()?;
            }
        }
        (count > 0.0 && sum > 0.0).then_some(sum / count)
    }

    /// Under sharing the size of the background's jobs changes nobody else's mean, so any will do.
    fn add_background(
        &self,
        draft: &mut Draft,
        cpu: &mut crate::StationEntry,
        notes: &mut Vec<String>,
    ) {
        const JOB_S: f64 = 10e-3;
        let Some((value, [low, _])) = self.told.background else { return };
        if low <= 0.005 * f64::from(self.cores) {
            return;
        }
        notes.push(format!(
            "{value:.3} processors are busy whatever is asked for; they are the class `background`"
        ));
        cpu.demands.insert("background".into(), exponential(JOB_S));
        draft.classes.push(open_class("background", value / JOB_S, &["cpu"]));
    }
}

/// Names what the windows cannot tell of what is not the processors' work.
fn finish(draft: &mut Draft, elsewhere: crate::StationEntry) {
    if !elsewhere.demands.is_empty() {
        let names: Vec<String> = elsewhere.demands.keys().cloned().collect();
        draft.unidentified.push(format!(
            "what {} wait for besides the processors: all of it is taken as a delay that does \
             not grow with the load",
            listed(&names)
        ));
        draft.stations.push(elsewhere);
    }
    draft.unidentified.push(
        "how the demand varies from request to request: taken as exponential, which changes no \
         mean under sharing, but quantiles"
            .into(),
    );
}

/// Ratio of the mean response under sharing to the demand: exact for one processor; for several,
/// that of M/M/c.
pub(super) fn stretch(cores: u32, load: f64) -> f64 {
    let lambda = load * f64::from(cores);
    solve::Mmc::new(lambda, 1.0, cores).map_or(1.0 / (1.0 - load), |queue| queue.response())
}
