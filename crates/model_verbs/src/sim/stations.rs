//! The table of stations: a row for each, but one for many that are equal, so that a thousand servers do
//! not push the answer off the screen.

use cli::text::{Table, label, time};
use sim::StationOutcome;

use super::{jobs, percent, time_or_dash};

/// Of so many equal stations each still has a row.
const ROWS_MAX: usize = 8;

/// Every station; of many with a common name (`web-1`, `web-2`, ...) the lowest and the highest mean.
pub(super) fn table(stations: &[StationOutcome]) -> Table {
    let mut table = Table::new(&["station", "busy", "jobs", "a visit takes"]);
    let mut rest = stations;
    while let [first, ..] = rest {
        let equal = 1 + rest.windows(2).take_while(|pair| follows(&pair[0], &pair[1])).count();
        let (group, later) = rest.split_at(if equal > ROWS_MAX { equal } else { 1 });
        table.row(if equal > ROWS_MAX { span(group) } else { each(first) });
        rest = later;
    }
    table
}

/// Is it `web-8` after `web-7`?
fn follows(one: &StationOutcome, next: &StationOutcome) -> bool {
    let numbered = |name: &str| {
        let (stem, number) = name.rsplit_once('-')?;
        Some((stem.to_owned(), number.parse::<u32>().ok()?))
    };
    match (numbered(&one.name), numbered(&next.name)) {
        (Some((stem, number)), Some(next)) => {
            number.checked_add(1).map(|n| (stem, n)) == Some(next)
        }
        _ => false,
    }
}

fn each(station: &StationOutcome) -> Vec<String> {
    let busy = station.utilisation.as_ref().map_or("-".into(), |busy| percent(busy, 1.0));
    let sojourn = time_or_dash(station.sojourn.as_ref());
    vec![label(&station.name), busy, jobs(&station.jobs), sojourn]
}

fn span(stations: &[StationOutcome]) -> Vec<String> {
    let between = |of: &dyn Fn(&StationOutcome) -> Option<f64>, text: &dyn Fn(f64) -> String| {
        let means = stations.iter().filter_map(of);
        let ends = means.fold(None, |ends: Option<(f64, f64)>, mean| {
            Some(ends.map_or((mean, mean), |(low, high)| (low.min(mean), high.max(mean))))
        });
        ends.map_or("-".into(), |(low, high)| format!("{} to {}", text(low), text(high)))
    };
    let name = |at: usize| &*stations[at].name;
    let number = name(stations.len() - 1).rsplit('-').next().unwrap_or_default();
    vec![
        format!("{} to {number}", label(name(0))),
        between(&|one| Some(one.utilisation.as_ref()?.mean), &|busy| {
            format!("{:.1} %", 100.0 * busy)
        }),
        between(&|one| Some(one.jobs.mean), &|jobs| format!("{jobs:.2}")),
        between(&|one| Some(one.sojourn.as_ref()?.mean), &time),
    ]
}

#[cfg(test)]
mod tests {
    use measure::Estimate;

    use super::*;

    fn station(name: &str, mean: f64) -> StationOutcome {
        let estimate = Estimate { mean, half_width: 0.01, confidence: 0.95, n: 10 };
        StationOutcome {
            name: name.to_owned(),
            utilisation: Some(estimate),
            jobs: estimate,
            sojourn: Some(estimate),
            throughput: estimate,
            lost: estimate,
        }
    }

    #[test]
    fn many_equal_stations_are_one_row_with_the_lowest_and_the_highest() {
        let mut stations: Vec<_> = (1..=1000).map(|n| station(&format!("web-{n}"), 0.5)).collect();
        stations[17].utilisation.as_mut().expect("a server").mean = 0.25;
        stations.insert(0, station("web-0-front", 0.1));
        stations.push(station("disk-2", 0.7));
        let text = table(&stations).to_string();
        let rows: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(rows.len(), 4, "{text}");
        assert!(rows[1].starts_with("web-0-front") && rows[1].contains("10.0 % ± 1.0"), "{text}");
        assert!(
            rows[2].starts_with("web-1 to 1000") && rows[2].contains("25.0 % to 50.0 %"),
            "{text}"
        );
        assert!(rows[3].starts_with("disk-2"), "{text}");
    }

    #[test]
    fn few_stations_have_a_row_each() {
        let stations: Vec<_> = (1..=ROWS_MAX).map(|n| station(&format!("web-{n}"), 0.5)).collect();
        assert_eq!(table(&stations).to_string().lines().count(), 1 + ROWS_MAX);
    }
}
