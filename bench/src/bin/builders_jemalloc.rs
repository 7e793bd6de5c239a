//! Runs `builders` with jemalloc as the global allocator.

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    arrowwood_bench::builders::main("jemalloc");
}
