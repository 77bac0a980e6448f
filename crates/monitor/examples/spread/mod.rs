//! What several runs of the same came to: the median between the least and the most.

/// Of at least one run.
pub(crate) struct Spread {
    least: f64,
    pub(crate) median: f64,
    most: f64,
}

impl Spread {
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Spread {
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_by(f64::total_cmp);
        let most = *sorted.last().expect("there is a run");
        Spread { least: sorted[0], median: sorted[sorted.len() / 2], most }
    }

    pub(crate) fn show(&self, digits: usize) -> String {
        let Spread { least, median, most } = self;
        format!("{median:.digits$} ({least:.digits$}..{most:.digits$})")
    }
}
