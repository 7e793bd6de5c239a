//! TPC-H's 22 queries over three servers that have a part of each table, beside the same over all rows in one memory.

use arrowwood::WriterOptions;
use datafusion::arrow::array::RecordBatch;

use crate::cluster::{Hosts, lines};
use crate::{support, tpch};

/// The statement of a query; the view that one of them makes is a part of it, as nothing is made in a cluster.
fn statement(number: usize) -> String {
    let statements = tpch::statements(number);
    match statements.iter().position(|statement| statement.starts_with("create view")) {
        None => statements.last().unwrap().clone(),
        Some(view) => {
            let view = &statements[view];
            let (head, body) = view["create view".len()..].split_once(" as").unwrap();
            let asked = statements.iter().find(|statement| statement.starts_with("select")).unwrap();
            format!("with {head} as ({body}) {asked}")
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_answer_the_benchmark_as_one_memory() {
    let mut hosts = Hosts::new(3);
    for (name, batches) in tpch::rows() {
        for host in 0..3 {
            // Region is on one of them alone.
            let part = |batch: &RecordBatch| match (name, host) {
                ("region", 1) => batch.clone(),
                ("region", _) => batch.slice(0, 0),
                _ => {
                    let cut = |host: usize| batch.num_rows() * host / 3;
                    batch.slice(cut(host), cut(host + 1) - cut(host))
                }
            };
            let own: Vec<RecordBatch> = batches.iter().map(part).filter(|batch| batch.num_rows() > 0).collect();
            if !own.is_empty() {
                hosts.write_all(host, name, &own, WriterOptions::default());
            }
        }
    }
    let hosts = hosts.start(&[]);
    let one = hosts.one();
    for number in 1..=22 {
        let sql = statement(number);
        let found = hosts.ask(&sql).await.unwrap_or_else(|e| panic!("query {number}: {e}"));
        let mut found = lines(&found);
        let mut expected = support::lines(&one, &sql).await;
        // What the order leaves open is in any.
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "query {number}");
    }
}
