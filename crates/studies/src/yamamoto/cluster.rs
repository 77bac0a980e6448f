//! Sections 6 and 7: agent servers before one database, with and without the scheduler, and where it
//! can lose.

use cli::Failure;
use cli::text::percent;
use solve::{Cluster, ClusterAnswer, Cohorts, SolveError, chord_hit_ratio, lru_hit_ratio};

use super::super::claim::{Claim, Evidence, Judged, Registry};

/// Agents that one server caches.
pub(super) const CACHED: f64 = 200_000.0;
/// Agents of figure 8.
pub(super) const AGENTS: f64 = 1_500_000.0;
/// Agents in cache that a server does, accesses that it issues, accesses that the database takes \[1/s\],
/// and the share of agents that writes.
pub(super) const T_AG: f64 = 3757.4;
pub(super) const T_AGDB: f64 = 1000.0;
pub(super) const T_DB: f64 = 2000.0;
pub(super) const U: f64 = 0.1;
/// T_ag of figures 9 and 10 \[1/s\].
pub(super) const SLOW: f64 = 1500.0;
pub(super) const FAST: f64 = 4500.0;
/// Start of the straight line to (1, 1) that the paper's values imply: (c, C_no).
const CHORD: (f64, f64) = (0.90, 0.65);
/// The most servers of figures 9 and 10.
pub(super) const SERVERS_MAX: u32 = 20;

/// The hit ratio without the scheduler, by the cached share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Curve {
    /// Of LRU under random order, in theory.
    Theory,
    /// The same up to 0.9, and a straight line from there on.
    Chord,
}

impl Curve {
    pub(super) fn at(self, cached: f64) -> Result<f64, SolveError> {
        match self {
            Curve::Chord if cached >= CHORD.0 => chord_hit_ratio(cached, CHORD),
            Curve::Theory | Curve::Chord => lru_hit_ratio(cached),
        }
    }
}

fn cluster(agents: f64, servers: u32, t_ag: f64) -> Result<Cluster, Failure> {
    Cluster::new(agents, servers, t_ag, T_AGDB, T_DB, U).map_err(Failure::defect)
}

/// So many servers whose caches hold this share of all agents.
pub(super) fn at(
    servers: u32,
    cached: f64,
    t_ag: f64,
    curve: Curve,
) -> Result<ClusterAnswer, Failure> {
    let agents = CACHED * f64::from(servers) / cached;
    let hits = curve.at(cached).map_err(Failure::defect)?;
    cluster(agents, servers, t_ag)?.compare(cached, hits).map_err(Failure::defect)
}

/// Figure 8: 1.5 million agents on so many servers.
pub(super) fn figure_8(servers: u32, curve: Curve) -> Result<ClusterAnswer, Failure> {
    let cached = (CACHED * f64::from(servers) / AGENTS).min(1.0);
    let hits = curve.at(cached).map_err(Failure::defect)?;
    cluster(AGENTS, servers, T_AG)?.compare(cached, hits).map_err(Failure::defect)
}

/// Speed-up by the scheduler.
pub(super) fn gain(answer: &ClusterAnswer) -> f64 {
    answer.throughput_with / answer.throughput_without - 1.0
}

/// Cached shares of figures 9 and 10, in thousandths.
pub(super) fn shares() -> impl Iterator<Item = f64> + Clone {
    (1..1000).map(|at| f64::from(at) / 1000.0)
}

/// The numbers of servers with which the scheduler loses at some cached share. Near 1 the region of
/// losses is narrow, so that a finer step is taken from 0.99 on.
fn losing(t_ag: f64, curve: Curve) -> Result<Vec<u32>, Failure> {
    let fine = (0..1000).map(|at| 0.99 + f64::from(at) / 100_000.0);
    let mut losing = Vec::new();
    for servers in 1..=SERVERS_MAX {
        for cached in shares().chain(fine.clone()) {
            if gain(&at(servers, cached, t_ag, curve)?) < -1e-9 {
                losing.push(servers);
                break;
            }
        }
    }
    Ok(losing)
}

/// Judges the claims on the model, in the order of the list.
pub(super) fn judge(registry: &Registry) -> Result<Vec<Judged>, Failure> {
    let judge = Judge { registry };
    let mut judged = judge.one_server()?;
    judged.extend(judge.figure_8()?);
    judged.extend(judge.cases()?);
    judged.extend(judge.check_values()?);
    judged.extend(judge.losses()?);
    judged.push(judge.per_second()?);
    let by_formula = cluster(AGENTS, 1, T_AG)?.exactness().into();
    Ok(judged.into_iter().map(|one| one.approximate(by_formula)).collect())
}

/// Distances of N (C_ag - C_no) / (M T_agdb), and of N / (M (C_ag - C_no) T_agdb) as it is printed,
/// from P_no - P, as shares of P.
fn case_1_off(m: u32, cached: f64, answer: &ClusterAnswer) -> Result<[f64; 2], Failure> {
    let agents = CACHED * f64::from(m) / cached;
    let (without, with) = (agents / answer.throughput_without, agents / answer.throughput_with);
    let hits = Curve::Theory.at(cached).map_err(Failure::defect)?;
    let (gap, each) = (cached - hits, agents / (f64::from(m) * T_AGDB));
    Ok([each * gap, each / gap].map(|formula| ((without - with) - formula).abs() / with))
}

struct Judge<'a> {
    registry: &'a Registry,
}

impl Judge<'_> {
    fn claim(&self, id: &str) -> &Claim {
        self.registry.claim(id)
    }

    /// Section 5's figures from the model alone, with one server.
    fn one_server(&self) -> Result<Vec<Judged>, Failure> {
        let (mut best, mut best_at) = (0.0, 0.0);
        for cached in shares() {
            let gain = gain(&at(1, cached, T_AG, Curve::Theory)?);
            if gain > best {
                (best, best_at) = (gain, cached);
            }
        }
        let claim = self.claim("best-gain");
        let most = claim
            .judge()
            .formula(percent(best))
            .found(format!("At {best_at:.2} cached."))
            .number(Evidence::of(&[best], |found| claim.same(found[0], claim.value())));
        let claim = self.claim("half-speed");
        let [some, all] = [0.9, 1.0].map(|cached| at(1, cached, T_AG, Curve::Theory));
        let share = some?.throughput_without / all?.throughput_without;
        let half = claim
            .judge()
            .formula(format!("{share:.2}"))
            .number(Evidence::of(&[share], |found| claim.same(found[0], claim.value())));
        Ok(vec![most, half])
    }

    fn figure_8(&self) -> Result<Vec<Judged>, Failure> {
        let answers = (1..=8).map(|servers| figure_8(servers, Curve::Theory));
        let answers: Vec<ClusterAnswer> = answers.collect::<Result<_, _>>()?;
        let gains: Vec<f64> = answers.iter().map(gain).collect();
        let most = gains.iter().copied().fold(0.0, f64::max);
        let claim = self.claim("largest-gain");
        let list: Vec<String> = gains.iter().map(|gain| format!("{:.0}", gain * 100.0)).collect();
        let largest = claim
            .judge()
            .formula(percent(most))
            .found(format!(
                "1 to 8 servers: {} %; with the straight line from 0.9 cached on, {} with 7.",
                list.join(", "),
                percent(gain(&figure_8(7, Curve::Chord)?))
            ))
            .number(Evidence::of(&[most], |found| claim.same(found[0], claim.value())));
        let claim = self.claim("ends-meet");
        let ends = gains[0].max(gains[7]);
        let meet = claim
            .judge()
            .formula(percent(ends))
            .found("The larger gain of one server (13 % cached) and eight (all cached).")
            .taken(ends <= claim.within());
        let claim = self.claim("database-limits");
        let is_database =
            |answer: &ClusterAnswer| matches!(answer.cohorts, Cohorts::Case3 | Cohorts::Case4);
        let first = answers.iter().position(is_database).map_or(0, |at| at + 1);
        let limits = claim
            .judge()
            .formula(first.to_string())
            .found("The fewest servers with which the database takes longer.")
            .number(Evidence::of(&[first as f64], |found| found[0] == claim.value()));
        Ok(vec![largest, meet, limits])
    }

    /// Claims on who wins in which case, and where the cases begin.
    fn cases(&self) -> Result<Vec<Judged>, Failure> {
        let (mut least, mut seen, mut off) = (f64::INFINITY, 0, 0.0_f64);
        let mut printed_off = f64::INFINITY;
        for t_ag in [SLOW, T_AG, FAST] {
            for servers in 1..=SERVERS_MAX {
                for cached in shares().step_by(10) {
                    let answer = at(servers, cached, t_ag, Curve::Theory)?;
                    if matches!(answer.cohorts, Cohorts::Case1 | Cohorts::Case4) {
                        seen += 1;
                        least = least.min(gain(&answer));
                    }
                    if answer.cohorts == Cohorts::Case1 {
                        let [repaired, printed] = case_1_off(servers, cached, &answer)?;
                        off = off.max(repaired);
                        printed_off = printed_off.min(printed);
                    }
                }
            }
        }
        let wins = self
            .claim("case-1")
            .judge()
            .formula(format!("{seen} points"))
            .found(format!("The least gain among them is {}.", percent(least)))
            .shape(Evidence::of(&[least], |found| found[0] >= -1e-9));
        let claim = self.claim("case-1-difference");
        let bracket = claim
            .judge()
            .formula(format!("{printed_off:.0e} off"))
            .found(format!("As printed, at least; with the bracket put right {off:.1e} at most."))
            .number(Evidence::of(&[printed_off], |found| found[0] <= claim.within()));
        assert!(off < claim.within(), "the repaired formula of case 1 is {off} off");
        let answer = at(8, 0.97, SLOW, Curve::Chord)?;
        let claim = self.claim("case-2-from");
        let from = claim
            .judge()
            .formula(format!("{:.2}", answer.servers_fetched))
            .found(format!("A1 = A2 at {:.2} servers.", answer.servers_cached))
            .number(Evidence::of(&[answer.servers_fetched], |found| {
                claim.same(found[0], claim.value())
            }));
        Ok(vec![wins, bracket, from])
    }

    /// The two points that the text prints.
    fn check_values(&self) -> Result<Vec<Judged>, Failure> {
        let mut judged = Vec::new();
        for (id, servers, cached, printed) in
            [("eight-servers", 8, 0.970, 9170.88), ("ten-servers", 10, 0.980, 11766.09)]
        {
            let claim = self.claim(id);
            let chord = at(servers, cached, SLOW, Curve::Chord)?;
            let theory = at(servers, cached, SLOW, Curve::Theory)?;
            let off = chord.throughput_without / printed - 1.0;
            // Of the two only what is done with the scheduler: the straight line was read from the other.
            let with =
                Evidence::of(&[chord.throughput_with], |found| claim.same(found[0], claim.value()));
            judged.push(
                claim
                    .judge()
                    .formula(format!("{:.2}", chord.throughput_with))
                    .found(format!(
                        "Without the scheduler {:.2} a second by the straight line ({} from the \
                         printed {printed}), {:.2} by theory.",
                        chord.throughput_without,
                        percent(off),
                        theory.throughput_without
                    ))
                    .number(with),
            );
        }
        let claim = self.claim("users");
        let users = [(8.0, 0.970), (10.0, 0.980)].map(|(m, cached)| CACHED * m / cached);
        judged.push(
            claim
                .judge()
                .formula(format!("{:.0}", users[0]))
                .found(format!("{:.0} with 10 servers.", users[1]))
                .taken(claim.same(users[0], claim.value())),
        );
        Ok(judged)
    }

    /// Claims on where the scheduler loses.
    fn losses(&self) -> Result<Vec<Judged>, Failure> {
        let chord = losing(SLOW, Curve::Chord)?;
        let theory = losing(SLOW, Curve::Theory)?;
        let span = |servers: &[u32]| match servers {
            [] => "never".to_owned(),
            [first, .., last] => format!("{first} to {last}"),
            [one] => one.to_string(),
        };
        let expected: Vec<u32> = (8..=15).collect();
        let loses = self.claim("loses").judge().formula(span(&chord)).taken(chord == expected);
        let in_theory = self
            .claim("loses-in-theory")
            .judge()
            .formula(span(&theory))
            .unstated(theory.is_empty().into());
        let fast = [Curve::Chord, Curve::Theory].map(|curve| losing(FAST, curve));
        let [by_chord, by_theory] = fast;
        let (by_chord, by_theory) = (by_chord?, by_theory?);
        let never = self
            .claim("never-loses")
            .judge()
            .formula(span(&by_chord))
            .found("With either hit ratio.")
            .shape(Evidence::of(&[by_chord.len() as f64, by_theory.len() as f64], |losing| {
                losing.iter().all(|servers| *servers == 0.0)
            }));
        Ok(vec![loses, in_theory, never])
    }

    fn per_second(&self) -> Result<Judged, Failure> {
        let answer = at(8, 0.970, SLOW, Curve::Chord)?;
        let agents = CACHED * 8.0 / 0.970;
        let inverse = answer.throughput_with / agents;
        let printed = self.claim("eight-servers").value();
        Ok(self
            .claim("per-second")
            .judge()
            .formula("N/P")
            .found(format!(
                "1/P with 8 servers is {inverse:.5} a second, N/P {:.2}; the paper has {printed}.",
                answer.throughput_with
            ))
            .number(Evidence::of(&[inverse], |found| (found[0] / printed - 1.0).abs() < 0.001)))
    }
}
