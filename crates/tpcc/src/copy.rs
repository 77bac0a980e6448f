//! Rows in PostgreSQL's binary COPY format: half the server's work of the text format, and money
//! never becomes anything but an integer on its way.

use bytes::{BufMut, Bytes, BytesMut};
use workload::tpcc::Text;
use workload::tpcc::population::{
    Address, Customer, District, History, Item, Order, OrderLine, Stock, Warehouse,
};

/// Bytes sent at once: large enough to make messages rare, small enough for a cache.
pub(super) const SENT_BYTES: usize = 128 * 1024;

/// Rows on their way into COPY.
pub(super) struct Rows {
    buffer: BytesMut,
}

impl Rows {
    /// The head of the format: its signature, no flags, no extension.
    pub(super) fn begin() -> Rows {
        let mut buffer = BytesMut::with_capacity(2 * SENT_BYTES);
        buffer.put_slice(b"PGCOPY\n\xff\r\n\0");
        buffer.put_u32(0);
        buffer.put_u32(0);
        Rows { buffer }
    }

    /// The bytes to be sent, once there are enough of them.
    pub(super) fn full(&mut self) -> Option<Bytes> {
        (self.buffer.len() >= SENT_BYTES).then(|| {
            let sent = self.buffer.split().freeze();
            self.buffer.reserve(2 * SENT_BYTES);
            sent
        })
    }

    /// The rest, with the mark of the end.
    pub(super) fn end(mut self) -> Bytes {
        self.buffer.put_i16(-1);
        self.buffer.freeze()
    }

    fn row(&mut self, columns: i16) -> &mut Rows {
        self.buffer.put_i16(columns);
        self
    }

    fn small(&mut self, value: u8) -> &mut Rows {
        self.buffer.put_i32(2);
        self.buffer.put_i16(value.into());
        self
    }

    fn int(&mut self, value: u32) -> &mut Rows {
        self.buffer.put_i32(4);
        self.buffer.put_i32(value.cast_signed());
        self
    }

    /// Microseconds since the year 2000.
    fn time(&mut self, value: i64) -> &mut Rows {
        self.buffer.put_i32(8);
        self.buffer.put_i64(value);
        self
    }

    fn null(&mut self) -> &mut Rows {
        self.buffer.put_i32(-1);
        self
    }

    fn text<const N: usize>(&mut self, text: &Text<N>) -> &mut Rows {
        self.ascii(text.as_bytes())
    }

    fn ascii(&mut self, text: &[u8]) -> &mut Rows {
        self.buffer.put_i32(text.len() as i32);
        self.buffer.put_slice(text);
        self
    }

    fn cents(&mut self, cents: i64) -> &mut Rows {
        self.numeric(cents * 100, 2)
    }

    /// In ten-thousandths.
    fn rate(&mut self, rate: u16) -> &mut Rows {
        self.numeric(rate.into(), 4)
    }

    /// A `numeric` of so many ten-thousandths, shown with so many decimals: its digits in base
    /// 10000 without zeros at either end, the weight of the first, the sign, the decimals.
    fn numeric(&mut self, value: i64, decimals: u16) -> &mut Rows {
        let mut digits = [0_u16; 5];
        let mut rest = value.unsigned_abs();
        for digit in digits.iter_mut().rev() {
            (*digit, rest) = ((rest % 10_000) as u16, rest / 10_000);
        }
        assert_eq!(rest, 0, "20 digits hold any 64-bit integer");
        let first = digits.iter().position(|&digit| digit != 0).unwrap_or(digits.len());
        let last = digits.iter().rposition(|&digit| digit != 0).map_or(first, |last| last + 1);
        let shown = &digits[first..last];
        // The last of the five has weight -1: it holds the four decimals.
        let weight = if shown.is_empty() { 0 } else { 3 - first as i16 };
        self.buffer.put_i32(8 + 2 * shown.len() as i32);
        self.buffer.put_i16(shown.len() as i16);
        self.buffer.put_i16(weight);
        self.buffer.put_u16(if value < 0 { 0x4000 } else { 0 });
        self.buffer.put_u16(decimals);
        shown.iter().for_each(|&digit| self.buffer.put_u16(digit));
        self
    }

    fn address(&mut self, address: &Address) -> &mut Rows {
        self.text(&address.street_1)
            .text(&address.street_2)
            .text(&address.city)
            .text(&address.state)
            .text(&address.zip)
    }
}

/// Values that all rows of a chunk share: their warehouse, and the time of the load in microseconds
/// since the year 2000. Columns come in the order of [`super::schema::TABLES`].
#[derive(Clone, Copy)]
pub(super) struct Context {
    pub(super) warehouse: u32,
    pub(super) time: i64,
}

impl Context {
    pub(super) fn item(self, rows: &mut Rows, item: &Item) {
        rows.row(5).int(item.id).int(item.image.into()).text(&item.name);
        rows.cents(item.price_cents.into()).text(&item.text);
    }

    pub(super) fn warehouse(self, rows: &mut Rows, warehouse: &Warehouse) {
        rows.row(9).int(warehouse.id).text(&warehouse.name).address(&warehouse.address);
        rows.rate(warehouse.tax).cents(30_000_000);
    }

    pub(super) fn district(self, rows: &mut Rows, district: &District) {
        rows.row(11).int(self.warehouse).int(3_001).small(district.id).text(&district.name);
        rows.address(&district.address).rate(district.tax).cents(3_000_000);
    }

    pub(super) fn stock(self, rows: &mut Rows, stock: &Stock) {
        rows.row(17).int(self.warehouse).int(stock.item).int(0).int(0).int(0);
        rows.small(stock.quantity);
        stock.districts.iter().for_each(|text| {
            rows.text(text);
        });
        rows.text(&stock.text);
    }

    pub(super) fn customer(self, rows: &mut Rows, customer: &Customer) {
        rows.row(21).time(self.time).int(self.warehouse).int(customer.id).int(1).int(0);
        rows.small(customer.district).text(&customer.first).ascii(b"OE").text(&customer.last);
        rows.address(&customer.address).text(&customer.phone).text(&customer.credit);
        rows.cents(5_000_000).rate(customer.discount).cents(-1_000).cents(1_000);
        rows.text(&customer.text);
    }

    pub(super) fn history(self, rows: &mut Rows, history: &History) {
        rows.row(8).time(self.time).int(self.warehouse).int(history.customer);
        rows.int(self.warehouse).small(history.district).small(history.district);
        rows.cents(1_000).text(&history.text);
    }

    pub(super) fn order(self, rows: &mut Rows, order: &Order) {
        rows.row(8).time(self.time).int(self.warehouse).int(order.id).int(order.customer);
        rows.small(order.district);
        match order.carrier {
            Some(carrier) => rows.small(carrier),
            None => rows.null(),
        };
        rows.small(order.lines).small(1);
    }

    pub(super) fn order_line(self, rows: &mut Rows, line: &OrderLine) {
        rows.row(10).int(self.warehouse).int(line.order.id).small(line.order.district);
        rows.small(line.number).int(line.item);
        match line.order.carrier {
            Some(_) => rows.time(self.time),
            None => rows.null(),
        };
        rows.int(self.warehouse).small(5).cents(line.amount_cents.into()).text(&line.dist_info);
    }

    pub(super) fn new_order(self, rows: &mut Rows, order: &Order) {
        rows.row(3).int(self.warehouse).int(order.id).small(order.district);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `numeric_send` of PostgreSQL gives for these numbers.
    #[test]
    fn numeric_is_written_as_postgresql_does() {
        let cases: [(i64, u16, &[u16]); 9] = [
            (0, 2, &[0, 0, 0, 2]),
            (100, 2, &[1, 0xffff, 0, 2, 100]),
            (-100_000, 2, &[1, 0, 0x4000, 2, 10]),
            (3_000_000_000, 2, &[1, 1, 0, 2, 30]),
            (500_000_000, 2, &[1, 1, 0, 2, 5]),
            (12_345_678, 4, &[2, 0, 0, 4, 1234, 5678]),
            (99_999_900, 2, &[2, 0, 0, 2, 9999, 9900]),
            (1, 4, &[1, 0xffff, 0, 4, 1]),
            (1_000_000_000_001, 4, &[4, 2, 0, 4, 1, 0, 0, 1]),
        ];
        for (value, decimals, words) in cases {
            let mut rows = Rows { buffer: BytesMut::new() };
            rows.numeric(value, decimals);
            let mut expected = BytesMut::new();
            expected.put_i32(2 * words.len() as i32);
            words.iter().for_each(|&word| expected.put_u16(word));
            assert_eq!(rows.buffer, expected, "{value} ten-thousandths with {decimals} decimals");
        }
    }
}
