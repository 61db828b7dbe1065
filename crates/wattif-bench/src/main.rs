//! wattif-bench

fn main() {}
