//! Positive numbers whose exponent does not overflow.
//!
//! The normalising constants of closed networks are sums of positive terms such as Z^n / n!, so no
//! digit is lost in them; but they leave the range of a float at a few hundred jobs. Logarithms
//! would hold them at the price of digits (log G is large), so mantissa and exponent are kept
//! apart.

/// Zero, or `mantissa` times two to the `exponent`, with the mantissa in [1, 2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Wide {
    mantissa: f64,
    exponent: i64,
}

impl Wide {
    /// The exponent of zero is below every other, so that a sum needs no case for it, and far
    /// enough from the end of its type that two of them can be added.
    pub(crate) const ZERO: Wide = Wide { mantissa: 0.0, exponent: i64::MIN / 4 };
    pub(crate) const ONE: Wide = Wide { mantissa: 1.0, exponent: 0 };

    pub(crate) fn times(self, factor: f64) -> Wide {
        normal(self.mantissa * factor, self.exponent)
    }

    pub(crate) fn plus(self, other: Wide) -> Wide {
        let (high, low) =
            if self.exponent >= other.exponent { (self, other) } else { (other, self) };
        normal(high.mantissa + low.mantissa * pow2(low.exponent - high.exponent), high.exponent)
    }

    fn is_at_least(self, other: Wide) -> bool {
        (self.exponent, self.mantissa) >= (other.exponent, other.mantissa)
    }

    /// This over `whole`, as an ordinary number; what is too small for one becomes zero.
    ///
    /// # Panics
    /// If `whole` is zero.
    pub(crate) fn over(self, whole: Wide) -> f64 {
        assert!(whole.mantissa > 0.0, "a ratio to zero");
        self.mantissa / whole.mantissa * pow2(self.exponent - whole.exponent)
    }
}

/// A rest below this share of a sum changes no digit of it.
const NEGLIGIBLE: f64 = 1e-17;

/// c\[n\] = ratio c\[n-1\] + the sum of a\[j\] b\[n - j\] over j, for n below the length of b.
///
/// Both sequences are log-concave without zeros inside. So are their products for one n, whose peak
/// never moves back as n grows; they are added from there outwards, to where the rest, below a
/// geometric sum, no longer counts: some multiples of the root of n at the most.
pub(crate) fn convolved_log_concave(a: &[Wide], b: &[Wide], ratio: f64) -> Vec<Wide> {
    let mut out: Vec<Wide> = Vec::with_capacity(b.len());
    let mut peak = 0;
    for n in 0..b.len() {
        let last = n.min(a.len() - 1);
        let term = |j: usize| {
            let (x, y) = (a[j], b[n - j]);
            normal(x.mantissa * y.mantissa, x.exponent + y.exponent)
        };
        while peak < last && term(peak + 1).is_at_least(term(peak)) {
            peak += 1;
        }
        let top = term(peak);
        let mut sum = Wide::ZERO;
        if top.mantissa > 0.0 {
            let up = outwards((peak + 1..=last).map(|j| term(j).over(top)));
            let down = outwards((0..peak).rev().map(|j| term(j).over(top)));
            sum = top.times(1.0 + up + down);
        }
        if let Some(before) = out.last() {
            sum = sum.plus(before.times(ratio));
        }
        out.push(sum);
    }
    out
}

/// The sum of terms whose ratio falls, as far as they count beside 1.
fn outwards(terms: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut before) = (0.0, 1.0);
    for term in terms {
        sum += term;
        // The ratios fall, so the rest is below the geometric sum term^2 / (before - term).
        if term * term < NEGLIGIBLE * (before - term) {
            break;
        }
        before = term;
    }
    sum
}

/// The sum of a\[j\] b\[n - j\] over j = 0..=n: one entry of a convolution.
pub(crate) fn convolved_at(a: &[Wide], b: &[Wide], n: usize) -> Wide {
    let pairs = || a[..=n].iter().zip(b[..=n].iter().rev());
    let top = pairs().map(|(x, y)| x.exponent + y.exponent).max().expect("0..=n is not empty");
    let sum =
        pairs().map(|(x, y)| x.mantissa * y.mantissa * pow2(x.exponent + y.exponent - top)).sum();
    normal(sum, top)
}

/// Brings a mantissa from [0, infinity) back into [1, 2).
fn normal(mantissa: f64, exponent: i64) -> Wide {
    debug_assert!(mantissa >= 0.0 && mantissa.is_finite(), "mantissa {mantissa}");
    if mantissa == 0.0 {
        return Wide::ZERO;
    }
    // Factors are limited to 1e-100..1e100, so a mantissa is never a subnormal number.
    let bits = mantissa.to_bits();
    let shift = (bits >> 52) as i64 - 1023;
    let mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    Wide { mantissa, exponent: exponent + shift }
}

/// Two to the `exponent`; zero below the range of ordinary numbers, where a share no longer counts.
///
/// # Panics
/// If the power is above the range: only shares and small ratios are ever asked for.
fn pow2(exponent: i64) -> f64 {
    assert!(exponent <= 1023, "2^{exponent} is no ratio of neighbouring constants");
    if exponent < -1022 { 0.0 } else { f64::from_bits(((exponent + 1023) as u64) << 52) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factorial_beyond_every_float_is_exact_to_rounding() {
        let mut factorial = Wide::ONE;
        for n in 1..=1000 {
            factorial = factorial.times(f64::from(n));
        }
        let mut rest = factorial;
        for n in (1..=1000).rev() {
            rest = rest.times(1.0 / f64::from(n));
        }
        assert!((rest.over(Wide::ONE) - 1.0).abs() < 1e-12);
        // log2(1000!) = 8529.39...
        assert_eq!(factorial.exponent, 8529);
    }

    #[test]
    fn sums_and_ratios_agree_with_floats_where_floats_reach() {
        let wide = |x: f64| Wide::ONE.times(x);
        for (a, b) in [(1.5, 2.25), (1e-90, 1e90), (3.0, 0.0), (0.0, 0.0), (7.0, 6.999)] {
            assert_eq!(wide(a).plus(wide(b)), wide(a + b), "{a} + {b}");
            assert_eq!(wide(b).plus(wide(a)), wide(a + b), "{b} + {a}");
        }
        assert_eq!(wide(3.0).over(wide(8.0)), 0.375);
        assert_eq!(Wide::ZERO.over(wide(8.0)), 0.0);
    }

    /// The convolution of two sequences of one length, to that length, term by term.
    fn convolved(a: &[Wide], b: &[Wide]) -> Vec<Wide> {
        (0..a.len()).map(|n| convolved_at(a, b, n)).collect()
    }

    #[test]
    fn a_log_concave_convolution_leaves_out_only_what_does_not_count() {
        let poisson = |mean: f64, length: usize| {
            let mut list = vec![Wide::ONE];
            for n in 1..length {
                list.push(list[n - 1].times(mean / n as f64));
            }
            list
        };
        let length = 700;
        for (a, b, short) in [(30.0, 0.5, 700), (1.0, 200.0, 64), (400.0, 300.0, 700)] {
            let (one, other) = (poisson(a, short), poisson(b, length));
            let mut padded = one.clone();
            padded.resize(length, Wide::ZERO);
            for ratio in [0.0, 0.3] {
                let mut full = convolved(&padded, &other);
                for n in 1..length {
                    full[n] = full[n].plus(full[n - 1].times(ratio));
                }
                let found = convolved_log_concave(&one, &other, ratio);
                for (n, (found, full)) in found.iter().zip(&full).enumerate() {
                    let off = found.over(*full) - 1.0;
                    assert!(off.abs() < 1e-13, "{a} {b} {short} {ratio}, at {n}: {off:e}");
                }
            }
        }
        // The first station of all: nothing but one term for each n.
        let mut nothing = vec![Wide::ZERO; 5];
        nothing[0] = Wide::ONE;
        let one = poisson(2.0, 3);
        assert_eq!(convolved_log_concave(&one, &nothing, 0.0)[..3], one);
        assert_eq!(convolved_log_concave(&one, &nothing, 0.0)[4], Wide::ZERO);
    }

    #[test]
    fn a_convolution_is_the_product_of_polynomials() {
        let of = |list: &[f64]| list.iter().map(|&x| Wide::ONE.times(x)).collect::<Vec<_>>();
        // (1 + 2x + 3x^2)(4 + 5x) = 4 + 13x + 22x^2 + ...
        let product = convolved(&of(&[1.0, 2.0, 3.0]), &of(&[4.0, 5.0, 0.0]));
        assert_eq!(product, of(&[4.0, 13.0, 22.0]));
    }

    /// Once zero had the exponent of 1: beside terms near 2^-1700 its power of two overflowed.
    #[test]
    fn zero_is_not_a_number_near_one() {
        let tiny = (0..17).fold(Wide::ONE, |tiny, _| tiny.times(2_f64.powi(-100)));
        let product = convolved(&[tiny, Wide::ZERO], &[tiny, Wide::ZERO]);
        assert_eq!(product[0], Wide { mantissa: 1.0, exponent: -3400 });
        assert_eq!(product[1], Wide::ZERO);
        assert_eq!(tiny.plus(Wide::ZERO), tiny);
        assert_eq!(Wide::ZERO.plus(tiny), tiny);
    }
}
