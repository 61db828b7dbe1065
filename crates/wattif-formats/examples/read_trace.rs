//! `read_trace FILE…`: what each trace holds, and how fast it was read.

fn main() {
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path).expect("a readable file");
        let begun = std::time::Instant::now();
        let read = wattif_formats::trace::read(&bytes);
        let s = begun.elapsed().as_secs_f64();
        println!("{path}");
        for d in &read.diagnostics {
            println!("  {d}");
        }
        let Some(r) = read.recording else { continue };
        let events = r.records.len() as u64 + r.unknown.values().sum::<u64>();
        println!("  {}: {events} events in {s:.3} s, {:.2} M/s", r.format, events as f64 / s / 1e6);
        println!(
            "  {} CPUs, {} threads, {:.3} s, clock {:?}, release {:?}, flags {}, lost {} in {}",
            r.nr_cpus,
            r.threads.len(),
            r.end.as_s_f64(),
            r.clock,
            r.release,
            r.has_irq_flags,
            r.lost_events,
            r.lost_gaps
        );
        println!("  {:?}", r.counts());
    }
}
