//! Section 5: the scanning LAN of a patent office. Scan stations serve customers (part A, M/M/c) and
//! are clients of the scan server over a LAN (part B, a closed network). How the two parts join is not
//! stated: decoupled, or with a station held until the server has the page. Both are here.

use advise::Scenario;
use cli::Failure;
use cli::text::percent;
use measure::Estimate;
use sim::Options;
use solve::{ClosedNetwork, Mmc, Station};

use super::super::claim::{Answer, Claim, Evidence, Judged, Registry};

macro_rules! study {
    ($file:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/ohmae/", $file))
    };
}

/// Part A, part B, and both as one.
const STATIONS: &str = study!("scan-stations.toml");
const LOOP: &str = study!("scanning-loop.toml");
const HELD: &str = study!("scanning-held.toml");
/// All subsystems.
const OFFICE: &str = study!("patent-office.toml");

/// Pages a second that a station scans, the LAN carries and the server stores \[1/s\].
const STATION: f64 = 0.2;
const LAN: f64 = 3.3;
const SERVER: f64 = 2.5;
/// Time between the pages of a station \[s\].
const THINK: f64 = 5.0;
/// The paper's number of stations.
pub(super) const STATIONS_THEN: u32 = 4;
/// Arrivals at which they are 90 % utilised \[1/s\].
pub(super) const BUSY: f64 = 0.9 * STATION * STATIONS_THEN as f64;
/// The arrival rate at which the two ways to join the parts are compared \[1/s\].
const JOINED: f64 = 0.6;
/// Values that were found there before: decoupled, held, and held with an exponential hold \[s\].
const DECOUPLED_KNOWN: f64 = 8.4;
const HELD_KNOWN: f64 = 13.3;
const EXPONENTIAL_KNOWN: f64 = 14.7;
/// Numbers of stations of figure 5.3.
pub(super) const FIGURE_5_3: [u32; 5] = [4, 5, 6, 7, 8];

/// Precision of the office's simulation, where only the order of its parts is looked at.
const OFFICE_PRECISION: f64 = 0.05;

/// Known answers, exact: arrivals \[1/s\] or stations, and the mean response time \[s\].
const PART_A: [(f64, f64); 4] = [(0.2, 5.0340), (0.4, 5.4348), (0.6, 7.5472), (0.7, 12.3786)];
const PART_B: [(u32, f64); 3] = [(1, 0.70303), (4, 0.85098), (10, 1.35205)];

/// Mean response of part A by formula \[s\].
pub(super) fn part_a(rate: f64, stations: u32) -> Result<f64, Failure> {
    Ok(Mmc::new(rate, STATION.recip(), stations).map_err(Failure::defect)?.response())
}

/// Mean response of part B by formula \[s\], and its throughput \[1/s\].
pub(super) fn part_b(stations: u32) -> Result<(f64, f64), Failure> {
    let both = [LAN, SERVER].map(|rate| Station::queue(rate.recip()));
    let both = both.into_iter().collect::<Result<Vec<_>, _>>();
    let network = both.and_then(|both| ClosedNetwork::new(stations, THINK, &both));
    let answer = network.map_err(Failure::machine)?.solve();
    Ok((answer.response, answer.throughput))
}

/// Utilisations of stations, LAN and scan server at this arrival rate, decoupled.
pub(super) fn utilisations(rate: f64, stations: u32) -> [f64; 3] {
    [rate / (STATION * f64::from(stations)), rate / LAN, rate / SERVER]
}

/// Results of the simulations.
#[derive(Debug)]
pub(super) struct Runs {
    /// Part A at the arrival rates of [`PART_A`].
    part_a: Vec<Estimate>,
    /// Part B at the numbers of stations of [`PART_B`].
    part_b: Vec<Estimate>,
    /// Part A at [`BUSY`] with the stations of [`FIGURE_5_3`].
    pub(super) by_stations: Vec<Estimate>,
    /// The same with a station held; none where that is more than they can take.
    pub(super) by_stations_held: Vec<Option<Estimate>>,
    /// Stations held at [`JOINED`].
    held: Estimate,
    /// The whole office: every gate and station with its utilisation, the busiest first.
    office: Vec<(String, f64)>,
}

fn scenario(text: &str) -> Scenario {
    toml::from_str(text).expect("the study's scenario is well formed")
}

fn response(scenario: &Scenario, precision: f64, seed: u64) -> Result<Estimate, Failure> {
    Ok(simulate(scenario, precision, seed)?.classes[0].response.expect("requests were completed"))
}

fn simulate(scenario: &Scenario, precision: f64, seed: u64) -> Result<sim::Outcome, Failure> {
    let network = scenario.network().map_err(Failure::defect)?;
    let options = Options { seed, precision, ..Options::default() };
    sim::run(&network, &options).map_err(Failure::defect)
}

/// Part A with this arrival rate and so many stations.
fn stations(rate: f64, count: u32) -> Result<Scenario, Failure> {
    let mut scenario = scenario(STATIONS).with_rate("pages", rate).map_err(Failure::machine)?;
    scenario.stations[0].servers = Some(count);
    Ok(scenario)
}

/// Both parts as one.
fn held(rate: f64, count: u32) -> Result<Scenario, Failure> {
    let scenario = scenario(HELD).with_rate("pages", rate);
    scenario.and_then(|held| held.with_slots("stations", count)).map_err(Failure::defect)
}

impl Runs {
    pub(super) fn simulate(precision: f64, seed: u64) -> Result<Runs, Failure> {
        let run = |scenario: Scenario| response(&scenario, precision, seed);
        let part_a = PART_A.map(|(rate, _)| run(stations(rate, STATIONS_THEN)?));
        let part_b = PART_B.map(|(count, _)| {
            run(scenario(LOOP).with_population("stations", count).map_err(Failure::defect)?)
        });
        let by_stations = FIGURE_5_3.map(|count| run(stations(BUSY, count)?));
        let by_stations_held = FIGURE_5_3.map(|count| {
            // Held stations pass at most what the closed loop of part B passes.
            let stable = BUSY < part_b_limit(count)?;
            if stable { run(held(BUSY, count)?).map(Some) } else { Ok(None) }
        });
        let office = simulate(&scenario(OFFICE), OFFICE_PRECISION, seed)?;
        Ok(Runs {
            part_a: part_a.into_iter().collect::<Result<_, _>>()?,
            part_b: part_b.into_iter().collect::<Result<_, _>>()?,
            by_stations: by_stations.into_iter().collect::<Result<_, _>>()?,
            by_stations_held: by_stations_held.into_iter().collect::<Result<_, _>>()?,
            held: run(held(JOINED, STATIONS_THEN)?)?,
            office: busiest(&office),
        })
    }
}

/// The most pages a second that so many held stations pass \[1/s\].
pub(super) fn part_b_limit(stations: u32) -> Result<f64, Failure> {
    Ok(part_b(stations)?.1)
}

fn busiest(office: &sim::Outcome) -> Vec<(String, f64)> {
    let gates = office.gates.iter();
    let gates = gates.map(|gate| (gate.name.clone(), gate.busy.mean / f64::from(gate.slots)));
    let stations = office.stations.iter();
    let stations =
        stations.filter_map(|station| Some((station.name.clone(), station.utilisation?.mean)));
    let mut all: Vec<(String, f64)> = gates.chain(stations).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all
}

/// Judges the claims of section 5, in the order of the list.
pub(super) fn judge(registry: &Registry, runs: &Runs) -> Result<Vec<Judged>, Failure> {
    let judge = Judge { registry, runs };
    Ok(vec![
        judge.check_a()?,
        judge.check_b()?,
        judge.busy(),
        judge.response_rises()?,
        judge.more_stations()?,
        judge.joined()?,
        judge.office(),
    ])
}

struct Judge<'a> {
    registry: &'a Registry,
    runs: &'a Runs,
}

impl Judge<'_> {
    fn claim(&self, id: &str) -> &Claim {
        self.registry.claim(id)
    }

    fn check_a(&self) -> Result<Judged, Failure> {
        let mut rows = Vec::new();
        for ((rate, known), simulated) in PART_A.iter().zip(&self.runs.part_a) {
            rows.push((*known, part_a(*rate, STATIONS_THEN)?, *simulated));
        }
        Ok(self.check("scan-stations", &rows, "At 0.2, 0.4, 0.6 and 0.7 pages a second"))
    }

    fn check_b(&self) -> Result<Judged, Failure> {
        let mut rows = Vec::new();
        for ((count, known), simulated) in PART_B.iter().zip(&self.runs.part_b) {
            rows.push((*known, part_b(*count)?.0, *simulated));
        }
        Ok(self.check("scan-loop", &rows, "With 1, 4 and 10 stations"))
    }

    /// Known values beside formula and simulation, row by row.
    fn check(&self, id: &str, rows: &[(f64, f64, Estimate)], at: &str) -> Judged {
        let claim = self.claim(id);
        // Known to five digits.
        let formula = rows.iter().all(|(known, formula, _)| (formula / known - 1.0).abs() < 1e-4);
        let off = |(known, _, simulated): &(f64, f64, Estimate)| simulated.mean / known - 1.0;
        let worst = rows.iter().map(off).max_by(|a, b| a.abs().total_cmp(&b.abs()));
        let worst = worst.expect("there are rows");
        let simulated: Vec<String> =
            rows.iter().map(|(_, _, simulated)| format!("{:.3}", simulated.mean)).collect();
        let word = if formula { "as known" } else { "differs" };
        claim
            .judge()
            .formula(word)
            .simulation(format!("{} off", percent(worst)))
            .found(format!("{at}, simulated: {} s.", simulated.join(", ")))
            .unstated((formula && worst.abs() <= claim.within()).into())
    }

    /// The stations are nearly full while LAN and server have room.
    fn busy(&self) -> Judged {
        let [stations, lan, server] = utilisations(BUSY, STATIONS_THEN);
        let claim = self.claim("stations-full");
        claim
            .judge()
            .formula(format!("{:.0} %", stations * 100.0))
            .found(format!(
                "At {BUSY:.2} pages a second the LAN is at {:.0} % and the scan server at {:.0} %.",
                lan * 100.0,
                server * 100.0
            ))
            .taken(claim.same(stations, claim.value()) && lan.max(server) < 0.5)
    }

    fn response_rises(&self) -> Result<Judged, Failure> {
        let (light, heavy) = (self.runs.part_a[0], self.runs.by_stations[0]);
        let formula = part_a(BUSY, STATIONS_THEN)? / part_a(PART_A[0].0, STATIONS_THEN)?;
        Ok(self
            .claim("response-rises")
            .judge()
            .formula(format!("x{formula:.1}"))
            .simulation(format!("x{:.1}", heavy.mean / light.mean))
            .found("Mean response time at 90 % utilisation over that at 25 %.")
            .shape(Answer::above(2.0, heavy.low() / light.high(), heavy.high() / light.low())))
    }

    fn more_stations(&self) -> Result<Judged, Failure> {
        let simulated = &self.runs.by_stations;
        let pairs = simulated.windows(2).flat_map(|pair| [pair[1].low(), pair[0].high()]);
        let (first, last) = (simulated[0], simulated[simulated.len() - 1]);
        let fall = [last.low() / first.high(), last.high() / first.low()];
        let ends: Vec<f64> = fall.into_iter().chain(pairs).collect();
        let formula = part_a(BUSY, FIGURE_5_3[4])? / part_a(BUSY, FIGURE_5_3[0])?;
        Ok(self
            .claim("more-stations")
            .judge()
            .formula(format!("x{formula:.2}"))
            .simulation(format!("x{:.2}", last.mean / first.mean))
            .found("Mean response time with eight stations over that with four, falling between.")
            .shape(Evidence::of(&ends, |ends| {
                let (last, pairs) = ends.split_at(2);
                let falls = pairs.chunks(2).all(|pair| pair[0] < pair[1]);
                Answer::from(falls).and(Answer::below(0.6, last[0], last[1]))
            })))
    }

    /// The two ways to join parts A and B.
    fn joined(&self) -> Result<Judged, Failure> {
        let claim = self.claim("joined");
        let (response_b, capacity) = part_b(STATIONS_THEN)?;
        let decoupled = part_a(JOINED, STATIONS_THEN)? + response_b;
        // As if the time for which a station is held were exponential: M/M/4 once more.
        let hold = f64::from(STATIONS_THEN) / capacity;
        let exponential =
            Mmc::new(JOINED, hold, STATIONS_THEN).map_err(Failure::defect)?.response();
        let held = self.runs.held;
        let as_known = claim.same(held.mean, HELD_KNOWN)
            && claim.same(decoupled, DECOUPLED_KNOWN)
            && claim.same(exponential, EXPONENTIAL_KNOWN);
        Ok(claim
            .judge()
            .formula(format!("{decoupled:.1} s"))
            .simulation(format!("{:.1} s", held.mean))
            .found(format!(
                "Mean response at {JOINED} pages a second. Formula: decoupled. Simulated: a station is \
                 held until the server has the page, {hold:.2} s, which leaves {capacity:.3} pages a \
                 second of 0.8; an M/M/4 with that service gives {exponential:.1} s.",
            ))
            .unstated(as_known.into()))
    }

    fn office(&self) -> Judged {
        let list: Vec<String> = (self.runs.office.iter().take(4))
            .map(|(name, share)| format!("{name} {:.0} %", share * 100.0))
            .collect();
        let first = &self.runs.office[0];
        self.claim("office")
            .judge()
            .simulation(format!("{:.0} %", first.1 * 100.0))
            .found(format!("The busiest: {}.", list.join(", ")))
            .unstated((first.0 == "stations").into())
    }
}
