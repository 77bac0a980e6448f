//! The inputs of transactions, rule by rule.

use std::collections::BTreeSet;

use workload::tpcc::{
    Constants, CustomerBy, Inputs, Kind, NewOrder, NuRand, OrderStatus, Payment, Request, rules,
};
use workload::{Chance, stream};

use super::{assert_share, assert_uniform};

const CONSTANTS: Constants = Constants { last: 12, customer: 345, item: 6789 };
const ACTIVE: u32 = 5;
const HOME: u32 = 3;

fn drawn(kind: Kind, n: usize, active: u32, home: u32) -> Vec<Request> {
    let inputs = Inputs::new(CONSTANTS, active);
    let mut chance = stream(11, kind.index() as u64);
    (0..n).map(|_| inputs.draw(kind, home, 7, &mut chance)).collect()
}

fn new_orders(n: usize, active: u32, home: u32) -> Vec<NewOrder> {
    let unpack = |request| match request {
        Request::NewOrder(order) => order,
        other => panic!("asked for a New-Order, got {other:?}"),
    };
    drawn(Kind::NewOrder, n, active, home).into_iter().map(unpack).collect()
}

fn payments(n: usize, active: u32, home: u32) -> Vec<Payment> {
    let unpack = |request| match request {
        Request::Payment(payment) => payment,
        other => panic!("asked for a Payment, got {other:?}"),
    };
    drawn(Kind::Payment, n, active, home).into_iter().map(unpack).collect()
}

fn counts(values: impl Iterator<Item = usize>, from: usize, to: usize) -> Vec<f64> {
    let mut counts = vec![0.0; to - from + 1];
    values.for_each(|value| counts[value - from] += 1.0);
    counts
}

#[test]
fn new_orders_have_5_to_15_lines_and_quantities_of_1_to_10() {
    let orders = new_orders(40_000, ACTIVE, HOME);
    let lines = counts(orders.iter().map(|order| order.lines.len()), 5, 15);
    assert_uniform(&lines, "lines of an order");
    let quantities = orders.iter().flat_map(|order| &order.lines);
    let quantities = counts(quantities.map(|line| line.quantity.into()), 1, 10);
    assert_uniform(&quantities, "quantities");
    let districts = counts(orders.iter().map(|order| order.district.into()), 1, 10);
    assert_uniform(&districts, "districts");
    assert!(orders.iter().all(|order| order.warehouse == HOME));
    assert!(orders.iter().all(|order| (1..=3000).contains(&order.customer)));
}

#[test]
fn one_new_order_in_a_hundred_ends_in_an_unused_item() {
    let orders = new_orders(200_000, ACTIVE, HOME);
    let mut rolled_back = 0.0;
    for order in &orders {
        let (last, others) = order.lines.split_last().unwrap();
        assert!(others.iter().all(|line| (1..=100_000).contains(&line.item)), "{order:?}");
        if last.item == rules::ITEM_UNUSED {
            rolled_back += 1.0;
        } else {
            assert!((1..=100_000).contains(&last.item), "{order:?}");
        }
    }
    assert_share(rolled_back, 200_000.0, 0.01, "orders that roll back");
}

#[test]
fn one_line_in_a_hundred_comes_from_another_active_warehouse() {
    let orders = new_orders(100_000, ACTIVE, HOME);
    let suppliers = orders.iter().flat_map(|order| &order.lines);
    let suppliers = counts(suppliers.map(|line| line.supply_warehouse as usize), 1, 5);
    let lines = suppliers.iter().sum();
    let home = suppliers[HOME as usize - 1];
    assert_share(lines - home, lines, 0.01, "remote lines");
    let others: Vec<f64> = suppliers.into_iter().filter(|&count| count != home).collect();
    assert_uniform(&others, "the other warehouses");
}

#[test]
fn with_one_active_warehouse_everything_is_at_home() {
    let of_home = |order: &NewOrder| order.lines.iter().all(|line| line.supply_warehouse == 1);
    assert!(new_orders(2_000, 1, 1).iter().all(of_home));
    assert!(payments(2_000, 1, 1).iter().all(|payment| payment.customer_warehouse == 1));
}

#[test]
fn fifteen_payments_in_a_hundred_are_of_customers_elsewhere() {
    for home in [1, HOME, ACTIVE] {
        let payments = payments(60_000, ACTIVE, home);
        let remote: Vec<&Payment> =
            payments.iter().filter(|payment| payment.customer_warehouse != home).collect();
        assert_share(remote.len() as f64, 60_000.0, 0.15, "remote payments");
        let warehouses = remote.iter().map(|payment| payment.customer_warehouse as usize);
        let mut warehouses = counts(warehouses, 1, 5);
        assert_eq!(warehouses.remove(home as usize - 1), 0.0);
        assert_uniform(&warehouses, "the other warehouses");
        let districts = remote.iter().map(|payment| payment.customer_district.into());
        assert_uniform(&counts(districts, 1, 10), "districts of remote customers");
        for payment in payments.iter().filter(|payment| payment.customer_warehouse == home) {
            assert_eq!(payment.customer_district, payment.district, "{payment:?}");
        }
    }
}

/// Sixty in a hundred by name, whether the customer is remote or not.
#[test]
fn customers_are_named_independently_of_where_they_are() {
    let by_name = |customer: CustomerBy| f64::from(matches!(customer, CustomerBy::LastName(_)));
    let (mut near, mut far) = ((0.0, 0.0), (0.0, 0.0));
    for payment in payments(100_000, ACTIVE, HOME) {
        let there = if payment.customer_warehouse == HOME { &mut near } else { &mut far };
        *there = (there.0 + by_name(payment.customer), there.1 + 1.0);
    }
    assert_share(near.0, near.1, 0.6, "payments at home by name");
    assert_share(far.0, far.1, 0.6, "remote payments by name");
    let statuses: Vec<OrderStatus> = drawn(Kind::OrderStatus, 50_000, ACTIVE, HOME)
        .into_iter()
        .map(|request| match request {
            Request::OrderStatus(status) => status,
            other => panic!("asked for an Order-Status, got {other:?}"),
        })
        .collect();
    let named = statuses.iter().map(|status| by_name(status.customer)).sum();
    assert_share(named, 50_000.0, 0.6, "Order-Statuses by name");
    assert!(statuses.iter().all(|status| status.warehouse == HOME));
    let districts = statuses.iter().map(|status| status.district.into());
    assert_uniform(&counts(districts, 1, 10), "districts of Order-Statuses");
}

/// A customer's number or last name is what NURand gives with the run's constants: the numbers'
/// means agree with a million draws of NURand itself within four standard errors.
#[test]
fn customers_and_items_follow_the_constants_of_the_run() {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let agree = |found: &[f64], nurand: NuRand, what: &str| {
        let mut chance: Chance = stream(12, 0);
        let long: Vec<f64> = (0..1_000_000).map(|_| f64::from(nurand.draw(&mut chance))).collect();
        let centre = mean(&long);
        let variance = mean(&long.iter().map(|x| (x - centre).powi(2)).collect::<Vec<_>>());
        let error = (variance / found.len() as f64 + variance / 1e6).sqrt();
        let off = (mean(found) - centre) / error;
        assert!(off.abs() <= 4.0, "{what}: {off} standard errors off");
    };
    let (mut names, mut ids) = (Vec::new(), Vec::new());
    for payment in payments(100_000, ACTIVE, HOME) {
        match payment.customer {
            CustomerBy::LastName(number) => names.push(f64::from(number)),
            CustomerBy::Id(id) => ids.push(f64::from(id)),
        }
    }
    agree(&names, NuRand::last(CONSTANTS.last), "last names");
    agree(&ids, NuRand::customer(CONSTANTS.customer), "customers of Payments");
    let orders = new_orders(50_000, ACTIVE, HOME);
    let ids: Vec<f64> = orders.iter().map(|order| f64::from(order.customer)).collect();
    agree(&ids, NuRand::customer(CONSTANTS.customer), "customers of New-Orders");
    let lines = orders.iter().flat_map(|order| &order.lines);
    let items: Vec<f64> = lines
        .filter(|line| line.item != rules::ITEM_UNUSED)
        .map(|line| f64::from(line.item))
        .collect();
    agree(&items, NuRand::item(CONSTANTS.item), "items");
}

#[test]
fn amounts_are_cents_from_1_to_5000() {
    let payments = payments(200_000, ACTIVE, HOME);
    let amounts: Vec<usize> =
        payments.iter().map(|payment| payment.amount_cents as usize).collect();
    assert!(amounts.iter().all(|amount| (100..=500_000).contains(amount)));
    let thousands = counts(amounts.iter().map(|amount| (amount - 100) / 4_999), 0, 100);
    assert_uniform(&thousands[..100], "hundredths of the amounts' range");
    let cents: BTreeSet<usize> = amounts.iter().map(|amount| amount % 100).collect();
    assert_eq!(cents.len(), 100, "every cent occurs");
    let districts = payments.iter().map(|payment| payment.district.into());
    assert_uniform(&counts(districts, 1, 10), "districts of Payments");
}

#[test]
fn deliveries_and_stock_levels_stay_in_their_ranges() {
    let mut carriers = vec![0.0; 10];
    for request in drawn(Kind::Delivery, 20_000, ACTIVE, HOME) {
        let Request::Delivery(delivery) = request else { panic!("{request:?}") };
        assert_eq!(delivery.warehouse, HOME);
        carriers[usize::from(delivery.carrier) - 1] += 1.0;
    }
    assert_uniform(&carriers, "carriers");
    let mut thresholds = vec![0.0; 11];
    for request in drawn(Kind::StockLevel, 20_000, ACTIVE, HOME) {
        let Request::StockLevel(level) = request else { panic!("{request:?}") };
        assert_eq!((level.warehouse, level.district), (HOME, 7));
        thresholds[usize::from(level.threshold) - 10] += 1.0;
    }
    assert_uniform(&thresholds, "thresholds");
}
