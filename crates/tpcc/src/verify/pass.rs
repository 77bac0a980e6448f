//! A pass: some tables joined once, several checks on each row of the join, and the rows that break
//! them.

use tokio_postgres::Transaction;

use super::{Check, Offence, Outcome, ROWS_MAX, VerifyError, asking};

/// One statement's worth of checks.
pub(super) struct Pass {
    /// Its subject, for errors.
    pub(super) about: &'static str,
    /// The tables, joined.
    pub(super) from: String,
    /// The columns that name a row of the join: a letter, its column.
    pub(super) key: &'static [(&'static str, &'static str)],
    pub(super) tests: Vec<Test>,
}

/// A check as SQL.
pub(super) struct Test {
    pub(super) check: Check,
    /// True for a row that breaks it; NULL breaks it as well.
    pub(super) broken: &'static str,
    /// The values of the row: labels and expressions.
    pub(super) says: &'static [(&'static str, &'static str)],
}

/// The columns without which nothing can be verified.
const SCHEMA: [(&str, &str); 9] = [
    ("warehouse", "w_id w_name w_street_1 w_street_2 w_city w_state w_zip w_tax w_ytd"),
    (
        "district",
        "d_id d_w_id d_name d_street_1 d_street_2 d_city d_state d_zip d_tax d_ytd d_next_o_id",
    ),
    (
        "customer",
        "c_id c_d_id c_w_id c_first c_middle c_last c_street_1 c_street_2 c_city c_state c_zip \
         c_phone c_since c_credit c_credit_lim c_discount c_balance c_ytd_payment c_payment_cnt \
         c_delivery_cnt c_data",
    ),
    ("history", "h_c_id h_c_d_id h_c_w_id h_d_id h_w_id h_date h_amount h_data"),
    ("new_order", "no_o_id no_d_id no_w_id"),
    ("orders", "o_id o_d_id o_w_id o_c_id o_entry_d o_carrier_id o_ol_cnt o_all_local"),
    (
        "order_line",
        "ol_o_id ol_d_id ol_w_id ol_number ol_i_id ol_supply_w_id ol_delivery_d ol_quantity \
         ol_amount ol_dist_info",
    ),
    ("item", "i_id i_im_id i_name i_price i_data"),
    (
        "stock",
        "s_i_id s_w_id s_quantity s_dist_01 s_dist_02 s_dist_03 s_dist_04 s_dist_05 s_dist_06 \
         s_dist_07 s_dist_08 s_dist_09 s_dist_10 s_ytd s_order_cnt s_remote_cnt s_data",
    ),
];

/// Refuses a database that lacks one of our tables or columns.
pub(super) async fn examine_schema(transaction: &Transaction<'_>) -> Result<(), VerifyError> {
    for (table, columns) in SCHEMA {
        let rows = transaction
            .query(
                "select attname::text from pg_attribute \
                 where attrelid = to_regclass($1) and attnum > 0 and not attisdropped",
                &[&table],
            )
            .await
            .map_err(asking(format!("the columns of `{table}`")))?;
        if rows.is_empty() {
            return Err(VerifyError::NotOurs { missing: format!("table `{table}`") });
        }
        let there: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let mut columns = columns.split_whitespace();
        if let Some(column) = columns.find(|column| !there.iter().any(|one| one == column)) {
            return Err(VerifyError::NotOurs { missing: format!("column `{table}.{column}`") });
        }
    }
    Ok(())
}

impl Pass {
    /// Asks; an outcome for each check, in order.
    pub(super) async fn run(
        &self,
        transaction: &Transaction<'_>,
    ) -> Result<Vec<Outcome>, VerifyError> {
        let rows = transaction
            .query(&self.statement(), &[])
            .await
            .map_err(asking(format!("what it holds of {}", self.about)))?;
        let mut outcomes: Vec<Outcome> = self
            .tests
            .iter()
            .map(|test| Outcome { check: test.check, broken: 0, rows: Vec::new() })
            .collect();
        for row in rows {
            let outcome = &mut outcomes[row.get::<_, i32>(0) as usize];
            outcome.broken = row.get::<_, i64>(1) as u64;
            outcome.rows.push(Offence { row: row.get(2), says: row.get(3) });
        }
        Ok(outcomes)
    }

    /// One row for each of the first rows that break a check: the check's number, how many break it
    /// in all, the row's name, what it says.
    fn statement(&self) -> String {
        let test = |(number, test): (usize, &Test)| {
            let says = concat(test.says);
            format!(
                "({number}, case when ({}) is distinct from false then {says} end)",
                test.broken
            )
        };
        let tests: Vec<String> = self.tests.iter().enumerate().map(test).collect();
        let columns: Vec<&str> = self.key.iter().map(|(_, column)| *column).collect();
        let columns = columns.join(", ");
        format!(
            "select test, total, {key}, says from (
                select test, says, {columns}, count(*) over (partition by test) total,
                    row_number() over (partition by test order by {columns}) place
                from {from} cross join lateral (values {tests}) tests (test, says)
                where says is not null) broken
            where place <= {ROWS_MAX} order by test, place",
            key = concat(self.key),
            from = self.from,
            tests = tests.join(", "),
        )
    }
}

/// SQL for `label value, label value`.
fn concat(parts: &[(&str, &str)]) -> String {
    let one = |(place, (label, value)): (usize, &(&str, &str))| {
        let comma = if place == 0 { "" } else { ", " };
        format!("'{comma}{label} ', coalesce(({value})::text, 'missing')")
    };
    let all: Vec<String> = parts.iter().enumerate().map(one).collect();
    format!("concat({})", all.join(", "))
}

/// SQL for a sum that is NULL where one of its values is, as `sum` alone is not.
pub(super) fn total(column: &str) -> String {
    format!("case when count(*) = count({column}) then sum({column}) end")
}
