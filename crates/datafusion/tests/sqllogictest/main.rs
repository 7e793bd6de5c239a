//! Runs DataFusion's sqllogictest files with each base table read from a table or a file of Arrowwood. The expected
//! rows are DataFusion's.
//!
//! The files are part of the crate `datafusion-sqllogictest`, which is never compiled.

mod engine;
mod tables;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use sqllogictest::{Record, Runner, parse_file, strict_column_validator};

use crate::engine::{ColumnKind, Engine};
use crate::tables::StorageCounts;

/// The files that create tables and query their rows.
///
/// The list leaves out files about plans, settings and catalogs, which have no rows; about reading Parquet, CSV, JSON
/// and Avro files, which are not in the crate, or about writing them; `async_udf.slt`, which needs a function of
/// DataFusion's test program; and the directory `spark`, which tests another dialect.
#[rustfmt::skip]
const FILES: &[&str] = &[
    "aggregate.slt", "aggregate_any_value.slt", "aggregate_skip_partial.slt", "aggregates_simplify.slt",
    "aggregates_topk.slt", "alias.slt", "array/array_any_match.slt", "array/array_any_value.slt",
    "array/array_cast.slt", "array/array_distinct.slt", "array/array_except.slt", "array/array_filter.slt",
    "array/array_first.slt", "array/array_has.slt", "array/array_length.slt", "array/array_operators.slt",
    "array/array_range.slt", "array/array_repeat.slt", "array/array_replace.slt", "array/array_resize.slt",
    "array/array_reverse.slt", "array/array_sort.slt", "array/array_to_string.slt", "array/array_transform.slt",
    "array/array_union.slt", "array_agg.slt", "array_agg_sliding_window.slt", "array_query.slt", "arrow_field.slt",
    "arrow_typeof.slt", "binary.slt", "binary_view.slt", "case.slt", "cast.slt", "cast_to_type.slt", "coalesce.slt",
    "count_star_rule.slt", "cte.slt", "datetime/arith_time_interval.slt", "datetime/date_part.slt",
    "datetime/dates.slt", "datetime/interval.slt", "datetime/timestamps.slt", "ddl.slt", "decimal.slt",
    "dictionary.slt", "dml_delete.slt", "dml_update.slt", "eliminate_outer_join.slt", "encoding.slt",
    "explain_tree.slt", "expr.slt", "first_last_nested.slt", "float16.slt", "floor_preimage.slt",
    "functional_dependencies.slt", "functions.slt", "group.slt", "group_by.slt", "grouping.slt",
    "ident_normalization.slt", "identifiers.slt", "imdb.slt", "in_list.slt", "insert.slt",
    "join_disable_repartition_joins.slt", "join_is_not_distinct_from.slt", "join_limit_pushdown.slt",
    "join_lists.slt", "joins.slt", "lateral_join.slt", "lead_lag_extreme_offsets.slt", "limit.slt",
    "limit_single_row_batches.slt", "list_view.slt", "map.slt", "math.slt", "merge_into.slt",
    "min_max/large_list.slt", "min_max/list.slt", "named_arguments.slt", "null_aware_anti_join.slt", "nullif.slt",
    "nvl.slt", "nvl2.slt", "operator.slt", "order.slt", "parquet.slt", "pg_compat/pg_compat_simple.slt",
    "pipe_operator.slt", "predicates.slt", "prepare.slt", "projection.slt", "projection_pushdown.slt",
    "propagate_empty_relation_outer_join.slt", "push_down_filter_outer_joins.slt", "push_down_filter_unnest.slt",
    "push_down_topk_through_join.slt", "pwmj.slt", "qualify.slt", "references.slt", "regexp/regexp_count.slt",
    "regexp/regexp_instr.slt", "regexp/regexp_like.slt", "regexp/regexp_match.slt", "regexp/regexp_replace.slt",
    "repartition.slt", "run_end_encoded.slt", "same_column_name_cross_join.slt", "scalar.slt", "select.slt",
    "simplify_expr.slt", "sort_merge_join.slt", "string/concat.slt", "string/dictionary_utf8.slt",
    "string/large_string.slt", "string/string.slt", "string/string_literal.slt", "string/string_view.slt",
    "string_numeric_coercion.slt", "strings.slt", "struct.slt", "subquery.slt", "topk.slt", "type_coercion.slt",
    "union.slt", "union_by_name.slt", "unnest.slt", "update.slt", "wildcard.slt", "window.slt", "window_topn.slt",
];
/// The tables that DataFusion's test program creates before it runs a file.
const EXTERNAL_TABLES: &[&str] = &[
    "approx_distinct_union_test",
    "orders",
    "table_with_many_types",
    "table_with_map",
    "table_with_metadata",
    "test_partition_table",
];

/// Returns the directory of the files, which Cargo has downloaded.
fn test_directory() -> PathBuf {
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--format-version", "1", "--manifest-path"]);
    let output = command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let package = packages.iter().find(|package| package["name"] == "datafusion-sqllogictest").unwrap();
    Path::new(package["manifest_path"].as_str().unwrap()).with_file_name("test_files")
}

/// The numbers of records of a file, by outcome.
#[derive(Debug, Default)]
struct Outcome {
    passed: usize,
    /// Skipped, as the data of their tables is not in the crate.
    without_data: usize,
    /// Skipped, as expected plans have DataFusion's own scans.
    plans: usize,
    /// The messages of failed records.
    failed: Vec<String>,
}

/// Compares rows with the lines of a file, which have no spaces at their ends.
fn is_expected(_: sqllogictest::Normalizer, rows: &[Vec<String>], expected: &[String]) -> bool {
    let rows = rows.iter().map(|row| row.join(" "));
    rows.map(|row| row.trim_end().to_owned()).eq(expected.iter().map(|line| line.trim_end().to_owned()))
}

/// Returns the words of a statement in lower case.
fn words(sql: &str) -> impl Iterator<Item = String> {
    sql.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// Returns the name of the table or view that a statement creates or inserts into.
fn target_table(sql: &str) -> Option<String> {
    let mut words = words(sql).take_while(|word| word != "as");
    words.next().filter(|word| matches!(word.as_str(), "create" | "insert" | "select"))?;
    words.find(|word| matches!(word.as_str(), "table" | "view" | "into"))?;
    let mut words = words.skip_while(|word| matches!(word.as_str(), "if" | "not" | "exists")).peekable();
    let mut name = words.next()?;
    // Skip the names of a catalog and a schema.
    let sql = sql.to_lowercase();
    while let Some(next) = words.peek().filter(|next| sql.contains(&format!("{name}.{next}"))) {
        name = next.clone();
        words.next();
    }
    Some(name)
}

/// Runs the records of a file, apart from plans and from statements over tables whose data is missing.
async fn run_file(path: &Path, counts: &Arc<StorageCounts>) -> Outcome {
    let mut runner = Runner::new(|| async { Ok(Engine::new(counts)) });
    runner.add_label("Datafusion");
    runner.with_column_validator(strict_column_validator);
    runner.with_validator(is_expected);
    let mut outcome = Outcome::default();
    let mut missing_tables: HashSet<_> = EXTERNAL_TABLES.iter().map(|name| name.to_string()).collect();
    for record in parse_file::<ColumnKind>(path).unwrap() {
        let sql = match &record {
            Record::Statement { sql, .. } | Record::Query { sql, .. } => sql.clone(),
            Record::Halt { .. } => break,
            // Do not run programs.
            Record::System { .. } => continue,
            _ => String::new(),
        };
        let verb = words(&sql).next().unwrap_or_default();
        let target = target_table(&sql);
        // A missing table may be created again.
        let needs_missing_table = words(&sql)
            .any(|word| missing_tables.contains(&word) && (verb != "create" || target.as_ref() != Some(&word)));
        let is_external = words(&sql).take(4).any(|word| word == "external");
        if verb == "explain" {
            outcome.plans += 1;
        } else if verb == "copy" || is_external || needs_missing_table {
            outcome.without_data += 1;
            if verb == "drop" {
                // Fails if the table does not exist. It does if only the insertion of its rows was skipped.
                let _ = runner.run_async(record).await;
                missing_tables.retain(|name| !words(&sql).any(|word| word == *name));
            }
            missing_tables.extend(target);
        } else if let Err(e) = runner.run_async(record).await {
            outcome.failed.push(e.to_string());
        } else if !sql.is_empty() {
            outcome.passed += 1;
            if verb == "create" {
                missing_tables.retain(|name| Some(name) != target.as_ref());
            }
        }
    }
    outcome
}

#[test]
fn rows_match_datafusions_test_files() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).thread_stack_size(32 << 20).enable_all().build().unwrap();
    let directory = test_directory();
    let mut failures = String::new();
    for name in FILES {
        let path = directory.join(name);
        let counts = Arc::new(StorageCounts::default());
        let task_counts = counts.clone();
        let task = runtime.spawn(async move { run_file(&path, &task_counts).await });
        let outcome = runtime.block_on(task).unwrap();
        let tables = counts.tables.load(Relaxed);
        let files = counts.files.load(Relaxed);
        let neither = counts.none.load(Relaxed);
        println!(
            "{name}: {} passed, {} plans, {} without data; {tables} tables, {files} files, {neither} neither",
            outcome.passed, outcome.plans, outcome.without_data
        );
        assert!(outcome.passed > 0 && tables + files > 0, "{name} queries no rows of ours");
        for failure in outcome.failed {
            failures += &format!("\n{name}: {failure}");
        }
    }
    assert!(failures.is_empty(), "{failures}");
}
