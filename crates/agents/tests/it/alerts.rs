//! The life of an alert, case by case, and with its bounds against without.

use std::collections::BTreeMap;
use std::time::Duration;

use agents::alert::{
    Alert, AlertError, AlertMessage, AlertSpec, AtCreation, On, Quiet, Rearm, Silence,
};
use agents::{Agent, Context, Effect, Key, TimerName};
use gate::Time;
use rand::RngExt;
use workload::{Chance, stream};

/// An alert, its timers, and the values at which it fired.
#[derive(Debug)]
struct Play {
    alert: Alert,
    timers: BTreeMap<TimerName, Time>,
    now: u64,
    fired: Vec<i64>,
}

const MINUTE: u64 = 60;
const HOUR: u64 = 3_600;

fn at(second: u64) -> Time {
    Time::from_nanos(second * 1_000_000_000)
}

fn minutes(count: u64) -> Duration {
    Duration::from_secs(count * MINUTE)
}

impl Play {
    fn new(spec: AlertSpec) -> Play {
        let declare = AlertMessage::Declare(spec);
        let alert = Alert::create(Key(1), &declare).unwrap();
        let mut it = Play { alert, timers: BTreeMap::new(), now: 0, fired: Vec::new() };
        it.tell(&declare);
        it
    }

    fn note(&mut self, cx: Context<AlertMessage>) {
        for (name, due) in cx.timers() {
            match due {
                Some(due) => _ = self.timers.insert(name, due),
                None => _ = self.timers.remove(&name),
            }
        }
        let values =
            cx.notified().iter().map(|(.., it)| i64::from_le_bytes(it[..].try_into().unwrap()));
        self.fired.extend(values);
        // As the core has it: what is not in the bytes is forgotten.
        let (mut cold, mut hot) = (Vec::new(), Vec::new());
        self.alert.encode_cold(&mut cold);
        self.alert.encode_hot(&mut hot);
        let read = Alert::decode(Alert::VERSION, &cold, &hot).unwrap();
        assert_eq!(read, self.alert);
    }

    fn tell(&mut self, message: &AlertMessage) -> Effect {
        let mut cx = Context::new(at(self.now), Key(1), self.fired.len() as u64);
        let effect = self.alert.on(message, &mut cx).unwrap();
        self.note(cx);
        effect
    }

    fn value(&mut self, value: i64) -> Effect {
        self.tell(&AlertMessage::Value(value))
    }

    /// Values at this moment and at each second after it.
    fn values(&mut self, values: &[i64]) {
        values.iter().for_each(|&value| {
            self.value(value);
            self.pass(1);
        });
    }

    /// Time passes, and timers fire.
    fn pass(&mut self, seconds: u64) {
        let until = self.now + seconds;
        while let Some((&name, &due)) = self.timers.iter().min_by_key(|&(_, due)| *due)
            && due <= at(until)
        {
            self.timers.remove(&name);
            let mut cx = Context::new(due, Key(1), self.fired.len() as u64);
            self.alert.on_timer(name, &mut cx).unwrap();
            self.note(cx);
        }
        self.now = until;
    }

    fn silence(&self) -> Option<Silence> {
        self.alert.last_silence().map(|(_, silence)| silence)
    }
}

fn spec() -> AlertSpec {
    AlertSpec::new(1, 10, 20)
}

#[test]
fn a_crossing_fires_once_until_a_value_is_inside_by_the_band() {
    let mut it = Play::new(AlertSpec { rearm: Rearm::Band(3), ..spec() });
    it.values(&[15, 21, 25, 20, 18, 22, 17, 23, 9, 13, 8]);
    assert_eq!(it.fired, [21, 23, 8]);
    assert_eq!(it.alert.silences(), 0);
    assert_eq!(it.value(7), Effect::Clean, "nothing is written for it");
}

#[test]
fn a_level_fires_with_each_value_outside_but_for_the_cooldown() {
    let cooldown = Some(Duration::from_secs(3));
    let mut it = Play::new(AlertSpec { on: On::Level, cooldown, ..spec() });
    it.values(&[21, 22, 23, 24, 15, 25, 26, 27]);
    assert_eq!(it.fired, [21, 24, 26]);
    assert_eq!((it.alert.silences(), it.silence()), (4, Some(Silence::Cooldown)));
}

#[test]
fn an_alert_is_armed_again_by_time_or_by_an_edit() {
    let mut it = Play::new(AlertSpec { rearm: Rearm::After(minutes(10)), ..spec() });
    it.values(&[21, 15, 22]);
    assert_eq!((it.fired.as_slice(), it.alert.armed()), ([21].as_slice(), false));
    it.pass(600);
    assert!(it.alert.armed());
    it.values(&[23, 24]);
    assert_eq!(it.fired, [21, 23]);
    let edit = AlertSpec { rearm: Rearm::Edit, ..spec() };
    let mut it = Play::new(edit.clone());
    it.values(&[21, 15, 22]);
    it.pass(24 * HOUR);
    it.values(&[15, 22]);
    assert_eq!(it.fired, [21]);
    it.tell(&AlertMessage::Declare(edit));
    it.values(&[23, 24]);
    assert_eq!(it.fired, [21, 23]);
}

#[test]
fn a_first_value_outside_fires_or_waits() {
    let first = |at_creation, values: &[i64]| {
        let mut it = Play::new(AlertSpec { at_creation, ..spec() });
        it.values(values);
        (it.fired.clone(), it.silence())
    };
    assert_eq!(first(AtCreation::Fires, &[30, 31]), (vec![30], None));
    let at_creation = Some(Silence::AtCreation);
    assert_eq!(first(AtCreation::Waits, &[30, 31, 5, 40]), (vec![], at_creation));
    assert_eq!(first(AtCreation::Waits, &[30, 15, 31]), (vec![31], at_creation));
    assert_eq!(first(AtCreation::Waits, &[15, 31]), (vec![31], None));
}

/// Quiet from 22:00 to 07:00 in a zone two hours ahead of UTC: from 20:00 to 05:00 UTC.
#[test]
fn quiet_times_are_those_of_the_owner() {
    let quiet = Some(Quiet { from: 22 * 60, to: 7 * 60 });
    let fires = |hour: u64, minute: u64| {
        let mut it = Play::new(AlertSpec { quiet, utc_offset: 120, ..spec() });
        it.now = hour * HOUR + minute * MINUTE;
        it.value(30);
        assert_eq!(it.silence(), it.fired.is_empty().then_some(Silence::Quiet));
        !it.fired.is_empty()
    };
    assert!(fires(19, 59) && !fires(20, 0) && !fires(23, 30) && !fires(4, 59) && fires(5, 0));
}

#[test]
fn a_day_has_so_many_firings() {
    // Midnight of the owner is at 23:00 UTC.
    let mut it = Play::new(AlertSpec { per_day_max: Some(3), utc_offset: 60, ..spec() });
    it.now = 22 * HOUR;
    it.values(&[30, 15, 30, 15, 30, 15, 30, 15]);
    assert_eq!((it.fired.len(), it.silence()), (3, Some(Silence::PerDay)));
    it.pass(HOUR);
    it.values(&[30, 15, 30]);
    assert_eq!(it.fired.len(), 5);
}

#[test]
fn an_alert_is_snoozed_expires_and_ends() {
    let mut it = Play::new(AlertSpec { expires: Some(at(1_000)), ..spec() });
    it.tell(&AlertMessage::Snooze(minutes(1)));
    it.values(&[15, 30]);
    assert_eq!((it.fired.len(), it.silence()), (0, Some(Silence::Snoozed)));
    it.pass(MINUTE);
    it.values(&[15, 30, 15]);
    assert_eq!(it.fired, [30]);
    it.pass(1_000);
    assert!(!it.alert.armed() && it.alert.bounds().is_empty());
    assert_eq!((it.value(30), it.fired.len()), (Effect::Clean, 1));
    assert_eq!(it.tell(&AlertMessage::End), Effect::Delete);
}

#[test]
fn alerts_that_mean_nothing_are_refused() {
    let cases = [
        (AlertSpec { inside: (3, 2), ..spec() }, AlertError::Inside),
        (AlertSpec { inside: (i64::MIN, i64::MAX), ..spec() }, AlertError::Inside),
        (AlertSpec { rearm: Rearm::Band(-1), ..spec() }, AlertError::Band),
        (AlertSpec { rearm: Rearm::Band(6), ..spec() }, AlertError::Band),
        (AlertSpec { rearm: Rearm::After(Duration::ZERO), ..spec() }, AlertError::Span),
        (AlertSpec { cooldown: Some(Duration::ZERO), ..spec() }, AlertError::Span),
        (AlertSpec { per_day_max: Some(0), ..spec() }, AlertError::PerDay),
        (AlertSpec { quiet: Some(Quiet { from: 5, to: 5 }), ..spec() }, AlertError::Quiet),
        (AlertSpec { quiet: Some(Quiet { from: 5, to: 1_440 }), ..spec() }, AlertError::Quiet),
        (AlertSpec { utc_offset: -1_440, ..spec() }, AlertError::Offset),
    ];
    for (spec, error) in cases {
        assert_eq!(spec.check(), Err(error), "{spec:?}");
        let mut cx = Context::new(Time::ZERO, Key(1), 0);
        let mut alert = Play::new(self::spec()).alert;
        let failure = alert.on(&AlertMessage::Declare(spec), &mut cx).unwrap_err();
        assert_eq!(failure.0, error.to_string());
    }
    assert_eq!(AlertSpec { rearm: Rearm::Band(5), ..spec() }.check(), Ok(()));
    assert!(Alert::create(Key(1), &AlertMessage::Value(3)).is_none());
    assert!(Alert::decode(1, &[0; 7], &[]).is_err() && Alert::decode(9, &[], &[]).is_err());
}

fn any_spec(chance: &mut Chance) -> AlertSpec {
    let low = if chance.random_bool(0.1) { i64::MIN } else { chance.random_range(0..10) };
    let high = if chance.random_bool(0.1) { i64::MAX } else { chance.random_range(10..20) };
    let rearm = match chance.random_range(0..4) {
        0 => Rearm::After(Duration::from_secs(chance.random_range(1..20))),
        1 => Rearm::Edit,
        _ => Rearm::Band(chance.random_range(0..5)),
    };
    let spec = AlertSpec {
        symbol: 1,
        inside: (low, high),
        on: if chance.random_bool(0.3) { On::Level } else { On::Crossing },
        rearm,
        cooldown: chance.random_bool(0.3).then(|| Duration::from_secs(chance.random_range(1..9))),
        expires: chance.random_bool(0.3).then(|| at(chance.random_range(50..200))),
        quiet: chance.random_bool(0.2).then_some(Quiet { from: 1_439, to: 1 }),
        per_day_max: chance.random_bool(0.3).then(|| chance.random_range(1..6)),
        utc_offset: chance.random_range(-3..3),
        at_creation: if chance.random_bool(0.5) { AtCreation::Waits } else { AtCreation::Fires },
    };
    if spec.check().is_ok() { spec } else { any_spec(chance) }
}

/// The bounds of an alert lose nothing: one that is told only the values outside of its bounds, while
/// it is armed, fires and is silent as one that is told all. Seeds are numbers from 0, which a failure
/// names.
#[test]
fn bounds_lose_no_firing() {
    let mut skipped = 0;
    let mut fired = 0;
    for seed in 0..3_000 {
        let mut chance = stream(seed, 0);
        let spec = any_spec(&mut chance);
        let mut all = Play::new(spec.clone());
        let mut few = Play::new(spec);
        let mut value = 15_i64;
        for step in 0..200 {
            match chance.random_range(0..40) {
                0 => {
                    let edit = AlertMessage::Declare(any_spec(&mut chance));
                    for it in [&mut all, &mut few] {
                        it.tell(&edit);
                    }
                }
                1 => {
                    let snooze = AlertMessage::Snooze(Duration::from_secs(5));
                    for it in [&mut all, &mut few] {
                        it.tell(&snooze);
                    }
                }
                _ => {
                    value = (value + chance.random_range(-6..=6)).clamp(-5, 30);
                    all.value(value);
                    let outside = |bound: &agents::Bound| value < bound.low || value > bound.high;
                    if few.alert.armed() && few.alert.bounds().iter().any(outside) {
                        few.value(value);
                    } else {
                        skipped += 1;
                    }
                }
            }
            let span = chance.random_range(0..3);
            for it in [&mut all, &mut few] {
                it.pass(span);
            }
            assert_eq!(all.fired, few.fired, "seed {seed}, step {step}: {all:?} {few:?}");
            let silences = [&all, &few].map(|it| it.alert.silences());
            assert_eq!(silences[0], silences[1], "seed {seed}, step {step}: {all:?} {few:?}");
        }
        fired += all.fired.len();
    }
    assert!(skipped > 300_000 && fired > 10_000, "{skipped} skipped, {fired} fired");
}
