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
fn serve_table() -> (TestServer, Arc<FailingAssertion>) {
    let assertion = Arc::new(FailingAssertion::default());
    let medium = FileSystem::with_observer(assertion.clone());
    let served = TestServer::start_with(|_| Options { medium, ..options() });
    let created = served.send("PUT", "/v1/tables/t?segment_rows=8", &[], b"n: int not null");
    assert_eq!(created.status, 201, "{}", created.text());
    (served, assertion)
}

fn post_number(client: &mut Client, n: u64) -> Reply {
    let headers = [("content-type", "application/x-ndjson")];
    client.send("POST", "/v1/tables/t/rows", &headers, format!("{{\"n\":{n}}}").as_bytes()).unwrap()
}

#[test]
fn failed_assertion_is_answered_with_500_and_keeps_the_connection() {
    let (served, assertion) = serve_table();
    let mut client = served.client();
    let mut acknowledged = BTreeSet::new();
    let mut failures = 0;
    for operation in 1..=120 {
        assertion.arm(operation);
        let reply = post_number(&mut client, operation);
        let has_panicked = assertion.disarm();
        match reply.status {
            200 => {
                acknowledged.insert(operation.to_string());
            }
            500 => {
                assert!(has_panicked, "operation {operation}: {}", reply.text());
                assert!(["internal", "not_durable"].contains(&reply.code().as_str()), "{}", reply.text());
                failures += 1;
            }
            status => panic!("operation {operation}: {status}: {}", reply.text()),
        }
        let next_number = 1000 + operation;
        let reply = post_number(&mut client, next_number);
        assert_eq!(reply.status, 200, "after operation {operation}: {}", reply.text());
        acknowledged.insert(next_number.to_string());
    }
    assert!(failures > 5, "{failures} of the writes failed");
    let rows: Vec<String> = format_values(&served.get_rows("/v1/tables/t/rows")).into_iter().flatten().collect();
    let distinct: BTreeSet<String> = rows.iter().cloned().collect();
    assert_eq!(rows.len(), distinct.len(), "a row came twice");
    assert!(distinct.is_superset(&acknowledged));
}

#[test]
fn failed_assertion_ends_a_flight_call_with_an_internal_error() {
    const OK: u16 = 0;
    const INTERNAL: u16 = 13;
    let (served, assertion) = serve_table();
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..3));
    let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
    let messages = framed(&put(Descriptor::path("t"), &[batch]));
    let mut failures = 0;
    for operation in 1..=60 {
        assertion.arm(operation);
        let call_result = call(&served, "DoPut", messages.clone());
        let has_panicked = assertion.disarm();
        if call_result.status != OK {
            assert_eq!(call_result.status, INTERNAL, "operation {operation}: {call_result:?}");
            assert!(has_panicked, "operation {operation}: {call_result:?}");
            failures += 1;
        }
        let call_result = call(&served, "DoPut", messages.clone());
        assert_eq!(call_result.status, OK, "after operation {operation}: {call_result:?}");
    }
    assert!(failures > 5, "{failures} of the calls failed");
}
