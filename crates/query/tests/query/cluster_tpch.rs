//! Tests TPC-H's 22 queries over three servers that each have a part of the tables, against the same rows in memory.

use arrowwood::WriterOptions;
use datafusion::arrow::array::RecordBatch;

use crate::cluster::Hosts;
use crate::support::{format_rows, sorted_sql_lines};
use crate::tpch_rows;

const HOSTS: usize = 3;

/// Returns a query as one statement. A cluster can't create views, so that a view becomes a common table expression.
fn single_statement(number: usize) -> String {
    let statements = tpch_rows::statements(number);
    let Some(view) = statements.iter().find_map(|statement| statement.strip_prefix("create view")) else {
        return statements.last().unwrap().clone();
    };
    let (name, body) = view.split_once(" as").unwrap();
    let select = statements.iter().find(|statement| statement.starts_with("select")).unwrap();
    format!("with {name} as ({body}) {select}")
}

/// Returns the part of a table's batch that `host` has: a third, or all or nothing of `region`.
fn host_part(table: &str, batch: &RecordBatch, host: usize) -> RecordBatch {
    if table == "region" {
        return if host == 1 { batch.clone() } else { batch.slice(0, 0) };
    }
    let start = batch.num_rows() * host / HOSTS;
    let end = batch.num_rows() * (host + 1) / HOSTS;
    batch.slice(start, end - start)
}

#[tokio::test(flavor = "multi_thread")]
async fn tpch_on_three_servers_matches_memory() {
    let mut hosts = Hosts::new(HOSTS);
    for (name, batches) in tpch_rows::tables() {
        for host in 0..HOSTS {
            let mut parts: Vec<RecordBatch> = batches.iter().map(|batch| host_part(name, batch, host)).collect();
            parts.retain(|part| part.num_rows() > 0);
            if !parts.is_empty() {
                hosts.write_batches(host, name, &parts, WriterOptions::default());
            }
        }
    }
    let hosts = hosts.start(&[]);
    let memory = hosts.memory_context();
    for number in 1..=22 {
        let sql = single_statement(number);
        let answer = hosts.run_sql(&sql).await.unwrap_or_else(|e| panic!("query {number}: {e}"));
        // Sorted, as some queries leave the order of rows open.
        let mut actual = format_rows(&answer);
        actual.sort_unstable();
        assert_eq!(actual, sorted_sql_lines(&memory, &sql).await, "query {number}");
    }
}
