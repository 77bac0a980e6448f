//! Thresholds: conditions that compare one number of the message with numbers of the state. Of them it is
//! known within which numbers nothing can happen, so that an agent can be left alone there.

use agents::Bound;

use crate::expression::{Native, Order, Scope, Slot};
use crate::value::{Kind, Value, place};

/// A condition that holds where a number of the message is above or below limits.
#[derive(Debug)]
pub(crate) struct Threshold {
    /// The field of the message.
    pub(crate) field: usize,
    /// Comparisons of this field with numbers of the state, one of which must hold.
    limits: Vec<(Order, Native)>,
}

/// The limits of one agent as places of numbers; a value is inside from `low` to `high`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) low: i64,
    pub(crate) high: i64,
    /// The same, narrower by the band that a value must be inside by to arm the rule again.
    pub(crate) low_band: i64,
    pub(crate) high_band: i64,
}

impl Threshold {
    /// The condition as a threshold; `None` if it is none.
    pub(crate) fn of(condition: &Native) -> Option<Threshold> {
        let mut limits = Vec::new();
        let field = collect(condition, &mut limits)?;
        Some(Threshold { field, limits })
    }

    /// The limits of an agent; `None` if one of them is no number.
    pub(crate) fn limits(&self, state: &[Option<Value>], band: f64) -> Option<Limits> {
        let scope = Scope { state, fields: &[] };
        let mut of =
            Limits { low: i64::MIN, high: i64::MAX, low_band: i64::MIN, high_band: i64::MAX };
        for (order, limit) in &self.limits {
            let limit = limit.number(scope);
            if limit.is_nan() {
                return None;
            }
            match order {
                Order::More | Order::AtLeast => {
                    let inside = place(limit) - i64::from(*order == Order::AtLeast);
                    of.high = of.high.min(inside);
                    // A band of 0 asks for no more than to be inside.
                    let banded = if band > 0.0 { place(limit - band).min(inside) } else { inside };
                    of.high_band = of.high_band.min(banded);
                }
                Order::Less | Order::AtMost => {
                    let inside = place(limit) + i64::from(*order == Order::AtMost);
                    of.low = of.low.max(inside);
                    let banded = if band > 0.0 { place(limit + band).max(inside) } else { inside };
                    of.low_band = of.low_band.max(banded);
                }
            }
        }
        Some(of)
    }
}

/// Takes the comparisons of a condition; the field that all of them are about.
fn collect(condition: &Native, into: &mut Vec<(Order, Native)>) -> Option<usize> {
    match condition {
        Native::Or(both) => {
            let (one, other) = (collect(&both.0, into)?, collect(&both.1, into)?);
            (one == other).then_some(one)
        }
        Native::Compare(order, both) => {
            let (field, order, limit) = match &**both {
                (Native::Value(Slot::Field(field), Kind::Number), limit) => (field, *order, limit),
                (limit, Native::Value(Slot::Field(field), Kind::Number)) => {
                    (field, order.flipped(), limit)
                }
                _ => return None,
            };
            if !limit.is_of_state() {
                return None;
            }
            into.push((order, limit.clone()));
            Some(*field)
        }
        _ => None,
    }
}

/// The height of a value against limits: 2 above, -2 below; 1 and -1 inside, but not by the band; 0 inside
/// by the band. So an alert on heights knows on which side a value is.
impl Limits {
    pub(crate) fn height(&self, number: f64) -> i64 {
        let at = place(number);
        if at > self.high {
            2
        } else if at < self.low {
            -2
        } else if at > self.high_band {
            1
        } else if at < self.low_band {
            -1
        } else {
            0
        }
    }

    /// The bound in numbers of a bound in heights.
    pub(crate) fn bound(&self, heights: Bound, symbol: u32) -> Bound {
        let always = Bound { symbol, low: i64::MAX, high: i64::MIN };
        // Limits that leave nothing inside, or nothing inside by the band, have heights without an order.
        let is_ordered = self.low <= self.low_band
            && self.low_band <= self.high_band
            && self.high_band <= self.high;
        if !is_ordered || heights.low > 2 || heights.high < -2 {
            return always;
        }
        let low = match heights.low {
            ..=-2 => i64::MIN,
            -1 => self.low,
            0 => self.low_band,
            1 => self.high_band.saturating_add(1),
            _ => self.high.saturating_add(1),
        };
        let high = match heights.high {
            2.. => i64::MAX,
            1 => self.high,
            0 => self.high_band,
            -1 => self.low_band.saturating_sub(1),
            _ => self.low.saturating_sub(1),
        };
        if low > high { always } else { Bound { symbol, low, high } }
    }
}

/// The two limits that all heights have in an alert: it fires outside of -1 to 1.
pub(crate) const INSIDE: (i64, i64) = (-1, 1);
/// The band of such an alert: it is armed again by the height 0.
pub(crate) const BAND: i64 = 1;
