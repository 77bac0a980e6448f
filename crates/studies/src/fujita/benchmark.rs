//! The claims of the paper's section 3, the benchmark, with the demand that its section 4 fits to
//! it: the saturated closed loop by formula, and the same simulated. What the authors measured on
//! their machines nobody can measure again; `--live` measures on this one.

use cli::Failure;
use cli::text::percent;
use solve::SaturatedLoop;
use workload::{Document, DocumentSet};

use super::super::claim::{Claim, Evidence, Judged, Registry};
use super::closed::{Loop, Simulated};
use super::open::{BASE_S, PER_BYTE_S};

/// Simulated requests a run: in a saturated loop hardly anything is left to chance.
const COMPLETIONS: u64 = 40_000;
/// With many helpers the largest document, one in a thousand, is long under way.
const COMPLETIONS_HELPERS: u64 = 200_000;
/// The helpers of experiments 3 to 5.
const HELPERS: u32 = 16;
/// The share of requests for 500 KB in the mixes of experiment 4, in per mille.
pub(super) const MIXES: [u32; 5] = [0, 250, 500, 750, 1000];
/// Capacity of 10 Mbit/s \[byte/s\].
const ETHERNET: f64 = 10e6 / 8.0;

/// g(x), eq. 5 \[s\].
fn demand_of(bytes: f64) -> f64 {
    PER_BYTE_S * bytes + BASE_S
}

/// Judges all claims of section 3 that need no measurement, in the order of the list.
pub(super) fn judge(registry: &Registry, seed: u64) -> Result<Vec<Judged>, Failure> {
    let judge = Judge { registry, seed };
    let mut judged = judge.clients()?;
    judged.push(judge.helpers()?);
    judged.extend(judge.sizes()?);
    judged.extend(judge.network()?);
    judged.extend(judge.mixes()?);
    judged.push(judge.by_document()?);
    Ok(judged)
}

/// Documents of 50 KB and 500 KB, so many per mille of the second; in quarters, so that a deck is short.
pub(super) fn mix(of_500: u32) -> DocumentSet {
    let document = |name: &str, bytes, weight| Document { name: name.into(), bytes, weight };
    let both = [document("50k", 50_000, 4 - of_500 / 250), document("500k", 500_000, of_500 / 250)];
    let asked = both.into_iter().filter(|one| one.weight > 0).collect();
    DocumentSet::new(asked).expect("one of the two has a weight")
}

/// The largest share by which values differ from the first.
fn spread(values: &[f64]) -> f64 {
    values.iter().map(|value| (value / values[0] - 1.0).abs()).fold(0.0, f64::max)
}

/// Evidence that what two witnesses say differs from their first values by no more than this share.
fn alike(by_formula: &[f64], by_simulation: &[f64], within: f64) -> Evidence {
    let cut = by_formula.len();
    Evidence::of(&[by_formula, by_simulation].concat(), |all| {
        let (formula, simulation) = all.split_at(cut);
        spread(formula) <= within && spread(simulation) <= within
    })
}

/// Evidence that all witnesses have the claim's number.
fn same(claim: &Claim, witnesses: &[f64]) -> Evidence {
    Evidence::of(witnesses, |all| all.iter().all(|one| claim.same(*one, claim.value())))
}

fn formula(run: &Loop) -> Result<SaturatedLoop, Failure> {
    SaturatedLoop::new(run.clients, run.slots, run.demand()).map_err(Failure::defect)
}

struct Judge<'a> {
    registry: &'a Registry,
    seed: u64,
}

impl Judge<'_> {
    fn simulate(&self, run: &Loop) -> Result<Simulated, Failure> {
        run.simulate(COMPLETIONS, self.seed)
    }

    fn webstone(&self, clients: u32, slots: u32) -> Loop {
        Loop::new(clients, slots, DocumentSet::webstone(), demand_of)
    }

    fn one_size(&self, clients: u32, bytes: u64) -> Loop {
        Loop::new(clients, HELPERS, DocumentSet::single("one", bytes), demand_of)
    }

    /// Experiment 2: the file list, 10 to 110 clients.
    fn clients(&self) -> Result<Vec<Judged>, Failure> {
        let (mut by_formula, mut by_simulation) = (Vec::new(), Vec::new());
        let clients = [10, 30, 50, 70, 90, 110];
        for c in clients {
            let run = self.webstone(c, HELPERS);
            by_formula.push(formula(&run)?.response() / f64::from(c));
            by_simulation.push(self.simulate(&run)?.response().mean / f64::from(c));
        }
        let claim = self.registry.claim("clients-linear");
        let both = [spread(&by_formula), spread(&by_simulation)];
        let linear = claim
            .judge()
            .formula(format!("{:.1} ms*c", by_formula[0] * 1e3))
            .simulation(format!("{:.1} ms*c", by_simulation[0] * 1e3))
            .found(format!(
                "R / c over {clients:?} clients: constant by formula, within {:.1} % simulated.",
                both[1] * 100.0
            ))
            .shape(alike(&by_formula, &by_simulation, claim.within()));

        let hundred = self.webstone(100, HELPERS);
        let (r_formula, simulated) = (formula(&hundred)?.response(), self.simulate(&hundred)?);
        let claim = self.registry.claim("hundred-clients");
        let r = simulated.response().mean;
        let three_s = claim
            .judge()
            .formula(format!("{r_formula:.2} s"))
            .simulation(format!("{r:.2} s"))
            .found("100 E[g] for the file list.")
            .number(same(claim, &[r_formula, r]));

        let claim = self.registry.claim("accesses-a-day");
        let a_day = |throughput: f64| throughput * 86_400.0 / 1e6;
        let (by_formula, simulated) =
            (a_day(formula(&hundred)?.throughput()), a_day(simulated.throughput().mean));
        let accesses = claim
            .judge()
            .formula(format!("{by_formula:.2} M"))
            .simulation(format!("{simulated:.2} M"))
            .found("1 / E[g] for the file list, over a day.")
            .number(same(claim, &[by_formula, simulated]));
        Ok(vec![linear, three_s, accesses])
    }

    /// Experiment 2: 8 to 48 helpers.
    fn helpers(&self) -> Result<Judged, Failure> {
        let (mut by_formula, mut by_simulation) = (Vec::new(), Vec::new());
        for slots in [8, 16, 32, 48] {
            let run = self.webstone(100, slots);
            let simulated = run.simulate(COMPLETIONS_HELPERS, self.seed)?;
            by_formula.push(formula(&run)?.response());
            by_simulation.push(simulated.response().mean);
        }
        let claim = self.registry.claim("helpers-hardly-matter");
        let both = [spread(&by_formula), spread(&by_simulation)];
        Ok(claim
            .judge()
            .formula(format!("{:.1} % diff", both[0] * 100.0))
            .simulation(format!("{:.1} % diff", both[1] * 100.0))
            .found("Mean response time of the file list at 100 clients, r = 8, 16, 32, 48.")
            .shape(alike(&by_formula, &by_simulation, claim.within())))
    }

    /// Experiment 3: one size at a time, 4 to 64 clients.
    fn sizes(&self) -> Result<Vec<Judged>, Failure> {
        const SIZES: [u64; 6] = [100, 1_000, 10_000, 100_000, 1_000_000, 5_000_000];
        let clients = [4, 8, 16, 32, 64];
        // By formula, by simulation.
        let mut grows: Vec<[f64; 2]> = Vec::new();
        let (mut off_demand, mut off_rate) = (0.0_f64, 0.0_f64);
        for bytes in SIZES {
            let mut rates = Vec::new();
            for c in clients {
                let run = self.one_size(c, bytes);
                let simulated = self.simulate(&run)?;
                let demand = simulated.response().mean / f64::from(c);
                off_demand = off_demand.max((demand / demand_of(bytes as f64) - 1.0).abs());
                rates.push(simulated.throughput().mean);
                if c == HELPERS {
                    grows.push([formula(&run)?.response(), simulated.response().mean]);
                }
            }
            off_rate = off_rate.max(spread(&rates));
        }
        let ratio =
            |witness: usize, from: usize, to: usize| grows[to][witness] / grows[from][witness];
        let text = |witness| format!("x{:.2}, x{:.1}", ratio(witness, 0, 1), ratio(witness, 4, 5));
        let flat = |witness| ratio(witness, 0, 1) < 1.1 && ratio(witness, 4, 5) > 4.5;
        let shape = self.registry.claim("flat-then-proportional").judge();
        let shape = shape
            .formula(text(0))
            .simulation(text(1))
            .found("Growth of R from 100 B to 1 KB (10 times the size), and from 1 MB to 5 MB (5 times).")
            .taken(flat(0) && flat(1));
        let claim = self.registry.claim("demand-from-response");
        let demand = claim
            .judge()
            .formula("g(x)")
            .simulation(format!("g(x) ± {:.1} %", off_demand * 100.0))
            .found(format!("R / c over {clients:?} clients and six sizes, against g(x)."))
            .shape(Evidence::of(&[off_demand], |off| off[0] <= claim.within()));
        let claim = self.registry.claim("rate-without-clients");
        let rate = claim
            .judge()
            .formula("1 / g(x)")
            .simulation(format!("{:.1} % diff", off_rate * 100.0))
            .found(format!("Connection rate over {clients:?} clients, at each of six sizes."))
            .shape(Evidence::of(&[off_rate], |off| off[0] <= claim.within()));
        Ok(vec![shape, demand, rate])
    }

    /// Experiment 5: 24 clients, documents of 5 MB, over ATM and over Ethernet.
    fn network(&self) -> Result<Vec<Judged>, Failure> {
        let mbit = |run: &Loop, rate: f64| rate * run.bytes() * 8.0 / 1e6;
        let atm = self.one_size(24, 5_000_000);
        let ethernet = Loop { line: Some(ETHERNET), ..atm.clone() };
        let server_limit = formula(&atm)?.throughput();
        let line_limit = ETHERNET / ethernet.bytes();
        let (over_atm, over_ethernet) = (self.simulate(&atm)?, self.simulate(&ethernet)?);
        let by_formula = [mbit(&atm, server_limit), mbit(&atm, server_limit.min(line_limit))];
        let simulated = [&over_atm, &over_ethernet].map(|run| mbit(&atm, run.throughput().mean));

        let number = |id: &str, at: usize| {
            let claim = self.registry.claim(id);
            let both = [by_formula[at], simulated[at]];
            let judged = claim
                .judge()
                .formula(format!("{:.1} Mb/s", both[0]))
                .simulation(format!("{:.1} Mb/s", both[1]))
                .found(format!(
                    "{} off the printed number.",
                    percent(both[0] / claim.value() - 1.0)
                ));
            (judged, both)
        };
        let (over, both) = number("throughput-limit", 0);
        let claim = self.registry.claim("throughput-limit");
        let over = over.taken(both.iter().all(|one| claim.same(*one, claim.value())));
        let (under, both) = number("ethernet-throughput", 1);
        let under = under.number(same(self.registry.claim("ethernet-throughput"), &both));
        let limits = [line_limit, server_limit, over_ethernet.server, over_atm.server];
        let is_limit =
            Evidence::of(&limits, |found| found[0] < found[1] && found[2] < 0.99 * found[3]);
        let limit = self
            .registry
            .claim("ethernet-is-the-limit")
            .judge()
            .formula("line")
            .simulation("line")
            .found(format!(
                "5 MB, 24 clients: the server can send {:.1} Mbit/s, the line carries 10; the \
                 simulated server is busy {:.0} % over ATM, {:.0} % over Ethernet.",
                by_formula[0],
                over_atm.server * 100.0,
                over_ethernet.server * 100.0
            ))
            .shape(is_limit);
        Ok(vec![over, limit, under])
    }

    /// Experiment 4: 50 KB and 500 KB mixed.
    fn mixes(&self) -> Result<Vec<Judged>, Failure> {
        let mut off_line = [0.0_f64; 2];
        let mut slowed = Vec::new();
        for clients in [4, 16, 32] {
            let mut means = Vec::new();
            let mut of_50 = Vec::new();
            for of_500 in MIXES {
                let run = Loop::new(clients, HELPERS, mix(of_500), demand_of);
                let (by_formula, simulated) = (formula(&run)?, self.simulate(&run)?);
                means.push([by_formula.response(), simulated.response().mean]);
                if of_500 < 1000 {
                    let given = by_formula.response_given(run.demands[0]);
                    let seen = simulated.of(0).expect("250 of 1000 ask for it").mean;
                    of_50.push([given.map_err(Failure::defect)?, seen]);
                }
            }
            for witness in 0..2 {
                let (first, last) = (means[0][witness], means[MIXES.len() - 1][witness]);
                for (of_500, mean) in MIXES.iter().zip(&means) {
                    let line = first + (last - first) * f64::from(*of_500) / 1000.0;
                    off_line[witness] = off_line[witness].max((mean[witness] / line - 1.0).abs());
                }
            }
            let ratio = |witness: usize| of_50[of_50.len() - 1][witness] / of_50[0][witness];
            slowed.push([ratio(0), ratio(1)]);
        }
        let (few, many) = (slowed[0], slowed[2]);
        let text = |ratio: f64| format!("x{ratio:.2}");
        let claim = self.registry.claim("mixed-mean");
        let mean = claim
            .judge()
            .formula(format!("{:.1} % off", off_line[0] * 100.0))
            .simulation(format!("{:.1} % off", off_line[1] * 100.0))
            .found(
                "Largest distance of the mean response time from the line between the pure loads.",
            )
            .shape(Evidence::of(&off_line, |off| off.iter().all(|off| *off <= claim.within())));
        let found = "Response time of 50 KB documents where three quarters ask for 500 KB, over that \
                     where nobody does.";
        let claim = self.registry.claim("mixed-many-clients").judge();
        let slow = claim.formula(text(many[0])).simulation(text(many[1])).found(found);
        let slow = slow.shape(Evidence::of(&many, |ratios| ratios.iter().all(|one| *one > 1.5)));
        let claim = self.registry.claim("mixed-few-clients");
        let fast = claim.judge().formula(text(few[0])).simulation(text(few[1])).found(found);
        let fast = fast
            .shape(Evidence::of(&few, |ratios| ratios.iter().all(|ratio| claim.same(*ratio, 1.0))));
        Ok(vec![mean, slow, fast])
    }

    /// The closed form by document, for the file list at 32 clients.
    fn by_document(&self) -> Result<Judged, Failure> {
        let run = self.webstone(32, HELPERS);
        let (by_formula, simulated) = (formula(&run)?, self.simulate(&run)?);
        let mut worst = 0.0_f64;
        for (at, demand) in run.demands.iter().enumerate() {
            let given = by_formula.response_given(*demand).map_err(Failure::defect)?;
            let seen = simulated.of(at).expect("a deck holds every document").mean;
            worst = worst.max((given / seen - 1.0).abs());
        }
        let claim = self.registry.claim("closed-form");
        Ok(claim
            .judge()
            .formula("exact")
            .simulation(format!("{:.1} % off", worst * 100.0))
            .unstated((worst <= claim.within()).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pure_mixes_have_one_document_and_spread_is_against_the_first() {
        assert_eq!(mix(0).len(), 1);
        assert_eq!(mix(250).share(1), 0.25);
        assert_eq!(mix(1000).documents()[0].name, "500k");
        assert!((spread(&[2.0, 1.0, 3.0]) - 0.5).abs() < 1e-12);
    }
}
