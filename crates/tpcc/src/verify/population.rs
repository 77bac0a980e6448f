//! The rules of the population (4.3.3.1), as far as transactions leave them to be seen.
//!
//! Items, names, addresses and the orders up to 3000 stay as they were loaded. What must be so in
//! every row is asked of every row; what is drawn by chance is tested for its frequency.

use tokio_postgres::Transaction;

use super::note::Note;
use super::pass::{Pass, Test};
use super::{Check, Offence, Outcome, VerifyError, asking};

/// Limit of a frequency's deviation by chance, in standard deviations: beyond, once in a million.
const DEVIATIONS_MAX: f64 = 5.0;
/// Cells of a chi-square test that expect less are put together.
const CELL_MIN: f64 = 5.0;
/// The statements that [`run`] makes, for progress.
pub(super) const STEPS: usize = 12;

/// A rule of the population.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    name: &'static str,
    statement: &'static str,
}

impl Rule {
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn statement(&self) -> &'static str {
        self.statement
    }
}

fn test(
    name: &'static str,
    statement: &'static str,
    broken: &'static str,
    says: &'static [(&'static str, &'static str)],
) -> Test {
    Test { check: Check::Population(Rule { name, statement }), broken, says }
}

/// Asks everything; an outcome for each rule. Where another program made the tables, its warehouses
/// are those that are there, and its C of the last names is whichever fits best.
pub(super) async fn run(
    transaction: &Transaction<'_>,
    (warehouses, note): (u64, Option<Note>),
    step: &mut dyn FnMut(usize),
) -> Result<Vec<Outcome>, VerifyError> {
    let mut outcomes = Vec::new();
    let passes = passes(warehouses, note);
    for (done, pass) in passes.iter().enumerate() {
        step(done);
        outcomes.extend(pass.run(transaction).await?);
    }
    for (done, share) in SHARES.iter().enumerate() {
        step(passes.len() + done);
        outcomes.push(share.test(transaction).await?);
    }
    step(passes.len() + SHARES.len());
    outcomes.push(lines_per_order(transaction).await?);
    step(passes.len() + SHARES.len() + 1);
    outcomes.push(last_names(transaction, warehouses, note.map(|note| note.c_load)).await?);
    Ok(outcomes)
}

fn passes(warehouses: u64, note: Option<Note>) -> Vec<Pass> {
    let asked = note.map_or(warehouses.cast_signed(), |note| note.warehouses);
    let mut passes = vec![cardinalities(asked), items(), places(), stock(), customers(), orders()];
    passes.push(lines());
    passes
}

fn cardinalities(warehouses: i64) -> Pass {
    let from = format!(
        "(select 'warehouse' t, count(*) n, {warehouses} low, {warehouses} high from warehouse
          union all select 'item', count(*), 100000, 100000 from item
          union all select 'district', count(*), 10 * w, 10 * w from district, {w} group by w
          union all select 'stock', count(*), 100000 * w, 100000 * w from stock, {w} group by w
          union all select 'customer', count(*), 30000 * w, 30000 * w from customer, {w} group by w
          union all select 'orders to 3000', count(*), 30000 * w, 30000 * w from orders, {w}
              where o_id <= 3000 group by w
          union all select 'lines to 3000', count(*), 150000 * w, 450000 * w from order_line, {w}
              where ol_o_id <= 3000 group by w
          union all select 'history', count(*), 30000 * w, null from history, {w} group by w) k",
        w = format_args!("(select {warehouses}::bigint w) s"),
    );
    let tests = vec![test(
        "cardinalities",
        "each table has the rows that the warehouses need (4.3.3.1)",
        "n < low or (high is not null and n > high)",
        &[("rows", "n"), ("at least", "low"), ("at most", "high")],
    )];
    Pass { about: "the sizes of tables", from, key: &[("table", "t")], tests }
}

fn items() -> Pass {
    let tests = vec![
        test(
            "item-fields",
            "I_ID, I_IM_ID, I_NAME and I_DATA are in their ranges",
            "i_id not between 1 and 100000 or i_im_id not between 1 and 10000
             or length(i_name) not between 14 and 24 or length(i_data) not between 26 and 50",
            &[("I_IM_ID", "i_im_id"), ("I_NAME", "i_name"), ("I_DATA", "i_data")],
        ),
        test(
            "item-price",
            "I_PRICE is 1.00 to 100.00",
            "i_price not between 1 and 100",
            &[("I_PRICE", "i_price")],
        ),
    ];
    Pass { about: "items", from: "item".to_owned(), key: &[("i", "i_id")], tests }
}

/// Warehouses and districts have the same fields.
fn places() -> Pass {
    let from = "(select w_id w, null::int d, w_name name, w_street_1 street_1, w_street_2 street_2,
             w_city city, w_state state, w_zip zip, w_tax tax from warehouse
         union all select d_w_id, d_id, d_name, d_street_1, d_street_2, d_city, d_state, d_zip,
             d_tax from district) k"
        .to_owned();
    let tests = vec![
        test(
            "place-zip",
            "W_ZIP and D_ZIP are four digits and 11111",
            "zip !~ '^[0-9]{4}11111$'",
            &[("zip", "zip")],
        ),
        test(
            "place-fields",
            "names, addresses and taxes of warehouses and districts are in their ranges",
            "length(name) not between 6 and 10 or length(street_1) not between 10 and 20
             or length(street_2) not between 10 and 20 or length(city) not between 10 and 20
             or length(state) <> 2 or tax not between 0 and 0.2
             or (d is not null and d not between 1 and 10)",
            &[("name", "name"), ("city", "city"), ("state", "state"), ("tax", "tax")],
        ),
    ];
    let key = &[("w", "w"), ("d", "d")];
    Pass { about: "warehouses and districts", from, key, tests }
}

fn stock() -> Pass {
    let tests = vec![test(
        "stock-fields",
        "S_DIST_01 to S_DIST_10 have 24 characters, S_DATA 26 to 50",
        "length(s_data) not between 26 and 50
         or (length(s_dist_01), length(s_dist_02), length(s_dist_03), length(s_dist_04),
             length(s_dist_05)) <> (24, 24, 24, 24, 24)
         or (length(s_dist_06), length(s_dist_07), length(s_dist_08), length(s_dist_09),
             length(s_dist_10)) <> (24, 24, 24, 24, 24)",
        &[("S_DATA", "s_data"), ("S_DIST_01", "s_dist_01")],
    )];
    let key = &[("w", "s_w_id"), ("i", "s_i_id")];
    Pass { about: "the fields of stock", from: "stock".to_owned(), key, tests }
}

fn customers() -> Pass {
    let from = "(select *, (array['BAR', 'OUGHT', 'ABLE', 'PRI', 'PRES', 'ESE', 'ANTI', 'CALLY',
             'ATION', 'EING']) syllables from customer) k"
        .to_owned();
    let tests = vec![
        test(
            "customer-zip",
            "C_ZIP is four digits and 11111",
            "c_zip !~ '^[0-9]{4}11111$'",
            &[("C_ZIP", "c_zip")],
        ),
        test(
            "customer-credit",
            "C_CREDIT is GC or BC, C_CREDIT_LIM 50000.00",
            "c_credit not in ('GC', 'BC') or c_credit_lim <> 50000",
            &[("C_CREDIT", "c_credit"), ("C_CREDIT_LIM", "c_credit_lim")],
        ),
        test(
            "customer-fields",
            "C_MIDDLE, C_FIRST, C_DISCOUNT, C_PHONE and the address are in their ranges",
            "c_id not between 1 and 3000 or c_middle <> 'OE'
             or length(c_first) not between 8 and 16 or c_discount not between 0 and 0.5
             or c_phone !~ '^[0-9]{16}$'
             or length(c_street_1) not between 10 and 20 or length(c_street_2) not between 10 and 20
             or length(c_city) not between 10 and 20 or length(c_state) <> 2",
            &[("C_FIRST", "c_first"), ("C_DISCOUNT", "c_discount"), ("C_PHONE", "c_phone")],
        ),
        test(
            "customer-first-names",
            "the first 1000 customers of a district have the last names 0 to 999 in turn",
            "c_id <= 1000 and c_last <> syllables[1 + (c_id - 1) / 100]
             || syllables[1 + (c_id - 1) / 10 % 10] || syllables[1 + (c_id - 1) % 10]",
            &[("C_LAST", "c_last")],
        ),
    ];
    let key = &[("w", "c_w_id"), ("d", "c_d_id"), ("c", "c_id")];
    Pass { about: "the fields of customers", from, key, tests }
}

/// A random permutation of 3000 customers leaves one of them at its own place on average; more than
/// 15 it leaves once in 10^14 districts.
fn orders() -> Pass {
    let from = "(select o_w_id w, o_d_id d, count(*) n, count(distinct o_c_id) customers,
             min(o_c_id) lowest, max(o_c_id) highest,
             count(*) filter (where o_c_id = o_id) unmoved
             from orders where o_id <= 3000 group by 1, 2) k"
        .to_owned();
    let tests = vec![test(
        "order-customers",
        "O_C_ID of the orders 1 to 3000 is a random permutation of 1 to 3000",
        "n <> 3000 or customers <> 3000 or lowest <> 1 or highest <> 3000 or unmoved > 15",
        &[("orders", "n"), ("customers", "customers"), ("O_C_ID = O_ID", "unmoved")],
    )];
    Pass { about: "the orders of the load", from, key: &[("w", "w"), ("d", "d")], tests }
}

fn lines() -> Pass {
    let tests = vec![
        test(
            "line-amounts",
            "OL_AMOUNT is 0.00 to order 2100 and 0.01 to 9999.99 from 2101 to 3000",
            "case when ol_o_id <= 2100 then ol_amount <> 0
             else ol_amount not between 0.01 and 9999.99 end",
            &[("OL_AMOUNT", "ol_amount")],
        ),
        test(
            "line-fields",
            "loaded lines have quantity 5, their own warehouse and an item from 1 to 100000",
            "ol_quantity <> 5 or ol_supply_w_id <> ol_w_id or ol_i_id not between 1 and 100000
             or length(ol_dist_info) <> 24",
            &[
                ("OL_QUANTITY", "ol_quantity"),
                ("OL_SUPPLY_W_ID", "ol_supply_w_id"),
                ("OL_I_ID", "ol_i_id"),
            ],
        ),
    ];
    Pass {
        about: "the lines of the load",
        from: "(select * from order_line where ol_o_id <= 3000) k".to_owned(),
        key: &[("w", "ol_w_id"), ("d", "ol_d_id"), ("o", "ol_o_id"), ("line", "ol_number")],
        tests,
    }
}

/// A share of a table's rows that is drawn by chance.
struct Share {
    name: &'static str,
    statement: &'static str,
    table: &'static str,
    rows: &'static str,
    share: f64,
}

const SHARES: [Share; 3] = [
    Share {
        name: "bad-credit",
        statement: "10 % of the customers have C_CREDIT = BC",
        table: "customer",
        rows: "c_credit = 'BC'",
        share: 0.1,
    },
    Share {
        name: "original-items",
        statement: "I_DATA holds ORIGINAL in 10 % of the items",
        table: "item",
        rows: "i_data like '%ORIGINAL%'",
        share: 0.1,
    },
    Share {
        name: "original-stock",
        statement: "S_DATA holds ORIGINAL in 10 % of the stock",
        table: "stock",
        rows: "s_data like '%ORIGINAL%'",
        share: 0.1,
    },
];

impl Share {
    async fn test(&self, transaction: &Transaction<'_>) -> Result<Outcome, VerifyError> {
        let Share { name, statement, table, rows, share } = *self;
        let query = format!("select count(*), count(*) filter (where {rows}) from {table}");
        let row = transaction
            .query_one(&query, &[])
            .await
            .map_err(asking(format!("the share of rows of `{table}`")))?;
        let (all, found) = (row.get::<_, i64>(0), row.get::<_, i64>(1));
        let (n, k) = (all as f64, found as f64);
        let deviations = (k - n * share) / (n * share * (1.0 - share)).sqrt();
        let says = format!("{found} of {all} rows, {:.0} expected", n * share);
        Ok(judged(Rule { name, statement }, table, deviations, says))
    }
}

/// An outcome of one test; no rows at all are as far off as can be.
fn judged(rule: Rule, what: &str, deviations: f64, says: String) -> Outcome {
    let holds = deviations.abs() <= DEVIATIONS_MAX;
    let row = Offence {
        row: what.to_owned(),
        says: format!("{says}: {deviations:.1} standard deviations off"),
    };
    let rows = if holds { Vec::new() } else { vec![row] };
    Outcome { check: Check::Population(rule), broken: u64::from(!holds), rows }
}

async fn lines_per_order(transaction: &Transaction<'_>) -> Result<Outcome, VerifyError> {
    let rule = Rule {
        name: "lines-per-order",
        statement: "O_OL_CNT of the orders 1 to 3000 is uniform from 5 to 15",
    };
    let mut counts = [0.0; 12];
    let rows = transaction
        .query(
            "select o_ol_cnt::int, count(*) from orders where o_id <= 3000 group by 1 order by 1",
            &[],
        )
        .await
        .map_err(asking("the lines per order"))?;
    for row in rows {
        // The last cell is for whatever is none of the eleven.
        let cell = (row.get::<_, Option<i32>>(0).unwrap_or(0) - 5) as usize;
        counts[cell.min(11)] += row.get::<_, i64>(1) as f64;
    }
    if counts[11] > 0.0 {
        let says = format!("{} orders outside of 5 to 15", counts[11]);
        return Ok(judged(rule, "orders", f64::INFINITY, says));
    }
    let deviations = chi_square(&counts[..11], &[1.0 / 11.0; 11]);
    let says = format!("{:.0} orders", counts.iter().sum::<f64>());
    Ok(judged(rule, "orders", deviations, says))
}

async fn last_names(
    transaction: &Transaction<'_>,
    warehouses: u64,
    c_load: Option<i64>,
) -> Result<Outcome, VerifyError> {
    let rule = Rule {
        name: "last-names",
        statement: "C_LAST of customers above 1000 is NURand(255, 0, 999) with the load's C",
    };
    let rows = transaction
        .query("select c_last::text, count(*) from customer where c_id > 1000 group by 1", &[])
        .await
        .map_err(asking("the last names"))?;
    let mut counts = vec![0.0; 1000];
    for row in &rows {
        let name = row.get::<_, Option<&str>>(0).unwrap_or("");
        let Some(number) = (0..1000).find(|number| last_name(*number) == name) else {
            let says = format!("`{name}` is none of the 1000 names");
            return Ok(judged(rule, "customer", f64::INFINITY, says));
        };
        counts[number] = row.get::<_, i64>(1) as f64;
    }
    let names = format!("{} names of {warehouses} warehouses", rows.len());
    let chances = nurand_255(0);
    let with = |c: usize| {
        let mut chances = chances.clone();
        chances.rotate_right(c);
        chi_square(&counts, &chances)
    };
    let (deviations, says) = match c_load {
        Some(c @ 0..=255) => (with(c as usize), format!("{names}, C = {c}")),
        Some(c) => (f64::INFINITY, format!("{names}, C = {c}")),
        None => {
            let all = (0..=255).map(|c| (with(c), c));
            let (deviations, c) = all
                .min_by(|one, two| one.0.abs().total_cmp(&two.0.abs()))
                .expect("there are 256 of them");
            (deviations, format!("{names}, C = {c} fits best"))
        }
    };
    Ok(judged(rule, "customer", deviations, says))
}

/// The chances of NURand(255, 0, 999) (2.1.6), by counting all that can be drawn.
fn nurand_255(c: usize) -> Vec<f64> {
    let mut chances = vec![0.0; 1000];
    for a in 0..256_usize {
        for b in 0..1000 {
            chances[((a | b) + c) % 1000] += 1.0 / 256_000.0;
        }
    }
    chances
}

/// The last name of a number (4.3.2.3).
fn last_name(number: usize) -> String {
    const SYLLABLES: [&str; 10] =
        ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
    [number / 100, number / 10 % 10, number % 10].map(|digit| SYLLABLES[digit]).concat()
}

/// Distance of counts from what chances expect, in standard deviations of the normal distribution
/// (Wilson and Hilferty 1931: the cube root of chi-square over its degrees is nearly normal).
fn chi_square(counts: &[f64], chances: &[f64]) -> f64 {
    let all: f64 = counts.iter().sum();
    let (mut square, mut cells) = (0.0, 0.0);
    // Rare cells together, and what is left over with them.
    let (mut rare_count, mut rare_expected) = (0.0, 0.0);
    for (count, chance) in counts.iter().zip(chances) {
        let expected = all * chance;
        if expected < CELL_MIN {
            rare_count += count;
            rare_expected += expected;
        } else {
            square += (count - expected).powi(2) / expected;
            cells += 1.0;
        }
    }
    if rare_expected >= CELL_MIN {
        square += (rare_count - rare_expected) * (rare_count - rare_expected) / rare_expected;
        cells += 1.0;
    } else if rare_count > 100.0 {
        // What next to nothing was expected of.
        return f64::INFINITY;
    }
    let degrees = cells - 1.0;
    if degrees < 1.0 {
        return f64::INFINITY;
    }
    let variance = 2.0 / (9.0 * degrees);
    ((square / degrees).cbrt() - (1.0 - variance)) / variance.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_of_syllables() {
        assert_eq!(last_name(0), "BARBARBAR");
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(999), "EINGEINGEING");
    }

    #[test]
    fn chances_of_nurand_sum_to_one_and_move_with_c() {
        let (zero, shifted) = (nurand_255(0), nurand_255(100));
        assert!((zero.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!((0..1000).all(|name| zero[name] == shifted[(name + 100) % 1000]));
        // Bits that both may set are set more often than not: 255 can be made of 255 in many ways.
        assert!(zero[255] > 20.0 * zero[256], "{} {}", zero[255], zero[256]);
    }

    #[test]
    fn chi_square_finds_what_is_not_by_chance() {
        let chances = nurand_255(57);
        let expected: Vec<f64> = chances.iter().map(|chance| chance * 20_000.0).collect();
        // No chance at all is suspicious too: far below zero.
        assert!(chi_square(&expected, &chances) < -DEVIATIONS_MAX);
        assert!(chi_square(&expected, &nurand_255(58)) > DEVIATIONS_MAX);
        assert!(chi_square(&[20.0; 1000], &chances) > DEVIATIONS_MAX);
        assert_eq!(chi_square(&[0.0; 11], &[1.0 / 11.0; 11]), f64::INFINITY);
        // 2000 dice, by a linear congruence: chance enough.
        let mut state = 12_345_u64;
        let mut counts = [0.0; 6];
        for _ in 0..2000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            counts[(state >> 33) as usize % 6] += 1.0;
        }
        assert!(chi_square(&counts, &[1.0 / 6.0; 6]).abs() < DEVIATIONS_MAX, "{counts:?}");
    }

    #[test]
    fn a_share_far_off_is_named_and_no_rows_are_far_off() {
        let rule = Rule { name: "a", statement: "b" };
        assert_eq!(judged(rule, "t", 4.9, String::new()).broken, 0);
        assert_eq!(judged(rule, "t", -5.1, String::new()).broken, 1);
        assert_eq!(judged(rule, "t", f64::NAN, String::new()).broken, 1);
    }

    #[test]
    fn there_are_as_many_steps_as_announced() {
        let note = Some(Note { warehouses: 1, c_load: 1 });
        assert_eq!(passes(1, note).len() + SHARES.len() + 2, STEPS);
    }
}
