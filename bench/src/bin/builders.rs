//! Builds columns of int64 with the system's allocator; see [`arrowwood_bench::builders`].
//!
//! ```console
//! $ cargo run --release -p arrowwood-bench --bin builders -- [--rounds N] [--json]
//! ```
//! Also measures `builders_jemalloc` if that has been built.

fn main() {
    arrowwood_bench::builders::main("system");
}
