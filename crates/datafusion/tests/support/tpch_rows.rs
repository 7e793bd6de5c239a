//! The tables of TPC-H, and its 22 queries.

use std::collections::BTreeMap;

use datafusion::arrow::array::RecordBatch;
use tpchgen::generators::*;
use tpchgen::q_and_a::queries::query;
use tpchgen_arrow::*;

/// The scale factor of the benchmark.
const SCALE: f64 = 0.01;

/// The values of each query's parameters, as the benchmark defines them for validation.
const PARAMETERS: [&[&str]; 22] = [
    &["90"],
    &["15", "BRASS", "EUROPE"],
    &["BUILDING", "1995-03-15"],
    &["1993-07-01"],
    &["ASIA", "1994-01-01"],
    &["1994-01-01", "0.06", "24"],
    &["FRANCE", "GERMANY"],
    &["BRAZIL", "AMERICA", "ECONOMY ANODIZED STEEL"],
    &["green"],
    &["1993-10-01"],
    &["GERMANY", "0.0001"],
    &["MAIL", "SHIP", "1994-01-01"],
    &["special", "requests"],
    &["1995-09-01"],
    &["1996-01-01"],
    &["Brand#45", "MEDIUM POLISHED", "49", "14", "23", "45", "19", "3", "36", "9"],
    &["Brand#23", "MED BOX"],
    &["300"],
    &["Brand#12", "Brand#23", "Brand#34", "1", "10", "20"],
    &["forest", "1994-01-01", "CANADA"],
    &["SAUDI ARABIA"],
    &["13", "31", "23", "29", "30", "18", "17"],
];

/// The batches of each table, by name.
pub type Tables = BTreeMap<&'static str, Vec<RecordBatch>>;

/// Generates all tables.
pub fn tables() -> Tables {
    BTreeMap::from([
        ("nation", NationArrow::new(NationGenerator::default()).collect()),
        ("region", RegionArrow::new(RegionGenerator::default()).collect()),
        ("part", PartArrow::new(PartGenerator::new(SCALE, 1, 1)).collect()),
        ("supplier", SupplierArrow::new(SupplierGenerator::new(SCALE, 1, 1)).collect()),
        ("partsupp", PartSuppArrow::new(PartSuppGenerator::new(SCALE, 1, 1)).collect()),
        ("customer", CustomerArrow::new(CustomerGenerator::new(SCALE, 1, 1)).collect()),
        ("orders", OrderArrow::new(OrderGenerator::new(SCALE, 1, 1)).collect()),
        ("lineitem", LineItemArrow::new(LineItemGenerator::new(SCALE, 1, 1)).collect()),
    ])
}

/// Returns the statements of a query with the values of its parameters.
pub fn statements(number: usize) -> Vec<String> {
    // Neither engine accepts the number of digits of an interval. `:s` is a number of the stream of queries.
    let mut text = query(number as i32).unwrap().replace(" (3)", "").replace(":s", "0");
    // Last first, as `:10` begins with `:1`.
    for (index, value) in PARAMETERS[number - 1].iter().enumerate().rev() {
        text = text.replace(&format!(":{}", index + 1), value);
    }
    let statements = text.split(';').map(str::trim).filter(|statement| !statement.is_empty());
    statements.map(str::to_owned).collect()
}
