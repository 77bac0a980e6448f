//! Asks: who asks, when, and for what.
