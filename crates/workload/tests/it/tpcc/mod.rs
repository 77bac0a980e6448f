//! TPC-C: every rule of the specification that numbers can show.

mod inputs;
mod nurand;
mod population;
mod terminals;

/// Chi-square of counts against expected counts, with the largest value that chance explains: the
/// mean, degrees of freedom `n - 1`, and four standard deviations above it.
fn chi_square(found: &[f64], expected: &[f64]) -> (f64, f64) {
    assert_eq!(found.len(), expected.len());
    let terms = found.iter().zip(expected).map(|(found, expected)| {
        assert!(*expected >= 5.0, "a cell of {expected} is too small for a chi-square");
        (found - expected).powi(2) / expected
    });
    let freedom = found.len() as f64 - 1.0;
    (terms.sum(), freedom + 4.0 * (2.0 * freedom).sqrt())
}

/// Asserts that counts are those of equally likely values.
fn assert_uniform(found: &[f64], what: &str) {
    let mean = found.iter().sum::<f64>() / found.len() as f64;
    let (chi2, limit) = chi_square(found, &vec![mean; found.len()]);
    assert!(chi2 <= limit, "{what}: chi-square {chi2} of at most {limit}: {found:?}");
}

/// Asserts that a share of `n` draws is `expected` within four standard errors.
fn assert_share(hits: f64, n: f64, expected: f64, what: &str) {
    let allowed = 4.0 * (expected * (1.0 - expected) / n).sqrt();
    assert!((hits / n - expected).abs() <= allowed, "{what}: {} of {expected}", hits / n);
}
