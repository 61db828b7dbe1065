//! How long did units of work take: frames, requests, transactions? From the marks of programs. Where they have a deadline at each vsync,
//! also how smooth it was: janks, missed vsyncs, frames per second.

use super::distribution::{Distribution, Summary};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wattif_model::trace::{Event, Interest, Observer};
use wattif_model::{CpuId, Ns};

const SECOND: u64 = 1_000_000_000;

/// Units of work with one mark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MarkReport {
    /// From where each began until its mark, µs.
    pub duration_us: Summary,
    /// A quarter took at most this, µs; this and the next three are `None` where the mark was never reached.
    #[serde(default)]
    pub p25: Option<f64>,
    /// Three quarters took at most this, µs.
    #[serde(default)]
    pub p75: Option<f64>,
    /// Share of the units within 5 % of the shortest.
    #[serde(default)]
    pub near_min_share: Option<f64>,
    /// Share of the units within 5 % of the longest.
    #[serde(default)]
    pub near_max_share: Option<f64>,
    /// `None` where the mark has no period, or was never reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<PaceReport>,
    /// `energy.total` by their number, in its unit; `None` where the platform has no powers, or the mark was never reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy: Option<f64>,
    /// What each task and device of the workload did per unit; empty where `pace` is `None`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stages: BTreeMap<String, StageReport>,
}

/// A task's part in a unit of work, on average, all its threads together; or that of a device, such as a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageReport {
    /// Time on CPUs, µs; of a device, how long it served.
    pub run_us: f64,
    /// From waking to running, all its wake-ups together, µs; of a device, how long requests waited for others before them.
    pub wait_us: f64,
}

/// Units of work that are due at a vsync.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaceReport {
    /// Janks, percent of all, as JankBench counts: longer than a period (at 60 Hz than its 16 ms); after such a one buffers give slack,
    /// and only longer than two is another, until one is in time. `None` where the mark is not the first with a period: that
    /// many periods pass between a frame's buffer and the screen says nothing of delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jank_pct: Option<f64>,
    /// Vsyncs at which a unit was due and none came, each once however many units were late. A unit is due a period after it
    /// began, or after the one before it was shown, whichever is later: pauses are not missed, and of units that overlap (more
    /// buffers) only the first one's longer way counts. One that comes before its turn waits for the next vsync, two periods at
    /// most. A mark without janks is not due for its own beginning: after a pause its first unit misses nothing. Counted up to the last
    /// unit that ended: one that never does misses nothing.
    pub missed: u64,
    /// Units per second, mean over the whole seconds of the run; `None` for a run without one.
    pub fps: Option<f64>,
    /// Its standard deviation over these (n − 1); `None` for fewer than two.
    pub fps_stddev: Option<f64>,
}

impl MarkReport {
    /// Of the durations of a mark.
    pub fn of(mark: &Mark) -> MarkReport {
        let durations = &mark.durations;
        let (near_min_share, near_max_share) = durations.near_extremes(0.05).unzip();
        let us = |q| (durations.count() > 0).then(|| durations.quantile(q) as f64 / 1e3);
        MarkReport {
            duration_us: durations.summary_us(),
            p25: us(0.25),
            p75: us(0.75),
            near_min_share,
            near_max_share,
            pace: mark.pace.as_ref().filter(|_| durations.count() > 0).map(|p| p.report(durations.count())),
            energy: None,
            stages: BTreeMap::new(),
        }
    }
}

/// One mark.
#[derive(Clone, Debug)]
pub struct Mark {
    name: String,
    /// From where each unit began until its mark.
    pub durations: Distribution,
    pace: Option<Pace>,
}

/// From which length on a frame is late: its period. At 60 Hz JankBench's 16 ms, so that figures are comparable with the published ones.
fn limit(period: u64) -> u64 {
    let is_60_hz = (16_600_000..16_700_000).contains(&period);
    if is_60_hz { 16_000_000 } else { period }
}

#[derive(Clone, Debug)]
struct Pace {
    period: u64,
    /// The last one was late, so that buffers hide the next delay.
    late: bool,
    /// `None`: not scored.
    janks: Option<u64>,
    missed: u64,
    /// The vsync at which the last one was shown.
    shown: u64,
    /// Units of the second that is under way, and which that is.
    second: u64,
    in_second: u64,
    seconds: u64,
    sum: u64,
    squares: u64,
}

impl Pace {
    fn of(period: Ns, scored: bool) -> Option<Pace> {
        let none = Pace {
            period: 0,
            late: false,
            janks: scored.then_some(0),
            missed: 0,
            shown: 0,
            second: 0,
            in_second: 0,
            seconds: 0,
            sum: 0,
            squares: 0,
        };
        (period.0 > 0).then_some(Pace { period: period.0, ..none })
    }

    fn unit(&mut self, at: u64, ns: u64) {
        let limit = limit(self.period);
        if let Some(janks) = &mut self.janks {
            *janks += u64::from(ns > if self.late { 2 * limit } else { limit });
        }
        self.late = ns > limit;
        self.show(at, at - ns);
        self.until(at / SECOND);
        self.in_second += 1;
    }

    /// At the first vsync that is free; counted from where the unit began if nothing was shown since.
    fn show(&mut self, at: u64, began: u64) {
        let last = self.shown.max(began);
        let periods = at.saturating_sub(last).div_ceil(self.period).max(1);
        let due = self.janks.is_some() || self.shown > began;
        self.missed += if due { periods - 1 } else { 0 };
        self.shown = (last + periods * self.period).min(at + 2 * self.period);
    }

    /// The seconds before this one are over.
    fn until(&mut self, second: u64) {
        if second <= self.second {
            return;
        }
        self.seconds += second - self.second;
        self.sum += self.in_second;
        self.squares += self.in_second * self.in_second;
        (self.second, self.in_second) = (second, 0);
    }

    fn report(&self, count: u64) -> PaceReport {
        let (n, sum) = (self.seconds as f64, self.sum as f64);
        let fps = (self.seconds > 0).then(|| sum / n);
        let spread = |mean: f64| (self.squares as f64 - sum * mean).max(0.0);
        let fps_stddev = fps.filter(|_| self.seconds > 1).map(|mean| libm::sqrt(spread(mean) / (n - 1.0)));
        let jank_pct = self.janks.map(|janks| 100.0 * janks as f64 / count as f64);
        PaceReport { jank_pct, missed: self.missed, fps, fps_stddev }
    }
}

/// What a device did for all units.
#[derive(Clone, Debug)]
struct Device {
    name: String,
    service_ns: u64,
    queued_ns: u64,
}

/// Listens to marks and devices.
#[derive(Clone, Debug)]
pub struct Frames {
    marks: Vec<Mark>,
    devices: Vec<Device>,
}

impl Frames {
    /// Of a workload with these marks, their periods where they have some, and these devices. Janks are those of the first mark
    /// with a period.
    pub fn new(marks: &[String], periods: &[Option<Ns>], devices: &[String]) -> Frames {
        let scored = periods.iter().position(Option::is_some);
        let mark = |(i, name): (usize, &String)| Mark {
            name: name.clone(),
            durations: Distribution::precise(),
            pace: periods.get(i).copied().flatten().and_then(|period| Pace::of(period, scored == Some(i))),
        };
        let device = |name: &String| Device { name: name.clone(), service_ns: 0, queued_ns: 0 };
        Frames { marks: marks.iter().enumerate().map(mark).collect(), devices: devices.iter().map(device).collect() }
    }
    /// By name, in the workload's order.
    pub fn marks(&self) -> impl Iterator<Item = (&str, &Mark)> {
        self.marks.iter().map(|mark| (mark.name.as_str(), mark))
    }
    /// What each device did for one of so many units of work.
    pub fn devices(&self, units: f64) -> impl Iterator<Item = (&str, StageReport)> {
        let us = move |ns: u64| ns as f64 / 1e3 / units;
        self.devices
            .iter()
            .map(move |d| (d.name.as_str(), StageReport { run_us: us(d.service_ns), wait_us: us(d.queued_ns) }))
    }
}

impl Observer for Frames {
    fn interest(&self) -> Interest {
        Interest::PROGRAM
    }
    fn event(&mut self, at: Ns, _cpu: CpuId, event: &Event) {
        match *event {
            Event::Mark { mark, began_ns, .. } => {
                let Some(mark) = self.marks.get_mut(mark as usize) else { return };
                let ns = at.since(Ns(began_ns));
                mark.durations.record(ns);
                if let Some(pace) = &mut mark.pace {
                    pace.unit(at.0, ns);
                }
            }
            Event::DeviceDone { device, queued_ns, service_ns, .. } => {
                let Some(device) = self.devices.get_mut(device as usize) else { return };
                device.service_ns = device.service_ns.saturating_add(service_ns);
                device.queued_ns = device.queued_ns.saturating_add(queued_ns);
            }
            _ => {}
        }
    }
    fn finish(&mut self, end: Ns) {
        self.marks.iter_mut().filter_map(|m| m.pace.as_mut()).for_each(|p| p.until(end.0 / SECOND));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattif_model::Pid;

    #[test]
    fn durations_by_mark() {
        let mut f = Frames::new(&["frame".into(), "request".into()], &[], &[]);
        for (at, mark) in [(16_000, 0), (40_000, 0), (9_000, 1), (1, 7)] {
            f.event(Ns(at), CpuId(0), &Event::Mark { pid: Pid(1), mark, began_ns: 8_000 });
        }
        let got: Vec<_> = f.marks().map(|(n, m)| (n, m.durations.count(), m.durations.quantile(1.0))).collect();
        assert_eq!(got, [("frame", 2, 32_000), ("request", 1, 1_000)]);
        assert!(f.marks().all(|(_, m)| MarkReport::of(m).pace.is_none()));
    }

    #[test]
    fn a_mark_never_reached_has_no_figures() {
        let mut f = Frames::new(&["frame".into(), "never".into()], &[], &[]);
        f.event(Ns(16_000), CpuId(0), &Event::Mark { pid: Pid(1), mark: 0, began_ns: 8_000 });
        let figures = |m: &Mark| {
            let r = MarkReport::of(m);
            [r.p25, r.p75, r.near_min_share, r.near_max_share]
        };
        let [reached, never] = &f.marks[..] else { panic!("two marks") };
        assert_eq!((figures(reached), figures(never)), ([8.0, 8.0, 1.0, 1.0].map(Some), [None; 4]));
    }

    /// Frames of these lengths in ms, one each 100 ms.
    fn paced(lengths: &[u64]) -> PaceReport {
        let mut f = Frames::new(&["frame".into()], &[Some(Ns(16_666_667))], &[]);
        for (i, ms) in lengths.iter().enumerate() {
            let at = (i as u64 + 1) * 100_000_000;
            f.event(Ns(at), CpuId(0), &Event::Mark { pid: Pid(1), mark: 0, began_ns: at - ms * 1_000_000 });
        }
        f.finish(Ns((lengths.len() as u64 + 1) * 100_000_000));
        MarkReport::of(f.marks().next().unwrap().1).pace.unwrap()
    }

    #[test]
    fn a_frame_has_its_period() {
        for (hz, ns) in [(60, 16_000_000), (90, 11_111_111), (120, 8_333_333), (144, 6_944_444), (30, 33_333_333)] {
            assert_eq!(limit(SECOND / hz), ns, "{hz} Hz");
        }
        assert_eq!(limit(16_667_000), 16_000_000, "60 Hz as the use cases write it");
    }

    #[test]
    fn after_a_jank_buffers_hide_the_next_delay() {
        assert_eq!(paced(&[10, 17, 20, 10, 20]).jank_pct, Some(40.0), "17 and the last 20");
        assert_eq!(paced(&[17, 33, 33]).jank_pct, Some(100.0));
    }

    /// A frame on the screen two periods after its vsync is a pipeline of that depth, not a jank.
    #[test]
    fn only_the_first_mark_with_a_period_is_scored_for_janks() {
        let period = Some(Ns(16_666_667));
        let mut f = Frames::new(&["input".into(), "frame".into(), "shown".into()], &[None, period, period], &[]);
        for (mark, ms) in [(0, 1), (1, 17), (2, 40)] {
            let at = Ns(50_000_000);
            f.event(at, CpuId(0), &Event::Mark { pid: Pid(1), mark, began_ns: at.0 - ms * 1_000_000 });
        }
        let janks: Vec<_> = f.marks().map(|(_, m)| MarkReport::of(m).pace.map(|p| p.jank_pct)).collect();
        assert_eq!(janks, [None, Some(Some(100.0)), Some(None)]);
        let missed = |i: usize| MarkReport::of(&f.marks[i]).pace.unwrap().missed;
        assert_eq!([missed(1), missed(2)], [1, 0], "nor is it one that missed its vsync, the first after a pause");
    }

    /// Vsyncs missed by frames that began and ended at these times, in 1/10 of a period.
    fn missed(frames: &[(u64, u64)]) -> u64 {
        let mut f = Frames::new(&["frame".into()], &[Some(Ns(10_000_000))], &[]);
        for (began, at) in frames.iter().map(|(began, at)| (began * 1_000_000, at * 1_000_000)) {
            f.event(Ns(at), CpuId(0), &Event::Mark { pid: Pid(1), mark: 0, began_ns: began });
        }
        MarkReport::of(f.marks().next().unwrap().1).pace.unwrap().missed
    }

    #[test]
    fn what_is_missed_after_the_last_unit_is_not_counted() {
        let ended = [(0, 8), (10, 18)];
        assert_eq!(missed(&ended), 0, "whatever long after them the run ends");
        assert_eq!(missed(&[&ended[..], &[(20, 58)]].concat()), 3);
    }

    #[test]
    fn a_vsync_is_missed_once() {
        let game: Vec<_> = (0..100).map(|i| (10 * i, 10 * i + [5, 9, 3][i as usize % 3])).collect();
        assert_eq!(missed(&game), 0, "in time");
        assert_eq!(missed(&[(0, 10), (100, 111), (200, 221), (300, 331)]), 1 + 2 + 3, "late ones, and pauses");
        assert_eq!(missed(&[(0, 8), (10, 23), (20, 28), (30, 38)]), 1, "the next is due one vsync later");
        // Three buffers: each takes two to three periods, one comes in each. Only the first is waited for.
        let deep: Vec<_> = (0..100).map(|i| (10 * i, 10 * i + [23, 29, 21][i as usize % 3])).collect();
        assert_eq!(missed(&deep), 2);
        // At half the rate every other vsync is missed, however long each frame was under way.
        let slow: Vec<_> = (0..100).map(|i| (10 * i, 20 * i + 20)).collect();
        assert_eq!(missed(&slow), 100);
        // What comes too fast is not hoarded: it covers two vsyncs of the pause in which one is due.
        let fast: Vec<_> = (0..50).map(|i| (i, i + 5)).chain([(50, 114)]).collect();
        assert_eq!(missed(&fast), 3);
    }

    #[test]
    fn frames_per_second_of_whole_seconds() {
        // 9 in the first second (100 to 900 ms), 10 in the second, one in the third, which is not over.
        let p = paced(&[10; 20]);
        assert_eq!((p.fps, p.fps_stddev), (Some(9.5), Some(libm::sqrt(0.5))));
        let short = paced(&[10; 8]);
        assert_eq!((short.fps, short.fps_stddev), (None, None), "no second is over");
        let one = paced(&[10; 12]);
        assert_eq!((one.fps, one.fps_stddev), (Some(9.0), None), "one second has no spread");
    }
}
