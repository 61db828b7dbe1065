//! Vectors of the idle governors: `idle_GOVERNOR-GENERATION`, one row per `select` and the sleep that follows it.

use super::{Csv, Kind, Row, Tally, VectorError, VectorFile};
use wattif_model::ids::CpuId;
use wattif_sim::cpuidle::{
    CpuidleState, IdleGovernor, IdleSleep, IdleView, SleepLength, StateTable, build, haltpoll, menu, poll_state, teo,
    teo_weighted, tick_nsec,
};

/// `idle_haltpoll-*`.
pub const HALTPOLL: Kind = kind("idle_haltpoll-", haltpoll::TUNABLES[0].allowed, |f, k| check(f, "haltpoll", k));
/// `idle_ladder-*`; the governor has no generations.
pub const LADDER: Kind = kind("idle_ladder-", &["6.12"], |f, _| check(f, "ladder", ""));
/// `idle_menu-*`.
pub const MENU: Kind = kind("idle_menu-", menu::TUNABLES[0].allowed, |f, k| check(f, "menu", k));
/// `idle_teo-*`.
pub const TEO: Kind = kind("idle_teo-", teo::TUNABLES[0].allowed, |f, k| check(f, "teo", k));
/// `idle_wteo-*`.
pub const WTEO: Kind = kind("idle_wteo-", teo_weighted::TUNABLES[0].allowed, |f, k| check(f, "teo_weighted", k));

type Check = fn(&VectorFile, &str) -> Result<Tally, VectorError>;

const fn kind(stem: &'static str, kernels: &'static [&'static str], check: Check) -> Kind {
    Kind { name: "idle_governor", stem, kernels, check }
}

const CPU: CpuId = CpuId(0);
/// State tables by name: exit latency and target residency, µs. A latency of 0 marks a polling state.
const TABLES: &[(&str, &[(i64, i64)])] = &[
    ("x86skx", &[(0, 0), (2, 2), (10, 20), (133, 600)]),
    ("armbl", &[(1, 1), (750, 2500), (1350, 5650)]),
    ("p9", &[(0, 0), (1, 1), (2, 20), (5, 50), (10, 100), (100, 1000), (200, 2000)]),
    ("arm2", &[(1, 1), (150, 900)]),
    (
        "clt",
        &[(0, 0), (1, 1), (127, 156), (253, 312), (260, 400), (487, 5000), (738, 5000), (765, 6000), (6299, 15000)],
    ),
    ("poll2", &[(0, 0), (30, 80)]),
];

/// The inputs of a row; notes what the governor asked for.
struct RowView {
    clock_sel_ns: u64,
    disable_mask: u32,
    latency_req_ns: i64,
    tick_stopped: bool,
    iowaiters: u32,
    sleep: SleepLength,
    rnd_u32: Option<u32>,
    timer_queried: bool,
    /// The governor drew a number although the kernel's did not.
    drew_too_much: bool,
}

impl IdleView for RowView {
    fn local_clock(&self) -> u64 {
        self.clock_sel_ns
    }
    fn disable_mask(&self) -> u32 {
        self.disable_mask
    }
    fn latency_req_ns(&self) -> i64 {
        self.latency_req_ns
    }
    fn tick_stopped(&self) -> bool {
        self.tick_stopped
    }
    fn nr_iowait(&self) -> u32 {
        self.iowaiters
    }
    fn sleep_length(&mut self) -> SleepLength {
        self.timer_queried = true;
        self.sleep
    }
    fn random_u32(&mut self) -> u32 {
        self.drew_too_much |= self.rnd_u32.is_none();
        self.rnd_u32.take().unwrap_or(0)
    }
}

/// A sequence in replay.
struct Machine {
    governor: Box<dyn IdleGovernor>,
    states: StateTable,
    tick_ns: u64,
}

fn check(file: &VectorFile, name: &str, generation: &str) -> Result<Tally, VectorError> {
    let mut tally = Tally::default();
    let mut sequence = None;
    let mut machine = None;
    Csv::new(&file.text)?.for_each(|row| {
        let key = (row.num::<u32>("hz")?, row.text("table")?, row.text("seq")?);
        if sequence.replace(key) != Some(key) {
            machine = Some(boot(row, name, generation)?);
        }
        machine.as_mut().map_or(Ok(()), |m: &mut Machine| m.step(row, &mut tally))
    })?;
    Ok(tally)
}

fn boot(row: &Row<'_, '_>, name: &str, generation: &str) -> Result<Machine, VectorError> {
    let (hz, table) = (row.num::<u32>("hz")?, row.text("table")?);
    if !(1..=100_000).contains(&hz) {
        return Err(format!("line {}: {hz} ticks a second", row.line));
    }
    let known = TABLES.iter().find(|t| t.0 == table);
    let us = known.ok_or_else(|| format!("line {}: the state table `{table}` is unknown", row.line))?.1;
    let state = |&(exit, residency): &(i64, i64)| CpuidleState {
        exit_latency_ns: exit * 1000,
        target_residency_ns: residency * 1000,
        polling: exit == 0,
    };
    let states: Vec<CpuidleState> = us.iter().map(state).collect();
    let tick_ns = tick_nsec(hz);
    let mut governor = build(name, generation, teo::INTERVALS, 1, tick_ns).expect("a generation of the kind");
    governor.enable(CPU, &states);
    Ok(Machine { governor, states: StateTable::new(&states), tick_ns })
}

impl Machine {
    fn step(&mut self, row: &Row<'_, '_>, tally: &mut Tally) -> Result<(), VectorError> {
        let mut view = view_of(row)?;
        let chosen = self.governor.select(CPU, &mut view);
        let expected = (
            row.num::<usize>("sel_idx")?,
            flag(row, "sel_stop_tick")?,
            flag(row, "timer_queried")?,
            row.text("state_after_select")?.to_string(),
            "as many random numbers",
        );
        let drawn = match (view.rnd_u32, view.drew_too_much) {
            (None, false) => "as many random numbers",
            (Some(_), _) => "no random number",
            (None, true) => "a random number",
        };
        let got = (chosen.state, chosen.stop_tick, view.timer_queried, self.governor.debug_state(CPU), drawn);
        tally.row(expected == got, || {
            format!("line {}: {}: expected {expected:?}, got {got:?}", row.line, row.inputs())
        });
        self.sleep(row, chosen.state)
    }

    /// What the idle loop and the driver did, which are inputs.
    fn sleep(&mut self, row: &Row<'_, '_>, chosen: usize) -> Result<(), VectorError> {
        let entered = match row.num::<i64>("entered_idx")? {
            -1 => None,
            i => Some(usize::try_from(i).ok().filter(|i| *i < self.states.len())),
        };
        if entered == Some(None) {
            return Err(format!("line {}: there is no such state as `entered_idx` says", row.line));
        }
        let entered = entered.flatten();
        // A state that the driver demoted to polling has no time limit.
        if chosen == 0 && entered == Some(0) && self.states[0].polling {
            let poll_time_ns = poll_state::Generation::default().cpuidle_poll_time(
                &self.states,
                row.num("disable_mask")?,
                self.tick_ns,
            );
            self.governor.poll_limit_ns(CPU, poll_time_ns);
        }
        self.governor.reflect(
            CPU,
            &IdleSleep {
                entered,
                residency_ns: row.num("last_residency_ns")?,
                poll_time_limit: flag(row, "poll_time_limit")?,
                got_tick: flag(row, "got_tick")?,
                clock_ns: row.num("clock_refl_ns")?,
            },
        );
        Ok(())
    }
}

fn view_of(row: &Row<'_, '_>) -> Result<RowView, VectorError> {
    let sleep = SleepLength { sleep_length_ns: row.num("sleep_length_ns")?, delta_tick_ns: row.num("delta_tick_ns")? };
    Ok(RowView {
        clock_sel_ns: row.num("clock_sel_ns")?,
        disable_mask: row.num("disable_mask")?,
        latency_req_ns: row.num("latency_req_ns")?,
        tick_stopped: flag(row, "tick_stopped")?,
        iowaiters: row.num("iowaiters")?,
        sleep,
        rnd_u32: if row.text("rnd_u32")?.is_empty() { None } else { Some(row.num("rnd_u32")?) },
        timer_queried: false,
        drew_too_much: false,
    })
}

fn flag(row: &Row<'_, '_>, column: &str) -> Result<bool, VectorError> {
    match row.text(column)? {
        "0" => Ok(false),
        "1" => Ok(true),
        other => Err(format!("line {}: `{other}` in column `{column}` is neither 0 nor 1", row.line)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::KINDS;
    use super::*;
    use std::io::Read;

    #[test]
    fn every_vector_of_the_idle_governors() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors");
        let mut files: Vec<_> = std::fs::read_dir(dir).expect("the vectors are committed").flatten().collect();
        files.retain(|f| f.file_name().to_string_lossy().starts_with("idle_"));
        files.sort_by_key(std::fs::DirEntry::path);
        let mut failed = Vec::new();
        for file in &files {
            let name = file.file_name().to_string_lossy().into_owned();
            let mut text = String::new();
            let gz = std::fs::File::open(file.path()).expect("readable");
            flate2::read::GzDecoder::new(gz).read_to_string(&mut text).expect("gzipped text");
            let stem = name.trim_end_matches(".csv.gz").to_string();
            let kind = KINDS.iter().find(|k| k.kernel(&stem).is_some()).expect("of a known kind");
            let tally = kind.replay(&VectorFile { stem, text, companions: Default::default() }).expect("well formed");
            println!("{name}: {} rows, {} mismatches", tally.rows, tally.mismatches);
            failed.extend(tally.first_mismatch.map(|m| format!("{name}: {} of {}: {m}", tally.mismatches, tally.rows)));
        }
        assert_eq!(files.len(), 9);
        assert!(failed.is_empty(), "{}", failed.join("\n"));
    }

    #[test]
    fn malformed_files_are_errors() {
        let header = "gov,hz,table,seq,step,clock_sel_ns,sleep_length_ns,delta_tick_ns,tick_stopped,latency_req_ns,\
                      disable_mask,iowaiters,sel_idx,sel_stop_tick,timer_queried,rnd_u32,clock_refl_ns,\
                      last_residency_ns,entered_idx,poll_time_limit,got_tick,state_after_select";
        let good = "ladder-6.12,250,arm2,0,0,1,60650082,3751224,0,9223372036854775807,0,0,0,1,0,,2,1,0,0,0,0:0;0:0";
        let run = |row: &str| {
            LADDER.replay(&VectorFile {
                stem: "idle_ladder-6.12".into(),
                text: format!("{header}\n{row}\n"),
                companions: Default::default(),
            })
        };
        assert_eq!(run(good).map(|t| t.rows), Ok(1));
        for (from, to) in
            [(",250,", ",0,"), (",arm2,", ",arm3,"), (",2,1,0,0,0,", ",2,1,7,0,0,"), (",0,1,0,,", ",0,2,0,,")]
        {
            assert!(good.contains(from));
            assert!(run(&good.replace(from, to)).is_err(), "{from} → {to}");
        }
    }
}
