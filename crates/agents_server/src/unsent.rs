//! A delivery that failed, whatever the way was.

/// The cause why a notification did not arrive.
#[derive(Debug)]
pub(crate) struct Unsent {
    pub(crate) cause: String,
    /// Its destination is well, and would never take it.
    pub(crate) is_final: bool,
}

impl From<String> for Unsent {
    fn from(cause: String) -> Unsent {
        Unsent { cause, is_final: false }
    }
}
