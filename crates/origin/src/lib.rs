//! Stands in: servers whose work demand is known, to measure against.
