//! `builders` with jemalloc as the allocator of everything.

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    arrowwood_bench::builders::main("jemalloc");
}
