//! Open networks of one class, exactly: jobs come from outside, pass the stations, and leave.

use crate::closed::{Kind, Station, StationAnswer};
use crate::error::{not_negative, stable};
use crate::{Exactness, Mmc, SolveError};

/// Poisson arrivals that pass through stations of product form (see [`Station`]).
///
/// ```
/// use solve::{OpenNetwork, Station};
///
/// let stations = [Station::multi(8e-3, 4)?, Station::queue(2e-3)?, Station::delay(1e-3)?];
/// let answer = OpenNetwork::new(300.0, &stations)?.solve();
/// assert!((answer.stations[1].residence - 5e-3).abs() < 1e-12);
/// # Ok::<(), solve::SolveError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct OpenNetwork {
    pub(crate) lambda: f64,
    pub(crate) stations: Vec<Station>,
}

/// Results of an open network, as means over a long time.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenAnswer {
    /// Response time from arrival to leaving, R \[s\].
    pub response: f64,
    /// The stations, in the order given.
    pub stations: Vec<StationAnswer>,
}

impl OpenNetwork {
    /// A network with arrival rate lambda [1/s].
    ///
    /// # Errors
    /// If there is no station, lambda is negative, or the utilisation of a station is not below 1
    /// (the error names the station, counted from 0).
    pub fn new(lambda: f64, stations: &[Station]) -> Result<OpenNetwork, SolveError> {
        let lambda = not_negative("arrival rate lambda", lambda, "/s")?;
        if stations.is_empty() {
            return Err(SolveError::Zero { name: "stations" });
        }
        for (k, station) in stations.iter().enumerate() {
            if let Kind::Queue { servers } = station.kind {
                stable(|| format!("station {k}"), lambda, station.demand, servers)?;
            }
        }
        Ok(OpenNetwork { lambda, stations: stations.to_vec() })
    }

    /// Response time, and every station's part in it: by Jackson's theorem each is an M/M/c alone.
    pub fn solve(&self) -> OpenAnswer {
        let stations: Vec<StationAnswer> =
            self.stations.iter().map(|station| self.station(station)).collect();
        let response = stations.iter().map(|station| station.residence).sum();
        OpenAnswer { response, stations }
    }

    /// Exact, for the stations that [`Station`] describes.
    pub fn exactness(&self) -> Exactness {
        Exactness::Exact
    }

    fn station(&self, station: &Station) -> StationAnswer {
        let d = station.demand;
        let (residence, utilisation) = match station.kind {
            Kind::Delay => (d, None),
            Kind::Queue { .. } if d == 0.0 => (0.0, Some(0.0)),
            Kind::Queue { servers } => {
                let queue = Mmc::new(self.lambda, d, servers).expect("new() checked the load");
                (queue.response(), Some(queue.utilisation()))
            }
        };
        StationAnswer { residence, jobs: self.lambda * residence, utilisation }
    }
}
