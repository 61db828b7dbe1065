//! The wattif command line.

fn main() {}
