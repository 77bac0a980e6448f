//! Regulates: gates in real time.
