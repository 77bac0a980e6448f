//! Accounts and ticks.

use std::sync::Arc;

use agents::{Agent, Context, Effect, Key};
use agents_bench::{Account, Fired, Holding, Load, LoadSpec, Tick};
use agents_store::Content;
use gate::Time;

/// Section 5: 200 shares bought at 8,500 and 100 at 4,200, now 9,540 and 3,210.
#[test]
fn the_papers_account_is_109_000_up_and_told_so() {
    let holding = |symbol, count, bought| Holding { symbol, count, bought };
    let holdings = vec![holding(1, 200, 8_500), holding(0, 100, 4_200)];
    let limits = (-100_000, 100_000);
    let mut account =
        Account { holdings, limits, rest: b"a name".to_vec(), notified: false, last: 0 };
    let mut cx = Context::new(Time::ZERO, Key(1), 0);
    let below = Tick { number: 1, prices: Arc::from([3_210, 9_490]) };
    assert_eq!(account.on(&below, &mut cx), Ok(Effect::Clean), "99,000 is within");
    let tick = Tick { number: 2, prices: Arc::from([3_210, 9_540]) };
    assert_eq!(account.on(&tick, &mut cx), Ok(Effect::Hot));
    assert_eq!((account.notified, account.last), (true, 109_000));
    assert_eq!(cx.notified(), [(1, 1, Account::payload(2, 109_000))]);
    let missing = Tick { number: 3, prices: Arc::from([3_210]) };
    assert!(account.on(&missing, &mut cx).unwrap_err().0.contains("symbol 1 has no price"));
}

#[test]
fn states_and_ticks_survive_their_bytes() {
    let load = Load::new(LoadSpec::new(10, 3));
    let account = load.account(Key(7));
    let (mut cold, mut hot) = (Vec::new(), Vec::new());
    account.encode_cold(&mut cold);
    account.encode_hot(&mut hot);
    assert_eq!(cold.len() + hot.len(), 1_000);
    assert_eq!(Account::decode(1, &cold, &hot), Ok(account));
    for len in 0..180 {
        assert!(Account::decode(1, &cold[..len], &hot).is_err(), "{len} bytes");
    }
    assert!(Account::decode(2, &cold, &hot).is_err() && Account::decode(1, &cold, &[]).is_err());
    let (tick, mut bytes) = (load.tick(4), Vec::new());
    tick.encode(&mut bytes);
    assert_eq!(Tick::decode(&bytes), Ok(tick));
    assert!(Tick::decode(&bytes[1..]).is_err() && Tick::decode(&[1]).is_err());
}

/// Ten thousand accounts and four ticks: the share of one tick varies with the common prices, its mean over
/// four by a point or so; a normal distribution has 10 % beyond 1.645, a sum of ten uniform ones a little less.
#[test]
fn a_tenth_of_the_accounts_is_outside_at_a_tick() {
    let load = Load::new(LoadSpec::new(10_000, 1));
    let ticks: Vec<Tick> = (1..=4).map(|number| load.tick(number)).collect();
    let fired = load.expected(&ticks).unwrap();
    let share = fired.iter().map(|fired| fired.count).sum::<u64>() as f64 / 40_000.0;
    assert!((0.08..0.12).contains(&share), "{share}: {fired:?}");
    assert!(fired.windows(2).all(|two| two[0].sum != two[1].sum), "{fired:?}");
    let none = Load::new(LoadSpec { limits: 10.0, ..LoadSpec::new(1_000, 1) });
    assert_eq!(none.expected(&ticks).unwrap(), vec![Fired::default(); 4]);
}
