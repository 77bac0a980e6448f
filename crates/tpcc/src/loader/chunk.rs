//! A chunk: the rows that one transaction brings, together with the note that they are there. What
//! a killed load has left is therefore whole chunks and nothing else.

use std::ops::RangeInclusive;
use std::pin::pin;

use bytes::Bytes;
use futures_util::SinkExt;
use tokio_postgres::{Client, CopyInSink, Transaction};
use workload::tpcc::population::Population;
use workload::tpcc::rules::ORDER_UNDELIVERED;

use super::work::Work;
use super::{Ledger, LoadError};
use crate::copy::{Context, Rows};

/// Tables that are filled together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// ITEM.
    Items,
    /// ORDER, NEW-ORDER and ORDER-LINE.
    Orders,
    /// STOCK.
    Stock,
    /// CUSTOMER and HISTORY.
    Customers,
    /// WAREHOUSE and DISTRICT.
    Places,
}

/// The longest work first: so the last worker ends soon after the others.
const OF_WAREHOUSES: [Part; 4] = [Part::Orders, Part::Stock, Part::Customers, Part::Places];
const NAMES: [(Part, &str); 5] = [
    (Part::Items, "items"),
    (Part::Orders, "orders"),
    (Part::Stock, "stock"),
    (Part::Customers, "customers"),
    (Part::Places, "places"),
];

impl Part {
    pub(super) fn of(name: &str) -> Option<Part> {
        NAMES.iter().find(|(_, its)| *its == name).map(|(part, _)| *part)
    }

    fn name(self) -> &'static str {
        let named = NAMES.iter().find(|(part, _)| *part == self);
        named.expect("all parts have names").1
    }

    fn tables(self) -> &'static str {
        match self {
            Part::Items => "item",
            Part::Orders => "orders, new_order, order_line",
            Part::Stock => "stock",
            Part::Customers => "customer, history",
            Part::Places => "warehouse, district",
        }
    }
}

/// A part for some warehouses; the items are of none, and stand under 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub(super) part: Part,
    pub(super) from: u32,
    to: u32,
    /// True if it holds all rows of its tables. Then its transaction empties them first, and the
    /// rows can be written frozen: nothing will ever have to visit them again for that.
    whole: bool,
}

impl Chunk {
    /// The chunks of a load.
    pub(super) fn all(warehouses: u32, at_once: u32) -> impl Iterator<Item = Chunk> {
        let items = Chunk { part: Part::Items, from: 0, to: 0, whole: true };
        let of_warehouses = (1..=warehouses).step_by(at_once as usize).flat_map(move |from| {
            let to = warehouses.min(from + at_once - 1);
            let whole = to - from + 1 == warehouses;
            OF_WAREHOUSES.map(|part| Chunk { part, from, to, whole })
        });
        std::iter::once(items).chain(of_warehouses)
    }

    /// Brings its rows, and notes that they are there.
    pub(super) async fn load(
        self,
        client: &mut Client,
        ledger: &Ledger,
        work: &Work<'_>,
    ) -> Result<(), LoadError> {
        let doing = format!("loading {}", self.part.tables());
        let wrong = |error| LoadError::of(&doing, &error);
        let transaction = client.transaction().await.map_err(wrong)?;
        if self.whole {
            let sql = format!("truncate {}", self.part.tables());
            transaction.batch_execute(&sql).await.map_err(wrong)?;
        }
        let copy = Copy { chunk: self, transaction: &transaction, work, time: ledger.time };
        let rows = copy.tables(Population::new(ledger.record.seed)).await?;
        transaction
            .execute(
                "insert into tpcc_load_chunk (part, warehouse, rows) values ($1, $2, $3)",
                &[&self.part.name(), &self.from.cast_signed(), &rows.cast_signed()],
            )
            .await
            .map_err(wrong)?;
        transaction.commit().await.map_err(wrong)
    }

    fn warehouses(self) -> RangeInclusive<u32> {
        self.from..=self.to
    }
}

/// A chunk on its way into its tables.
struct Copy<'a> {
    chunk: Chunk,
    transaction: &'a Transaction<'a>,
    work: &'a Work<'a>,
    time: i64,
}

impl Copy<'_> {
    async fn tables(&self, all: Population) -> Result<u64, LoadError> {
        let mut rows = 0;
        match self.chunk.part {
            Part::Items => {
                rows += self.table("item", |_| all.items(), Context::item).await?;
            }
            Part::Orders => {
                rows +=
                    self.table("order_line", |w| all.order_lines(w), Context::order_line).await?;
                rows += self.table("orders", |w| all.orders(w), Context::order).await?;
                let open = |w| all.orders(w).filter(|order| order.id >= ORDER_UNDELIVERED);
                rows += self.table("new_order", open, Context::new_order).await?;
            }
            Part::Stock => {
                rows += self.table("stock", |w| all.stock(w), Context::stock).await?;
            }
            Part::Customers => {
                rows += self.table("customer", |w| all.customers(w), Context::customer).await?;
                rows += self.table("history", |w| all.history(w), Context::history).await?;
            }
            Part::Places => {
                let row = |w| std::iter::once(all.warehouse(w));
                rows += self.table("warehouse", row, Context::warehouse).await?;
                rows += self.table("district", |w| all.districts(w), Context::district).await?;
            }
        }
        Ok(rows)
    }

    /// Fills one table with the rows of the chunk's warehouses.
    async fn table<Of, R>(
        &self,
        table: &str,
        of: impl Fn(u32) -> Of,
        encode: impl Fn(Context, &mut Rows, &R),
    ) -> Result<u64, LoadError>
    where
        Of: Iterator<Item = R>,
    {
        let doing = format!("loading {table}");
        let wrong = |error| LoadError::of(&doing, &error);
        let freeze = if self.chunk.whole { ", freeze" } else { "" };
        let sql = format!("copy {table} from stdin (format binary{freeze})");
        let sink: CopyInSink<Bytes> = self.transaction.copy_in(&sql).await.map_err(wrong)?;
        let mut sink = pin!(sink);
        let mut rows = Rows::begin();
        let (mut made, mut told) = (0, 0);
        for warehouse in self.chunk.warehouses() {
            let context = Context { warehouse, time: self.time };
            for row in of(warehouse) {
                encode(context, &mut rows, &row);
                made += 1;
                if let Some(sent) = rows.full() {
                    // A sink that is left without its end makes the server forget the rows.
                    self.work.go_on()?;
                    sink.send(sent).await.map_err(wrong)?;
                    self.work.brought(made - told);
                    told = made;
                }
            }
        }
        sink.send(rows.end()).await.map_err(wrong)?;
        let taken = sink.finish().await.map_err(wrong)?;
        self.work.brought(made - told);
        assert_eq!(taken, made, "the server took as many rows of {table} as were sent");
        Ok(taken)
    }
}
