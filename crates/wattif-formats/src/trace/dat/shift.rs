//! Stamps of a guest in its host's time, and of a clock in that of the day.
//!
//! `trace-cmd record` of a guest measures how far each of its CPUs' clocks is from the host's and writes the samples into the guest's file
//! (`TRACECMD_OPTION_TIME_SHIFT`); `--date` and `--ts-offset` write what is added to all stamps. `trace-cmd report` applies them to every
//! stamp (`timestamp_calc`), and so does this: without it threads of two CPUs would wake each other before they ran.

use super::super::text::{number, trim};
use super::cursor::Cursor;
use super::header::MAX_CPUS;

/// When a clock was compared, how far it was off, and how much faster the host's runs: `scaling / 2^fraction`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sample {
    time: u64,
    offset: i64,
    scaling: u64,
    fraction: u64,
}

/// What is done to the stamps of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Shift {
    /// Of each CPU, in the order of the file, by time; CPUs beyond it are not shifted.
    samples: Vec<Vec<Sample>>,
    /// Between two samples the offset goes straight from one to the other.
    interpolates: bool,
    /// What is added at last, ns.
    added: i64,
}

/// `TRACECMD_TSYNC_FLAG_INTERPOLATE`.
const INTERPOLATE: u32 = 1;

impl Shift {
    /// The option of a guest: id of the host's session, flags, then of each CPU its samples field by field; of newer files the fractions of
    /// all CPUs behind. `None`: it is cut off.
    pub fn of_guest(&mut self, o: &mut Cursor<'_>) -> Option<()> {
        let (_, flags, cpus) = (o.u64()?, o.u32()?, o.u32()?.min(MAX_CPUS));
        let mut all = Vec::new();
        for _ in 0..cpus {
            // Each has three fields: there are no more than the option holds.
            let times: Vec<u64> = numbers(o.u32()?, o)?;
            let n = times.len() as u32;
            let (offsets, scalings) = (numbers(n, o)?, numbers(n, o)?);
            let of = |((&time, offset), scaling): ((&u64, u64), u64)| Sample {
                time,
                offset: offset as i64,
                scaling,
                fraction: 0,
            };
            all.push(times.iter().zip(offsets).zip(scalings).map(of).collect::<Vec<_>>());
        }
        for samples in &mut all {
            let Some(fractions) = numbers(samples.len() as u32, o) else { break };
            samples.iter_mut().zip(fractions).for_each(|(s, fraction)| s.fraction = fraction);
        }
        for samples in &mut all {
            samples.sort_by_key(|s| s.time);
            samples.dedup_by_key(|s| s.time);
        }
        (self.samples, self.interpolates) = (all, flags & INTERPOLATE != 0);
        Some(())
    }

    /// A number, hexadecimal with `0x` or decimal, of so many ns each, which is added.
    pub fn add(&mut self, text: &[u8], ns: i64) {
        let text = text.split(|&b| b == 0).next().and_then(|text| number(trim(text)));
        self.added = self.added.wrapping_add(text.unwrap_or(0).wrapping_mul(ns));
    }

    /// A stamp of the host's clock, of one of this CPU.
    pub fn of_cpu(&self, cpu: usize, at: u64) -> u64 {
        match self.samples.get(cpu).map(Vec::as_slice) {
            None | Some([]) => at,
            // Of one sample nothing is known but the offset.
            Some([one]) => at.wrapping_add_signed(one.offset),
            // Before the first two and after the last two as between them.
            Some(samples) => {
                let before = samples.partition_point(|s| s.time <= at).clamp(1, samples.len() - 1) - 1;
                self.corrected(at, samples[before], samples[before + 1])
            }
        }
    }

    fn corrected(&self, at: u64, from: Sample, to: Sample) -> u64 {
        let mut offset = i128::from(from.offset);
        if self.interpolates {
            let since = i128::from(at) - i128::from(from.time);
            let length = i128::from(to.time - from.time);
            offset += since.saturating_mul(i128::from(to.offset) - offset).saturating_add(length / 2) / length;
        }
        let scaled = (u128::from(at) * u128::from(from.scaling)) >> from.fraction.min(127);
        (scaled as u64).wrapping_add(offset as u64)
    }

    /// What is added to every stamp, in ns.
    pub fn added(&self, at: u64) -> u64 {
        at.wrapping_add_signed(self.added)
    }
}

/// So many numbers; `None`: they are not all there.
fn numbers(n: u32, o: &mut Cursor<'_>) -> Option<Vec<u64>> {
    let numbers: Vec<u64> = (0..n).map_while(|_| o.u64()).collect();
    (numbers.len() == n as usize).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of the option: flags, then of each CPU its samples.
    pub fn option(flags: u32, cpus: &[&[(u64, i64, u64, u64)]]) -> Vec<u8> {
        let mut bytes = [&77u64.to_le_bytes()[..], &flags.to_le_bytes(), &(cpus.len() as u32).to_le_bytes()].concat();
        for samples in cpus {
            bytes.extend((samples.len() as u32).to_le_bytes());
            samples.iter().for_each(|s| bytes.extend(s.0.to_le_bytes()));
            samples.iter().for_each(|s| bytes.extend(s.1.to_le_bytes()));
            samples.iter().for_each(|s| bytes.extend(s.2.to_le_bytes()));
        }
        cpus.iter().flat_map(|samples| samples.iter()).for_each(|s| bytes.extend(s.3.to_le_bytes()));
        bytes
    }
    fn shift(flags: u32, cpus: &[&[(u64, i64, u64, u64)]]) -> Shift {
        let mut shift = Shift::default();
        shift.of_guest(&mut Cursor::new(&option(flags, cpus), false)).expect("it is whole");
        shift
    }

    #[test]
    fn stamps_of_a_guest() {
        let one: &[_] = &[(5, -700, 3, 0)];
        let three: &[_] = &[(2_000, 100, 1, 0), (1_000, 0, 1, 0), (2_000, 999, 9, 9), (4_000, -100, 3, 1)];
        let of = |flags: u32, cpu: usize| {
            let shift = shift(flags, &[one, &[], three]);
            [500, 1_000, 1_500, 2_000, 3_000, 5_000].map(|at| shift.of_cpu(cpu, at).wrapping_sub(at) as i64)
        };
        assert_eq!(of(0, 0), [-700; 6], "one sample has no scale");
        assert_eq!([of(1, 1), of(1, 3)], [[0; 6]; 2]);
        assert_eq!(of(0, 2), [0, 0, 0, 100, 100, 100], "steps, and beyond the last the one before it");
        assert_eq!(of(1, 2), [-49, 0, 50, 100, 1, -199], "rounded as C divides");
        let faster = shift(0, &[&[(0, 10, 3, 1), (9, 10, 3, 1)]]);
        assert_eq!(faster.of_cpu(0, 1_000), 1_510);
    }

    /// It is left out, and takes no memory.
    #[test]
    fn an_option_that_is_cut_off() {
        let whole = option(1, &[&[(1, 2, 3, 4), (5, 6, 7, 8)], &[(9, 10, 11, 12)]]);
        for len in 0..whole.len() {
            let mut shift = Shift::default();
            let told = shift.of_guest(&mut Cursor::new(&whole[..len], false));
            // Files without fractions are older.
            assert_eq!((told.is_some(), shift.samples.len()), (len >= 96, if len >= 96 { 2 } else { 0 }), "{len}");
        }
        let many = [&whole[..12], &[0xff; 12]].concat();
        assert_eq!(Shift::default().of_guest(&mut Cursor::new(&many, false)), None);
    }

    #[test]
    fn what_is_added() {
        let added = |text: &str| {
            let mut shift = Shift::default();
            shift.add(text.as_bytes(), 1);
            shift.added
        };
        assert_eq!(["0x100000000\0", "5000\0", "-500", "", "x"].map(added), [1 << 32, 5_000, -500, 0, 0]);
        let mut shift = Shift::default();
        shift.add(b"0x10", 1_000);
        shift.add(b"-5", 1);
        assert_eq!(shift.added(1), 15_996);
    }
}
