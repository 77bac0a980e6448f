//! Answers: from records to a fitted scenario, questions, scored predictions.
