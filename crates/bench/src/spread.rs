//! Spread of several runs of the same: the median between the least and the most.

/// Median, least and most of at least one run.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    least: f64,
    /// The value in the middle.
    pub median: f64,
    most: f64,
}

impl Spread {
    /// The spread of some values.
    ///
    /// # Panics
    /// If there is none.
    pub fn of(values: impl Iterator<Item = f64>) -> Spread {
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_by(f64::total_cmp);
        let most = *sorted.last().expect("there is a run");
        Spread { least: sorted[0], median: sorted[sorted.len() / 2], most }
    }

    /// `median (least..most)`, with so many digits after the point.
    pub fn show(&self, digits: usize) -> String {
        let Spread { least, median, most } = self;
        format!("{median:.digits$} ({least:.digits$}..{most:.digits$})")
    }
}
