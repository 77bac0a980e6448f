//! Searches on simulated databases: what they find, how many probes it takes, and that noise, gaps
//! and interruptions do not mislead them.

use rand::RngExt;

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

fn plan(max: u32) -> SearchPlan {
    SearchPlan { max, probe: 2 * MINUTE, confirm: 120 * MINUTE }
}

fn fails() -> Reading {
    Reading::Fails(vec!["New-Order: 90 % within 5 s".into()])
}

fn few() -> Reading {
    Reading::TooFew(vec!["steady state".into()])
}

/// Follows a search on a database that answers like this; bounded, so that none goes on for ever.
fn search(
    plan: &SearchPlan,
    mut answers: impl FnMut(u32, Stage, Duration) -> Reading,
) -> (Answer, Vec<Tried>) {
    let mut trials = Vec::new();
    loop {
        match plan.next(&trials) {
            Step::End(answer) => return (answer, trials),
            Step::Try { warehouses, stage, measure } => {
                assert!((1..=plan.max).contains(&warehouses), "{trials:?}");
                let reading = answers(warehouses, stage, measure);
                trials.push(Tried { warehouses, stage, measure, reading });
            }
        }
        assert!(trials.len() < 60, "it does not end: {trials:?}");
    }
}

fn up_to(capacity: u32) -> impl FnMut(u32, Stage, Duration) -> Reading {
    move |warehouses, _, _| if warehouses <= capacity { Reading::Holds } else { fails() }
}

#[test]
fn without_noise_the_largest_size_is_found_and_confirmed() {
    for capacity in 1..60 {
        let (answer, trials) = search(&plan(60), up_to(capacity));
        let above = Above::Fails(capacity + 1);
        assert_eq!(answer, Answer::Qualifies { warehouses: capacity, above });
        // Six halvings of 60, each asked at most twice, and the confirmation.
        assert!(trials.len() <= 15, "{} for {capacity}", trials.len());
        let last = trials.last().unwrap();
        assert_eq!((last.stage, last.measure), (Stage::Confirm, 120 * MINUTE));
    }
}

#[test]
fn where_all_hold_there_is_one_probe_and_the_answer_is_at_least() {
    for max in [1, 60] {
        let (answer, trials) = search(&plan(max), up_to(max));
        assert_eq!(answer, Answer::Qualifies { warehouses: max, above: Above::NotTried });
        assert_eq!(trials.len(), 2);
    }
}

#[test]
fn where_none_holds_it_says_so() {
    for max in [1, 2, 60] {
        assert_eq!(search(&plan(max), up_to(0)).0, Answer::None);
    }
}

#[test]
fn a_short_confirmation_is_too_short() {
    let plan = SearchPlan { confirm: 9 * MINUTE, ..plan(8) };
    let (answer, _) = search(&plan, up_to(5));
    assert_eq!(answer, Answer::TooShort { warehouses: 5, above: Above::Fails(6) });
}

#[test]
fn below_two_hours_a_confirmation_meets_the_rules_for_its_minutes() {
    let short = SearchPlan { confirm: 10 * MINUTE, ..plan(8) };
    let (answer, _) = search(&short, up_to(5));
    let above = Above::Fails(6);
    assert_eq!(answer, Answer::Meets { warehouses: 5, minutes: 10, above });
    let nearly = SearchPlan { confirm: 120 * MINUTE - Duration::from_secs(1), ..plan(8) };
    let (answer, _) = search(&nearly, up_to(5));
    assert_eq!(answer, Answer::Meets { warehouses: 5, minutes: 119, above });
}

#[test]
fn a_confirmation_that_saw_too_few_says_of_what_and_is_not_repeated() {
    let (answer, trials) = search(&plan(8), |warehouses, stage, _| match stage {
        Stage::Confirm => few(),
        Stage::Probe if warehouses <= 5 => Reading::Holds,
        Stage::Probe => fails(),
    });
    let rules = vec!["steady state".to_owned()];
    assert_eq!(answer, Answer::TooFew { warehouses: 5, rules, above: Above::Fails(6) });
    assert_eq!(trials.iter().filter(|trial| trial.stage == Stage::Confirm).count(), 1);
}

/// Whichever single probe goes wrong: where it wrongly fails the answer stays, where it wrongly holds
/// the long run finds out, and the answer is at most a step down, a twentieth, below.
#[test]
fn no_single_bad_probe_misleads_a_search() {
    let (_, trials) = search(&plan(60), up_to(41));
    for (bad, right) in trials[..trials.len() - 1].iter().enumerate() {
        let (mut nth, mut truth) = (0, up_to(41));
        let (answer, trials) = search(&plan(60), |warehouses, stage, measure| {
            let says = truth(warehouses, stage, measure);
            nth += 1;
            match (nth - 1 == bad, &says) {
                (false, _) => says,
                (true, Reading::Holds) => fails(),
                (true, _) => Reading::Holds,
            }
        });
        let Answer::Qualifies { warehouses, above: Above::Fails(above) } = answer else {
            panic!("probe {bad} misled it: {answer:?} after {trials:?}")
        };
        let (least, most) = if right.reading == Reading::Holds { (41, 42) } else { (39, 44) };
        assert!((least..=41).contains(&warehouses), "probe {bad}: {warehouses} after {trials:?}");
        assert!((42..=most).contains(&above), "probe {bad}: {above} after {trials:?}");
    }
}

#[test]
fn what_noise_does_is_bounded() {
    // Of every twenty probes one says the opposite. The long run tells the truth.
    let (mut exact, mut near) = (0, 0);
    for seed in 0..500 {
        let mut chance = workload::stream(seed, 1);
        let (answer, _) = search(&plan(60), |warehouses, stage, _| {
            let lies = stage == Stage::Probe && chance.random_range(0..20) == 0;
            if (warehouses <= 41) != lies { Reading::Holds } else { fails() }
        });
        if let Answer::Qualifies { warehouses, .. } = answer {
            assert!(warehouses <= 41, "what is confirmed is true");
            exact += u32::from(warehouses == 41);
            near += u32::from(warehouses >= 37);
        }
    }
    // Without repetition one of six probes going wrong would spoil a quarter of the searches.
    assert!(exact > 420 && near > 460, "{exact} exact, {near} within a tenth, of 500");
}

#[test]
fn too_few_is_neither_yes_nor_no_and_is_asked_for_longer() {
    let enough = |least: Duration| {
        move |warehouses: u32, stage, measure: Duration| match (stage, warehouses <= 5) {
            (Stage::Probe, _) if measure < least => few(),
            (_, true) => Reading::Holds,
            (_, false) => fails(),
        }
    };
    let (answer, trials) = search(&plan(8), enough(7 * MINUTE));
    assert_eq!(answer, Answer::Qualifies { warehouses: 5, above: Above::Fails(6) });
    let of_max: Vec<u64> = trials
        .iter()
        .filter(|trial| trial.warehouses == 8)
        .map(|trial| trial.measure.as_secs() / 60)
        .collect();
    assert_eq!(of_max, [2, 4, 8, 8], "twice as long until it tells; then no is asked for again");
    let (answer, trials) = search(&plan(8), enough(9 * MINUTE));
    assert!(matches!(answer, Answer::Inconclusive(_)), "{answer:?}");
    assert!(trials.iter().all(|trial| trial.measure <= 8 * MINUTE), "within bounds");
}

#[test]
fn what_cannot_be_told_bounds_the_search_and_is_named() {
    let (answer, _) = search(&plan(16), |warehouses, _, _| match warehouses {
        ..=6 => Reading::Holds,
        7..=9 => few(),
        _ => fails(),
    });
    assert_eq!(answer, Answer::Qualifies { warehouses: 6, above: Above::Undecided(7) });
}

#[test]
fn terminals_that_were_the_limit_rule_nothing_out_at_once() {
    let mut first = true;
    let (answer, trials) = search(&plan(4), |_, _, _| match std::mem::take(&mut first) {
        true => Reading::Invalid("too slow".into()),
        false => Reading::Holds,
    });
    assert_eq!(answer, Answer::Qualifies { warehouses: 4, above: Above::NotTried });
    assert_eq!(trials.len(), 3);
    let slow = |warehouses: u32, _: Stage, _: Duration| match warehouses {
        ..=2 => Reading::Holds,
        _ => Reading::Invalid("too slow".into()),
    };
    let (answer, _) = search(&plan(4), slow);
    assert_eq!(answer, Answer::Qualifies { warehouses: 2, above: Above::Undecided(3) });
    let long = |_: u32, stage: Stage, _: Duration| match stage {
        Stage::Probe => Reading::Holds,
        Stage::Confirm => Reading::Invalid("too slow".into()),
    };
    let (answer, trials) = search(&plan(4), long);
    assert_eq!((answer, trials.len()), (Answer::Inconclusive("too slow".into()), 3));
}

#[test]
fn a_confirmation_that_fails_steps_down_and_confirms_again() {
    let lasts = |most: u32| {
        move |warehouses: u32, stage, _| match stage {
            Stage::Probe if warehouses <= 50 => Reading::Holds,
            Stage::Confirm if warehouses <= most => Reading::Holds,
            _ => fails(),
        }
    };
    let (answer, trials) = search(&plan(60), lasts(47));
    assert_eq!(answer, Answer::Qualifies { warehouses: 46, above: Above::Fails(48) });
    let confirmed: Vec<u32> = trials
        .iter()
        .filter(|trial| trial.stage == Stage::Confirm)
        .map(|trial| trial.warehouses)
        .collect();
    assert_eq!(confirmed, [50, 48, 46]);
    let (answer, _) = search(&plan(60), lasts(20));
    assert!(
        matches!(&answer, Answer::Inconclusive(why) if why.contains("50, 48, 46")),
        "{answer:?}"
    );
    assert_eq!(search(&plan(1), lasts(0)).0, Answer::None);
}

/// Larger sizes may hold where smaller ones do not; what is answered was confirmed all the same.
#[test]
fn sizes_that_do_not_hold_in_order_end_in_something_that_was_confirmed() {
    for seed in 0..300 {
        let mut chance = workload::stream(seed, 2);
        let holds: Vec<bool> = (0..=40).map(|_| chance.random_range(0..2) == 0).collect();
        let (answer, trials) =
            search(
                &plan(40),
                |warehouses, _, _| {
                    if holds[warehouses as usize] { Reading::Holds } else { fails() }
                },
            );
        match answer {
            Answer::Qualifies { warehouses, above } => {
                assert!(holds[warehouses as usize]);
                let last = trials.last().unwrap();
                assert_eq!((last.warehouses, last.stage), (warehouses, Stage::Confirm));
                match above {
                    Above::Fails(size) => assert!(!holds[size as usize] && size == warehouses + 1),
                    above => assert_eq!((above, warehouses), (Above::NotTried, 40)),
                }
            }
            answer => assert_eq!(answer, Answer::None, "{holds:?}"),
        }
    }
}

#[test]
fn an_interruption_or_a_lost_database_ends_it() {
    for at in 0..6 {
        for (reading, wanted) in [
            (Reading::Interrupted, Answer::Interrupted),
            (Reading::Broken("gone".into()), Answer::Invalid("gone".into())),
        ] {
            let (mut nth, mut truth) = (0, up_to(41));
            let (answer, trials) = search(&plan(60), |warehouses, stage, measure| {
                nth += 1;
                if nth > at { reading.clone() } else { truth(warehouses, stage, measure) }
            });
            assert_eq!((answer, trials.len()), (wanted, at + 1), "what was tried is kept");
        }
    }
}
