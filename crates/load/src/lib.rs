//! Presses: clients in real time.
