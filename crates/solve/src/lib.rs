//! Predicts: what the formulas say.
