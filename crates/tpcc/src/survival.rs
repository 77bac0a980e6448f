//! Survival of acknowledged work in a database after its server died (3.5.4).
//!
//! Everything since the load is read in one snapshot and compared by [`Survival::of`], which asks
//! nobody.

mod acknowledged;

use std::collections::BTreeMap;

use tokio_postgres::{Client, IsolationLevel, Transaction};
use workload::tpcc::rules;

pub use acknowledged::{
    Acknowledged, AcknowledgedOrder, AcknowledgedPayment, LOST_MAX, OrderKey, OrderLine, Survival,
};

use super::connection::Config;
use super::transactions::{OpenError, connect};

/// Orders and payments that the database holds since it was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    /// Each order with its lines.
    pub orders: BTreeMap<OrderKey, AcknowledgedOrder>,
    /// Numbers of equal payments.
    pub payments: BTreeMap<AcknowledgedPayment, u64>,
}

/// Reads what was entered since the load.
///
/// # Errors
/// If there is no connection, or the database fails.
pub fn entries(config: &Config) -> Result<Entries, OpenError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(OpenError::Machine)?;
    runtime.block_on(async {
        let mut client = connect(config, 1).await?;
        read(&mut client).await.map_err(OpenError::Prepare)
    })
}

async fn read(client: &mut Client) -> Result<Entries, tokio_postgres::Error> {
    let snapshot = client
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()
        .await?;
    let orders = orders(&snapshot).await?;
    let payments = payments(&snapshot).await?;
    snapshot.rollback().await?;
    Ok(Entries { orders, payments })
}

async fn orders(
    snapshot: &Transaction<'_>,
) -> Result<BTreeMap<OrderKey, AcknowledgedOrder>, tokio_postgres::Error> {
    let since = rules::ORDERS as i32;
    let asked = "select o_w_id, o_d_id::int4, o_id, o_c_id from orders where o_id > $1";
    let mut orders = BTreeMap::new();
    for row in snapshot.query(asked, &[&since]).await? {
        let key = OrderKey {
            warehouse: row.get::<_, i32>(0) as u32,
            district: row.get::<_, i32>(1) as u8,
            order: row.get::<_, i32>(2) as u32,
        };
        let customer = row.get::<_, i32>(3) as u32;
        orders.insert(key, AcknowledgedOrder { key, customer, lines: Vec::new() });
    }
    let asked = "select ol_w_id, ol_d_id::int4, ol_o_id, ol_i_id, ol_supply_w_id, \
         ol_quantity::int4, (ol_amount * 100)::int8 from order_line where ol_o_id > $1 \
         order by ol_w_id, ol_d_id, ol_o_id, ol_number";
    for row in snapshot.query(asked, &[&since]).await? {
        let key = OrderKey {
            warehouse: row.get::<_, i32>(0) as u32,
            district: row.get::<_, i32>(1) as u8,
            order: row.get::<_, i32>(2) as u32,
        };
        // A line without its order breaks a condition, which is looked at elsewhere.
        if let Some(order) = orders.get_mut(&key) {
            order.lines.push(OrderLine {
                item: row.get::<_, i32>(3) as u32,
                supply_warehouse: row.get::<_, i32>(4) as u32,
                quantity: row.get(5),
                amount_cents: row.get(6),
            });
        }
    }
    Ok(orders)
}

async fn payments(
    snapshot: &Transaction<'_>,
) -> Result<BTreeMap<AcknowledgedPayment, u64>, tokio_postgres::Error> {
    // The rows of the load have its time.
    let asked = "select h_w_id, h_d_id::int4, h_c_w_id, h_c_d_id::int4, h_c_id, \
         (h_amount * 100)::int8, count(*) from history \
         where h_date <> (select loaded_at from tpcc_load) group by 1, 2, 3, 4, 5, 6";
    let payment = |row: &tokio_postgres::Row| {
        let payment = AcknowledgedPayment {
            warehouse: row.get::<_, i32>(0) as u32,
            district: row.get::<_, i32>(1) as u8,
            customer_warehouse: row.get::<_, i32>(2) as u32,
            customer_district: row.get::<_, i32>(3) as u8,
            customer: row.get::<_, i32>(4) as u32,
            amount_cents: row.get(5),
        };
        (payment, row.get::<_, i64>(6) as u64)
    };
    Ok(snapshot.query(asked, &[]).await?.iter().map(payment).collect())
}
