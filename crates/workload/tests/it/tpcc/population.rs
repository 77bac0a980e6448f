//! The initial population, rule by rule (4.3.3.1).

use std::collections::{BTreeMap, BTreeSet};

use workload::tpcc::population::{Address, Customer, Order, Population};
use workload::tpcc::{NuRand, c_load, last_name};
use workload::{Chance, stream};

use super::{assert_share, assert_uniform, chi_square};

const SEED: u64 = 20;

fn population() -> Population {
    Population::new(SEED)
}

/// Counts of values in so many equal cells of a range.
fn cells(values: &[u32], from: u32, to: u32, cells: usize) -> Vec<f64> {
    let width = (to - from + 1) as usize / cells;
    assert_eq!(width * cells, (to - from + 1) as usize, "equal cells");
    let mut counts = vec![0.0; cells];
    values.iter().for_each(|value| counts[(value - from) as usize / width] += 1.0);
    counts
}

fn assert_a_string(text: &str, lengths: std::ops::RangeInclusive<usize>) {
    assert!(lengths.contains(&text.len()), "{text}: {} characters", text.len());
    assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{text}");
}

fn assert_address(address: &Address) {
    for text in [&address.street_1, &address.street_2, &address.city] {
        assert_a_string(text.as_str(), 10..=20);
    }
    let (state, zip) = (address.state.as_str(), address.zip.as_str());
    assert!(state.len() == 2 && state.bytes().all(|byte| byte.is_ascii_alphabetic()), "{state}");
    assert!(zip.len() == 9 && zip.ends_with("11111"), "{zip}");
    assert!(zip.bytes().all(|byte| byte.is_ascii_digit()), "{zip}");
}

/// The texts of items and of stock: lengths, and exactly one in ten `ORIGINAL`, anywhere.
fn assert_item_texts(texts: &[String], what: &str) {
    texts.iter().for_each(|text| assert_a_string(text, 26..=50));
    let lengths: Vec<u32> = texts.iter().map(|text| text.len() as u32).collect();
    assert_uniform(&cells(&lengths, 26, 50, 25), &format!("lengths of {what}"));
    let places: Vec<(usize, usize)> = texts
        .iter()
        .enumerate()
        .filter_map(|(row, text)| text.find("ORIGINAL").map(|at| (row, at)))
        .collect();
    assert_eq!(places.len(), 10_000, "{what}: exactly one row in ten");
    let mut rows = vec![0.0; 100];
    places.iter().for_each(|(row, _)| rows[row / 1000] += 1.0);
    assert_uniform(&rows, &format!("which rows of {what} are original"));
    // In a text of n characters there are n - 7 places; the mean of at / (n - 8) is a half.
    let relative = |&(row, at): &(usize, usize)| at as f64 / (texts[row].len() - 8) as f64;
    let mean = places.iter().map(relative).sum::<f64>() / 10_000.0;
    // A uniform number on [0, 1] has variance 1/12; few places make it up to a tenth more.
    assert!((mean - 0.5).abs() < 4.0 * (1.1_f64 / 12.0 / 10_000.0).sqrt(), "{what}: {mean}");
    let ends = places.iter().filter(|&&(row, at)| at == 0 || at == texts[row].len() - 8).count();
    assert!(ends > 100, "{what}: ORIGINAL also stands at either end, {ends} times");
}

#[test]
fn items() {
    let items: Vec<_> = population().items().collect();
    assert!(items.iter().map(|item| item.id).eq(1..=100_000));
    let images: Vec<u32> = items.iter().map(|item| item.image.into()).collect();
    assert_uniform(&cells(&images, 1, 10_000, 100), "I_IM_ID");
    let prices: Vec<u32> = items.iter().map(|item| item.price_cents).collect();
    assert!(prices.iter().all(|price| (100..=10_000).contains(price)));
    assert!(prices.contains(&100) && prices.contains(&10_000), "both ends of the range occur");
    items.iter().for_each(|item| assert_a_string(item.name.as_str(), 14..=24));
    let texts: Vec<String> = items.iter().map(|item| item.text.to_string()).collect();
    assert_item_texts(&texts, "items");
}

#[test]
fn stock() {
    let stock: Vec<_> = population().stock(2).collect();
    assert!(stock.iter().map(|row| row.item).eq(1..=100_000));
    let quantities: Vec<u32> = stock.iter().map(|row| row.quantity.into()).collect();
    assert_uniform(&cells(&quantities, 10, 100, 91), "S_QUANTITY");
    let mut letters = vec![0.0; 256];
    for text in stock.iter().flat_map(|row| &row.districts) {
        assert_eq!(text.as_str().len(), 24);
        text.as_bytes().iter().for_each(|&byte| letters[usize::from(byte)] += 1.0);
    }
    let (used, unused): (Vec<_>, Vec<_>) =
        (0..256).partition(|&byte| (byte as u8).is_ascii_alphabetic());
    assert!(unused.iter().all(|&byte: &usize| letters[byte] == 0.0), "only letters");
    let used: Vec<f64> = used.iter().map(|&byte| letters[byte]).collect();
    assert_uniform(&used, "letters of S_DIST_xx");
    let texts: Vec<String> = stock.iter().map(|row| row.text.to_string()).collect();
    assert_item_texts(&texts, "stock");
}

#[test]
fn warehouses_and_districts() {
    let (mut taxes, mut names) = (Vec::new(), BTreeSet::new());
    for id in 1..=400 {
        let warehouse = population().warehouse(id);
        assert_eq!(warehouse.id, id);
        assert_a_string(warehouse.name.as_str(), 6..=10);
        assert_address(&warehouse.address);
        assert!(names.insert(warehouse.name.to_string()), "62^6 names: none twice");
        taxes.push(u32::from(warehouse.tax));
        let districts: Vec<_> = population().districts(id).collect();
        assert!(districts.iter().map(|district| district.id).eq(1..=10));
        for district in districts {
            assert_a_string(district.name.as_str(), 6..=10);
            assert_address(&district.address);
            taxes.push(u32::from(district.tax));
        }
    }
    assert_uniform(&cells(&taxes, 0, 2_000, 3), "taxes in thirds of 0 to 0.2000");
}

fn customers() -> Vec<Customer> {
    population().customers(1).collect()
}

#[test]
fn customers_have_their_texts_and_ranges() {
    let customers = customers();
    let keys = (1..=10).flat_map(|district| (1..=3000).map(move |id| (district, id)));
    assert!(customers.iter().map(|row| (row.district, row.id)).eq(keys));
    for row in &customers {
        assert_a_string(row.first.as_str(), 8..=16);
        assert_a_string(row.text.as_str(), 300..=500);
        assert_address(&row.address);
        let phone = row.phone.as_str();
        assert!(phone.len() == 16 && phone.bytes().all(|byte| byte.is_ascii_digit()), "{phone}");
    }
    let discounts: Vec<u32> = customers.iter().map(|row| row.discount.into()).collect();
    assert_uniform(&cells(&discounts, 0, 5_000, 3), "C_DISCOUNT in thirds of 0 to 0.5000");
    let lengths: Vec<u32> = customers.iter().map(|row| row.text.as_str().len() as u32).collect();
    assert_uniform(&cells(&lengths, 300, 500, 201), "lengths of C_DATA");
}

#[test]
fn exactly_one_customer_in_ten_has_bad_credit() {
    let customers = customers();
    let mut hundreds = vec![0.0; 30];
    for district in customers.chunks(3000) {
        let bad = district.iter().filter(|row| row.credit.as_str() == "BC");
        let bad: Vec<u32> = bad.map(|row| row.id).collect();
        let good = district.iter().filter(|row| row.credit.as_str() == "GC").count();
        assert_eq!((bad.len(), good), (300, 2700));
        bad.iter().for_each(|id| hundreds[(id - 1) as usize / 100] += 1.0);
    }
    assert_uniform(&hundreds, "which customers have bad credit");
}

/// The first 1000 of a district have each last name once; the others follow NURand with C-Load.
#[test]
fn last_names() {
    let population = population();
    assert_eq!(population.c_load(), c_load(SEED));
    let numbers: BTreeMap<String, usize> =
        (0..1000).map(|number| (last_name(number).to_string(), usize::from(number))).collect();
    assert_eq!(numbers.len(), 1000, "no two numbers share a name");
    let mut found = vec![0.0; 1000];
    for district in customers().chunks(3000) {
        let named = |row: &Customer| numbers[row.last.as_str()];
        assert!(district[..1000].iter().map(named).eq(0..1000));
        district[1000..].iter().for_each(|row| found[named(row)] += 1.0);
    }
    let nurand = NuRand::last(population.c_load());
    let mut chance: Chance = stream(21, 0);
    // Names in tens, against two million draws of the distribution, whose own noise is a hundredth
    // of that of the 20000 names.
    let mut expected = vec![0.0; 100];
    for _ in 0..2_000_000 {
        expected[nurand.draw(&mut chance) as usize / 10] += 0.01;
    }
    let found: Vec<f64> = found.chunks(10).map(|ten| ten.iter().sum()).collect();
    let (chi2, limit) = chi_square(&found, &expected);
    assert!(chi2 <= limit, "{chi2} of at most {limit}");
}

#[test]
fn last_names_are_made_of_syllables() {
    for (number, name) in [
        (0, "BARBARBAR"),
        (7, "BARBARCALLY"),
        (371, "PRICALLYOUGHT"),
        (456, "PRESESEANTI"),
        (289, "ABLEATIONEING"),
        (777, "CALLYCALLYCALLY"),
        (999, "EINGEINGEING"),
    ] {
        assert_eq!(last_name(number).as_str(), name);
    }
}

#[test]
fn every_customer_has_one_row_of_history() {
    let rows: Vec<_> = population().history(1).collect();
    let keys = (1..=10).flat_map(|district| (1..=3000).map(move |id| (district, id)));
    assert!(rows.iter().map(|row| (row.district, row.customer)).eq(keys));
    rows.iter().for_each(|row| assert_a_string(row.text.as_str(), 12..=24));
}

#[test]
fn every_customer_has_one_order_in_a_random_place() {
    let orders: Vec<Order> = population().orders(1).collect();
    let mut permutations = BTreeSet::new();
    for district in orders.chunks(3000) {
        assert!(district.iter().map(|order| order.id).eq(1..=3000));
        let customers: Vec<u32> = district.iter().map(|order| order.customer).collect();
        let mut sorted = customers.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(1..=3000), "a permutation");
        // A random permutation of n leaves one in place on average, with variance 1.
        let fixed = district.iter().filter(|order| order.customer == order.id).count();
        assert!(fixed <= 8, "{fixed} customers in place");
        permutations.insert(customers);
    }
    assert_eq!(permutations.len(), 10, "each district has its own");
    let lines: Vec<u32> = orders.iter().map(|order| order.lines.into()).collect();
    assert_uniform(&cells(&lines, 5, 15, 11), "O_OL_CNT");
    assert!(orders.iter().all(|order| order.carrier.is_some() == (order.id < 2101)));
    let carriers: Vec<u32> =
        orders.iter().filter_map(|order| order.carrier).map(u32::from).collect();
    assert_eq!(carriers.len(), 21_000);
    assert_uniform(&cells(&carriers, 1, 10, 10), "O_CARRIER_ID");
}

#[test]
fn order_lines_belong_to_their_orders() {
    let orders: Vec<Order> = population().orders(1).collect();
    let lines: Vec<_> = population().order_lines(1).collect();
    let expected =
        orders.iter().flat_map(|&order| (1..=order.lines).map(move |number| (order, number)));
    assert!(lines.iter().map(|line| (line.order, line.number)).eq(expected));
    for line in &lines {
        let allowed = if line.order.id < 2101 { 0..=0 } else { 1..=999_999 };
        assert!(allowed.contains(&line.amount_cents), "{line:?}");
        assert_eq!(line.dist_info.as_str().len(), 24);
    }
    let items: Vec<u32> = lines.iter().map(|line| line.item).collect();
    assert_uniform(&cells(&items, 1, 100_000, 1000), "OL_I_ID");
    let amounts: Vec<u32> =
        lines.iter().map(|line| line.amount_cents).filter(|&amount| amount > 0).collect();
    assert_uniform(&cells(&amounts, 1, 999_999, 27), "OL_AMOUNT of what is not delivered");
    let cents = amounts.iter().filter(|&amount| amount % 100 == 37).count();
    assert_share(cents as f64, amounts.len() as f64, 0.01, "amounts with 37 cents");
}

#[test]
fn rows_are_a_function_of_seed_and_warehouse() {
    let first = |seed: u64, warehouse: u32| Population::new(seed).customers(warehouse).next();
    assert_eq!(first(1, 1), first(1, 1));
    assert_ne!(first(1, 1), first(2, 1));
    assert_ne!(first(1, 1), first(1, 2));
    let names = |warehouse| Population::new(1).stock(warehouse).map(|row| row.text).take(5);
    assert!(names(1).ne(names(2)), "warehouses have their own stock");
}

/// Expected values of studies and of databases that exist hang on these rows: they must not
/// change with a version of a library.
#[test]
fn rows_stay_the_same() {
    let warehouse = population().warehouse(1);
    assert_eq!((warehouse.name.as_str(), warehouse.tax), GOLDEN_WAREHOUSE);
    let item = population().items().last().unwrap();
    assert_eq!((item.name.as_str(), item.price_cents), GOLDEN_ITEM);
    let order = population().orders(7).last().unwrap();
    assert_eq!((order.customer, order.lines), GOLDEN_ORDER);
}

const GOLDEN_WAREHOUSE: (&str, u16) = ("sSPDBT12M6", 554);
const GOLDEN_ITEM: (&str, u32) = ("KdUWjrScorzzxtv5cdoiT", 5720);
const GOLDEN_ORDER: (u32, u8) = (181, 9);
