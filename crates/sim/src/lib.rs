//! Virtual time: networks of gates and stations, simulated.
