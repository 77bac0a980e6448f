//! Exactness of an answer, said by the answer itself.

use std::fmt;

/// Exactness of an answer: the model's true value, or an approximation of it. It says nothing of
/// how well the model fits a real server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Exactness {
    /// The true value of the model, up to rounding.
    Exact,
    /// Near the true value.
    Approximate {
        /// Basis of the approximation.
        source: &'static str,
        /// The largest relative error observed against simulation or an exact solution over the
        /// range named by the model's documentation; no guarantee outside it.
        error: f64,
    },
}

impl Exactness {
    /// True if the answer is the model's true value.
    pub fn is_exact(self) -> bool {
        self == Exactness::Exact
    }
}

impl fmt::Display for Exactness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exactness::Exact => f.write_str("exact"),
            Exactness::Approximate { source, error } => {
                let percent = error * 100.0;
                // One digit that says something, however small the error is.
                let decimals =
                    if percent >= 0.95 { 0.0 } else { (-percent.log10()).ceil().min(12.0) };
                let decimals = decimals as usize;
                write!(f, "approximate (within {percent:.decimals$} % where tried; {source})")
            }
        }
    }
}
