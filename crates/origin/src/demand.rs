//! Work as CPU time: how much a request needs, and a worker that spends exactly that. Time on the
//! wall would not do: a demand must be the same however many workers share the CPU.
#![allow(unsafe_code)]

use std::hint::black_box;
use std::time::Duration;

/// The CPU time that a request costs, g(x) = a x + b for a document of x bytes (fujita, section 4).
///
/// All that its worker does for it lies inside: to wake up, accept, read, parse, send, close; the
/// rest of g is burnt. What comes on top, because others do it or it has no request: network
/// interrupts while somebody else runs, the kernel's switching between processes, refusals, and
/// with a fork per request the fork itself and the end of the child. A `HEAD` costs b.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Per byte of the document, a [s/byte].
    pub per_byte_s: f64,
    /// Per request, b \[s\].
    pub base_s: f64,
}

impl Demand {
    /// The demand of a request for `bytes` bytes, g(x).
    ///
    /// ```
    /// let demand = origin::Demand { per_byte_s: 1e-8, base_s: 100e-6 };
    /// assert_eq!(demand.of(5_000).as_micros(), 150);
    /// ```
    pub fn of(self, bytes: u64) -> Duration {
        Duration::try_from_secs_f64(self.per_byte_s * bytes as f64 + self.base_s)
            .unwrap_or(Duration::MAX)
    }

    pub(crate) fn is_sound(self) -> bool {
        [self.per_byte_s, self.base_s].iter().all(|part| part.is_finite() && *part >= 0.0)
    }
}

/// The CPU time that the calling thread has used [ns]. In a process with one thread, also the
/// process's.
pub(crate) fn thread_cpu_ns() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writes.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(result, 0, "every Unix has a CPU clock for the calling thread");
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// The shortest and the longest spin between two looks at the clock [ns]. A look is a system call
/// of about 0.2 us, so near the end it is half a microsecond late on average, and far from the
/// end it is not what the CPU is busy with.
const SPIN_NS: std::ops::RangeInclusive<i64> = 1_000..=50_000;

/// A busy loop whose speed is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spin {
    steps_per_us: u64,
}

impl Spin {
    /// Finds the speed, in about 2 ms. An error only changes how often the clock is read.
    pub(crate) fn calibrate() -> Spin {
        const STEPS: u64 = 100_000;
        let fastest_ns = (0..5)
            .map(|_| {
                let start = thread_cpu_ns();
                spin(STEPS);
                thread_cpu_ns() - start
            })
            .min()
            .expect("five trials");
        Spin { steps_per_us: (STEPS * 1000 / fastest_ns.max(1).unsigned_abs()).max(1) }
    }

    /// Burns CPU until the calling thread's clock shows `target` [ns] or `stopped` says so, and
    /// returns what it shows then.
    pub(crate) fn until(self, target: i64, stopped: impl Fn() -> bool) -> i64 {
        loop {
            let now = thread_cpu_ns();
            if now >= target || stopped() {
                return now;
            }
            // A third, so that a clock rate of a third of the calibrated one is still in time.
            let span = ((target - now) / 3).clamp(*SPIN_NS.start(), *SPIN_NS.end());
            spin((span.unsigned_abs() * self.steps_per_us).div_ceil(1000));
        }
    }
}

/// Work for the arithmetic unit alone, from register to register (xorshift64, Marsaglia 2003): no
/// memory, so that neighbours are slowed by sharing the CPU and by nothing else. Even one variable
/// on the stack would make the speed jump by a factor of nearly three from run to run.
#[inline(never)]
fn spin(steps: u64) {
    let mut state = black_box(1_u64);
    for _ in 0..steps {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burn_ends_within_5_us_of_its_target() {
        let spin = Spin::calibrate();
        for span_us in [20, 100, 1_000, 10_000] {
            // An interrupt is charged to whoever runs, so now and then one burn is late: the
            // median is what the loop itself does.
            let mut late: Vec<i64> = (0..21)
                .map(|_| {
                    let target = thread_cpu_ns() + span_us * 1000;
                    spin.until(target, || false) - target
                })
                .collect();
            late.sort_unstable();
            assert!(late[0] >= 0, "a burn ended early");
            assert!(late[10] < 5_000, "{span_us} us: median {} ns late", late[10]);
        }
    }

    #[test]
    fn a_burn_can_be_stopped() {
        let start = thread_cpu_ns();
        let end = Spin::calibrate().until(start + 3_600_000_000_000, || true);
        assert!(end - start < 1_000_000_000);
    }

    #[test]
    fn demand_refuses_what_is_no_time() {
        let sound = |per_byte_s, base_s| Demand { per_byte_s, base_s }.is_sound();
        assert!(sound(0.0, 0.0) && sound(1e-8, 1e-3));
        assert!(!sound(f64::NAN, 0.0) && !sound(0.0, f64::INFINITY) && !sound(-1e-9, 0.0));
    }
}
