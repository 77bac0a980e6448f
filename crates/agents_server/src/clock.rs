//! The clock of the server, read once for each event.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gate::Time;

/// Now, counted from 1970. A clock before that year counts as its beginning.
pub(crate) fn now() -> Time {
    Time::ZERO + SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO)
}

/// The time of a partition: the system's, as long as that goes forward. While the system's is behind, because
/// somebody has set it back, this one goes on at half pace until the other has caught up. So nothing comes twice,
/// and a timer that is due in 10 s waits for 20 s and not for a clock that was an hour ahead.
#[derive(Debug, Default)]
pub(crate) struct Clock(Option<(Time, Instant)>);

impl Clock {
    pub(crate) fn now(&mut self) -> Time {
        self.at(now(), Instant::now())
    }

    /// The time when the system's clock says `wall`, at a moment that no one can set.
    fn at(&mut self, wall: Time, moment: Instant) -> Time {
        let now = match self.0 {
            Some((last, before)) if wall < last => {
                last + moment.saturating_duration_since(before) / 2
            }
            _ => wall,
        };
        self.0 = Some((now, moment));
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(second: u64) -> Time {
        Time::from_nanos(second * 1_000_000_000)
    }

    /// After a clock that was an hour ahead was set right, no timer fired for an hour.
    #[test]
    fn a_clock_that_is_set_back_stops_nothing() {
        let (mut clock, start) = (Clock::default(), Instant::now());
        let mut at =
            |wall: u64, moment: u64| clock.at(second(wall), start + Duration::from_secs(moment));
        assert_eq!(at(1_000, 0), second(1_000));
        assert_eq!(at(1_010, 10), second(1_010));
        // An hour ahead: it is followed.
        assert_eq!(at(4_610, 11), second(4_610));
        assert_eq!(at(4_611, 12), second(4_611));
        // Set right: on at half pace.
        assert_eq!(at(1_014, 14), second(4_612));
        assert_eq!(at(1_034, 34), second(4_622));
        assert_eq!(at(3_034, 2_034), second(5_622));
        // Until the other has caught up, after twice the hour.
        assert_eq!(at(5_600, 4_600), second(6_905));
        assert_eq!(at(8_212, 7_212), second(8_212));
        assert_eq!(at(8_213, 7_213), second(8_213));
    }
}
