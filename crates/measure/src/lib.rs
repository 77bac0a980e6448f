//! Records: run records, recordings of gates, histograms, intervals.
