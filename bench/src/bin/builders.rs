//! Growing columns of int64 with the system's allocator; see [`arrowwood_bench::builders`].
//!
//! ```console
//! $ cargo run --release -p arrowwood-bench --bin builders -- [--rounds N] [--json]
//! ```
//! Measures `builders_jemalloc` as well where that has been built.

fn main() {
    arrowwood_bench::builders::main("system");
}
