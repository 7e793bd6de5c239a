//! Tests that an assertion of the library that fails during a write fails only its request, and the server goes on.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrowwood::simulate::FileSystem;
use arrowwood_serve::Options;

use crate::failing_assertion::FailingAssertion;
use crate::support::flight::{Descriptor, call, framed, put};
use crate::support::*;

/// Starts a server with a table `t` with segments of 8 rows.
fn served() -> (Served, Arc<FailingAssertion>) {
    let assertion = Arc::new(FailingAssertion::default());
    let medium = FileSystem::with_observer(assertion.clone());
    let served = Served::with(|_| Options { medium, ..options() });
    let created = served.send("PUT", "/v1/tables/t?segment_rows=8", &[], b"n: int not null");
    assert_eq!(created.status, 201, "{}", created.text());
    (served, assertion)
}

#[test]
fn failed_assertion_is_answered_with_500_and_keeps_the_connection() {
    let (served, assertion) = served();
    let mut client = served.client();
    let headers = [("content-type", "application/x-ndjson")];
    let mut acknowledged = BTreeSet::new();
    let mut failures = 0;
    for number in 1..=120 {
        assertion.arm(number);
        let first =
            client.send("POST", "/v1/tables/t/rows", &headers, format!("{{\"n\":{number}}}").as_bytes()).unwrap();
        let has_panicked = assertion.disarm();
        match first.status {
            200 => drop(acknowledged.insert(number.to_string())),
            500 => {
                assert!(
                    has_panicked && ["internal", "not_durable"].contains(&first.code().as_str()),
                    "{}",
                    first.text()
                );
                failures += 1;
            }
            other => panic!("operation {number}: {other}: {}", first.text()),
        }
        let next = 1000 + number;
        let second =
            client.send("POST", "/v1/tables/t/rows", &headers, format!("{{\"n\":{next}}}").as_bytes()).unwrap();
        assert_eq!(second.status, 200, "after operation {number}: {}", second.text());
        acknowledged.insert(next.to_string());
    }
    assert!(failures > 5, "{failures} of the writes failed");
    let rows: Vec<String> = values(&served.rows("/v1/tables/t/rows")).into_iter().flatten().collect();
    let distinct: BTreeSet<String> = rows.iter().cloned().collect();
    assert_eq!(rows.len(), distinct.len(), "no row came twice");
    assert!(distinct.is_superset(&acknowledged));
}

#[test]
fn failed_assertion_ends_a_flight_call_with_an_internal_error() {
    let (served, assertion) = served();
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..3));
    let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
    let mut failures = 0;
    for number in 1..=60 {
        assertion.arm(number);
        let call_result = call(&served, "DoPut", framed(&put(Descriptor::path("t"), std::slice::from_ref(&batch))));
        let has_panicked = assertion.disarm();
        assert!(
            call_result.status == 0 || call_result.status == 13 && has_panicked,
            "operation {number}: {call_result:?}"
        );
        failures += u32::from(call_result.status == 13);
        let call_result = call(&served, "DoPut", framed(&put(Descriptor::path("t"), std::slice::from_ref(&batch))));
        assert_eq!(call_result.status, 0, "after operation {number}: {call_result:?}");
    }
    assert!(failures > 5, "{failures} of the calls failed");
}
