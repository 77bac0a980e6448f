//! yamamoto's cluster: servers with caches of agents before one database, with and without a
//! scheduler that first serves all agents in the cache (cohort A), then all others (cohort B).

use crate::error::{at_least_one, positive};
use crate::{Exactness, SolveError};

/// N agents that are each asked for once a scan, on M servers before one database (yamamoto,
/// sections 6 and 7). A scan takes, by the busier of servers and database,
///
/// ```text
///   without  P = max(P1, P2)    P1 = N/M (1/T_ag + (1 - C_no + U)/T_agdb)      P2 = N (1 - C_no + U)/T_db
///   with     P = max(A1, A2)    A1 = N/M (C_ag/T_ag + C_ag U/T_agdb)           A2 = N C_ag U/T_db
///              + max(B1, B2)    B1 = N/M (1 - C_ag)(1/T_ag + (1 + U)/T_agdb)   B2 = N (1 - C_ag)(1 + U)/T_db
/// ```
///
/// The times of servers and database overlap without loss within a cohort, and not at all between
/// cohorts: fetching cohort B in batches or ahead of time is not in the model.
///
/// ```
/// use solve::{Cluster, Cohorts};
///
/// // T_ag = 1500, T_agdb = 1000, T_db = 2000 a second; one agent in ten is written.
/// let cluster = Cluster::new(1_649_485.0, 8, 1500.0, 1000.0, 2000.0, 0.1)?;
/// let answer = cluster.compare(0.970, 0.8943)?;
/// assert_eq!(answer.cohorts, Cohorts::Case2);
/// assert!((answer.throughput_without - 9170.88).abs() < 5.0);
/// assert!((answer.throughput_with - 9135.89).abs() < 0.01);
/// # Ok::<(), solve::SolveError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cluster {
    agents: f64,
    servers: u32,
    in_cache: f64,
    access: f64,
    database: f64,
    writes: f64,
}

/// Cases by the limit, servers or database, of the scan without the scheduler and of both cohorts
/// with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cohorts {
    /// The servers, always (P1 >= P2, A1 >= A2, B1 >= B2): the scheduler wins.
    Case1,
    /// The servers, but the database in cohort B (P1 >= P2, A1 >= A2, B1 < B2): it can lose.
    Case2,
    /// The database, but the servers in cohort A (P1 < P2, A1 >= A2, B1 < B2): it can lose.
    Case3,
    /// The database, always (P1 < P2, A1 < A2, B1 < B2): the scheduler wins.
    Case4,
    /// The servers limit a cohort while the database limits the scan that is no better off; only
    /// possible where C_ag is below C_no.
    Mixed,
}

/// One scan with and without the scheduler.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClusterAnswer {
    /// N / P without the scheduler [1/s].
    pub throughput_without: f64,
    /// N / P with it [1/s].
    pub throughput_with: f64,
    /// The case by these limits.
    pub cohorts: Cohorts,
    /// P1 = P2 at this many servers, M_A.
    pub servers_scan: f64,
    /// B1 = B2 at this many servers, M_B.
    pub servers_fetched: f64,
    /// A1 = A2 at this many servers, M_C; infinite if nothing is written.
    pub servers_cached: f64,
    /// In case 2 the scheduler wins up to this many servers; infinite if it always does.
    pub wins_up_to: f64,
    /// In case 3 the scheduler wins from this many servers on; infinite if it never does.
    pub wins_from: f64,
}

impl Cluster {
    /// N agents on M servers. A server does T_ag agents a second that are in its cache, and T_agdb
    /// accesses to the database; the database takes T_db accesses of all servers [1/s]. A share U of
    /// the agents writes, from 0 to 1.
    ///
    /// # Errors
    /// If a number is not positive, there is no server, or the share is not from 0 to 1.
    pub fn new(
        agents: f64,
        servers: u32,
        in_cache: f64,
        access: f64,
        database: f64,
        writes: f64,
    ) -> Result<Cluster, SolveError> {
        Ok(Cluster {
            agents: positive("agents N", agents, "agents")?,
            servers: at_least_one("servers M", servers)?,
            in_cache: positive("agents in cache T_ag", in_cache, "/s")?,
            access: positive("accesses of a server T_agdb", access, "/s")?,
            database: positive("accesses of the database T_db", database, "/s")?,
            writes: share("share of writing agents U", writes)?,
        })
    }

    /// With the scheduler the hit ratio is the share of agents that fits in the caches, C_ag;
    /// without it, C_no ([`lru_hit_ratio`] or a measured one).
    ///
    /// # Errors
    /// If a hit ratio is not from 0 to 1.
    pub fn compare(&self, cached: f64, hit_ratio: f64) -> Result<ClusterAnswer, SolveError> {
        let c_ag = share("cached share C_ag", cached)?;
        let c_no = share("hit ratio C_no", hit_ratio)?;
        let Cluster {
            agents: n, in_cache: t_ag, access: t_agdb, database: t_db, writes: u, ..
        } = *self;
        let m = f64::from(self.servers);
        let p = (n / m * (1.0 / t_ag + (1.0 - c_no + u) / t_agdb), n * (1.0 - c_no + u) / t_db);
        let a = (n / m * (c_ag / t_ag + c_ag * u / t_agdb), n * c_ag * u / t_db);
        let b = (
            n * (1.0 - c_ag) / m * (1.0 / t_ag + (1.0 + u) / t_agdb),
            n * (1.0 - c_ag) * (1.0 + u) / t_db,
        );
        let met = |accesses: f64| t_db / (accesses * t_ag) + t_db / t_agdb;
        let wins_up_to = if c_ag < 1.0 {
            let spared = (1.0 - c_no + u - c_ag * u) / ((1.0 + u) * (1.0 - c_ag));
            t_db / ((1.0 + u) * t_ag) + spared * t_db / t_agdb
        } else {
            f64::INFINITY
        };
        let gain = c_ag * (1.0 + u) - c_no;
        let wins_from = if gain > 0.0 {
            c_ag * t_db / (gain * t_ag) + c_ag * u * t_db / (gain * t_agdb)
        } else {
            f64::INFINITY
        };
        Ok(ClusterAnswer {
            throughput_without: n / p.0.max(p.1),
            throughput_with: n / (a.0.max(a.1) + b.0.max(b.1)),
            cohorts: match (p.0 >= p.1, a.0 >= a.1, b.0 >= b.1) {
                (true, true, true) => Cohorts::Case1,
                (true, true, false) => Cohorts::Case2,
                (false, true, false) => Cohorts::Case3,
                (false, false, false) => Cohorts::Case4,
                _ => Cohorts::Mixed,
            },
            servers_scan: met(1.0 - c_no + u),
            servers_fetched: met(1.0 + u),
            servers_cached: met(u),
            wins_up_to,
            wins_from,
        })
    }

    /// The model's own arithmetic, without approximation.
    pub fn exactness(&self) -> Exactness {
        Exactness::Exact
    }
}

/// Hit ratio of an LRU cache that holds a share c of all agents, when every scan asks for each agent
/// once in a fresh random order: C_no(c) = c + (1 - c) ln(1 - c).
///
/// # Errors
/// If the share is not from 0 to 1.
pub fn lru_hit_ratio(cached: f64) -> Result<f64, SolveError> {
    let c = share("cached share c", cached)?;
    if c == 1.0 {
        return Ok(1.0);
    }
    // Below some 1e-8 the two terms cancel, and c^2 / 2 is all that is left of the series.
    if c < 1e-4 {
        return Ok(c * c * (0.5 + c / 6.0 + c * c / 12.0));
    }
    Ok(c + (1.0 - c) * (-c).ln_1p())
}

/// The hit ratio on the straight line from one measured point (c, C_no) to (1, 1).
///
/// # Errors
/// If a share is not from 0 to 1, or the measured point is at c = 1 already.
pub fn chord_hit_ratio(cached: f64, measured: (f64, f64)) -> Result<f64, SolveError> {
    let c = share("cached share c", cached)?;
    let from = share("measured share c", measured.0)?;
    let hit = share("measured hit ratio C_no", measured.1)?;
    if from == 1.0 || c < from {
        return Err(SolveError::Share { name: "cached share c on the chord", value: c });
    }
    Ok(hit + (1.0 - hit) * (c - from) / (1.0 - from))
}

fn share(name: &'static str, value: f64) -> Result<f64, SolveError> {
    if (0.0..=1.0).contains(&value) { Ok(value) } else { Err(SolveError::Share { name, value }) }
}
